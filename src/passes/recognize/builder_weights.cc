// A builder's weights: turned, laid below each other or between each other. Without data they have a shape alone.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "passes/recognize/builder.h"

namespace knapsack::recognition {
namespace {

std::vector<std::byte> turned_bytes(const Weight& w, std::int64_t rows, std::int64_t cols) {
  const auto size = static_cast<std::size_t>(format(w.dtype).block_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols) * size);
  constexpr std::int64_t tile = 32;
  for (std::int64_t i0 = 0; i0 < rows; i0 += tile)
    for (std::int64_t j0 = 0; j0 < cols; j0 += tile)
      for (std::int64_t i = i0; i < std::min(i0 + tile, rows); ++i)
        for (std::int64_t j = j0; j < std::min(j0 + tile, cols); ++j)
          std::memcpy(bytes.data() + static_cast<std::size_t>(j * rows + i) * size,
                      w.slabs[0] + static_cast<std::size_t>(i * cols + j) * size, size);
  return bytes;
}

// Turned twice it has the name it had.
std::string turned_name(const std::string& name) {
  const bool twice = name.size() > 2 && name.compare(name.size() - 2, 2, ".T") == 0;
  return twice ? name.substr(0, name.size() - 2) : name + ".T";
}

}  // namespace

std::shared_ptr<const Weight> Builder::shape_alone(std::string name, DType dtype, std::vector<std::int64_t> shape) {
  Weight w{.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  return std::make_shared<const Weight>(std::move(w));
}

std::shared_ptr<const Weight> Builder::turned(const Value& v) {
  const Weight& w = *v.weight;
  if (v.transposed) return v.weight;  // stored [N, K], seen as [K, N]
  auto& made = turned_[&w];
  if (made != nullptr) return made;
  const std::int64_t rows = v.dims[0];
  const std::int64_t cols = v.dims[1];
  const std::string name = turned_name(w.name);
  if (!data_ || w.slabs.size() != 1) {
    made = shape_alone(name, w.dtype, {cols, rows});
    return made;
  }
  auto bytes = turned_bytes(w, rows, cols);
  // A head that is tied to the embedding is written as a matrix of its own.
  for (const Node& node : graph_.list()) {
    if (node.op != Op::embed) continue;
    const Weight& table = *graph_.value(node.inputs[1]).weight;
    if (table.dtype != w.dtype || table.shape != std::vector{cols, rows} || table.slabs.size() != 1) continue;
    if (std::memcmp(table.slabs[0], bytes.data(), bytes.size()) == 0) {
      made = graph_.value(node.inputs[1]).weight;
      return made;
    }
  }
  made = owned_weight(name, w.dtype, {cols, rows}, std::move(bytes));
  return made;
}

std::shared_ptr<const Weight> Builder::interleaved(const Weight& a, const Weight& b, std::int64_t heads) const {
  const std::int64_t rows = a.shape[0] + b.shape[0];
  // Parts of one matrix have its name, and behind it which.
  const std::string one = a.name.substr(0, a.name.find('['));
  const std::string name = one == b.name.substr(0, b.name.find('[')) ? one : fmt::format("{}+{}", a.name, b.name);
  if (!data_ || a.slabs.size() != 1 || b.slabs.size() != 1) return shape_alone(name, a.dtype, {rows, a.cols()});
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(rows) * static_cast<std::size_t>(a.row_size()));
  for (std::int64_t h = 0; h < heads; ++h)
    for (const Weight* part : {&a, &b}) {
      const auto size = static_cast<std::int64_t>(part->shape[0] / heads) * static_cast<std::int64_t>(part->row_size());
      const std::byte* first = part->slabs[0] + h * size;
      bytes.insert(bytes.end(), first, first + size);
    }
  return owned_weight(name, a.dtype, {rows, a.cols()}, std::move(bytes));
}

std::shared_ptr<const Weight> Builder::below_each_other(const Weight& w) {
  Weight made = w;
  made.shape = {w.shape[0] * w.shape[1], w.shape[2]};
  return std::make_shared<const Weight>(std::move(made));
}

std::shared_ptr<const Weight> Builder::flat(const Value& v) {
  const Weight& w = *v.weight;
  if (v.transposed) return below_each_other(w);  // stored [heads, N, K]
  auto& made = turned_[&w];
  if (made != nullptr) return made;
  const std::int64_t heads = v.dims[0];
  const std::int64_t rows = v.dims[1];
  const std::int64_t cols = v.dims[2];
  const std::string name = turned_name(w.name);
  if (!data_ || w.slabs.size() != 1) {
    made = shape_alone(name, w.dtype, {heads * cols, rows});
    return made;
  }
  std::vector<std::byte> all;
  all.reserve(static_cast<std::size_t>(w.bytes()));
  for (std::int64_t h = 0; h < heads; ++h) {
    Weight one{.name = w.name, .dtype = w.dtype, .shape = {rows, cols}, .slabs = {w.slab(h)}};
    const auto bytes = turned_bytes(one, rows, cols);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  made = owned_weight(name, w.dtype, {heads * cols, rows}, std::move(all));
  return made;
}

Result<std::shared_ptr<const Weight>> Builder::vector(const Value& v) const {
  const std::int64_t size = v.elements();
  if (v.dtype == DType::F32 && v.weight->shape == std::vector{size}) return v.weight;
  if (v.weight->slabs.empty()) return shape_alone(v.name, DType::F32, {size});
  const auto numbers = numbers_of(v);
  if (numbers.empty()) return unsupported("constant '{}' cannot be read as a vector", v.name);
  return f32_weight(v.name, {size}, std::vector<float>(numbers.begin(), numbers.end()));
}

}  // namespace knapsack::recognition
