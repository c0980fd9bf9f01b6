// How the scalar kernels of primitives.inc see their operands: elements by number, in any storage format, and indices
// over dimensions. Not for speed: ONNX's meaning, element by element.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "kernels/ref/ref.h"
#include "tensor/half.h"

namespace knapsack::ref {

inline constexpr std::size_t max_dims = 8;
using Index = std::array<std::int64_t, max_dims>;

inline std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const auto d : dims) n *= d;
  return n;
}

// The row-major strides of `dims`, in elements.
inline Index strides_of(std::span<const std::int64_t> dims) {
  Index strides{};
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

// Those with which element `flat` of a result of `out` dimensions finds its operand, broadcast: 0 along axes of 1.
inline Index broadcast_strides(std::span<const std::int64_t> dims, std::size_t out_rank) {
  const Index own = strides_of(dims);
  Index strides{};
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1) strides[out_rank - dims.size() + i] = own[i];
  return strides;
}

// Where element `flat` of a tensor of `dims` lies in one with those strides.
inline std::int64_t place(std::int64_t flat, std::span<const std::int64_t> dims, const Index& strides) {
  std::int64_t at = 0;
  for (std::size_t i = dims.size(); i-- > 0;) {
    at += flat % dims[i] * strides[i];
    flat /= dims[i];
  }
  return at;
}

// What a product ends with where a Relu or Clip is a part of it.
class Clamp {
 public:
  explicit Clamp(const Attrs& attrs)
      : low_(attrs.f(Attr::low, -std::numeric_limits<float>::infinity())),
        high_(attrs.f(Attr::high, std::numeric_limits<float>::infinity())) {}
  float operator()(float x) const { return x < low_ ? low_ : x > high_ ? high_ : x; }

 private:
  float low_, high_;
};

// Elements of an operand by their number in row-major order of its dimensions.
class Tensor {
 public:
  explicit Tensor(const Operand& operand) : operand_(operand) {
    dtype_ = operand.weight != nullptr ? operand.weight->dtype : operand.dtype;
    data_ = operand.weight != nullptr ? operand.weight->slab(0) : operand.data;
    block_ = format(dtype_).block;
    if (operand.dims.size() < 2) return;
    rows_ = operand.dims[operand.dims.size() - 2];
    cols_ = operand.dims[operand.dims.size() - 1];
  }

  [[nodiscard]] std::span<const std::int64_t> dims() const { return operand_.dims; }
  [[nodiscard]] std::int64_t elements() const { return product(operand_.dims); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] bool integer() const {
    return dtype_ == DType::I64 || dtype_ == DType::I32 || dtype_ == DType::I16 || dtype_ == DType::I8 ||
           dtype_ == DType::BOOL;
  }

  [[nodiscard]] float f(std::int64_t i) const {
    const auto [data, at] = stored(i);
    if (dtype_ == DType::F32) return load_unaligned<float>(data + at * 4);
    if (dtype_ == DType::F16) return half_to_float(load_unaligned<std::uint16_t>(data + at * 2));
    std::array<float, 256> block;  // the largest block of any format
    format(dtype_).decode(data + at / block_ * format(dtype_).block_bytes, block.data(), 1);
    return block[static_cast<std::size_t>(at % block_)];
  }
  // Of integers and truth values; of floats towards zero.
  [[nodiscard]] std::int64_t i(std::int64_t i) const {
    const auto [data, at] = stored(i);
    switch (dtype_) {
      case DType::I64:
        return load_unaligned<std::int64_t>(data + at * 8);
      case DType::I32:
        return load_unaligned<std::int32_t>(data + at * 4);
      case DType::I16:
        return load_unaligned<std::int16_t>(data + at * 2);
      case DType::I8:
        return load_unaligned<std::int8_t>(data + at);
      case DType::BOOL:
        return load_unaligned<std::uint8_t>(data + at) != 0 ? 1 : 0;
      default:
        return whole(f(i));
    }
  }

  // The nearest whole number towards zero, of those that there are.
  static std::int64_t whole(float value) {
    if (!(value > -0x1p63F)) return value != value ? 0 : INT64_MIN;  // NaN is 0
    return value < 0x1p63F ? static_cast<std::int64_t>(value) : INT64_MAX;
  }

 private:
  // The slab and the number in it of element i.
  [[nodiscard]] std::pair<const std::byte*, std::int64_t> stored(std::int64_t i) const {
    const std::int64_t matrix = rows_ * cols_;
    if (operand_.transposed) {
      const std::int64_t within = i % matrix;
      i = i - within + within % cols_ * rows_ + within / cols_;
    }
    if (operand_.weight == nullptr || operand_.weight->slabs.size() <= 1) return {data_, i};
    return {operand_.weight->slab(i / matrix), i % matrix};
  }

  const Operand& operand_;
  DType dtype_{};
  const std::byte* data_ = nullptr;
  std::int64_t block_ = 1;
  std::int64_t rows_ = 1, cols_ = 1;  // of the matrices it is made of
};

// Where a result goes.
class Sink {
 public:
  explicit Sink(const Operand& operand) : operand_(operand) {}
  [[nodiscard]] std::span<const std::int64_t> dims() const { return operand_.dims; }
  [[nodiscard]] std::int64_t elements() const { return product(operand_.dims); }
  [[nodiscard]] bool integer() const {
    return operand_.dtype == DType::I64 || operand_.dtype == DType::I32 || operand_.dtype == DType::I16 ||
           operand_.dtype == DType::I8 || operand_.dtype == DType::BOOL;
  }
  void f(std::int64_t i, float value) const {
    switch (operand_.dtype) {
      case DType::F32:
        store(i, value);
        break;
      case DType::F16:
        store(i, float_to_half(value));
        break;
      case DType::BF16:
        store(i, float_to_bf16(value));
        break;
      case DType::F64:
        store(i, static_cast<double>(value));
        break;
      case DType::BOOL:
        store(i, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
        break;
      default:
        this->i(i, Tensor::whole(value));
    }
  }
  void i(std::int64_t i, std::int64_t value) const {
    switch (operand_.dtype) {
      case DType::I64:
        store(i, value);
        break;
      case DType::I32:
        store(i, static_cast<std::int32_t>(value));
        break;
      case DType::I16:
        store(i, static_cast<std::int16_t>(value));
        break;
      case DType::I8:
        store(i, static_cast<std::int8_t>(value));
        break;
      case DType::BOOL:
        store(i, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
        break;
      default:
        f(i, static_cast<float>(value));
    }
  }
  // Element `from` of a tensor of its type, or of a stored format that is read as floats.
  void copy(std::int64_t i, const Tensor& tensor, std::int64_t from) const {
    if (tensor.integer()) {
      this->i(i, tensor.i(from));
    } else {
      f(i, tensor.f(from));
    }
  }

 private:
  template <class T>
  void store(std::int64_t i, T value) const {
    std::memcpy(operand_.data + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
  const Operand& operand_;
};

}  // namespace knapsack::ref
