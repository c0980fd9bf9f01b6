// A router's choice: scores (softmax or sigmoid of its logits), corrected for choosing alone, limited to the best
// groups; the experts chosen by it, and their weights. Not for what the experts make: experts.cc.
#include <algorithm>
#include <cmath>

#include "graph/evaluate.h"
#include "passes/recognize/rules.h"

namespace knapsack::recognition {
namespace {

using Dims = std::vector<std::int64_t>;

bool axis_is_last(const Node& node, const Dims& dims) { return node.attrs.i(Attr::axis) == std::ssize(dims) - 1; }

bool sums_last(const Node& node, const Dims& dims) {
  const auto axes = node.attrs.list(Attr::axes);
  return axes.size() == 1 && axes[0] == std::ssize(dims) - 1;
}

std::optional<double> number(const Form& f) { return is_known(f) ? scalar_of(*f.side) : std::nullopt; }

bool is_scores(const Form& f) { return f.kind == Kind::router_scores || f.kind == Kind::router_choice; }

}  // namespace

bool places_only(Op op) {
  return op == Op::Cast || op == Op::Identity || op == Op::Reshape || op == Op::Unsqueeze || op == Op::Squeeze ||
         op == Op::Expand || op == Op::Transpose || op == Op::Gather || op == Op::Slice || op == Op::Tile;
}

Form become(const Form& form, Kind kind, Dims dims) {
  Form made = form;
  made.kind = kind;
  made.dims = std::move(dims);
  return made;
}

// A value that carries where each of its elements is from, as numbers: `count` of them in a row.
std::shared_ptr<const Value> places_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  return side_value("places", DType::I32, dims, numbers);
}

Result<Form> Rules::placed(const Node& node, const Form& x) {
  Form made = become(x, x.kind, out(node).dims);
  if (node.op == Op::Cast || node.op == Op::Identity) return made;
  std::vector<const Value*> operands{x.side.get()};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (!is_known(in(node, i))) return unsupported("elements that are chosen while it runs");
    operands.push_back(in(node, i).side.get());
  }
  TRY(const auto moved, evaluate(node.op, node.attrs, operands));
  Value value = *x.side;
  value.dims = moved[0]->shape;
  value.weight = moved[0];
  made.side = std::make_shared<const Value>(std::move(value));
  return made;
}

// Scores of all experts for each token: what they are already, or a sigmoid of logits.
std::optional<Form> Rules::as_scores(const Form& x) {
  if (is_scores(x)) return x;
  if (x.kind != Kind::function || x.grid->along != Along::step || !x.grid->plain() || !is_sigmoid(x.f))
    return std::nullopt;
  const Grid& grid = *x.grid;
  const ValueId logits = grid.parts[0].columns[0].base;
  const std::int64_t experts = builder_.columns(logits);
  if (experts != grid.elements() || grid.parts[0].columns != columns_of(logits, experts)) return std::nullopt;
  Form made{.kind = Kind::router_scores, .dims = grid.dims};
  made.choice = {.logits = logits, .experts = experts, .sigmoid = true};
  made.grouped = grid.last() != experts;
  const auto rank = std::ssize(grid.dims);
  if (made.grouped &&
      (rank < 3 || grid.dims[static_cast<std::size_t>(rank - 2)] * grid.last() != experts || grid.axis >= rank - 2))
    return std::nullopt;
  return made;
}

// Scores plus what corrects them for choosing.
Result<Form> Rules::corrected(const Node& node, const Form& scores, const Value& side) {
  const std::int64_t experts = scores.choice.experts;
  if (scores.kind != Kind::router_scores || scores.grouped || side.elements() != experts ||
      side.dims.back() != experts || scores.dims != out(node).dims)
    return unsupported("a router's scores with something else than a correction for each expert");
  TRY(const auto vector, builder_.vector(side));
  Form made = become(scores, Kind::router_choice, out(node).dims);
  made.choice.correction = builder_.constant(vector);
  return made;
}

