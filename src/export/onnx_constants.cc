#include "export/onnx_constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

// What is in memory at a time, as floats.
constexpr std::int64_t piece_floats = std::int64_t{1} << 20;

// Rows of a weight, of all its matrices.
struct Rows {
  const Weight& weight;
  std::int64_t matrices, rows, cols;

  explicit Rows(const Weight& w) : weight(w), matrices(1), rows(1), cols(w.cols()) {
    const std::size_t rank = w.shape.size();
    if (rank >= 2) rows = w.shape[rank - 2];
    for (std::size_t i = 0; i + 2 < rank; ++i) matrices *= w.shape[i];
  }
  [[nodiscard]] const std::byte* row(std::int64_t matrix, std::int64_t r) const {
    const std::byte* base = weight.slabs.size() > 1 ? weight.slabs[static_cast<std::size_t>(matrix)]
                                                    : weight.slabs[0] + matrix * rows * weight.row_size();
    return base + r * weight.row_size();
  }
};

// Floats, appended as another type.
class Floats {
 public:
  Floats(const OnnxConstant& constant, const OnnxDataFile::Append& append) : constant_(constant), append_(append) {}

  Result<void> put(std::span<const float> values) {
    if (constant_.type == OnnxType::f32) return append_(std::as_bytes(values));
    CHECK(constant_.type == OnnxType::f16);
    halves_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      halves_[i] = float_to_half(values[i]);
      if ((halves_[i] & 0x7fffU) == 0x7c00U && std::isfinite(values[i]))
        return unsupported("{}: {} is more than float16 holds (65504); export with --precision fp32", constant_.name,
                           values[i]);
    }
    return append_(std::as_bytes(std::span(halves_)));
  }

 private:
  const OnnxConstant& constant_;
  const OnnxDataFile::Append& append_;
  std::vector<std::uint16_t> halves_;
};

Result<void> append_rows(const Rows& of, const FormatInfo& info, Floats& out) {
  const std::int64_t blocks = of.cols / info.block;
  const std::int64_t at_once = std::max<std::int64_t>(piece_floats / of.cols, 1);
  std::vector<float> piece(static_cast<std::size_t>(std::min(at_once, of.rows) * of.cols));
  for (std::int64_t m = 0; m < of.matrices; ++m) {
    for (std::int64_t r = 0; r < of.rows; r += at_once) {
      const std::int64_t count = std::min(at_once, of.rows - r);
      info.decode(of.row(m, r), piece.data(), count * blocks);
      TRY_VOID(out.put(std::span(piece).first(static_cast<std::size_t>(count * of.cols))));
    }
  }
  return {};
}

// A panel of columns becomes rows; whole blocks wide.
Result<void> append_transposed(const Rows& of, const FormatInfo& info, Floats& out) {
  constexpr std::int64_t strip = 32;  // rows decoded before they are turned, so that both sides stay in cache
  const std::int64_t width = std::clamp(piece_floats / of.rows / info.block * info.block, info.block, of.cols);
  std::vector<float> panel(static_cast<std::size_t>(width * of.rows));
  std::vector<float> decoded(static_cast<std::size_t>(width * strip));
  for (std::int64_t m = 0; m < of.matrices; ++m) {
    for (std::int64_t c = 0; c < of.cols; c += width) {
      const std::int64_t columns = std::min(width, of.cols - c);
      for (std::int64_t r = 0; r < of.rows; r += strip) {
        const std::int64_t count = std::min(strip, of.rows - r);
        for (std::int64_t i = 0; i < count; ++i)
          info.decode(of.row(m, r + i) + c / info.block * info.block_bytes, decoded.data() + i * columns,
                      columns / info.block);
        for (std::int64_t j = 0; j < columns; ++j)
          for (std::int64_t i = 0; i < count; ++i)
            panel[static_cast<std::size_t>(j * of.rows + r + i)] = decoded[static_cast<std::size_t>(i * columns + j)];
      }
      TRY_VOID(out.put(std::span(panel).first(static_cast<std::size_t>(columns * of.rows))));
    }
  }
  return {};
}

}  // namespace

std::shared_ptr<const std::vector<std::byte>> onnx_number_bytes(OnnxType type, const std::vector<double>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(values.size() * sizeof(std::int64_t));
  const auto put = [&](auto number) {
    const auto raw = std::as_bytes(std::span(&number, 1));
    bytes->insert(bytes->end(), raw.begin(), raw.end());
  };
  for (const double value : values) {
    switch (type) {
      case OnnxType::f32:
        put(static_cast<float>(value));
        break;
      case OnnxType::f16:
        put(float_to_half(static_cast<float>(value)));
        break;
      case OnnxType::i64:
        put(static_cast<std::int64_t>(value));
        break;
      case OnnxType::i32:
        put(static_cast<std::int32_t>(value));
        break;
      default:
        CHECK(type == OnnxType::f64);
        put(value);
    }
  }
  return bytes;
}

Result<void> append_constant(const OnnxConstant& constant, const OnnxDataFile::Append& append) {
  if (constant.bytes) return append(*constant.bytes);
  const Weight& weight = *constant.weight;
  CHECK(!weight.slabs.empty());
  const FormatInfo& info = format(weight.dtype);
  const Rows rows(weight);
  const bool floats = constant.type == OnnxType::f32 || constant.type == OnnxType::f16;
  if (!floats) {  // integers and truth values, as they are
    CHECK(!constant.transposed && constant.size() == static_cast<std::uint64_t>(weight.bytes()));
    for (std::int64_t m = 0; m < rows.matrices; ++m)
      TRY_VOID(append({rows.row(m, 0), static_cast<std::size_t>(rows.rows * weight.row_size())}));
    return {};
  }
  Floats out(constant, append);
  return constant.transposed ? append_transposed(rows, info, out) : append_rows(rows, info, out);
}

Result<std::vector<OnnxTensor>> write_constants(const std::vector<OnnxConstant>& constants, OnnxDataFile& data,
                                                const std::function<void(std::uint64_t)>& progress) {
  std::vector<OnnxTensor> initializers;
  initializers.reserve(constants.size());
  std::uint64_t done = 0;
  for (const OnnxConstant& each : constants) {
    if (each.size() < onnx_inline_limit) {
      auto bytes = std::make_shared<std::vector<std::byte>>();
      TRY_VOID(append_constant(each, [&](std::span<const std::byte> piece) -> Result<void> {
        bytes->insert(bytes->end(), piece.begin(), piece.end());
        return {};
      }));
      initializers.push_back({.name = each.name, .type = each.type, .dims = each.dims, .data = *bytes, .owner = bytes});
      continue;
    }
    const auto produce = [&](const OnnxDataFile::Append& append) {
      return append_constant(each, [&](std::span<const std::byte> piece) -> Result<void> {
        TRY_VOID(append(piece));
        done += piece.size();
        progress(done);
        return {};
      });
    };
    TRY(OnnxTensor tensor, data.add(each.name, each.type, each.dims, produce));
    initializers.push_back(std::move(tensor));
  }
  return initializers;
}

}  // namespace knapsack
