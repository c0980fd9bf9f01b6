// The rules of the operators: what a node's outputs are, when its inputs are known to be this or that. One pass over
// the imported graph in order; a value that no rule knows carries why, and hinders only what is made of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "passes/recognize/builder.h"
#include "passes/recognize/form.h"
#include "passes/recognize/inputs.h"
#include "passes/recognize/side.h"

namespace knapsack::recognition {

class Rules {
 public:
  Rules(const Graph& graph, const Inputs& inputs, Builder& builder, Angles& angles);
  // Every node, in order.
  void run();
  [[nodiscard]] const Form& form(ValueId id) const { return forms_[static_cast<std::size_t>(id)]; }
  Builder& builder() { return builder_; }
  // The caches hold whole keys of a latent attention.
  [[nodiscard]] bool keeps_whole_keys() const { return whole_keys_; }
  // A grid or a function of one as an activation.
  Result<ValueId> rows(const Form& form);

 private:
  using Forms = std::vector<Form>;
  Result<Forms> forms_of(const Node& node);
  const Form& in(const Node& node, std::size_t i) const { return form(node.inputs[i]); }
  const Value& out(const Node& node, std::size_t i = 0) const { return graph_.value(node.outputs[i]); }

  Result<Forms> side(const Node& node);
  Result<Forms> moved(const Node& node);
  Result<Form> appended(const Node& node, const Form& past, const Form& now);
  Result<Form> again(const Form& past, const Form& now, const Value& places);
  Result<void> in_place(const Grid& past, const Value& places) const;
  Result<Form> gathered(const Node& node);
  Result<Form> binary(const Node& node);
  Result<Form> with_side(const Node& node, const Form& x, const Value& side, bool first);
  Result<Form> grid_with_side(const Node& node, const Form& x, const Value& side);
  Result<Form> plus(const Form& a, const Form& b);
  Result<Form> times(const Form& a, const Form& b);
  Result<Form> unary(const Node& node);
  Result<Form> reduced(const Node& node);
  Result<Form> product(const Node& node);
  Result<Form> linear(const Node& node, const Form& x, const Value& weight, const Value* bias, bool rows);
  Result<Form> batched(const Node& node, const Form& x, const Value& weight);
  Result<Form> scores(const Node& node, const Form& q, const Form& k);
  Result<Form> attended(const Node& node, const Form& probs, const Form& v);
  Result<Form> masked(const Form& scores, const Value& mask, bool truth);
  Result<Form> softmax(const Node& node);
  Result<Form> where(const Node& node);
  // latent.cc
  [[nodiscard]] std::optional<Latent> latent_keys(const std::vector<Column>& keys, std::int64_t heads) const;
  Result<std::optional<Form>> latent_scores(const Grid& queries, double factor, const Form& k,
                                            const std::vector<std::int64_t>& batch);
  bool latent_queries(const std::vector<Column>& queries, Latent& latent) const;
  bool latent_values(const std::vector<Column>& values, Latent& latent) const;
  ValueId latent_context(const Latent& latent, ValueId write, const Scores& scores);
  std::optional<ValueId> latent_joined(ValueId context, const Value& weight);
  // router.cc
  std::optional<Result<Forms>> choosing(const Node& node);
  std::optional<Form> as_scores(const Form& x);
  Result<Form> corrected(const Node& node, const Form& scores, const Value& side);
  Result<Form> limited(const Node& node, const Form& x, const Form& mask, bool shown, double hidden);
  Result<Forms> top_k(const Node& node, const Form& x);
  Result<Form> group_scores(const Node& node, const Form& x, bool best_two);
  Result<Form> placed(const Node& node, const Form& x);  // x.side moved as x is
  // experts.cc
  std::optional<Result<Forms>> routing(const Node& node);
  std::optional<Result<Forms>> one_hot(const Node& node);
  std::optional<Result<Form>> routed_product(const Node& node);
  // experts_matrices.cc
  std::optional<Result<Forms>> chosen_matrices(const Node& node);
  Result<Form> multiplied(const Node& node, const Form& x, const Form& matrices);
  Result<ValueId> routed_rows(const Form& form);
  struct Experts {
    ValueId x = -1;
    std::int64_t act = -1;
    std::shared_ptr<const Weight> gate{}, up{}, down{};  // [experts, rows, columns]
  };
  Result<Experts> one_by_one(const Form& form);
  Result<Experts> at_once(const Form& form);

  // A grid that runs along the cache: itself, or what the step adds where there is no past.
  Result<Form> cached(const Form& x);
  Form made(ValueId base, std::vector<std::int64_t> dims, std::int64_t axis, const Grid& like) const;
  static bool is_rows(const Form& f) { return f.kind == Kind::grid; }
  // As a function of a grid: itself times the factor, or what it is.
  static std::optional<Form> as_function(const Form& f);

  const Graph& graph_;
  const Uses uses_;
  const Inputs& inputs_;
  Builder& builder_;
  Angles& angles_;
  std::set<const Weight*> computed_{};  // of side values that no constant of the file is
  std::vector<Form> forms_;
  bool whole_keys_ = false;
};

// The same of a router's choice as another kind.
Form become(const Form& form, Kind kind, std::vector<std::int64_t> dims);
// Where each element of a value is from, as numbers 0, 1, ...
std::shared_ptr<const Value> places_of(const std::vector<std::int64_t>& dims);
// Operators that move or copy elements, or say them in another type.
bool places_only(Op op);

}  // namespace knapsack::recognition
