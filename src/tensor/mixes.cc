#include "tensor/mixes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "base/check.h"

namespace knapsack {
namespace {

enum class Where : std::uint8_t {
  always,
  more_bits,
  first_two,
  first_four,
  first_eighth,
  first_sixteenth,
  grouped_four,
  seventy_b
};

struct Mix {
  std::string_view name;
  DType type;
  std::string_view activations;
};
constexpr std::array mixes{
#define KNAP_MIX(mix, type, activations) Mix{#mix, DType::type, activations},
#include "tensor/mixes.inc"
};

struct MixRule {
  std::string_view mix;
  TensorPart part;
  Where where;
  DType type;
};
constexpr std::array rules{
#define KNAP_MIX_RULE(mix, part, where, type) MixRule{#mix, TensorPart::part, Where::where, DType::type},
#include "tensor/mixes.inc"
};

struct VendorScheme {
  std::string_view name;
  int bits, group, scale_bits, table_bits, head_bits;
  std::string_view activations;
};
constexpr std::array vendor_schemes{
#define KNAP_SCHEME(name, bits, group, scale, table, head, activations) \
  VendorScheme{name, bits, group, scale, table, head, activations},
#include "tensor/schemes.inc"
};

bool applies(Where where, const ModelPlace& model, std::int64_t layer) {
  const std::int64_t n = model.layers;
  switch (where) {
    case Where::always:
      return true;
    case Where::more_bits:
      return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    case Where::first_two:
      return layer < 2;
    case Where::first_four:
      return layer < 4;
    case Where::first_eighth:
      return layer < n / 8;
    case Where::first_sixteenth:
      return layer < n / 16;
    case Where::grouped_four:
      return model.heads_per_kv >= 4;
    case Where::seventy_b:
      return n == 80 && model.heads_per_kv == 8;
  }
  return false;
}

// A type whose blocks fit into rows of so many columns, when `type`'s do not.
DType narrower(DType type, std::int64_t cols) {
  if (cols % format(type).block == 0) return type;
  DType smaller = DType::IQ4_NL;
  if (type == DType::Q4_K) smaller = DType::Q5_0;
  if (type == DType::Q5_K) smaller = DType::Q5_1;
  if (type == DType::Q6_K) smaller = DType::Q8_0;
  return cols % format(smaller).block == 0 ? smaller : DType::F16;
}

}  // namespace

TensorPart part_of(std::string_view name, std::size_t dimensions, bool tied) {
  const auto has = [&](std::string_view piece) { return name.find(piece) != std::string_view::npos; };
  if (dimensions < 2 || !has(".weight")) return TensorPart::vector;
  if (has("embed_tokens")) return tied ? TensorPart::head : TensorPart::table;
  if (has("lm_head")) return TensorPart::head;
  if (has("mlp.gate.weight") || has("shared_expert_gate")) return TensorPart::router;
  static constexpr std::array<std::pair<std::string_view, TensorPart>, 9> parts{{{"qkv_proj", TensorPart::qkv},
                                                                                 {"gate_up_proj", TensorPart::up},
                                                                                 {".q_proj", TensorPart::q},
                                                                                 {".k_proj", TensorPart::k},
                                                                                 {".v_proj", TensorPart::v},
                                                                                 {".o_proj", TensorPart::out},
                                                                                 {".gate_proj", TensorPart::gate},
                                                                                 {".up_proj", TensorPart::up},
                                                                                 {".down_proj", TensorPart::down}}};
  for (const auto& [piece, part] : parts)
    if (has(piece)) return part;
  return TensorPart::other;
}

std::optional<Scheme> Scheme::named(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Scheme scheme;
  scheme.name_ = lower;
  for (std::size_t i = 0; i < mixes.size(); ++i)
    if (mixes[i].name == lower) {
      scheme.mix_ = static_cast<int>(i);
      scheme.activations_ = mixes[i].activations;
      return scheme;
    }
  for (std::size_t i = 0; i < vendor_schemes.size(); ++i)
    if (vendor_schemes[i].name == lower) {
      scheme.vendor_ = static_cast<int>(i);
      scheme.activations_ = vendor_schemes[i].activations;
      return scheme;
    }
  return std::nullopt;
}

std::optional<DType> Scheme::type(const ModelPlace& model, const TensorPlace& tensor) const {
  if (mix_ < 0) return std::nullopt;
  if (tensor.part == TensorPart::vector || tensor.part == TensorPart::router) return DType::F32;
  const Mix& mix = mixes[static_cast<std::size_t>(mix_)];
  DType type = mix.type;
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const MixRule& r) {
    return r.mix == mix.name && r.part == tensor.part && applies(r.where, model, tensor.layer);
  });
  if (rule != rules.end()) type = rule->type;
  // Of a head whose columns make no whole blocks of the mix's own type, llama.cpp keeps eight bits.
  if (tensor.part == TensorPart::head && tensor.cols % format(mix.type).block != 0) type = DType::Q8_0;
  return narrower(type, tensor.cols);
}

std::int64_t Scheme::bytes(const ModelPlace& model, const TensorPlace& tensor) const {
  if (const auto dtype = type(model, tensor)) return tensor.rows * row_bytes(*dtype, tensor.cols);
  const std::int64_t elements = tensor.rows * tensor.cols;
  if (tensor.part == TensorPart::vector) return elements * 4;
  if (tensor.part == TensorPart::router) return elements * 2;
  const VendorScheme& v = vendor_schemes[static_cast<std::size_t>(vendor_)];
  const int bits = tensor.part == TensorPart::table  ? v.table_bits
                   : tensor.part == TensorPart::head ? v.head_bits
                                                     : v.bits;
  const bool grouped = bits == v.bits && v.group > 0;
  const std::int64_t scales = grouped ? tensor.rows * ((tensor.cols + v.group - 1) / v.group) : tensor.rows;
  return (elements * bits + 7) / 8 + scales * (grouped ? v.scale_bits : 32) / 8;
}

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  names.reserve(std::size(mixes) + std::size(vendor_schemes));
  for (const Mix& mix : mixes) names.emplace_back(mix.name);
  for (const VendorScheme& scheme : vendor_schemes) names.emplace_back(scheme.name);
  return names;
}

}  // namespace knapsack
