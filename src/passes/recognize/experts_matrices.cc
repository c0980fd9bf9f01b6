// The matrices of a mixture's experts, however they were multiplied with: each by itself, all at once, or those that
// were chosen. Not for who is chosen: router.cc.
#include <fmt/format.h>

#include <algorithm>

#include "passes/recognize/rules.h"

namespace knapsack::recognition {
namespace {

// Experts' matrices as one [experts, rows, columns], each where it lies.
std::shared_ptr<const Weight> stacked(const std::vector<std::shared_ptr<const Weight>>& experts) {
  const Weight& first = *experts[0];
  Weight all{.name = first.name + ".*", .dtype = first.dtype};
  // "experts.0.up_proj" as "experts.*.up_proj".
  if (const auto number = first.name.find(".0.", first.name.find("experts")); number != std::string::npos)
    all.name = fmt::format("{}.*.{}", first.name.substr(0, number), first.name.substr(number + 3));
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

// x times the matrices of the experts that each token chose: [tokens, top_k, 1, made].
Result<Form> Rules::multiplied(const Node& node, const Form& x, const Form& matrices) {
  const auto& dims = out(node).dims;
  const std::int64_t width = matrices.dims[2];
  const std::int64_t made_width = matrices.dims[3];
  const std::int64_t top_k = matrices.choice.top_k;
  if (x.kind != Kind::grid || dims != std::vector{inputs_.tokens, top_k, std::int64_t{1}, made_width})
    return unsupported("matrices of chosen experts times something else than each token's row");
  const Grid grid = x.grid->seen_along(0);
  if (!grid.plain() || grid.axis != 0 || grid.along != Along::step || grid.dims.size() != 4 || grid.last() != width ||
      (grid.elements() != width && grid.elements() != top_k * width))
    return unsupported("matrices of chosen experts times something else than each token's row");
  TRY(const ValueId rows, builder_.rows(grid, 1));
  const ValueId weight = builder_.stand_in(matrices.side, matrices.choice);
  ValueId base = -1;
  if (grid.elements() == width) {
    base = builder_.node(Op::linear, {rows, weight});
  } else {
    base = builder_.node(Op::head_linear, {rows, weight},
                         Attrs{}
                             .set(Attr::heads, top_k)
                             .set(Attr::in_stride, width)
                             .set(Attr::in_offset, 0)
                             .set(Attr::head_rows, made_width)
                             .set(Attr::row_offset, 0)
                             .set(Attr::rows, made_width)
                             .set(Attr::transposed, 0));
  }
  Form form = made(base, dims, 0, grid);
  form.factor = x.factor;
  return form;
}

// Each token's experts' matrices, [tokens, top_k, ..], and what is made with them. Nothing: it is something else.
std::optional<Result<Rules::Forms>> Rules::chosen_matrices(const Node& node) {
  const auto one = [](Result<Form> form) -> Result<Forms> {
    if (!form) return form.error();
    return Forms{std::move(*form)};
  };
  const auto no = [](const char* why) { return Result<Forms>(unsupported("{}", why)); };
  const Form& x = in(node, 0);
  if (node.op == Op::Gather && (x.kind == Kind::side || x.kind == Kind::matrix) &&
      in(node, 1).kind == Kind::chosen_ids) {
    const Form& ids = in(node, 1);
    const Choice& c = ids.choice;
    if (node.attrs.i(Attr::axis) != 0 || x.side->dims.size() != 3 || x.side->dims[0] != c.experts ||
        ids.dims != std::vector{inputs_.tokens, c.top_k})
      return no("a router's choice of something else than matrices of experts");
    Form made = become(ids, Kind::chosen_matrices, out(node).dims);
    made.side = x.side;
    return one(std::move(made));
  }
  if (x.kind == Kind::chosen_matrices) {
    if (node.op == Op::Identity || (node.op == Op::Cast && is_float(static_cast<DType>(node.attrs.i(Attr::to)))))
      return one(x);
    const auto perm = node.attrs.list(Attr::perm);
    if (node.op != Op::Transpose || std::vector(perm.begin(), perm.end()) != std::vector<std::int64_t>{0, 1, 3, 2})
      return no("matrices of chosen experts, moved about");
    Form made = become(x, x.kind, out(node).dims);
    Value seen = *x.side;
    seen.transposed = !seen.transposed;
    std::swap(seen.dims[1], seen.dims[2]);
    made.side = std::make_shared<const Value>(std::move(seen));
    return one(std::move(made));
  }
  if (node.op == Op::MatMul && in(node, 1).kind == Kind::chosen_matrices) return one(multiplied(node, x, in(node, 1)));
  if (node.op != Op::Mul) return std::nullopt;
  for (const std::size_t i : {0UL, 1UL}) {
    const Form& weights = in(node, i);
    const Form& made = in(node, 1 - i);
    if (weights.kind != Kind::chosen || made.kind != Kind::grid) continue;
    const std::vector<std::int64_t> each{inputs_.tokens, weights.choice.top_k, 1, 1};
    if (weights.dims != each || weights.choice.raw || made.factor != 1 || made.grid->dims != out(node).dims ||
        made.grid->axis != 0 || made.grid->along != Along::step)
      return no("weights of chosen experts for something else than what these make");
    Form form = become(weights, Kind::shared_out, out(node).dims);
    form.choice.flat = false;
    form.grid = made.grid;
    form.expert = 1;
    return one(std::move(form));
  }
  return std::nullopt;
}

// The matrices of experts that were multiplied with at once, as [experts, N, K].
Result<Rules::Experts> Rules::at_once(const Form& form) {
  const auto& columns = form.grid->parts[0].columns;
  const Node* down = builder_.maker(columns[0].base);
  const Builder::StandIn* chosen = down == nullptr ? nullptr : builder_.stand_in(down->inputs[1]);
  const std::int64_t count = chosen != nullptr ? form.choice.top_k : form.choice.experts;
  if (!form.grid->plain() || columns != columns_of(columns[0].base, std::ssize(columns)) || down == nullptr ||
      down->op != Op::head_linear || down->attrs.i(Attr::heads) != count || down->attrs.i(Attr::in_offset) != 0)
    return unsupported("experts whose results are no product of their own");
  const Node* middle = builder_.maker(down->inputs[0]);
  if (middle == nullptr || middle->op != Op::gated_act) return unsupported("experts that are no gated MLPs");
  Experts made{.act = middle->attrs.i(Attr::act)};
  const auto stack = [&](const Weight& w) {
    const std::int64_t experts = form.choice.experts;
    Weight stacked = w;
    stacked.shape = {experts, w.shape[0] / experts, w.shape[1]};
    return std::make_shared<const Weight>(std::move(stacked));
  };
  // [experts, K, N] as [experts, N, K].
  const auto of_all = [&](const Builder::StandIn& all) { return stack(*builder_.flat(*all.all)); };
  for (const std::size_t i : {0UL, 1UL}) {
    const Node* part = builder_.maker(middle->inputs[i]);
    if (part == nullptr || part->op != Op::linear || part->inputs.size() != 2)
      return unsupported("experts that are no gated MLPs");
    if (i == 1 && part->inputs[0] != made.x) return unsupported("gates and ups of different rows");
    made.x = part->inputs[0];
    const Builder::StandIn* of_part = builder_.stand_in(part->inputs[1]);
    if ((of_part == nullptr) != (chosen == nullptr) ||
        (of_part != nullptr && !of_part->choice.same_experts(form.choice)))
      return unsupported("gates and ups of other experts than the weights are for");
    (i == 0 ? made.gate : made.up) =
        of_part != nullptr ? of_all(*of_part) : stack(*builder_.graph().value(part->inputs[1]).weight);
  }
  if (chosen != nullptr) {
    if (!chosen->choice.same_experts(form.choice))
      return unsupported("results of other experts than the weights are for");
    made.down = of_all(*chosen);
    return made;
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
  std::vector<ValueId> inputs{c.logits};
  if (c.correction >= 0) inputs.push_back(c.correction);
  const auto chosen = builder_.nodes(Op::router, std::move(inputs),
                                     Attrs{}
                                         .set(Attr::experts, c.experts)
                                         .set(Attr::top_k, c.top_k)
                                         .set(Attr::score, c.sigmoid ? 1 : 0)
                                         .set(Attr::norm_topk, c.normalized ? 1 : 0)
                                         .set(Attr::scale, c.scale)
                                         .set(Attr::groups, c.groups)
                                         .set(Attr::top_groups, c.top_groups)
                                         .set(Attr::group_score, c.best_two ? 1 : 0));
  return builder_.node(Op::moe,
                       {experts.x, chosen[0], chosen[1], builder_.constant(experts.gate), builder_.constant(experts.up),
                        builder_.constant(experts.down)},
                       Attrs{}.set(Attr::act, experts.act).set(Attr::top_k, c.top_k));
}

}  // namespace knapsack::recognition
