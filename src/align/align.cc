#include "align/align.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "align/figures.h"
#include "align/pairing.h"
#include "base/check.h"
#include "graph/layer_name.h"

namespace knapsack {
namespace {

constexpr float not_compared = std::numeric_limits<float>::quiet_NaN();
void raise(float& most, double error) {
  if (!(most >= static_cast<float>(error))) most = static_cast<float>(error);
}

class Aligner {
 public:
  Aligner(Source& a, Source& b, const AlignOptions& options, Pairing pairing)
      : a_(a),
        b_(b),
        options_(options),
        pairing_(std::move(pairing)),
        a_replayed_(!b.replays()),
        given_(a_replayed_ ? b : a),
        replayed_(a_replayed_ ? a : b),
        state_(pairing_.pairs.size()),
        reordered_(static_cast<std::size_t>(pairing_.groups)) {
    for (std::size_t i = 0; i < pairing_.pairs.size(); ++i) {
      const Pair& pair = pairing_.pairs[i];
      const std::string& a_name = a_.nodes()[pair.a].name;
      const std::string& b_name = b_.nodes()[pair.b].name;
      by_given_name_.emplace(a_replayed_ ? b_name : a_name, i);
      by_replayed_name_.emplace(a_replayed_ ? a_name : b_name, i);
      if (a_name == "logits" || b_name == "logits") logits_ = i;
    }
  }

  Result<Alignment> run(const std::vector<std::vector<std::int32_t>>& sequences) {
    std::size_t total = 0, done = 0;
    for (const auto& ids : sequences) {
      total += ids.size();
      longest_ = std::max(longest_, ids.size());
    }
    for (State& state : state_) state.by_position.resize(longest_, not_compared);
    kl_by_position_.resize(longest_, not_compared);
    const std::int64_t rows = std::min({options_.rows, a_.rows(), b_.rows()});
    for (const auto& ids : sequences)
      for (std::size_t first = 0; first < ids.size();) {
        if (options_.stop.stop_requested()) return Error{Code::interrupted, "stopped while aligning"};
        const auto count = std::min(static_cast<std::size_t>(rows), ids.size() - first);
        TRY_VOID(step(std::span(ids).subspan(first, count), first));
        first += count;
        done += count;
        if (options_.progress) options_.progress(static_cast<double>(done) / static_cast<double>(total));
      }
    return report(static_cast<std::int64_t>(total));
  }

 private:
  struct State {
    std::vector<float> given;  // this step's
    bool fresh = false;        // the order of its columns is the replayed side's not yet
    Sums free;
    Range range;
    std::vector<float> by_position;
    double born_cosine = 1, born_rel_l2 = 0;
    std::int64_t born_position = -1, born_token = -1;
    bool compared = false;
  };

  Result<void> step(std::span<const std::int32_t> ids, std::size_t first) {
    for (State& state : state_) state.given.clear();
    TRY_VOID(given_.run(ids, static_cast<std::int64_t>(first), Lane::free,
                        [&](std::string_view name, std::int64_t rows, std::int64_t cols, const float* data) {
                          const auto at = by_given_name_.find(name);
                          if (at == by_given_name_.end()) return;
                          state_[at->second].given.assign(data, data + rows * cols);
                          state_[at->second].fresh = true;
                        }));
    TRY_VOID(replayed_.run(ids, static_cast<std::int64_t>(first), Lane::replay,
                           [&](std::string_view name, std::int64_t rows, std::int64_t cols, float* data) {
                             const auto at = by_replayed_name_.find(name);
                             if (at == by_replayed_name_.end()) return;
                             const Part part = common(at->second, ids, first, rows, cols);
                             replay(at->second, part, cols, data + part.skipped * cols);
                           }));
    return replayed_.run(ids, static_cast<std::int64_t>(first), Lane::free,
                         [&](std::string_view name, std::int64_t rows, std::int64_t cols, float* data) {
                           const auto at = by_replayed_name_.find(name);
                           if (at == by_replayed_name_.end()) return;
                           const Part part = common(at->second, ids, first, rows, cols);
                           carry(at->second, part, cols, data + part.skipped * cols);
                         });
  }

