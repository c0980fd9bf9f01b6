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

bool of_choice(Kind kind) { return kind >= Kind::expert_logits_softmax; }

bool is_hit(Kind kind) {
  return kind == Kind::hit_tokens || kind == Kind::hit_places || kind == Kind::hit_flat || kind == Kind::hit_weight;
}

Form become(const Form& form, Kind kind, std::vector<std::int64_t> dims) {
  Form made = form;
  made.kind = kind;
  made.dims = std::move(dims);
  return made;
}

// Experts' matrices as one [experts, rows, columns], each where it lies.
std::shared_ptr<const Weight> stacked(const std::vector<std::shared_ptr<const Weight>>& experts) {
  const Weight& first = *experts[0];
  Weight all{.name = first.name + ".*", .dtype = first.dtype};
  all.shape = {std::ssize(experts), first.shape[0], first.shape[1]};
  for (const auto& each : experts) {
    if (each->slabs.empty()) continue;
    all.slabs.push_back(each->slabs[0]);
    all.owners.insert(all.owners.end(), each->owners.begin(), each->owners.end());
  }
  if (all.slabs.size() != experts.size()) all.slabs.clear();
  return std::make_shared<const Weight>(std::move(all));
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
  // A router's logits, and the choice among them.
  if ((node.op == Op::Softmax || node.op == Op::TopK) && x.kind == Kind::grid && x.grid->along == Along::step &&
      x.grid->elements() == x.grid->last() && axis_is_last(x.grid->dims)) {
    const auto logits = rows(x);
    if (!logits) return Result<Forms>(logits.error());
    Form made{.kind = Kind::expert_logits_softmax, .dims = out(node).dims};
    made.choice = {.logits = *logits, .experts = x.grid->last()};
    if (node.op == Op::Softmax) return one(std::move(made));
    made.choice.raw = true;
    made.choice.top_k = node.attrs.i(Attr::k);
    return Result<Forms>(
        Forms{become(made, Kind::chosen, out(node).dims), become(made, Kind::chosen_ids, out(node, 1).dims)});
  }
  if (!any) return std::nullopt;
  if (node.op == Op::TopK && x.kind == Kind::expert_logits_softmax && axis_is_last(x.dims) &&
      node.attrs.i(Attr::largest) != 0) {
    Form made = x;
    made.choice.top_k = node.attrs.i(Attr::k);
    return Result<Forms>(
        Forms{become(made, Kind::chosen, out(node).dims), become(made, Kind::chosen_ids, out(node, 1).dims)});
  }
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
    return Result<Forms>(
        Forms{become(x, Kind::hit_tokens, out(node).dims), become(x, Kind::hit_places, out(node, 1).dims)});
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
        if (a->kind == Kind::chosen && b->kind == Kind::is_expert && !a->choice.raw) {
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
          auto sum = plus(*a, *b);
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
          node.attrs.i(Attr::axis) == 0) {
        Form made = become(x, Kind::hit_weight, out(node).dims);
        made.choice.flat = false;
        made.expert = y.expert;
        return one(std::move(made));
      }
      break;
    case Op::ScatterElements:
    case Op::ScatterND:
      if (node.op == Op::ScatterElements && number(x) == 0.0 && y.kind == Kind::chosen_ids &&
          in(node, 2).kind == Kind::chosen && in(node, 2).choice.logits == y.choice.logits && !in(node, 2).choice.raw &&
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

// The matrices of experts that were multiplied with at once, as [experts, N, K].
Result<Rules::Experts> Rules::at_once(const Form& form) {
  const std::int64_t count = form.choice.experts;
  const auto& columns = form.grid->parts[0].columns;
  const Node* down = builder_.maker(columns[0].base);
  if (!form.grid->plain() || columns != columns_of(columns[0].base, std::ssize(columns)) || down == nullptr ||
      down->op != Op::head_linear || down->attrs.i(Attr::heads) != count || down->attrs.i(Attr::in_offset) != 0)
    return unsupported("experts whose results are no product of their own");
  const Node* middle = builder_.maker(down->inputs[0]);
  if (middle == nullptr || middle->op != Op::gated_act) return unsupported("experts that are no gated MLPs");
  Experts made{.act = middle->attrs.i(Attr::act)};
  const auto stack = [&](const Weight& w) {
    Weight stacked = w;
    stacked.shape = {count, w.shape[0] / count, w.shape[1]};
    return std::make_shared<const Weight>(std::move(stacked));
  };
  for (const std::size_t i : {0UL, 1UL}) {
    const Node* part = builder_.maker(middle->inputs[i]);
    if (part == nullptr || part->op != Op::linear || part->inputs.size() != 2)
      return unsupported("experts that are no gated MLPs");
    if (i == 1 && part->inputs[0] != made.x) return unsupported("gates and ups of different rows");
    made.x = part->inputs[0];
    (i == 0 ? made.gate : made.up) = stack(*builder_.graph().value(part->inputs[1]).weight);
  }
  const auto stored = stack(*builder_.graph().value(down->inputs[1]).weight);
  made.down = stored;
  if (down->attrs.i(Attr::transposed) != 0) {  // [experts, K, N]
    Value seen{.name = stored->name, .kind = ValueKind::constant, .dtype = stored->dtype, .dims = stored->shape};
    seen.weight = stored;
    made.down = stack(*builder_.flat(seen));
  }
  return made;
}

// Those that were multiplied with one by one.
Result<Rules::Experts> Rules::one_by_one(const Form& form) {
  const Choice& c = form.choice;
  if (std::ssize(form.experts) != c.experts || form.experts.begin()->first != 0)
    return unsupported("a sum of {} experts of {}", form.experts.size(), c.experts);
  std::vector<std::shared_ptr<const Weight>> gates;
  std::vector<std::shared_ptr<const Weight>> ups;
  std::vector<std::shared_ptr<const Weight>> downs;
  Experts made;
  const auto weight_of = [&](const Node& node) { return builder_.graph().value(node.inputs[1]).weight; };
  for (const auto& [expert, y] : form.experts) {
    const Node* down = builder_.maker(y);
    const bool product = down != nullptr && down->op == Op::linear && down->inputs.size() == 2;
    const Node* middle = product ? builder_.maker(down->inputs[0]) : nullptr;
    if (middle == nullptr || middle->op != Op::gated_act) return unsupported("expert {} is no gated MLP", expert);
    const Node* gate = builder_.maker(middle->inputs[0]);
    const Node* up = builder_.maker(middle->inputs[1]);
    for (const Node* each : {gate, up})
      if (each == nullptr || each->op != Op::linear || each->inputs.size() != 2)
        return unsupported("expert {} is no gated MLP", expert);
    if (made.x < 0) made.x = gate->inputs[0];
    if (made.act < 0) made.act = middle->attrs.i(Attr::act);
    if (gate->inputs[0] != made.x || up->inputs[0] != made.x || middle->attrs.i(Attr::act) != made.act)
      return unsupported("expert {} is not as the others are", expert);
    gates.push_back(weight_of(*gate));
    ups.push_back(weight_of(*up));
    downs.push_back(weight_of(*down));
  }
  for (const auto* list : {&gates, &ups, &downs})
    for (const auto& each : *list)
      if (each->shape != list->front()->shape || each->dtype != list->front()->dtype)
        return unsupported("experts of different shapes");
  made.gate = stacked(gates);
  made.up = stacked(ups);
  made.down = stacked(downs);
  return made;
}

Result<ValueId> Rules::routed_rows(const Form& form) {
  const Choice& c = form.choice;
  if (form.expert >= 0 || c.raw) return unsupported("a sum of experts that is not whole");
  TRY(const Experts experts, form.grid != nullptr ? at_once(form) : one_by_one(form));
  const auto chosen = builder_.nodes(Op::router, {c.logits},
                                     Attrs{}
                                         .set(Attr::experts, c.experts)
                                         .set(Attr::top_k, c.top_k)
                                         .set(Attr::score, 0)
                                         .set(Attr::norm_topk, c.normalized ? 1 : 0)
                                         .set(Attr::scale, c.scale)
                                         .set(Attr::groups, 1)
                                         .set(Attr::top_groups, 1)
                                         .set(Attr::group_score, 0));
  return builder_.node(Op::moe,
                       {experts.x, chosen[0], chosen[1], builder_.constant(experts.gate), builder_.constant(experts.up),
                        builder_.constant(experts.down)},
                       Attrs{}.set(Attr::act, experts.act).set(Attr::top_k, c.top_k));
}

}  // namespace knapsack::recognition
