// What a value of an imported graph is, told in terms of the decoder that is being built: which columns of which
// activation, how scaled; a function of one; scores, a cache, a router's choice. Operators that only move data change
// the columns' places and make no node.
// Not for the rules of the operators: rules.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/recognize/samples.h"

namespace knapsack::recognition {

// One dimension of a value runs along...
enum class Along : std::uint8_t {
  step,      // the tokens of the step
  selected,  // of these the last alone
  past,      // those before the step, given as an input
  cache,     // both
  hits,      // those of the step that an expert is given
};

// A column of an activation that the new graph makes (of a cache: of the state, behind its write); -1: zero.
struct Column {
  ValueId base = -1;
  std::int32_t col = 0;
  bool operator==(const Column&) const = default;
};

// A sum of columns times coefficients for each element of [dims without `axis`], outermost first.
struct Part {
  std::vector<Column> columns;
  std::vector<float> coefficients{};  // [elements, tokens]; empty: 1
};

struct Grid {
  std::vector<std::int64_t> dims;
  std::int64_t axis = 0;  // the one that runs along
  Along along = Along::step;
  int expert = -1;  // of hits
  std::vector<Part> parts;

  [[nodiscard]] std::int64_t length() const { return dims[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t elements() const { return static_cast<std::int64_t>(parts.front().columns.size()); }
  [[nodiscard]] std::int64_t last() const { return dims.back(); }
  [[nodiscard]] std::vector<std::int64_t> reduced() const {  // dims, 1 at the axis
    auto all = dims;
    all[static_cast<std::size_t>(axis)] = 1;
    return all;
  }
  // One part, nothing scaled.
  [[nodiscard]] bool plain() const { return parts.size() == 1 && parts[0].coefficients.empty(); }
  // The same elements, wherever they lie.
  [[nodiscard]] bool same(const Grid& other) const;
  // One token runs along any dimension of one: the grid with that one as its axis; itself where that is not so.
  [[nodiscard]] Grid seen_along(std::int64_t wanted) const;
};

enum class Kind : std::uint8_t {
  unknown,
  side,           // known numbers: constants, positions, masks, and what follows from them
  matrix,         // a constant that is too large to be computed with
  grid,           // factor * grid
  function,       // f(grid), element by element
  row_norm,       // f(mean of the squares of grid's last dimension)
  scores,         // f(q k)
  masked,         // the same, masked
  probs,          // softmax of these
  probs_nan,      // where those are no numbers
  router_scores,  // softmax or sigmoid of a router's logits
  router_choice,  // what is chosen by, where it differs: corrected, or 0 outside the chosen groups
  group_best,     // of each group the two best of it
  group_scores,   // their sum, or the best one
  group_ids,      // the chosen groups
  group_mask,     // 1 in the chosen groups (`turned`: in the others), 0 elsewhere; `side`: where each is from
  chosen,         // weights of the chosen experts
  chosen_sum,     // their sum
  chosen_ids,
  chosen_matrices,    // those of the chosen experts, `side` being all
  one_hot,            // of the ids; `side`: where each is from
  is_expert,          // where the chosen one is `expert`; `turned`: [places, tokens]
  expert_weight_all,  // `chosen` where it is, else 0
  expert_weight,      // of the expert, [tokens, 1]
  hits,               // places [2, hits] of is_expert: token, place among the chosen; `turned`: the other way round
  hit_tokens,
  hit_places,
  hit_flat,
  hit_weight,
  shares,      // weights of all experts, 0 of those not chosen; `expert`: the dimension along which they lie
  shared_out,  // what all experts make, or the chosen ones, times those; the same
  routed,      // a sum of experts' outputs times their weights
};

// Keys of heads that a latent is multiplied into, beside one rotated part for all: how a checkpoint's graph reads them.
struct Latent {
  std::int64_t heads = 0;
  std::vector<std::int64_t> plain{}, rotated{};  // of a head's columns, in the order of what they are made of
  ValueId product = -1, latent = -1, up = -1;    // latent [T, width] times up [heads * head_rows, width]
  std::int64_t head_rows = 0, k_row = 0, v_row = 0, v_dim = 0;  // of up, for each head
  ValueId k_rope = -1;
  ValueId q = -1, q_rope = -1;  // each head's columns from `offset` on, `stride` apart
  std::int64_t q_stride = 0, q_offset = 0, rope_stride = 0, rope_offset = 0;
};

struct Scores {
  ValueId q = -1, keys = -1;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<std::int64_t> dims;
  double scale = 1, softcap = 0;
  std::int64_t window = 0;
  bool masked = false;
  std::optional<Latent> latent{};
};

// How a router chooses, and what of it a value is.
struct Choice {
  ValueId logits = -1;
  std::int64_t experts = 0, top_k = 0;
  bool sigmoid = false;
  ValueId correction = -1;
  std::int64_t groups = 1, top_groups = 1;  // the best `top_groups` of them alone
  bool best_two = false;                    // a group's score is the sum of its two best, not the best
  bool normalized = false;
  double scale = 1;
  bool raw = false;   // of logits: softmax is still to come
  bool flat = false;  // [tokens * top_k, 1]
  bool operator==(const Choice&) const = default;
  [[nodiscard]] bool same_scores(const Choice& other) const {
    return logits == other.logits && sigmoid == other.sigmoid && raw == other.raw;
  }
  [[nodiscard]] bool same_experts(const Choice& other) const {
    return logits == other.logits && sigmoid == other.sigmoid && top_k == other.top_k &&
           correction == other.correction && groups == other.groups && top_groups == other.top_groups &&
           best_two == other.best_two;
  }
};

struct Form {
  Kind kind = Kind::unknown;
  std::string why{};                    // unknown: what hindered
  std::shared_ptr<const Value> side{};  // side: a constant with data; matrix: one with or without
  std::shared_ptr<const Grid> grid{};
  double factor = 1;
  Samples f{};
  std::shared_ptr<const Scores> scores{};
  Choice choice{};
  int expert = -1;
  bool grouped = false;  // of a router: the last two dimensions are groups and their experts
  bool turned = false;
  std::map<int, ValueId> experts{};  // routed: what each makes, [tokens, hidden]
  std::vector<std::int64_t> dims{};  // routed, chosen and the like
};

Form grid_form(Grid grid, double factor = 1);
inline bool is_known(const Form& f) { return f.kind == Kind::side; }
inline bool is_float(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

// A shape of data moved: the grids behind Reshape, Transpose, Slice, ... of `inputs` (one; several of Concat), for each
// output. Nothing, with why: the tokens would be mixed with others.
struct Moved {
  std::vector<Grid> grids;
  std::string why{};
};
Moved move(const Node& node, const std::vector<const Grid*>& inputs, const std::vector<const Value*>& outputs,
           const Value* index);
bool is_move(Op op);

// `columns` consecutive ones of `base`.
std::vector<Column> columns_of(ValueId base, std::int64_t columns);

}  // namespace knapsack::recognition
