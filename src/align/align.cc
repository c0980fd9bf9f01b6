#include "align/align.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "align/pairing.h"
#include "base/check.h"
#include "graph/layer_name.h"

namespace knapsack {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Sums over values of A and of B.
struct Sums {
  double ab = 0, aa = 0, bb = 0, dd = 0, max_abs = 0;
  std::int64_t not_finite = 0;

  void add(float a, float b) {
    if (!std::isfinite(a) || !std::isfinite(b)) {
      const bool same = a == b || (std::isnan(a) && std::isnan(b));
      not_finite += same ? 0 : 1;
      return;
    }
    const double x = a, y = b, d = x - y;
    ab += x * y, aa += x * x, bb += y * y, dd += d * d;
    max_abs = std::max(max_abs, std::abs(d));
  }
  void add(const Sums& other) {
    ab += other.ab, aa += other.aa, bb += other.bb, dd += other.dd;
    max_abs = std::max(max_abs, other.max_abs);
    not_finite += other.not_finite;
  }
  [[nodiscard]] double cosine() const {
    if (not_finite > 0) return 0;
    if (dd == 0) return 1;
    return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
  }
  [[nodiscard]] double rel_l2() const {
    if (not_finite > 0) return infinity;
    if (dd == 0) return 0;
    return aa > 0 ? std::sqrt(dd / aa) : infinity;
  }
  [[nodiscard]] double sqnr_db() const {
    if (not_finite > 0) return -infinity;
    return dd > 0 ? 10 * std::log10(aa / dd) : infinity;
  }
};

Sums compare(std::span<const float> a, std::span<const float> b) {
  Sums sums;
  for (std::size_t i = 0; i < a.size(); ++i) sums.add(a[i], b[i]);
  return sums;
}

// How far one side's values go, and how many of B's stand at an end that A's go beyond.
struct Range {
  double a_low = infinity, a_high = -infinity, b_low = infinity, b_high = -infinity;
  std::int64_t at_low = 0, at_high = 0, all = 0;

  void add(std::span<const float> a, std::span<const float> b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
      const double x = a[i], y = b[i];
      a_low = std::min(a_low, x), a_high = std::max(a_high, x);
      if (y < b_low) b_low = y, at_low = 0;
      if (y > b_high) b_high = y, at_high = 0;
      at_low += y == b_low && x < y ? 1 : 0;
      at_high += y == b_high && x > y ? 1 : 0;
      ++all;
    }
  }
  void report(AlignedNode& node) const {
    if (all == 0) return;
    node.a_low = a_low, node.a_high = a_high, node.b_low = b_low, node.b_high = b_high;
    // One value at the end is just the largest.
    const std::int64_t low = at_low > 1 ? at_low : 0, high = at_high > 1 ? at_high : 0;
    node.saturated = static_cast<double>(low + high) / static_cast<double>(all);
  }
};

double log_of_sum(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  const double sum = std::accumulate(logits.begin(), logits.end(), 0.0, [&](double s, float logit) {
    return s + std::exp(static_cast<double>(logit) - most);
  });
  return most + std::log(sum);
}

// Infinite where either side has logits that are no numbers.
double kl_divergence(std::span<const float> a, std::span<const float> b) {
  const double a_log = log_of_sum(a), b_log = log_of_sum(b);
  if (!std::isfinite(a_log) || !std::isfinite(b_log)) return infinity;
  double kl = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double p = std::exp(static_cast<double>(a[i]) - a_log);
    if (p > 0) kl += p * (static_cast<double>(a[i]) - static_cast<double>(b[i]) - (a_log - b_log));
  }
  return std::max(0.0, kl);
}