// What is chosen by, outside the chosen groups 0.
Result<Form> Rules::limited(const Node& node, const Form& x, const Form& mask, bool shown, double hidden) {
  const Choice& c = x.choice;
  const Choice& groups = mask.choice;
  if (c.groups > 1) return unsupported("groups of experts that are limited twice");
  if (!c.same_scores(groups) || c.correction != groups.correction)
    return unsupported("groups of experts that are chosen by other scores than the experts");
  if (!shown) return unsupported("it hides the groups that were chosen");
  // Without a correction all scores are above 0, so that any lower number is never chosen.
  if (hidden > 0 || (hidden != 0 && c.correction >= 0))
    return unsupported("it leaves {} where a router has 0 for the groups that were not chosen", hidden);
  // The mask at each expert is its group's.
  const auto from = numbers_of(*mask.side);
  const std::int64_t size = c.experts / groups.groups;
  const std::int64_t tokens = inputs_.tokens;
  const auto whole = out(node).dims == x.dims && std::ssize(from) > 0;
  const std::int64_t each = whole ? std::ssize(from) / (tokens * groups.groups) : 0;  // experts that a mask speaks of
  const bool fits = (each == 1 && x.grouped && mask.dims.back() == 1 && mask.dims.size() == x.dims.size()) ||
                    (each == size && mask.dims == x.dims);
  if (!fits || c.experts % groups.groups != 0) return unsupported("a mask of groups for something else than experts");
  for (std::int64_t i = 0; i < std::ssize(from); ++i)
    if (static_cast<std::int64_t>(from[static_cast<std::size_t>(i)]) != i / each)
      return unsupported("a mask of groups in another order than the experts'");
  Form made = become(x, Kind::router_choice, out(node).dims);
  made.choice.groups = groups.groups;
  made.choice.top_groups = groups.top_groups;
  made.choice.best_two = groups.best_two && groups.groups > 1;
  return made;
}

Result<Rules::Forms> Rules::top_k(const Node& node, const Form& x) {
  if (node.attrs.i(Attr::largest) == 0 || !axis_is_last(node, x.dims))
    return unsupported("it chooses something else than the best experts");
  const std::int64_t k = node.attrs.i(Attr::k);
  const auto nothing = [&](std::string why) {
    return Form{.kind = Kind::unknown, .why = fmt::format("node '{}' ({}): {}", node.name, op_info(node.op).text, why)};
  };
  if (x.kind == Kind::group_scores) {
    if (x.dims.back() != x.choice.groups) return unsupported("it chooses among something else than groups");
    Form ids = become(x, Kind::group_ids, out(node, 1).dims);
    ids.choice.top_groups = k;
    return Forms{nothing("the scores of groups are read"), std::move(ids)};
  }
  if (x.grouped) {
    if (k != 2) return unsupported("it takes the {} best of each group; of a group count the best or the two best", k);
    return Forms{become(x, Kind::group_best, out(node).dims), nothing("places in groups are read")};
  }
  if (k * x.choice.groups > x.choice.experts * x.choice.top_groups)
    return unsupported("it chooses {} experts of groups that have fewer", k);
  Form ids = become(x, Kind::chosen_ids, out(node, 1).dims);
  ids.choice.top_k = k;
  Form weights = become(ids, Kind::chosen, out(node).dims);
  if (x.choice.correction >= 0)
    weights = nothing("weights that have the correction in them, which is for choosing alone");
  return Forms{std::move(weights), std::move(ids)};
}

Result<Form> Rules::group_scores(const Node& node, const Form& x, bool best_two) {
  Form made = become(x, Kind::group_scores, out(node).dims);
  const auto rank = x.dims.size();
  made.choice.groups = x.dims[rank - 2];
  made.choice.best_two = best_two;
  made.grouped = false;
  return made;
}

