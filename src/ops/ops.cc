#include "ops/ops.h"

#include <array>

namespace knapsack {
namespace {

// Of a primitive operator.
constexpr int outputs_of(Op op) { return op == Op::Split ? 0 : op == Op::TopK ? 2 : 1; }

constexpr auto table = std::to_array<OpInfo>({
#define KNAP_OP(id, text, cls, min_in, max_in, out) {Op::id, text, OpClass::cls, min_in, max_in, out, false},
#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) \
  {Op::id, #id, OpClass::cls, min_in, max_in, outputs_of(Op::id), true},
#include "ops/ops.inc"
#include "ops/primitives.inc"
#undef KNAP_OP
#undef KNAP_PRIMITIVE
});

struct AttrInfo {
  std::string_view text;
  char kind;
};
constexpr auto attr_table = std::to_array<AttrInfo>({
#define KNAP_ATTR(id, kind) {#id, #kind[0]},
#include "ops/attrs.inc"
#undef KNAP_ATTR
});

}  // namespace

std::span<const OpInfo> all_ops() { return table; }

std::optional<Op> op_from_text(std::string_view text) {
  for (const OpInfo& info : table)
    if (info.text == text) return info.op;
  return std::nullopt;
}

std::string_view op_class_name(OpClass cls) {
  constexpr std::array<std::string_view, 5> names{"matrix", "tensor transform", "elementwise", "dynamic control",
                                                  "quantization-sensitive"};
  return names[static_cast<std::size_t>(cls)];
}

std::string_view attr_text(Attr attr) { return attr_table[static_cast<std::size_t>(attr)].text; }
AttrKind attr_kind(Attr attr) {
  const char kind = attr_table[static_cast<std::size_t>(attr)].kind;
  return kind == 'f' ? AttrKind::number : kind == 'l' ? AttrKind::list : AttrKind::integer;
}

std::optional<Attr> attr_from_text(std::string_view text) {
  for (std::size_t i = 0; i < attr_table.size(); ++i)
    if (attr_table[i].text == text) return static_cast<Attr>(i);
  return std::nullopt;
}

}  // namespace knapsack
