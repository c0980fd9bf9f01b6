#include "import/quantized.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "import/limits.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

constexpr std::int64_t block = 32;  // of G4, G8 and F8_B32

float scalar_at(const TensorView& view, std::int64_t i) {
  float value = 0;
  const FormatInfo& f = format(view.dtype);
  f.decode(view.data.data() + i * f.block_bytes, &value, 1);
  return value;
}

std::uint32_t word_at(const TensorView& view, std::int64_t i) {
  return load_unaligned<std::uint32_t>(view.data.data() + i * 4);
}

bool half_exact(float value) {
  return std::bit_cast<std::uint32_t>(half_to_float(float_to_half(value))) == std::bit_cast<std::uint32_t>(value);
}

// Whether each block of 32 columns lies in one group and the scales survive as halves: then G4 and G8 are exact.
bool fits_blocks(const GroupedCodes& q, const std::vector<std::int32_t>& order) {
  if (q.cols % block != 0) return false;
  for (std::int64_t c = 0; c < q.cols; ++c)
    if (q.group[static_cast<std::size_t>(order[static_cast<std::size_t>(c)])] !=
        q.group[static_cast<std::size_t>(order[static_cast<std::size_t>(c - c % block)])])
      return false;
  return std::all_of(q.scales.begin(), q.scales.end(), half_exact);
}

std::shared_ptr<const Weight> as_blocks(const GroupedCodes& q, const std::vector<std::int32_t>& order,
                                        std::int64_t bits, const std::string& name) {
  const DType dtype = bits == 4 ? DType::G4 : DType::G8;
  const auto size = static_cast<std::size_t>(format(dtype).block_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(q.rows * q.cols / block) * size);
  std::byte* out = bytes.data();
  for (std::int64_t n = 0; n < q.rows; ++n) {
    for (std::int64_t c = 0; c < q.cols; c += block, out += size) {
      const std::int32_t g = q.group[static_cast<std::size_t>(order[static_cast<std::size_t>(c)])];
      const auto at = static_cast<std::size_t>(g * q.rows + n);
      const std::uint16_t scale = float_to_half(q.scales[at]);
      std::memcpy(out, &scale, sizeof scale);
      const auto code = [&](std::int64_t j) {
        return q.codes[static_cast<std::size_t>(n * q.cols + order[static_cast<std::size_t>(c + j)])];
      };
      if (bits == 4) {  // {f16 scale; u8 zero; 16 bytes: element j low, j + 16 high}
        out[2] = static_cast<std::byte>(q.zeros[at]);
        for (std::int64_t j = 0; j < 16; ++j) out[3 + j] = static_cast<std::byte>(code(j) | (code(j + 16) << 4));
      } else {  // {f16 scale; u16 zero; 32 bytes}
        std::memcpy(out + 2, &q.zeros[at], sizeof(std::uint16_t));
        for (std::int64_t j = 0; j < block; ++j) out[4 + j] = static_cast<std::byte>(code(j));
      }
    }
  }
  return owned_weight(name, dtype, {q.rows, q.cols}, std::move(bytes));
}

std::shared_ptr<const Weight> as_floats(const GroupedCodes& q, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(q.rows * q.cols));
  for (std::int64_t n = 0; n < q.rows; ++n)
    for (std::int64_t c = 0; c < q.cols; ++c) {
      const auto at = static_cast<std::size_t>(q.group[static_cast<std::size_t>(c)] * q.rows + n);
      const auto i = static_cast<std::size_t>(n * q.cols + c);
      values[i] = q.scales[at] * (static_cast<float>(q.codes[i]) - static_cast<float>(q.zeros[at]));
    }
  return f32_weight(name, {q.rows, q.cols}, values);
}

}  // namespace

std::string QuantConfig::text() const {
  switch (method) {
    case QuantMethod::none:
      return {};
    case QuantMethod::fp8:
      return fmt::format("FP8 E4M3, blocks {}x{}", block_rows, block_cols);
    case QuantMethod::gptq:
      return fmt::format("GPTQ {}-bit g{}{}", bits, group, act_order ? ", act-order" : "");
    case QuantMethod::awq:
      return fmt::format("AWQ {}-bit g{}", bits, group);
  }
  return {};
}