  // The tokens that both have: the last ones, where a side has some alone.
  struct Part {
    std::span<const std::int32_t> ids;
    std::size_t first = 0;     // position
    std::int64_t skipped = 0;  // rows of the replayed side before them
  };
  Part common(std::size_t number, std::span<const std::int32_t> ids, std::size_t first, std::int64_t rows,
              std::int64_t cols) {
    std::vector<float>& given = state_[number].given;
    const auto width = static_cast<std::size_t>(cols);
    const std::size_t both = std::min(static_cast<std::size_t>(rows), given.size() / width);
    CHECK(both <= ids.size());
    given.erase(given.begin(), given.end() - static_cast<std::ptrdiff_t>(both * width));
    return {
        .ids = ids.last(both), .first = first + ids.size() - both, .skipped = rows - static_cast<std::int64_t>(both)};
  }

  // A's and B's of a row.
  using Row = std::pair<std::span<const float>, std::span<const float>>;
  [[nodiscard]] Row row(const State& state, std::size_t number, std::int64_t cols, const float* data) const {
    const auto width = static_cast<std::size_t>(cols);
    const std::span<const float> given = std::span(state.given).subspan(number * width, width);
    const std::span<const float> made(data + number * width, width);
    return a_replayed_ ? Row{made, given} : Row{given, made};
  }

  void replay(std::size_t number, const Part& part, std::int64_t cols, float* data) {
    State& state = state_[number];
    reorder(number, cols, data);
    for (std::size_t i = 0; i < part.ids.size(); ++i) {
      const auto [a, b] = row(state, i, cols, data);
      const Sums sums = compare(a, b);
      state.born_cosine = std::min(state.born_cosine, sums.cosine());
      if (sums.rel_l2() <= state.born_rel_l2) continue;
      state.born_rel_l2 = sums.rel_l2();
      state.born_position = static_cast<std::int64_t>(part.first + i);
      state.born_token = part.ids[i];
    }
    std::memcpy(data, state.given.data(), state.given.size() * sizeof(float));
  }

  // Puts A's columns in B's order, where that is another. The first of a group decides: by the smaller error.
  void reorder(std::size_t number, std::int64_t cols, const float* data) {
    State& state = state_[number];
    const Pair& pair = pairing_.pairs[number];
    if (pair.group < 0 || !state.fresh || state.given.empty()) return;
    state.fresh = false;
    const auto width = static_cast<std::size_t>(cols);
    std::vector<float> ordered(state.given.size());
    for (std::size_t begin = 0; begin < ordered.size(); begin += width)
      for (std::size_t j = 0; j < width; ++j)
        ordered[begin + j] = state.given[begin + static_cast<std::size_t>(pair.order[j])];
    auto& decided = reordered_[static_cast<std::size_t>(pair.group)];
    const std::span<const float> made(data, ordered.size());
    if (!decided) decided = compare(ordered, made).dd < compare(state.given, made).dd;
    if (*decided) state.given = std::move(ordered);
  }

  void carry(std::size_t number, const Part& part, std::int64_t cols, const float* data) {
    State& state = state_[number];
    state.compared = state.compared || !part.ids.empty();
    for (std::size_t i = 0; i < part.ids.size(); ++i) {
      const auto [a, b] = row(state, i, cols, data);
      const Sums sums = compare(a, b);
      state.free.add(sums);
      state.range.add(a, b);
      const std::size_t position = part.first + i;
      raise(state.by_position[position], sums.rel_l2());
      if (number != logits_) continue;
      const double kl = kl_divergence(a, b);
      kl_ += kl;
      ++predicted_;
      raise(kl_by_position_[position], kl);
      agreed_ += likeliest(a) == likeliest(b) ? 1 : 0;
    }
  }

  [[nodiscard]] AlignedNode node(std::size_t number) const {
    const Pair& pair = pairing_.pairs[number];
    const State& state = state_[number];
    // As the side that knows the graph has it; what was taken apart as the side that has it whole.
    const SourceNode &a = a_.nodes()[pair.a], &b = b_.nodes()[pair.b];
    const bool part = b.name.starts_with(a.name + "/");
    const SourceNode& known = a_replayed_ || part ? a : b;
    AlignedNode node{.name = known.name, .op = known.op};
    node.layer = layer_of(node.name);
    node.free = {state.free.cosine(), state.free.rel_l2(), state.free.max_abs, state.free.sqnr_db()};
    node.by_position = state.by_position;
    node.not_finite = state.free.not_finite;
    if (state.range.all > 0) {
      node.a_low = state.range.a_low, node.a_high = state.range.a_high;
      node.b_low = state.range.b_low, node.b_high = state.range.b_high;
    }
    node.saturated = state.range.saturated();
    node.born_cosine = state.born_cosine;
    node.born_rel_l2 = state.born_rel_l2;
    node.born_position = state.born_position;
    node.born_token = state.born_token;
    node.born = node.born_rel_l2 > born_floor;
    node.broken =
        node.born && (node.born_cosine < options_.cosine || node.born_rel_l2 > std::sqrt(2 * (1 - options_.cosine)));
    return node;
  }

