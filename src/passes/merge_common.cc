// Common subexpressions: a node with the op, the attributes and the inputs of an earlier one is that one. Constants of
// the same small bytes are one constant, so that their readers can be.
#include <fmt/ranges.h>

#include <map>
#include <tuple>

#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

constexpr std::int64_t small_bytes = 4096;

using Key = std::tuple<Op, std::vector<ValueId>, std::string>;

std::string text_of(const Attrs& attrs) {
  std::string text;
  for (const Attrs::Entry& e : attrs.entries())
    text += fmt::format("{}={},{:a},[{}];", attr_text(e.key), e.i, e.f, fmt::join(e.list, ","));
  return text;
}

// Of a small constant with data: what it is. Empty: it stays what it is.
std::string content_of(const Value& v) {
  if (v.kind != ValueKind::constant || v.weight->slabs.size() != 1 || v.weight->bytes() > small_bytes) return {};
  std::string text = fmt::format("{}/{}/{}/[{}]", static_cast<int>(v.dtype), static_cast<int>(v.type()), v.transposed,
                                 fmt::join(v.dims, ","));
  text.append(reinterpret_cast<const char*>(v.weight->slabs[0]), static_cast<std::size_t>(v.weight->bytes()));
  return text;
}

}  // namespace

Result<Graph> pass_merge_common(const Graph& graph, const PassContext&) {
  Rewriter to(graph);
  std::map<Key, std::vector<ValueId>> known;
  std::map<std::string, ValueId> constants;
  for (const Node& node : graph.list()) {
    for (const ValueId id : node.inputs) {
      const std::string content = content_of(graph.value(id));
      if (content.empty() || to.has(id)) continue;
      const auto [it, fresh] = constants.try_emplace(content, -1);
      if (fresh) it->second = to.of(id);
      to.replace(id, it->second);
    }
    // A write is one of its own, whatever it writes.
    if (node.op == Op::kv_write) {
      to.copy(node);
      continue;
    }
    const auto [it, fresh] = known.try_emplace(Key{node.op, to.of(node.inputs), text_of(node.attrs)});
    if (fresh) {
      to.copy(node);
      for (const ValueId id : node.outputs) it->second.push_back(to.of(id));
    } else {
      for (std::size_t i = 0; i < node.outputs.size(); ++i) to.replace(node.outputs[i], it->second[i]);
    }
  }
  return to.finish();
}

}  // namespace knapsack
