// Mixtures of experts: a router's choice, what of it is each expert's, and the sum of what they make. Exporters write
// each expert for itself, on all rows (its weight is 0 where it was not chosen) or on the rows that chose it.
#include <algorithm>
#include <cmath>

#include "passes/recognize/rules.h"

namespace knapsack::recognition {
namespace {

bool passes(Op op) {
  return op == Op::Cast || op == Op::Identity || op == Op::Reshape || op == Op::Unsqueeze || op == Op::Squeeze ||
         op == Op::Expand;
}

bool of_choice(Kind kind) { return kind >= Kind::router_scores; }

bool is_hit(Kind kind) {
  return kind == Kind::hit_tokens || kind == Kind::hit_places || kind == Kind::hit_flat || kind == Kind::hit_weight;
}

}  // namespace

// y times the weight that its expert has for each row.
std::optional<Result<Form>> Rules::routed_product(const Node& node) {
  for (const int i : {0, 1}) {
    const Form& y = in(node, static_cast<std::size_t>(i));
    const Form& weight = in(node, static_cast<std::size_t>(1 - i));
    const bool on_all = weight.kind == Kind::expert_weight;
    const bool on_hits = weight.kind == Kind::hit_weight;
    if (!on_all && !on_hits) continue;
    if (y.kind != Kind::grid || y.grid->along != (on_all ? Along::step : Along::hits) ||
        (on_hits && y.grid->expert != weight.expert))
      return Result<Form>(unsupported("weights of an expert for something else than its rows"));
    const auto made = rows(y);
    if (!made) return Result<Form>(made.error());
    Form form = become(weight, Kind::routed, out(node).dims);
    form.experts = {{weight.expert, *made}};
    form.expert = on_hits ? weight.expert : -1;
    return Result<Form>(std::move(form));
  }
  return std::nullopt;
}

// One-hot ids, moved about until an expert's are found in them. Nothing: it is something else.
std::optional<Result<Rules::Forms>> Rules::one_hot(const Node& node) {
  const Form& x = in(node, 0);
  const auto one = [](Result<Form> form) -> Result<Forms> {
    if (!form) return form.error();
    return Forms{std::move(*form)};
  };
  if (node.op == Op::OneHot && x.kind == Kind::chosen_ids) {
    if (node.attrs.i(Attr::depth) != x.choice.experts || x.dims.size() != 2)
      return Result<Forms>(unsupported("one-hot ids of other experts"));
    Form made = become(x, Kind::one_hot, out(node).dims);
    made.side = places_of(made.dims);
    return one(std::move(made));
  }
  if (x.kind != Kind::one_hot) return std::nullopt;
  if (node.op != Op::NonZero)
    return places_only(node.op) ? one(placed(node, x)) : Result<Forms>(unsupported("of a router's choice"));
  const auto places = numbers_of(*x.side);
  const auto experts = static_cast<std::size_t>(x.choice.experts);
  const std::int64_t tokens = inputs_.tokens;
  const std::int64_t top_k = x.choice.top_k;
  const auto no = [] { return Result<Forms>(unsupported("it finds something else than the rows of one expert")); };
  if (x.dims.size() != 2 || std::ssize(places) != tokens * top_k) return no();
  Form hits = become(x, Kind::hits, out(node).dims);
  hits.turned = x.dims[0] == top_k &&
                (top_k != tokens || (places.size() > 1 && places[1] >= places[0] + static_cast<double>(experts) *
                                                                                       static_cast<double>(top_k)));
  hits.expert = static_cast<int>(static_cast<std::size_t>(places[0]) % experts);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t k = 0; k < top_k; ++k) {
      const auto place =
          static_cast<std::size_t>(places[static_cast<std::size_t>(hits.turned ? k * tokens + t : t * top_k + k)]);
      if (place != static_cast<std::size_t>(t * top_k + k) * experts + static_cast<std::size_t>(hits.expert))
        return no();
    }
  return one(std::move(hits));
}

