#include "ops/ops.h"

#include <array>

namespace knapsack {
namespace {

constexpr auto table = std::to_array<OpInfo>({
#define KNAP_OP(id, text, cls, min_in, max_in, out) {Op::id, text, OpClass::cls, min_in, max_in, out},
#include "ops/ops.inc"
#undef KNAP_OP
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

std::string_view attr_text(Attr attr) { return attr_table[static_cast<std::size_t>(attr)].text; }
bool attr_is_float(Attr attr) { return attr_table[static_cast<std::size_t>(attr)].kind == 'f'; }

std::optional<Attr> attr_from_text(std::string_view text) {
  for (std::size_t i = 0; i < attr_table.size(); ++i)
    if (attr_table[i].text == text) return static_cast<Attr>(i);
  return std::nullopt;
}

}  // namespace knapsack