  [[nodiscard]] Result<Alignment> report(std::int64_t tokens) const {
    Alignment out{.a = a_.label(), .b = b_.label(), .tokens = tokens, .a_replayed = a_replayed_};
    out.a_only = pairing_.a_only;
    out.b_only = pairing_.b_only;
    out.cosine = options_.cosine;
    std::vector<std::size_t> order(state_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // As the side that is known as a graph makes them.
    std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      const Pair& p = pairing_.pairs[x];
      const Pair& q = pairing_.pairs[y];
      return a_replayed_ ? p.a < q.a : p.b < q.b;
    });
    for (const std::size_t number : order) {
      if (state_[number].compared) {
        out.nodes.push_back(node(number));
        continue;
      }
      // A side did not make what it was thought to.
      out.a_only.push_back(a_.nodes()[pairing_.pairs[number].a].name);
      out.b_only.push_back(b_.nodes()[pairing_.pairs[number].b].name);
    }
    if (out.nodes.empty()) return bad_input("{} and {}: no value that both have was made by both", out.a, out.b);
    out.worst.resize(out.nodes.size());
    std::iota(out.worst.begin(), out.worst.end(), std::size_t{0});
    std::stable_sort(out.worst.begin(), out.worst.end(), [&](std::size_t x, std::size_t y) {
      const AlignedNode& p = out.nodes[x];
      const AlignedNode& q = out.nodes[y];
      if (p.born != q.born) return p.born;
      return p.born ? p.born_rel_l2 > q.born_rel_l2 : p.free.rel_l2 > q.free.rel_l2;
    });
    for (const std::size_t number : out.worst)
      if (out.nodes[number].born) out.born.push_back(number);
    out.passed = std::none_of(out.nodes.begin(), out.nodes.end(), [](const AlignedNode& n) { return n.broken; });
    if (predicted_ > 0) {
      out.has_logits = true;
      out.logits = {.tokens = predicted_,
                    .kl = kl_ / static_cast<double>(predicted_),
                    .top1 = static_cast<double>(agreed_) / static_cast<double>(predicted_),
                    .cosine = state_[logits_].free.cosine(),
                    .kl_by_position = kl_by_position_};
    }
    return out;
  }

  Source& a_;
  Source& b_;
  const AlignOptions& options_;
  Pairing pairing_;
  bool a_replayed_;
  Source& given_;
  Source& replayed_;
  std::vector<State> state_;                    // by pair
  std::vector<std::optional<bool>> reordered_;  // by group
  std::map<std::string, std::size_t, std::less<>> by_given_name_, by_replayed_name_;
  std::size_t logits_ = std::numeric_limits<std::size_t>::max();
  std::size_t longest_ = 0;
  double kl_ = 0;
  std::int64_t predicted_ = 0, agreed_ = 0;
  std::vector<float> kl_by_position_;
};

}  // namespace

Result<Alignment> align(Source& a, Source& b, const std::vector<std::vector<std::int32_t>>& sequences,
                        const AlignOptions& options) {
  CHECK(!sequences.empty() && options.rows > 0);
  if (!a.replays() && !b.replays())
    return usage_error(
        "{} and {} are both values made elsewhere: expected a checkpoint as one of them, to know which value is made "
        "of which",
        a.label(), b.label());
  TRY(Pairing pairing, pair_values(a, b));
  if (pairing.pairs.empty())
    return bad_input("{} and {} have no value in common; {} has '{}', {} has '{}'", a.label(), b.label(), a.label(),
                     a.nodes().empty() ? "" : a.nodes().front().name, b.label(),
                     b.nodes().empty() ? "" : b.nodes().front().name);
  std::vector<std::string> a_names, b_names;
  for (const Pair& pair : pairing.pairs) {
    a_names.push_back(a.nodes()[pair.a].name);
    b_names.push_back(b.nodes()[pair.b].name);
  }
  TRY_VOID(a.prepare(a_names));
  TRY_VOID(b.prepare(b_names));
  return Aligner(a, b, options, std::move(pairing)).run(sequences);
}

}  // namespace knapsack