// Nothing: it has to do with no router.
std::optional<Result<Rules::Forms>> Rules::routing(const Node& node) {
  const auto one = [](Form form) { return Result<Forms>(Forms{std::move(form)}); };
  const auto no = [](std::string_view why) { return Result<Forms>(unsupported("{}", why)); };
  const Form& x = in(node, 0);
  const bool any =
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return of_choice(form(id).kind); });
  const auto axis_is_last = [&](const std::vector<std::int64_t>& dims) {
    return node.attrs.i(Attr::axis) == std::ssize(dims) - 1;
  };
  if (auto chosen = choosing(node)) return chosen;
  if (!any) return std::nullopt;
  if (auto gathered = chosen_matrices(node)) return gathered;
  if (auto hot = one_hot(node)) return hot;
  if (node.op == Op::Softmax && x.kind == Kind::chosen && x.choice.raw && axis_is_last(x.dims)) {
    Form made = x;
    made.choice.raw = false;
    made.choice.normalized = true;
    return one(std::move(made));
  }
  if (passes(node.op) && node.op != Op::Expand) {
    Form made = become(x, x.kind, out(node).dims);
    const bool all = x.kind == Kind::shares || x.kind == Kind::shared_out;
    if (all && node.op == Op::Unsqueeze) {
      const auto axes = node.attrs.list(Attr::axes);
      int old = 0;
      for (int i = 0; i < static_cast<int>(made.dims.size()); ++i)
        if (std::find(axes.begin(), axes.end(), i) == axes.end() && old++ == x.expert) made.expert = i;
    } else if (all && node.op != Op::Cast && node.op != Op::Identity) {
      // The dimension as long as there are experts, if it is one alone.
      const auto& dims = made.dims;
      if (std::count(dims.begin(), dims.end(), x.choice.experts) != 1) return no("experts beside something as many");
      made.expert = static_cast<int>(std::find(dims.begin(), dims.end(), x.choice.experts) - dims.begin());
    }
    if (x.kind == Kind::chosen && node.op != Op::Cast)
      made.choice.flat = out(node).dims[0] == inputs_.tokens * x.choice.top_k;
    return one(std::move(made));
  }
  if (node.op == Op::Expand && (is_hit(x.kind) || x.kind == Kind::routed))
    return one(become(x, x.kind, out(node).dims));
  if (node.op == Op::ReduceSum && (x.kind == Kind::chosen || x.kind == Kind::expert_weight_all)) {
    const auto axes = node.attrs.list(Attr::axes);
    if (axes.size() != 1 || axes[0] != std::ssize(x.dims) - 1 || x.choice.raw || x.choice.flat)
      return no("a sum over something else than the chosen");
    return one(become(x, x.kind == Kind::chosen ? Kind::chosen_sum : Kind::expert_weight, out(node).dims));
  }
  if (node.op == Op::NonZero && x.kind == Kind::is_expert) return one(become(x, Kind::hits, out(node).dims));
  if (node.op == Op::Transpose && x.kind == Kind::hits) return one(become(x, Kind::hits, out(node).dims));
  if (node.op == Op::Split && x.kind == Kind::hits && node.outputs.size() == 2)
    return Result<Forms>(Forms{become(x, x.turned ? Kind::hit_places : Kind::hit_tokens, out(node).dims),
                               become(x, x.turned ? Kind::hit_tokens : Kind::hit_places, out(node, 1).dims)});
  // All experts at once, [experts, tokens, hidden].
  if (node.op == Op::Transpose && x.kind == Kind::shares) {
    const auto perm = node.attrs.list(Attr::perm);
    Form made = become(x, x.kind, out(node).dims);
    made.expert = static_cast<int>(std::find(perm.begin(), perm.end(), x.expert) - perm.begin());
    return one(std::move(made));
  }
  if (node.op == Op::ReduceSum && x.kind == Kind::shared_out) {
    const auto axes = node.attrs.list(Attr::axes);
    if (axes.size() != 1 || axes[0] != x.expert) return no("a sum over something else than the experts");
    Form made = become(x, Kind::routed, out(node).dims);
    made.expert = -1;
    return one(std::move(made));
  }
  if (node.inputs.size() < 2) return no("of a router's choice");
  const Form& y = in(node, 1);
  const auto number = [&](const Form& f) { return f.kind == Kind::side ? scalar_of(*f.side) : std::nullopt; };
  switch (node.op) {
    case Op::Div:
      if (x.kind == Kind::chosen && y.kind == Kind::chosen_sum && x.choice == y.choice) {
        Form made = x;
        made.choice.normalized = true;
        made.choice.scale = 1;
        return one(std::move(made));
      }
      break;
    case Op::Equal:
      if (x.kind == Kind::chosen_ids && number(y)) {
        Form made = become(x, Kind::is_expert, out(node).dims);
        made.expert = static_cast<int>(*number(y));
        return one(std::move(made));
      }
      break;
    case Op::Mul: {
      if (auto product = routed_product(node)) {
        if (!*product) return Result<Forms>(product->error());
        return one(std::move(**product));
      }
      for (const auto& [a, b] : {std::pair(&x, &y), std::pair(&y, &x)}) {
        if (a->kind == Kind::shares && b->kind == Kind::grid) {
          const auto& dims = b->grid->dims;
          const auto at = static_cast<std::size_t>(a->expert);
          // [experts, tokens, hidden] times [experts, tokens, 1].
          if (a->dims.size() != dims.size() || at != 0 || dims[0] != a->choice.experts || a->dims.back() != 1 ||
              b->factor != 1)
            return no("weights of experts for something else than what they make");
          Form made = become(*a, Kind::shared_out, out(node).dims);
          made.grid = b->grid;
          return one(std::move(made));
        }
        if (a->kind == Kind::chosen && b->kind == Kind::is_expert && !a->choice.raw &&
            a->choice.same_experts(b->choice)) {
          Form made = become(*a, Kind::expert_weight_all, out(node).dims);
          made.expert = b->expert;
          return one(std::move(made));
        }
        if (a->kind == Kind::chosen && number(*b) && !a->choice.raw) {
          Form made = *a;
          made.choice.scale *= *number(*b);
          return one(std::move(made));
        }
        if (a->kind == Kind::hit_tokens && number(*b) == static_cast<double>(a->choice.top_k)) {
          Form made = become(*a, Kind::hit_flat, out(node).dims);
          made.choice.flat = true;  // the place is still to be added
          return one(std::move(made));
        }
      }
      break;
    }
    case Op::Add:
      for (const auto& [a, b] : {std::pair(&x, &y), std::pair(&y, &x)}) {
        if (a->kind == Kind::hit_flat && a->choice.flat && b->kind == Kind::hit_places && a->expert == b->expert) {
          Form made = *a;
          made.choice.flat = false;
          return one(std::move(made));
        }
        if (a->kind == Kind::routed && b->kind == Kind::side && number(*b) == 0.0)
          return one(become(*a, a->kind, out(node).dims));
        if (a->kind == Kind::chosen_sum && number(*b) && std::abs(*number(*b)) < 1e-9) return one(*a);
        if (a->kind == Kind::routed && a->expert < 0 &&
            (b->kind == Kind::grid || b->kind == Kind::function || (b->kind == Kind::routed && b->expert < 0))) {
          auto sum = plus(x, y);
          if (!sum) return Result<Forms>(sum.error());
          if (sum->kind == Kind::routed) sum->dims = out(node).dims;
          return one(std::move(*sum));
        }
      }
      break;
    case Op::Gather:
      if (x.kind == Kind::grid && y.kind == Kind::hit_tokens && x.grid->along == Along::step &&
          node.attrs.i(Attr::axis) == x.grid->axis) {
        Grid grid = *x.grid;
        grid.dims = out(node).dims;
        grid.along = Along::hits;
        grid.expert = y.expert;
        if (!grid.plain() || y.dims.size() != 1) break;
        Form made = x;
        made.grid = std::make_shared<const Grid>(std::move(grid));
        return one(std::move(made));
      }
      if (x.kind == Kind::chosen && x.choice.flat && y.kind == Kind::hit_flat && !y.choice.flat &&
          x.choice.same_experts(y.choice) && node.attrs.i(Attr::axis) == 0) {
        Form made = become(x, Kind::hit_weight, out(node).dims);
        made.choice.flat = false;
        made.expert = y.expert;
        return one(std::move(made));
      }
      break;
    case Op::ScatterElements:
    case Op::ScatterND:
      if (node.op == Op::ScatterElements && number(x) == 0.0 && y.kind == Kind::chosen_ids &&
          in(node, 2).kind == Kind::chosen && in(node, 2).choice.same_experts(y.choice) && !in(node, 2).choice.raw &&
          node.attrs.i(Attr::axis) == std::ssize(y.dims) - 1) {
        Form made = become(in(node, 2), Kind::shares, out(node).dims);
        made.expert = static_cast<int>(node.attrs.i(Attr::axis));
        return one(std::move(made));
      }
      if (node.inputs.size() == 3 && y.kind == Kind::hit_tokens && in(node, 2).kind == Kind::routed &&
          in(node, 2).expert == y.expert && node.attrs.i(Attr::axis) == 0) {
        Form made = become(in(node, 2), Kind::routed, out(node).dims);
        made.expert = -1;
        const std::int64_t how = node.attrs.i(Attr::reduction);
        if (number(x) == 0.0 && how <= 1) return one(std::move(made));
        // Added to the experts before.
        if (x.kind == Kind::routed && x.expert < 0 && how == 1) {
          auto sum = plus(x, made);
          if (!sum) return Result<Forms>(sum.error());
          sum->dims = out(node).dims;
          return one(std::move(*sum));
        }
      }
      break;
    case Op::MatMul:
    case Op::Gemm:
      if (x.kind == Kind::routed) return std::nullopt;
      break;
    default:
      break;
  }
  return no("of a router's choice");
}

}  // namespace knapsack::recognition
