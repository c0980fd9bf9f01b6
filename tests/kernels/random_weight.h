// Random matrices of any storage format whose values are finite and of ordinary size, and random activations.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/half.h"

namespace knapsack::testing {

inline std::vector<float> random_floats(std::int64_t count, unsigned seed, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

class RandomMatrix {
 public:
  RandomMatrix(DType dtype, std::int64_t rows, std::int64_t cols, unsigned seed)
      : cols_(cols),
        bytes_(static_cast<std::size_t>(rows * row_bytes(dtype, cols))),
        values_(static_cast<std::size_t>(rows * cols)) {
    const FormatInfo& f = format(dtype);
    std::mt19937 random(seed);
    const std::int64_t blocks = rows * cols / f.block;
    const auto block_bytes = static_cast<std::size_t>(f.block_bytes);
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::byte* block = bytes_.data() + static_cast<std::size_t>(b) * block_bytes;
      float* value = values_.data() + b * f.block;
      // Random bytes until they mean ordinary numbers; with small odds for a scale of 16 bits, so it is helped along.
      for (bool good = false; !good;) {
        for (std::size_t i = 0; i < block_bytes; ++i) block[i] = static_cast<std::byte>(random());
        if (f.encode != nullptr) encode(f, block, random);
        if (dtype == DType::F64) {
          const double v = std::normal_distribution<double>()(random);
          std::memcpy(block, &v, sizeof(v));
        }
        if (dtype == DType::F8_B32) {
          const float scale = std::normal_distribution<float>(0, 0.01F)(random);
          std::memcpy(block, &scale, sizeof(scale));
        }
        if (dtype == DType::MXFP4) block[0] = static_cast<std::byte>(118 + random() % 10);
        f.decode(block, value, 1);
        good = true;
        for (std::int64_t i = 0; i < f.block; ++i)
          good = good &&
                 (std::fabs(value[i]) <= 1e4F || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64);
      }
    }
  }
  [[nodiscard]] const std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] float value(std::int64_t row, std::int64_t col) const {
    return values_[static_cast<std::size_t>(row * cols_ + col)];
  }

 private:
  static void encode(const FormatInfo& f, std::byte* block, std::mt19937& random) {
    std::vector<float> in(static_cast<std::size_t>(f.block));
    for (float& v : in) v = std::normal_distribution<float>()(random);
    f.encode(in.data(), block, 1);
  }
  std::int64_t cols_;
  std::vector<std::byte> bytes_;
  std::vector<float> values_;
};

}  // namespace knapsack::testing