// Nothing: it has to do with no router's choice, or with what follows from it.
std::optional<Result<Rules::Forms>> Rules::choosing(const Node& node) {
  const auto one = [](Result<Form> form) -> Result<Forms> {
    if (!form) return form.error();
    return Forms{std::move(*form)};
  };
  const Form& x = in(node, 0);
  if ((node.op == Op::Softmax || node.op == Op::TopK) && x.kind == Kind::grid && x.grid->along == Along::step &&
      x.grid->elements() == x.grid->last() && axis_is_last(node, x.grid->dims)) {
    const auto logits = rows(x);
    if (!logits) return Result<Forms>(logits.error());
    Form made{.kind = Kind::router_scores, .dims = out(node).dims};
    made.choice = {.logits = *logits, .experts = x.grid->last()};
    if (node.op == Op::Softmax) return one(std::move(made));
    made.choice.raw = true;
    made.dims = x.grid->dims;
    return top_k(node, made);
  }
  switch (node.op) {
    case Op::Add:
      for (const std::size_t i : {0UL, 1UL}) {
        const Form& side = in(node, 1 - i);
        const auto scores = as_scores(in(node, i));
        if (!scores || !is_known(side) || scores->choice.experts < 2 || side.side->elements() != scores->choice.experts)
          continue;
        return one(corrected(node, *scores, *side.side));
      }
      return std::nullopt;
    case Op::TopK:
      if (x.kind == Kind::group_scores) return top_k(node, x);
      if (const auto scores = as_scores(x)) return top_k(node, *scores);
      return std::nullopt;
    case Op::ReduceMax:
      if (const auto scores = as_scores(x); scores && scores->grouped && sums_last(node, scores->dims))
        return one(group_scores(node, *scores, false));
      return std::nullopt;
    case Op::ReduceSum:
      if (x.kind == Kind::group_best && sums_last(node, x.dims)) return one(group_scores(node, x, true));
      return std::nullopt;
    case Op::ScatterElements: {
      if (in(node, 1).kind != Kind::group_ids) return std::nullopt;
      const Form& ids = in(node, 1);
      const auto rank = ids.dims.size();
      if (number(x) != 0.0 || number(in(node, 2)) != 1.0 || !axis_is_last(node, ids.dims) ||
          node.attrs.i(Attr::reduction) != 0 || x.side->dims.back() != ids.choice.groups || rank != x.side->dims.size())
        return Result<Forms>(unsupported("a mask of groups that is not 1 for the chosen and 0 for others"));
      Form mask = become(ids, Kind::group_mask, out(node).dims);
      mask.side = places_of(mask.dims);
      return one(std::move(mask));
    }
    case Op::Not: {
      if (x.kind != Kind::group_mask) return std::nullopt;
      Form mask = x;
      mask.turned = !mask.turned;
      return one(std::move(mask));
    }
    case Op::Where: {
      if (x.kind != Kind::group_mask) return std::nullopt;
      for (const std::size_t i : {1UL, 2UL}) {
        const auto scores = as_scores(in(node, i));
        const auto hidden = number(in(node, 3 - i));
        if (scores && hidden) return one(limited(node, *scores, x, x.turned == (i == 2), *hidden));
      }
      return Result<Forms>(unsupported("of something else than a router's scores"));
    }
    case Op::Mul:
      for (const std::size_t i : {0UL, 1UL}) {
        const auto scores = as_scores(in(node, i));
        const Form& mask = in(node, 1 - i);
        if (scores && mask.kind == Kind::group_mask) return one(limited(node, *scores, mask, !mask.turned, 0));
      }
      return std::nullopt;
    case Op::GatherElements: {
      const Form& ids = in(node, 1);
      if (ids.kind != Kind::chosen_ids) return std::nullopt;
      const auto scores = as_scores(x);
      if (!scores || scores->grouped || !axis_is_last(node, scores->dims) || !scores->choice.same_scores(ids.choice))
        return Result<Forms>(unsupported("weights of experts that are no scores of their router"));
      if (scores->choice.correction >= 0)
        return Result<Forms>(unsupported("weights that have the correction in them, which is for choosing alone"));
      return one(become(ids, Kind::chosen, out(node).dims));
    }
    default:
      break;
  }
  if (x.kind == Kind::group_mask && places_only(node.op)) return one(placed(node, x));
  const bool floats = is_scores(x) || x.kind == Kind::group_scores || x.kind == Kind::chosen;
  if (floats && node.op == Op::Cast && !is_float(static_cast<DType>(node.attrs.i(Attr::to))))
    return Result<Forms>(unsupported("a router's scores become whole numbers"));
  if (is_scores(x) && node.op == Op::Reshape) {
    Form made = become(x, x.kind, out(node).dims);
    const auto& dims = made.dims;
    // [tokens, groups, experts of one].
    made.grouped = dims.size() == 3 && dims[0] == inputs_.tokens && dims[1] * dims[2] == x.choice.experts &&
                   (dims != x.dims || x.grouped);
    if (!made.grouped && dims.back() != x.choice.experts)
      return Result<Forms>(unsupported("experts in something else than groups"));
    return one(std::move(made));
  }
  return std::nullopt;
}

}  // namespace knapsack::recognition
