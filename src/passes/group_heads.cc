// Grouped-query attention without repeated heads: exporters write each KV head as often as query heads read it
// (Unsqueeze, Expand, Reshape) and multiply head by head. Here the query heads of a group are rows of one product with
// their KV head instead, which is read once and stays of four dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

// What is repeated, [n, kv, a, b], how often, and whether it is then seen [n, heads, b, a]; chain: the nodes that do
// it.
struct Repeat {
  ValueId x = -1;
  std::int64_t times = 1;
  const Node* transpose = nullptr;
  std::vector<int> chain{};
};

class Heads {
 public:
  explicit Heads(const Graph& graph) : graph_(graph), uses_(graph) {}

  Graph run() {
    std::vector<std::optional<Repeat>> found;
    std::vector<bool> gone(graph_.list().size(), false);
    found.reserve(graph_.list().size());
    for (const Node& node : graph_.list()) {
      found.push_back(node.op == Op::MatMul ? repeat_of(node) : std::nullopt);
      if (!found.back()) continue;
      for (const int at : found.back()->chain) gone[static_cast<std::size_t>(at)] = true;
    }
    Rewriter to(graph_);
    for (std::size_t i = 0; i < graph_.list().size(); ++i) {
      if (gone[i]) continue;
      if (found[i]) {
        group(to, graph_.list()[i], *found[i]);
      } else {
        to.copy(graph_.list()[i]);
      }
    }
    return to.finish();
  }

 private:
  [[nodiscard]] const std::vector<std::int64_t>& dims(ValueId id) const { return graph_.value(id).dims; }

  // The node that makes what nothing else reads; null: there is no such one of these operators.
  const Node* step(ValueId id, std::initializer_list<Op> ops, Repeat& repeat) const {
    const int at = uses_.maker[static_cast<std::size_t>(id)];
    if (at < 0 || !uses_.only(id)) return nullptr;
    const Node& node = graph_.list()[static_cast<std::size_t>(at)];
    if (std::find(ops.begin(), ops.end(), node.op) == ops.end()) return nullptr;
    repeat.chain.push_back(at);
    return &node;
  }

  [[nodiscard]] std::optional<Repeat> repeat_of(const Node& product) const {
    constexpr std::array<std::int64_t, 4> last_two_exchanged{0, 1, 3, 2};
    if (dims(product.inputs[0]).size() != 4 || dims(product.inputs[1]).size() != 4) return std::nullopt;
    Repeat repeat;
    ValueId id = product.inputs[1];
    if (const int at = uses_.maker[static_cast<std::size_t>(id)];
        at >= 0 && graph_.list()[static_cast<std::size_t>(at)].op == Op::Transpose) {
      repeat.transpose = step(id, {Op::Transpose}, repeat);
      if (repeat.transpose == nullptr ||
          !std::ranges::equal(repeat.transpose->attrs.list(Attr::perm), last_two_exchanged))
        return std::nullopt;
      id = repeat.transpose->inputs[0];
    }
    const Node* joined = step(id, {Op::Reshape}, repeat);
    if (joined == nullptr) return std::nullopt;
    const Node* expanded = step(joined->inputs[0], {Op::Expand}, repeat);
    if (expanded == nullptr) return std::nullopt;
    const Node* apart = step(expanded->inputs[0], {Op::Unsqueeze, Op::Reshape}, repeat);
    if (apart == nullptr) return std::nullopt;
    repeat.x = apart->inputs[0];
    const auto& x = dims(repeat.x);
    const auto& many = dims(joined->inputs[0]);
    if (x.size() != 4 || many.size() != 5) return std::nullopt;
    repeat.times = many[2];
    const std::int64_t heads = x[1] * repeat.times;
    using Dims = std::vector<std::int64_t>;
    const bool fits = dims(expanded->inputs[0]) == Dims{x[0], x[1], 1, x[2], x[3]} &&
                      many == Dims{x[0], x[1], repeat.times, x[2], x[3]} && dims(id) == Dims{x[0], heads, x[2], x[3]} &&
                      dims(product.inputs[0])[0] == x[0] && dims(product.inputs[0])[1] == heads;
    return fits ? std::optional(std::move(repeat)) : std::nullopt;
  }

  void group(Rewriter& to, const Node& product, const Repeat& repeat) const {
    const auto& left = dims(product.inputs[0]);
    const auto add = [&](std::string_view name, Op op, std::vector<ValueId> inputs, Attrs attrs) {
      const ValueId made =
          to.to().node(op, to.fresh(fmt::format("{}/{}", product.name, name)), std::move(inputs), std::move(attrs));
      take_provenance(to.to().last(), product);
      return made;
    };
    const ValueId rows = add("grouped", Op::Reshape, {to.of(product.inputs[0])},
                             Attrs().set(Attr::shape, std::vector<std::int64_t>{left[0], left[1] / repeat.times,
                                                                                repeat.times * left[2], left[3]}));
    ValueId right = to.of(repeat.x);
    if (repeat.transpose != nullptr)
      right = to.node(*repeat.transpose, Op::Transpose, {right}, repeat.transpose->attrs);
    const ValueId made = add("groups", Op::MatMul, {rows, right}, product.attrs);
    to.replace(product.outputs[0],
               to.node(product, Op::Reshape, {made}, Attrs().set(Attr::shape, dims(product.outputs[0]))));
  }

  const Graph& graph_;
  const Uses uses_;
};

}  // namespace

Result<Graph> pass_group_heads(const Graph& graph, const PassContext&) { return Heads(graph).run(); }

}  // namespace knapsack
