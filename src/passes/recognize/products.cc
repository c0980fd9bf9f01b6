// Products with weights: of whole rows, of heads or experts that each have a matrix.
#include "passes/recognize/rules.h"

namespace knapsack::recognition {

Result<Form> Rules::linear(const Node& node, const Form& x, const Value& weight, const Value* bias, bool rows) {
  if (weight.dims.size() != 2) {
    if (bias != nullptr || rows) return unsupported("a matrix of {} dimensions", weight.dims.size());
    return batched(node, x, weight);
  }
  TRY(const ValueId in, this->rows(x));
  const Grid& grid = *x.grid;
  if (grid.last() != grid.elements()) return unsupported("a product with something else than whole rows");
  // What lies as [N, K] in the file is taken as it is.
  std::shared_ptr<const Weight> matrix;
  if (!rows) {
    matrix = builder_.turned(weight);
  } else {
    Value seen = weight;
    if (weight.transposed) {
      seen.transposed = false;
      seen.dims = {weight.dims[1], weight.dims[0]};
      matrix = builder_.turned(seen);
    } else {
      matrix = weight.weight;
    }
  }
  ValueId made = -1;
  if (bias != nullptr) {
    TRY(const auto vector, builder_.vector(*bias));
    made = builder_.node(Op::linear, {in, builder_.constant(matrix), builder_.constant(vector)});
  } else {
    made = builder_.linear(in, matrix);
  }
  return this->made(made, out(node).dims, grid.axis, grid);
}

// A matrix for each head, or expert: [heads, K, N].
Result<Form> Rules::batched(const Node& node, const Form& x, const Value& weight) {
  const Weight& w = *weight.weight;
  if (weight.dims.size() != 3 || w.slabs.size() > 1)
    return unsupported("a matrix of {} dimensions", weight.dims.size());
  const std::int64_t heads = weight.dims[0];
  const std::int64_t width = weight.dims[1];
  const std::int64_t made_width = weight.dims[2];
  const Grid grid = x.grid->seen_along(std::ssize(x.grid->dims) - 2);
  if (x.kind != Kind::grid || !grid.plain() || grid.axis != std::ssize(grid.dims) - 2 || grid.last() != width)
    return unsupported("a product of matrices for heads and something else than their rows");
  const std::int64_t axis = std::ssize(out(node).dims) - 2;
  if (grid.elements() == width) {  // all on the same rows
    TRY(const ValueId in, builder_.rows(grid, 1));
    Form form = made(builder_.linear(in, builder_.flat(weight)), out(node).dims, axis, grid);
    form.factor = x.factor;
    return form;
  }
  if (grid.elements() != heads * width) return unsupported("a product of other heads");
  // Heads that lie apart are read where they lie.
  const auto& columns = grid.parts[0].columns;
  ValueId in = columns[0].base;
  const std::int64_t offset = columns[0].col;
  std::int64_t stride = heads > 1 ? columns[static_cast<std::size_t>(width)].col - offset : builder_.columns(in);
  bool regular = offset >= 0 && stride >= offset + width && stride * heads == builder_.columns(in);
  for (std::int64_t i = 0; i < grid.elements() && regular; ++i) {
    const Column& c = columns[static_cast<std::size_t>(i)];
    regular = c.base == in && c.col == i / width * stride + offset + i % width;
  }
  if (!regular) {
    TRY(in, builder_.rows(grid, 1));
    stride = width;
  }
  const std::int64_t rows = weight.transposed ? made_width : width;
  if (regular && offset == 0 && stride == width) {
    if (const auto joined = latent_joined(in, weight)) {
      Form form = made(*joined, out(node).dims, axis, grid);
      form.factor = x.factor;
      return form;
    }
  }
  const ValueId base = builder_.node(Op::head_linear, {in, builder_.constant(Builder::below_each_other(w))},
                                     Attrs{}
                                         .set(Attr::heads, heads)
                                         .set(Attr::in_stride, stride)
                                         .set(Attr::in_offset, regular ? offset : 0)
                                         .set(Attr::head_rows, rows)
                                         .set(Attr::row_offset, 0)
                                         .set(Attr::rows, rows)
                                         .set(Attr::transposed, weight.transposed ? 0 : 1));
  Form form = made(base, out(node).dims, axis, grid);
  form.factor = x.factor;
  return form;
}

Result<Form> Rules::product(const Node& node) {
  const Form& a = in(node, 0);
  const Form& b = in(node, 1);
  const bool constant = b.kind == Kind::side || b.kind == Kind::matrix;
  if (node.op == Op::Gemm) {
    const bool plain =
        node.attrs.i(Attr::trans_a) == 0 && node.attrs.f(Attr::alpha, 1) == 1 && node.attrs.f(Attr::beta, 1) == 1;
    if (!constant || !plain || (node.inputs.size() > 2 && !is_known(in(node, 2))))
      return unsupported("a form of it that no product of rows is");
    const Value* bias = node.inputs.size() > 2 ? in(node, 2).side.get() : nullptr;
    return linear(node, a, *b.side, bias, node.attrs.i(Attr::trans_b) != 0);
  }
  if (constant && (a.kind == Kind::grid || a.kind == Kind::function)) return linear(node, a, *b.side, nullptr, false);
  if (constant && a.kind == Kind::routed) {
    TRY(const ValueId sum, routed_rows(a));
    const auto axis = std::ssize(a.dims) - 2;
    return linear(node, made(sum, a.dims, axis, Grid{.dims = {1}, .parts = {}}), *b.side, nullptr, false);
  }
  if (a.kind == Kind::probs) return attended(node, a, b);
  if (is_rows(a) && is_rows(b)) return scores(node, a, b);
  return unsupported("a product of something else than activations, weights and a cache");
}

}  // namespace knapsack::recognition