std::ptrdiff_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
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
    for (State& state : state_) state.by_position.resize(longest_);
    kl_by_position_.resize(longest_);
    for (const auto& ids : sequences)
      for (std::size_t first = 0; first < ids.size();) {
        if (options_.stop.stop_requested()) return Error{Code::interrupted, "stopped while aligning"};
        const auto count = std::min(static_cast<std::size_t>(options_.rows), ids.size() - first);
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
                           [&](std::string_view name, std::int64_t, std::int64_t cols, float* data) {
                             const auto at = by_replayed_name_.find(name);
                             if (at != by_replayed_name_.end()) replay(at->second, ids, first, cols, data);
                           }));
    return replayed_.run(ids, static_cast<std::int64_t>(first), Lane::free,
                         [&](std::string_view name, std::int64_t, std::int64_t cols, const float* data) {
                           const auto at = by_replayed_name_.find(name);
                           if (at != by_replayed_name_.end()) carry(at->second, first, cols, data);
                         });
  }

  // A's and B's of a row.
  using Row = std::pair<std::span<const float>, std::span<const float>>;
  [[nodiscard]] Row row(const State& state, std::size_t number, std::int64_t cols, const float* data) const {
    const auto width = static_cast<std::size_t>(cols);
    const std::span<const float> given = std::span(state.given).subspan(number * width, width);
    const std::span<const float> made(data + number * width, width);
    return a_replayed_ ? Row{made, given} : Row{given, made};
  }

  void replay(std::size_t number, std::span<const std::int32_t> ids, std::size_t first, std::int64_t cols,
              float* data) {
    State& state = state_[number];
    CHECK(state.given.size() == ids.size() * static_cast<std::size_t>(cols));
    reorder(number, cols, data);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto [a, b] = row(state, i, cols, data);
      const Sums sums = compare(a, b);
      state.born_cosine = std::min(state.born_cosine, sums.cosine());
      if (sums.rel_l2() <= state.born_rel_l2) continue;
      state.born_rel_l2 = sums.rel_l2();
      state.born_position = static_cast<std::int64_t>(first + i);
      state.born_token = ids[i];
    }
    std::memcpy(data, state.given.data(), state.given.size() * sizeof(float));
  }

  // Puts A's columns in B's order, where that is another. The first of a group decides: by the smaller error.
  void reorder(std::size_t number, std::int64_t cols, const float* data) {
    State& state = state_[number];
    const Pair& pair = pairing_.pairs[number];
    if (pair.group < 0 || !state.fresh) return;
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

  void carry(std::size_t number, std::size_t first, std::int64_t cols, const float* data) {
    State& state = state_[number];
    const std::size_t rows = state.given.size() / static_cast<std::size_t>(cols);
    for (std::size_t i = 0; i < rows; ++i) {
      const auto [a, b] = row(state, i, cols, data);
      const Sums sums = compare(a, b);
      state.free.add(sums);
      state.range.add(a, b);
      float& at = state.by_position[first + i];
      at = std::max(at, static_cast<float>(sums.rel_l2()));
      if (number != logits_) continue;
      const double kl = kl_divergence(a, b);
      kl_ += kl;
      kl_by_position_[first + i] = std::max(kl_by_position_[first + i], static_cast<float>(kl));
      agreed_ += likeliest(a) == likeliest(b) ? 1 : 0;
    }
  }

  [[nodiscard]] AlignedNode node(std::size_t number) const {
    const Pair& pair = pairing_.pairs[number];
    const State& state = state_[number];
    const SourceNode& known = b_.nodes()[pair.b].op.empty() ? a_.nodes()[pair.a] : b_.nodes()[pair.b];
    AlignedNode node{.name = known.name, .op = known.op};
    node.layer = layer_of(node.name);
    node.free = {state.free.cosine(), state.free.rel_l2(), state.free.max_abs, state.free.sqnr_db()};
    node.by_position = state.by_position;
    node.not_finite = state.free.not_finite;
    state.range.report(node);
    node.born_cosine = state.born_cosine;
    node.born_rel_l2 = state.born_rel_l2;
    node.born_position = state.born_position;
    node.born_token = state.born_token;
    node.born = node.born_rel_l2 > born_floor;
    node.broken =
        node.born && (node.born_cosine < options_.cosine || node.born_rel_l2 > std::sqrt(2 * (1 - options_.cosine)));
    return node;
  }

  [[nodiscard]] Alignment report(std::int64_t tokens) const {
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
    for (const std::size_t number : order) out.nodes.push_back(node(number));
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
    if (logits_ < state_.size()) {
      out.has_logits = true;
      out.logits = {.kl = kl_ / static_cast<double>(tokens),
                    .top1 = static_cast<double>(agreed_) / static_cast<double>(tokens),
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
  std::int64_t agreed_ = 0;
  std::vector<float> kl_by_position_;
};

}  // namespace

Result<Alignment> align(Source& a, Source& b, const std::vector<std::vector<std::int32_t>>& sequences,
                        const AlignOptions& options) {
  CHECK(!sequences.empty() && options.rows > 0);
  if (!a.replays() && !b.replays())
    return usage_error(
        "{} and {} are both dumps: expected a checkpoint as one of them, to know which value is made of "
        "which",
        a.label(), b.label());
  TRY(Pairing pairing, pair_values(a, b));
  if (pairing.pairs.empty())
    return bad_input("{} and {} have no value in common; {} has '{}', {} has '{}'", a.label(), b.label(), a.label(),
                     a.nodes().empty() ? "" : a.nodes().front().name, b.label(),
                     b.nodes().empty() ? "" : b.nodes().front().name);
  return Aligner(a, b, options, std::move(pairing)).run(sequences);
}

}  // namespace knapsack
