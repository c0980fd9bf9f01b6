// How the target keeps data, where it says so: rows of matrices in whole lines of memory; keys in the cache channel
// first; convolutions on blocks of channels.
#include <algorithm>
#include <array>
#include <set>

#include "graph/rewrite.h"
#include "passes/blocks.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

bool reads_rows(Op op) {
  switch (op) {
    case Op::linear:
    case Op::fused_linear:
    case Op::head_linear:
    case Op::moe:
    case Op::embed:
    case Op::MatMul:
    case Op::Gemm:
    case Op::Gather:
      return true;
    default:
      return false;
  }
}

// Each row of a matrix begins a line: reading it takes no line twice.
Graph padded(const Graph& graph, std::int64_t line) {
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    for (const ValueId id : node.inputs) {
      const Value& v = graph.value(id);
      if (!reads_rows(node.op) || v.kind != ValueKind::constant || v.dims.size() < 2 || to.has(id)) continue;
      if (v.weight->row_size() % line == 0) continue;
      to.replace(id,
                 to.to().constant(v.weight, {.transposed = v.transposed, .as = v.as, .name = v.name, .line = line}));
    }
    to.copy(node);
  }
  return to.finish();
}

// Keys of a step's whole context, read on the way to a Transpose of their last two dimensions, through what repeats
// heads and takes the first columns. Empty: something else is on the way, or reads it.
std::vector<int> way_to_keys(const Graph& graph, const Uses& uses, const Node& transpose) {
  const auto perm = transpose.attrs.list(Attr::perm);
  constexpr std::array<std::int64_t, 4> last_two_exchanged{0, 1, 3, 2};
  if (transpose.op != Op::Transpose || !std::ranges::equal(perm, last_two_exchanged)) return {};
  std::vector<int> way;
  for (ValueId id = transpose.inputs[0]; uses.only(id);) {
    const int at = uses.maker[static_cast<std::size_t>(id)];
    if (at < 0) return {};
    const Node& node = graph.list()[static_cast<std::size_t>(at)];
    const auto& from = node.inputs.empty() ? std::vector<std::int64_t>{} : graph.value(node.inputs[0]).dims;
    const auto& made = graph.value(node.outputs[0]).dims;
    way.insert(way.begin(), at);
    if (node.op == Op::kv_read) return node.attrs.i(Attr::transposed) == 0 ? way : std::vector<int>{};
    const bool last_two =
        from.size() >= 4 && made.size() >= 4 && std::equal(from.end() - 2, from.end(), made.end() - 2);
    const bool through = node.op == Op::Cast || (node.op == Op::Expand && last_two) ||
                         (node.op == Op::Reshape && last_two) ||
                         (node.op == Op::Unsqueeze && last_two && node.attrs.list(Attr::axes)[0] == 2) ||
                         (node.op == Op::Slice && node.attrs.list(Attr::axes).size() == 1 && from.size() == 4 &&
                          node.attrs.list(Attr::axes)[0] == 3);
    if (!through) return {};
    id = node.inputs[0];
  }
  return {};
}

// Keys lie [cols, ctx]: a product with them reads lines, and the Transpose before it goes.
class Keys {
 public:
  explicit Keys(const Graph& graph) : graph_(graph), uses_(graph), turned_(graph.list().size()) {}

  Graph run() {
    std::set<int> keys;    // states that are read as such
    std::set<int> others;  // and by rows
    for (std::size_t i = 0; i < graph_.list().size(); ++i) {
      const Node& node = graph_.list()[i];
      const auto state = [&](std::size_t input) { return graph_.value(node.inputs[input]).state; };
      if (node.op == Op::attention) {
        keys.insert(state(1));
        others.insert(state(2));
      } else if (const auto way = way_to_keys(graph_, uses_, node); !way.empty()) {
        keys.insert(graph_.value(graph_.list()[static_cast<std::size_t>(way.front())].inputs[0]).state);
        for (const int at : way) turned_[static_cast<std::size_t>(at)] = true;
        turned_[i] = true;
      }
    }
    for (std::size_t i = 0; i < graph_.list().size(); ++i)
      if (const Node& node = graph_.list()[i]; node.op == Op::kv_read && !turned_[i])
        others.insert(graph_.value(node.inputs[0]).state);
    std::set<ValueId> first;
    for (std::size_t id = 0; id < graph_.values().size(); ++id) {
      const Value& v = graph_.values()[id];
      if (v.kind == ValueKind::state && keys.count(v.state) > 0 && others.count(v.state) == 0)
        first.insert(static_cast<ValueId>(id));
    }
    Rewriter to(graph_, 0, 0, first);
    for (std::size_t i = 0; i < graph_.list().size(); ++i) turn(to, graph_.list()[i], turned_[i]);
    return to.finish();
  }

 private:
  static void turn(Rewriter& to, const Node& node, bool turned) {
    if (!turned) return to.copy(node);
    if (node.op == Op::Transpose) return to.replace(node.outputs[0], to.of(node.inputs[0]));
    const auto swapped = [](std::span<const std::int64_t> list) {
      std::vector<std::int64_t> dims(list.begin(), list.end());
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
      return dims;
    };
    Attrs attrs = node.attrs;
    if (node.op == Op::kv_read) attrs = without(attrs, {Attr::transposed}).set(Attr::transposed, 1);
    if (node.op == Op::Expand || node.op == Op::Reshape)
      attrs = Attrs().set(Attr::shape, swapped(node.attrs.list(Attr::shape)));
    if (node.op == Op::Slice) attrs = without(attrs, {Attr::axes}).set(Attr::axes, std::vector<std::int64_t>{2});
    to.copy(node, to.of(node.inputs), std::move(attrs));
  }

  const Graph& graph_;
  const Uses uses_;
  std::vector<bool> turned_;
};

}  // namespace

Result<Graph> pass_layout(const Graph& graph, const PassContext& context) {
  const Target& target = context.target;
  Graph made = graph;
  if (target.channel_first_keys) made = Keys(made).run();
  if (target.channel_block > 1) made = in_blocks(made, target.channel_block, context.data);
  if (target.weight_line > 1) made = padded(made, target.weight_line);
  return made;
}

}  // namespace knapsack
