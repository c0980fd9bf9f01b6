// Sums, products and functions of activations, element by element; norms.
#include <algorithm>
#include <cmath>

#include "passes/recognize/rules.h"

namespace knapsack::recognition {
namespace {

// A vector along the last dimension.
bool is_vector(const Value& v, std::int64_t size) {
  return v.elements() == size && (v.dims.empty() || v.dims.back() == size);
}

}  // namespace

Result<Form> Rules::binary(const Node& node) {
  const Form& a = in(node, 0);
  const Form& b = in(node, 1);
  if (is_known(a)) return with_side(node, b, *a.side, true);
  if (is_known(b)) return with_side(node, a, *b.side, false);
  if (node.op == Op::Sub) {
    Form negative = b;
    if (b.kind == Kind::grid) {
      negative.factor = -b.factor;
      return plus(a, negative);
    }
  }
  if (node.op == Op::Add) return plus(a, b);
  if (node.op == Op::Mul) return times(a, b);
  // x / sqrt(mean): a product with what is one over it.
  if (node.op == Op::Div && b.kind == Kind::row_norm) {
    Form inverse = b;
    inverse.f = through(b.f, [](double x) { return 1 / x; });
    return times(a, inverse);
  }
  return unsupported("of two activations");
}

Result<Form> Rules::with_side(const Node& node, const Form& x, const Value& side, bool first) {
  const auto number = scalar_of(side);
  const auto combined = [&](const Samples& f) {
    Samples constant{};
    constant.fill(*number);
    return first ? combine(node.op, constant, f) : combine(node.op, f, constant);
  };
  switch (x.kind) {
    case Kind::scores:
      if (number && node.op != Op::Add && node.op != Op::Sub) {
        Form made = x;
        const auto f = combined(x.f);
        if (!f) return unsupported("of scores");
        made.f = *f;
        return made;
      }
      if (node.op == Op::Add) return masked(x, side, false);
      return unsupported("of scores");
    case Kind::row_norm:
    case Kind::function: {
      if (!number) return unsupported("a function of activations and a constant that is no single number");
      const auto f = combined(x.f);
      if (!f) return unsupported("of activations");
      Form made = x;
      made.f = *f;
      return made;
    }
    case Kind::grid:
      return grid_with_side(node, x, side);
    default:
      return unsupported("what it reads is no activation");
  }
}

Result<Form> Rules::grid_with_side(const Node& node, const Form& x, const Value& side) {
  const auto number = scalar_of(side);
  const bool on_the_left = in(node, 0).kind == Kind::side;
  if (number && (node.op == Op::Mul || (node.op == Op::Div && !on_the_left))) {
    Form made = x;
    made.factor = node.op == Op::Mul ? x.factor * *number : x.factor / *number;
    return made;
  }
  const Grid& grid = *x.grid;
  const std::int64_t last = grid.last();
  const bool whole = grid.plain() && std::abs(x.factor - 1) < 1e-12 &&
                     builder_.columns(grid.parts[0].columns[0].base) == grid.elements() &&
                     grid.parts[0].columns == columns_of(grid.parts[0].columns[0].base, grid.elements());
  const ValueId base = grid.parts[0].columns[0].base;
  const Node* maker = grid.along == Along::past || grid.along == Along::cache ? nullptr : builder_.maker(base);
  if (!number && is_vector(side, last) && whole && maker != nullptr && out(node).dims == grid.dims) {
    if (node.op == Op::Mul && maker->op == Op::rms_norm && maker->inputs.size() == 1 &&
        maker->attrs.i(Attr::width) == last) {
      const Node norm = *maker;
      TRY(const auto weight, builder_.vector(side));
      const ValueId made = builder_.node(Op::rms_norm, {norm.inputs[0], builder_.constant(weight)}, norm.attrs);
      return this->made(made, grid.dims, grid.axis, grid);
    }
    if (node.op == Op::Add && maker->op == Op::linear && maker->inputs.size() == 2 && last == grid.elements()) {
      const Node product = *maker;
      TRY(const auto bias, builder_.vector(side));
      const ValueId made = builder_.node(Op::linear, {product.inputs[0], product.inputs[1], builder_.constant(bias)});
      return this->made(made, grid.dims, grid.axis, grid);
    }
  }
  if (node.op == Op::Mul && !number && grid.along != Along::cache && grid.along != Along::past &&
      out(node).dims == grid.dims) {
    const auto coefficients = spread(side, grid);
    if (coefficients.empty()) return unsupported("a constant of another shape");
    Grid made = grid;
    for (Part& part : made.parts) {
      if (part.coefficients.empty()) part.coefficients.resize(coefficients.size(), 1.0F);
      for (std::size_t i = 0; i < coefficients.size(); ++i)
        part.coefficients[i] = static_cast<float>(part.coefficients[i] * coefficients[i] * x.factor);
    }
    return grid_form(std::move(made));
  }
  if (!number) return unsupported("with a constant that is no single number");
  return with_side(node, *as_function(x), side, on_the_left);
}

Result<Form> Rules::plus(const Form& a, const Form& b) {
  if (a.kind == Kind::routed && b.kind == Kind::routed) {
    Form sum = a;
    if (a.grid != nullptr || b.grid != nullptr) return unsupported("experts beside others");
    if (!(a.choice == b.choice)) return unsupported("experts that different routers chose");
    for (const auto& [expert, y] : b.experts)
      if (!sum.experts.emplace(expert, y).second) return unsupported("expert {} is added twice", expert);
    return sum;
  }
  const auto functions = [&] { return a.kind == Kind::function || b.kind == Kind::function; };
  if (functions()) {
    const auto f = as_function(a);
    const auto g = as_function(b);
    if (f && g && f->grid->same(*g->grid)) {
      Form made = *f;
      made.f = *combine(Op::Add, f->f, g->f);
      return made;
    }
  }
  if (a.kind == Kind::grid && b.kind == Kind::grid && (!a.grid->plain() || !b.grid->plain())) {
    const Grid& x = *a.grid;
    const Grid& y = *b.grid;
    if (x.dims != y.dims || x.axis != y.axis || x.along != y.along || x.along == Along::cache)
      return unsupported("a sum of different shapes");
    Grid sum = x;
    sum.parts.clear();
    for (const auto* f : {&a, &b}) {
      for (Part part : f->grid->parts) {
        if (part.coefficients.empty())
          part.coefficients.resize(part.columns.size() * static_cast<std::size_t>(x.length()), 1.0F);
        for (float& c : part.coefficients) c = static_cast<float>(c * f->factor);
        sum.parts.push_back(std::move(part));
      }
    }
    if (sum.parts.size() > 4) return unsupported("a sum of too many terms");
    return grid_form(std::move(sum));
  }
  const auto dims_of = [](const Form& f) {
    return f.kind == Kind::routed || f.grid == nullptr ? f.dims : f.grid->dims;
  };
  const Form& like = a.kind == Kind::routed ? b : a;
  if (like.kind != Kind::grid && like.kind != Kind::function && like.kind != Kind::routed)
    return unsupported("what it reads is no activation");
  if (dims_of(a) != dims_of(b)) return unsupported("a sum of different shapes");
  TRY(const ValueId x, rows(a));
  TRY(const ValueId y, rows(b));
  if (like.kind == Kind::routed) return unsupported("of two routers");
  return made(builder_.node(Op::add, {x, y}), like.grid->dims, like.grid->axis, *like.grid);
}

Result<Form> Rules::times(const Form& a, const Form& b) {
  if (a.kind == Kind::row_norm && b.kind != Kind::row_norm) return times(b, a);
  const auto f = as_function(a);
  if (!f) return unsupported("what it reads is no activation");
  if (b.kind == Kind::row_norm) {
    const auto root = as_inverse_root(b.f);
    if (!root) return unsupported("a function of the mean square that is no norm");
    const auto factor = as_factor(f->f);
    if (!factor || !f->grid->same(*b.grid)) return unsupported("a norm of something else");
    // The scale of what is normed moves into it; epsilon is told for the unscaled.
    TRY(const ValueId x, builder_.rows(*f->grid, neat(std::abs(*factor))));
    const double scale = root->factor * *factor;
    const ValueId normed = builder_.node(Op::rms_norm, {x},
                                         Attrs{}
                                             .set(Attr::eps, neat(root->eps * *factor * *factor))
                                             .set(Attr::offset, 0.0)
                                             .set(Attr::width, f->grid->last()));
    Form form = made(normed, f->grid->dims, f->grid->axis, *f->grid);
    if (std::abs(scale - 1) > 1e-6) form.factor = scale;
    return form;
  }
  const auto g = as_function(b);
  if (!g) return unsupported("what it reads is no activation");
  if (f->grid->same(*g->grid)) {
    Form made = *f;
    made.f = *combine(Op::Mul, f->f, g->f);
    return made;
  }
  // act(gate) * up, or one of them times a sigmoid for the whole row.
  for (const auto& [gate, up] : {std::pair(&*f, &*g), std::pair(&*g, &*f)}) {
    const auto factor = as_factor(up->f);
    if (!factor) continue;
    const auto act = as_activation(gate->f);
    if (act && gate->grid->dims == up->grid->dims) {
      TRY(const ValueId x, builder_.rows(*gate->grid, 1));
      TRY(const ValueId y, builder_.rows(*up->grid, neat(*factor)));
      return made(builder_.node(Op::gated_act, {x, y}, Attrs{}.set(Attr::act, *act)), up->grid->dims, up->grid->axis,
                  *up->grid);
    }
    if (gate->grid->last() == 1 && gate->grid->elements() == 1 && is_sigmoid(gate->f)) {
      TRY(const ValueId x, builder_.rows(*up->grid, neat(*factor)));
      TRY(const ValueId y, builder_.rows(*gate->grid, 1));
      return made(builder_.node(Op::sigmoid_scale, {x, y}), up->grid->dims, up->grid->axis, *up->grid);
    }
  }
  return unsupported("a product of two activations that no op has");
}

Result<Form> Rules::unary(const Node& node) {
  const Form& x = in(node, 0);
  if (node.op == Op::Neg && x.kind == Kind::grid) {
    Form made = x;
    made.factor = -x.factor;
    return made;
  }
  Form made = x;
  if (x.kind == Kind::grid) {
    made = *as_function(x);
  } else if (x.kind != Kind::function && x.kind != Kind::row_norm && x.kind != Kind::scores) {
    return unsupported("no rule for it here");
  }
  const auto f = map(node.op, node.attrs, made.f);
  if (!f) return unsupported("no rule for it");
  made.f = *f;
  return made;
}

Result<Form> Rules::reduced(const Node& node) {
  const Form& x = in(node, 0);
  const auto axes = node.attrs.list(Attr::axes);
  if (x.kind != Kind::function || axes.size() != 1 || axes[0] != std::ssize(x.grid->dims) - 1 ||
      node.attrs.i(Attr::keepdims) == 0 || axes[0] == x.grid->axis)
    return unsupported("a mean of something else than squares along the last dimension");
  // Squares, of x times a factor perhaps.
  const double factor = std::sqrt(x.f[0]) / std::abs(activation_points()[0]);
  if (!(factor > 0) || !is_square(through(x.f, [&](double v) { return v / (factor * factor); })))
    return unsupported("a mean of something else than squares");
  const double times = node.op == Op::ReduceSum ? static_cast<double>(x.grid->last()) : 1.0;
  Form made{.kind = Kind::row_norm, .grid = x.grid};
  made.f = through(square_points(), [&](double m) { return m * factor * factor * times; });
  return made;
}

}  // namespace knapsack::recognition