namespace {

Result<QuantConfig> fp8_config(const Fields& config) {
  QuantConfig out;
  out.method = QuantMethod::fp8;
  TRY(const std::string kind, config.text_or("fmt", "e4m3"));
  if (kind != "e4m3") return unsupported("{}: fmt \"{}\": expected e4m3", config.origin(), kind);
  if (!config.has("weight_block_size"))
    return unsupported("{}: FP8 without weight_block_size (one scale a tensor) is not read here", config.origin());
  TRY(const auto sizes, config.integers("weight_block_size", 1, limits::hidden, 2));
  if (sizes.size() != 2) return config.wrong("weight_block_size", "two sizes, [rows, columns]");
  out.block_rows = sizes[0];
  out.block_cols = sizes[1];
  return out;
}

Result<QuantConfig> gptq_config(const Fields& config) {
  QuantConfig out;
  out.method = QuantMethod::gptq;
  TRY(out.bits, config.integer("bits", 1, 32));
  if (out.bits != 4 && out.bits != 8)
    return unsupported("{}: GPTQ with {} bits is not read here; known: 4, 8", config.origin(), out.bits);
  TRY(out.group, config.integer("group_size", -1, limits::hidden));
  if (out.group == 0) return config.wrong("group_size", "-1 or a positive integer");
  TRY(out.act_order, config.boolean_or("desc_act", false));
  TRY(const std::string newer, config.text_or("format", "gptq"));
  TRY(const std::string layout, config.text_or("checkpoint_format", newer));
  if (const json::value* dynamic = config.find("dynamic");
      dynamic != nullptr && !(dynamic->is_object() && dynamic->get_object().empty()))
    return unsupported("{}: dynamic: settings that differ from module to module are not read here", config.origin());
  if (layout != "gptq" && layout != "gptq_v2")
    return unsupported("{}: checkpoint_format \"{}\" is not known here; known: gptq, gptq_v2", config.origin(), layout);
  out.zero_plus_one = layout == "gptq";
  return out;
}

Result<QuantConfig> awq_config(const Fields& config) {
  QuantConfig out;
  out.method = QuantMethod::awq;
  const char* bits = config.has("bits") ? "bits" : "w_bit";
  const char* group = config.has("group_size") ? "group_size" : "q_group_size";
  TRY(out.bits, config.integer(bits, 1, 32));
  if (out.bits != 4) return unsupported("{}: AWQ with {} bits is not read here; known: 4", config.origin(), out.bits);
  TRY(out.group, config.integer(group, -1, limits::hidden));
  if (out.group == 0) return config.wrong(group, "-1 or a positive integer");
  TRY(std::string version, config.text_or("version", "gemm"));
  for (char& c : version) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (version != "gemm")
    return unsupported("{}: AWQ version \"{}\" is not read here; known: gemm", config.origin(), version);
  return out;
}

// qzeros [groups, N / per_word] and scales [groups, N], shared by both; lane(n) is where column n's bits stand.
template <class Lane>
void unpack_groups(const TensorView& qzeros, const TensorView& scales, std::int64_t bits, Lane lane, GroupedCodes& q) {
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  q.scales.resize(static_cast<std::size_t>(q.groups * q.rows));
  q.zeros.resize(q.scales.size());
  for (std::int64_t g = 0; g < q.groups; ++g)
    for (std::int64_t n = 0; n < q.rows; ++n) {
      const auto at = static_cast<std::size_t>(g * q.rows + n);
      q.scales[at] = scalar_at(scales, g * q.rows + n);
      const std::uint32_t word = word_at(qzeros, g * (q.rows / per_word) + n / per_word);
      q.zeros[at] = static_cast<std::uint16_t>((word >> (bits * lane(n))) & mask);
    }
}

LoadedWeight finish(const GroupedCodes& q, std::int64_t bits, const std::string& name, bool keep_order) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(q.cols));
  std::iota(order.begin(), order.end(), 0);
  if (fits_blocks(q, order)) return {as_blocks(q, order, bits, name), nullptr};
  if (!keep_order && !std::is_sorted(q.group.begin(), q.group.end())) {
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return q.group[static_cast<std::size_t>(a)] < q.group[static_cast<std::size_t>(b)];
    });
    if (fits_blocks(q, order)) {
      std::vector<std::byte> bytes(order.size() * sizeof(std::int32_t));
      std::memcpy(bytes.data(), order.data(), bytes.size());
      return {as_blocks(q, order, bits, name), owned_weight(name + ".order", DType::I32, {q.cols}, std::move(bytes))};
    }
  }
  return {as_floats(q, name), nullptr};
}

}  // namespace

std::shared_ptr<const Weight> weight_of_codes(const GroupedCodes& codes, std::int64_t bits, const std::string& name) {
  return finish(codes, bits, name, true).weight;
}

Result<QuantConfig> quant_config(const Fields& config) {
  // quantize_config.json of AutoGPTQ names no method.
  TRY(std::string method, config.text_or("quant_method", "gptq"));
  for (char& c : method) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (method == "fp8") return fp8_config(config);
  if (method == "gptq") return gptq_config(config);
  if (method == "awq") return awq_config(config);
  return unsupported("{}: quant_method \"{}\" is not known here; known: fp8, gptq, awq", config.origin(), method);
}

