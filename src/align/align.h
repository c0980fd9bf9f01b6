// Compares two sources value by value and says where error is born: docs/align.md has the method. Not for how the
// result is shown: align/text.h.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "align/source.h"

namespace knapsack {

struct AlignOptions {
  double cosine = 0.999;                   // of a replayed token, at least
  std::int64_t rows = 32;                  // tokens a step; fewer where a source takes no more
  std::function<void(double)> progress{};  // 0 to 1
  std::stop_token stop{};
};

// Over which relative L2 a replayed token is born wrong: a hundred times what float32 summed in another order differs.
inline constexpr double born_floor = 1e-4;

// A norm whose tokens are all off by one factor, and more so the smaller they are, as another epsilon makes them, is
// born wrong from this factor on: a few times what float32 can say. Between sides that round alike it is from the first
// bit on.
inline constexpr double norm_rounding = 5e-7;

struct Agreement {
  double cosine = 1;
  double rel_l2 = 0;  // |a - b| / |a|
  double max_abs = 0;
  double sqnr_db = std::numeric_limits<double>::infinity();
};

struct AlignedNode {
  std::string name, op;     // A's name, unless B alone knows the graph
  std::int64_t layer = -1;  // -1: of none
  Agreement free{};         // of the free run, all tokens as one vector
  // Relative L2 of the free run; of several sequences the worst. NaN: not compared there.
  std::vector<float> by_position{};
  double born_cosine = 1, born_rel_l2 = 0;           // of the worst replayed token
  std::int64_t born_position = -1, born_token = -1;  // which that is
  bool born = false;
  std::string hint{};                                   // what kind of error it is, where that shows
  bool broken = false;                                  // beyond the threshold
  bool rounds_a = false, rounds_b = false;              // that side rounds to 8 bits what the op reads
  double median_rel_l2 = 0;                             // of the free run, token by token
  double a_low = 0, a_high = 0, b_low = 0, b_high = 0;  // of finite values
  double saturated = 0;
  std::int64_t not_finite = 0;  // values that are in one alone
  std::int64_t beyond = 0;      // values that are no finite number in both
};

// A token for which a router of the two chose other experts, both run freely.
struct RouterFlip {
  std::int64_t sequence = 0, position = 0, token = 0;
  std::vector<std::int32_t> a{}, b{};  // experts that one side alone chose
  double margin = -1;                  // between A's scores of those; below 0: not known
  double noise = 0;                    // the largest difference of a score, for this token
  bool noise_alone = false;            // scores that differ so little explain it
};

struct AlignedRouter {
  static constexpr std::size_t most_flips = 100;
  std::string name;
  std::int64_t tokens = 0;
  std::int64_t flipped = 0;         // of these, with other experts in B's free run
  std::int64_t own = 0;             // replayed: with other experts on A's scores
  std::int64_t unexplained = 0;     // of flipped and own, those that noise does not explain
  std::vector<RouterFlip> flips{};  // the first ones, at most most_flips
};

// How far the two are apart at a token, both run freely.
struct AlignedToken {
  std::int64_t sequence = 0, position = 0, id = 0;
  double rel_l2 = 0;                  // of Alignment::token_value
  double kl = -1;                     // below 0: not both have logits of it
  bool same_top = true;               // where both have
  double born = 0;                    // the largest relative L2 of a replayed node
  std::string born_at{};              // which that is; empty: none differs
  std::optional<std::string> text{};  // where someone has a tokenizer: the aligner has none
};

struct AlignedLogits {
  std::int64_t tokens = 0;  // that both have logits of
  double kl = 0, top1 = 1, cosine = 1;
  std::vector<float> kl_by_position{};  // NaN: not compared there
};

struct Alignment {
  std::string a, b;
  std::string a_how{}, b_how{};  // how each was run, where that is known
  std::string text{};            // what was run, for the reader: the aligner has ids alone
  std::int64_t tokens = 0;
  bool a_replayed = false;           // B is a dump
  std::vector<AlignedNode> nodes{};  // in the order in which they are made
  std::vector<std::size_t> worst{};  // numbers of nodes: born ones, worst first, then the others
  std::vector<std::size_t> born{};   // of these, those that are
  std::vector<AlignedRouter> routers{};
  std::string token_value{};                // the last value that both have of every token; empty: there is none
  std::vector<AlignedToken> by_token{};     // in order
  std::vector<std::size_t> worst_tokens{};  // numbers of tokens: by KL where all have it, else by relative L2
  bool has_logits = false;
  AlignedLogits logits{};
  std::vector<std::string> a_only{}, b_only{};
  double cosine = 0, rel_l2 = 0;  // the thresholds of a replayed token: at least, at most
  bool passed = true;
};

// sequences: at least one, none empty, of ids that both know, none longer than either's longest().
Result<Alignment> align(Source& a, Source& b, const std::vector<std::vector<std::int32_t>>& sequences,
                        const AlignOptions& options);

}  // namespace knapsack
