// A constant tensor as kernels see it: rows of encoded blocks, borrowed from a mapped file or owned by a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "tensor/dtype.h"

namespace knapsack {

// shape is row-major, outermost first: [N, K] for a matrix that maps K inputs to N outputs, [E, N, K] for experts.
// The innermost dimension is stored as whole blocks; rows follow each other without padding.
// slabs: one pointer a slab. A slab is the whole tensor, or for 3-D tensors kept in pieces (one file tensor an
// expert) one matrix [N, K] each; then slabs.size() == shape[0]. None: nothing is known but the shape.
struct Weight {
  std::string name{};
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape{};
  std::vector<const std::byte*> slabs{};
  std::vector<std::shared_ptr<const void>> owners{};  // keep alive what slabs point into

  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = 1;
    for (const auto d : shape) n *= d;
    return n;
  }
  [[nodiscard]] std::int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  [[nodiscard]] std::int64_t row_size() const { return row_bytes(dtype, cols()); }
  [[nodiscard]] std::int64_t bytes() const { return elements() / cols() * row_size(); }
  // The matrix (or vector) of expert `index`; index 0 for 1-D and 2-D tensors.
  [[nodiscard]] const std::byte* slab(std::int64_t index) const {
    if (slabs.size() > 1) return slabs[static_cast<std::size_t>(index)];
    const std::int64_t rows = shape.size() == 3 ? shape[1] : 0;
    return slabs[0] + index * rows * row_size();
  }
  // Rows [begin, begin+count) of a 2-D tensor (or elements of a 1-D F32 one), without a copy.
  [[nodiscard]] Weight rows(std::int64_t begin, std::int64_t count) const {
    CHECK(slabs.size() <= 1 && shape.size() <= 2 && begin >= 0 && count >= 0 && begin + count <= shape[0]);
    Weight part = *this;
    part.shape[0] = count;
    if (!slabs.empty()) part.slabs[0] += begin * (shape.size() == 2 ? row_size() : format(dtype).block_bytes);
    return part;
  }
  [[nodiscard]] const float* f32() const {
    CHECK(dtype == DType::F32);
    return reinterpret_cast<const float*>(slabs[0]);
  }
};

// A buffer of our own as a weight with one slab; as many bytes as the shape has.
std::shared_ptr<const Weight> owned_weight(std::string name, DType dtype, std::vector<std::int64_t> shape,
                                           std::vector<std::byte> bytes);
std::shared_ptr<const Weight> f32_weight(std::string name, std::vector<std::int64_t> shape,
                                         const std::vector<float>& values);

}  // namespace knapsack