LoadedWeight read_fp8(const LogicalTensor& tensor, const QuantConfig& config) {
  const TensorView& weight = *tensor.parts[0];
  const TensorView& scale = *tensor.parts[1];
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t cols = tensor.shape[1];
  const std::int64_t scale_cols = scale.shape[1];
  const auto scale_of = [&](std::int64_t r, std::int64_t c) {
    return scalar_at(scale, r / config.block_rows * scale_cols + c / config.block_cols);
  };
  if (cols % block == 0 && config.block_cols % block == 0) {
    const auto size = static_cast<std::size_t>(format(DType::F8_B32).block_bytes);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols / block) * size);
    std::byte* out = bytes.data();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; c += block, out += size) {
        const float s = scale_of(r, c);
        std::memcpy(out, &s, sizeof s);
        std::memcpy(out + sizeof s, weight.data.data() + r * cols + c, block);
      }
    return {owned_weight(tensor.name, DType::F8_B32, tensor.shape, std::move(bytes)), nullptr};
  }
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  format(DType::F8_E4M3).decode(weight.data.data(), values.data(), rows * cols);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) values[static_cast<std::size_t>(r * cols + c)] *= scale_of(r, c);
  return {f32_weight(tensor.name, tensor.shape, values), nullptr};
}

Result<LoadedWeight> read_gptq(const LogicalTensor& tensor, const QuantConfig& config, const std::string& origin,
                               bool keep_order) {
  const TensorView& qweight = *tensor.parts[0];
  const TensorView& scales = *tensor.parts[2];
  const TensorView* g_idx = tensor.parts.size() > 3 ? tensor.parts[3] : nullptr;
  const std::int64_t bits = config.bits;
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  GroupedCodes q{tensor.shape[0], tensor.shape[1], scales.shape[0], {}, {}, {}, {}};
  q.codes.resize(static_cast<std::size_t>(q.rows * q.cols));
  for (std::int64_t w = 0; w < q.cols / per_word; ++w)  // a word holds codes of neighbouring columns
    for (std::int64_t n = 0; n < q.rows; ++n) {
      const std::uint32_t word = word_at(qweight, w * q.rows + n);
      std::uint8_t* codes = q.codes.data() + n * q.cols + w * per_word;
      for (std::int64_t j = 0; j < per_word; ++j) codes[j] = static_cast<std::uint8_t>((word >> (bits * j)) & mask);
    }
  unpack_groups(
      *tensor.parts[1], scales, bits, [&](std::int64_t n) { return n % per_word; }, q);
  // The first format stores zero - 1 in as many bits as a code has, so that 0 wrapped round.
  if (config.zero_plus_one)
    for (auto& zero : q.zeros) zero = static_cast<std::uint16_t>((zero + 1U) & mask);
  const std::int64_t group = config.group > 0 ? config.group : q.cols;
  for (std::int64_t k = 0; k < q.cols; ++k) {
    const std::int32_t g =
        g_idx != nullptr ? static_cast<std::int32_t>(word_at(*g_idx, k)) : static_cast<std::int32_t>(k / group);
    if (g < 0 || g >= q.groups)
      return bad_input("{}: {}: g_idx[{}]: expected a group from 0 to {}, found {}", origin, tensor.name, k,
                       q.groups - 1, g);
    q.group.push_back(g);
  }
  return finish(q, bits, tensor.name, keep_order);
}

LoadedWeight read_awq(const LogicalTensor& tensor, const QuantConfig& config) {
  const TensorView& qweight = *tensor.parts[0];
  const TensorView& scales = *tensor.parts[2];
  const std::int64_t bits = config.bits;
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  // Which lane of its word column n % per_word stands in: AutoAWQ packs columns 0 2 4 6 1 3 5 7 into lanes 0..7.
  static constexpr std::array<std::int64_t, 8> lanes{0, 4, 1, 5, 2, 6, 3, 7};
  const auto lane = [&](std::int64_t n) { return lanes[static_cast<std::size_t>(n % per_word)]; };
  GroupedCodes q{tensor.shape[0], tensor.shape[1], scales.shape[0], {}, {}, {}, {}};
  q.codes.resize(static_cast<std::size_t>(q.rows * q.cols));
  for (std::int64_t w = 0; w < q.rows / per_word; ++w)  // a word holds codes of neighbouring rows
    for (std::int64_t k = 0; k < q.cols; ++k) {
      const std::uint32_t word = word_at(qweight, k * (q.rows / per_word) + w);
      for (std::int64_t j = 0; j < per_word; ++j)
        q.codes[static_cast<std::size_t>((w * per_word + j) * q.cols + k)] =
            static_cast<std::uint8_t>((word >> (bits * lane(j))) & mask);
    }
  unpack_groups(*tensor.parts[1], scales, bits, lane, q);
  const std::int64_t group = config.group > 0 ? config.group : q.cols;
  for (std::int64_t k = 0; k < q.cols; ++k) q.group.push_back(static_cast<std::int32_t>(k / group));
  return finish(q, bits, tensor.name, true);
}

}  // namespace knapsack
