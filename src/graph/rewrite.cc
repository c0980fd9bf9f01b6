#include "graph/rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace knapsack {

Attrs without(const Attrs& attrs, std::initializer_list<Attr> gone) {
  Attrs kept;
  for (const Attrs::Entry& e : attrs.entries()) {
    if (std::find(gone.begin(), gone.end(), e.key) != gone.end()) continue;
    switch (attr_kind(e.key)) {
      case AttrKind::number:
        kept.set(e.key, e.f);
        break;
      case AttrKind::integer:
        kept.set(e.key, e.i);
        break;
      case AttrKind::list:
        kept.set(e.key, e.list);
        break;
    }
  }
  return kept;
}

void take_provenance(Node& made, const Node& old) {
  made.origin = old.origin;
  made.origin_op = old.origin_op;
  made.purpose = old.purpose;
  made.unit = old.unit;
}

Rewriter::Rewriter(const Graph& from, std::int64_t tokens, std::int64_t ctx, const std::set<ValueId>& channel_first)
    : from_(from), map_(from.values().size(), -1) {
  for (std::size_t id = 0; id < from.values().size(); ++id) {
    const Value& v = from.values()[id];
    if (v.kind == ValueKind::input) {
      std::vector<std::int64_t> dims = v.dims;
      if (tokens > 0 && v.symbolic()) dims[0] = dims[0] == tokens_dim ? tokens : 1;
      map_[id] = to_.input(v.name, v.dtype, std::move(dims));
    } else if (v.kind == ValueKind::state) {
      const bool fixed = v.dims.size() == 2;
      map_[id] = to_.state(v.name, v.cols(),
                           ctx > 0 ? std::optional(ctx)
                           : fixed ? std::optional(v.dims[0])
                                   : std::nullopt,
                           v.channel_first || channel_first.count(static_cast<ValueId>(id)) > 0);
    } else {
      continue;
    }
    if (v.quant) to_.set_quantization(map_[id], *v.quant);
  }
}

ValueId Rewriter::of(ValueId old) {
  ValueId& made = map_[static_cast<std::size_t>(old)];
  if (made >= 0) return made;
  const Value& v = from_.value(old);
  CHECK(v.kind == ValueKind::constant);
  made = to_.constant(v.weight, {.transposed = v.transposed, .as = v.as, .name = v.name, .line = v.line});
  return made;
}

std::vector<ValueId> Rewriter::of(const std::vector<ValueId>& old) {
  std::vector<ValueId> made;
  made.reserve(old.size());
  for (const ValueId id : old) made.push_back(of(id));
  return made;
}

void Rewriter::copy(const Node& node) { copy(node, of(node.inputs), node.attrs); }

void Rewriter::copy(const Node& node, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<std::string> names;
  names.reserve(node.outputs.size());
  for (const ValueId id : node.outputs) names.push_back(from_.value(id).name);
  const auto made = to_.nodes(node.op, std::move(names), std::move(inputs), std::move(attrs));
  take_provenance(to_.last(), node);
  CHECK(made.size() == node.outputs.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    replace(node.outputs[i], made[i]);
    if (const auto& quant = from_.value(node.outputs[i]).quant) to_.set_quantization(made[i], *quant);
  }
}

ValueId Rewriter::node(const Node& old, Op op, std::vector<ValueId> inputs, Attrs attrs) {
  const ValueId made = to_.node(op, unique(old.name), std::move(inputs), std::move(attrs));
  take_provenance(to_.last(), old);
  return made;
}

std::string Rewriter::unique(std::string name) const {
  if (to_.find(name) < 0) return name;
  for (int i = 1;; ++i)
    if (std::string other = fmt::format("{}_{}", name, i); to_.find(other) < 0) return other;
}

std::string Rewriter::fresh(std::string name) const {
  const auto taken = [&](const std::string& each) { return to_.find(each) >= 0 || from_.find(each) >= 0; };
  if (!taken(name)) return name;
  for (int i = 1;; ++i)
    if (std::string other = fmt::format("{}_{}", name, i); !taken(other)) return other;
}

Graph Rewriter::finish() {
  for (const ValueId id : from_.outputs()) to_.add_output(of(id));
  return std::move(to_);
}

Uses::Uses(const Graph& graph)
    : maker(graph.values().size(), -1), readers(graph.values().size()), output(graph.values().size(), false) {
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    for (const ValueId id : graph.list()[i].outputs) maker[static_cast<std::size_t>(id)] = static_cast<int>(i);
    for (const ValueId id : graph.list()[i].inputs)
      readers[static_cast<std::size_t>(id)].push_back(static_cast<int>(i));
  }
  for (const ValueId id : graph.outputs()) output[static_cast<std::size_t>(id)] = true;
}

}  // namespace knapsack
