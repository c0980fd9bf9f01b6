#include "align/align.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "align/figures.h"
#include "align/norm_scale.h"
#include "align/pairing.h"
#include "align/routing.h"
#include "base/check.h"
#include "graph/layer_name.h"

namespace knapsack {
namespace {

constexpr float not_compared = std::numeric_limits<float>::quiet_NaN();

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
    find_routers();
    find_norms();
  }

  Result<Alignment> run(const std::vector<std::vector<std::int32_t>>& sequences) {
    std::size_t total = 0, done = 0;
    for (std::size_t sequence = 0; sequence < sequences.size(); ++sequence) {
      const auto& ids = sequences[sequence];
      total += ids.size();
      longest_ = std::max(longest_, ids.size());
      for (std::size_t position = 0; position < ids.size(); ++position)
        tokens_.push_back({.sequence = static_cast<std::int64_t>(sequence),
                           .position = static_cast<std::int64_t>(position),
                           .id = ids[position]});
    }
    for (State& state : state_) state.by_token.resize(total, not_compared);
    kl_.resize(total, not_compared);
    const std::int64_t rows = std::min({options_.rows, a_.rows(), b_.rows()});
    for (const auto& ids : sequences) {
      for (std::size_t first = 0; first < ids.size();) {
        if (options_.stop.stop_requested()) return Error{Code::interrupted, "stopped while aligning"};
        const auto count = std::min(static_cast<std::size_t>(rows), ids.size() - first);
        TRY_VOID(step(std::span(ids).subspan(first, count), first));
        first += count;
        done += count;
        if (options_.progress) options_.progress(static_cast<double>(done) / static_cast<double>(total));
      }
      ++sequence_;
      before_ += ids.size();
    }
    return report(static_cast<std::int64_t>(total));
  }

 private:
  struct State {
    std::vector<float> given;  // this step's
    bool fresh = false;        // the order of its columns is the replayed side's not yet
    Sums free;
    std::int64_t beyond = 0;
    Range range;
    std::vector<float> by_token;  // relative L2, of all sequences
    double born_cosine = 1, born_rel_l2 = 0;
    std::int64_t born_position = -1, born_token = -1;
    bool compared = false;
    int weights_of = -1, scores_of = -1;  // the router that they are of
    // Of a norm whose input both have.
    int norm_of = -1;  // the pair that it reads
    std::int64_t width = 0;
    std::optional<double> epsilon;  // A's
    bool same_bits = false;         // both sides should give
    NormScale scale;
  };

  // A router that both have, with what it made of the step.
  struct Router {
    std::vector<float> correction;
    std::vector<std::int32_t> given, made;  // experts, row by row
    std::vector<float> given_scores;
    std::vector<double> noise;    // of the scores, row by row, of the free run
    std::vector<bool> explained;  // rows of other experts that noise explains
    std::size_t top_k = 0;
    AlignedRouter found;

    [[nodiscard]] Experts row(const std::vector<std::int32_t>& of, std::size_t number) const {
      return std::span(of).subspan(number * top_k, top_k);
    }
  };

  void find_routers() {
    for (const SourceChoice& mine : replayed_.choices())
      for (const SourceChoice& theirs : given_.choices()) {
        if (mine.name != theirs.name) continue;
        const int number = static_cast<int>(routers_.size());
        const auto mark = [&](const std::string& name, int State::*what) {
          if (const auto at = by_given_name_.find(name); at != by_given_name_.end()) state_[at->second].*what = number;
        };
        mark(theirs.weights, &State::weights_of);
        mark(theirs.scores, &State::scores_of);
        router_by_name_.emplace(mine.name, number);
        router_by_scores_.emplace(theirs.scores, number);
        routers_.emplace_back().correction = theirs.correction;
        routers_.back().found.name = mine.name;
      }
  }

  void find_norms() {
    for (std::size_t i = 0; i < state_.size(); ++i) {
      const SourceNode &a = a_.nodes()[pairing_.pairs[i].a], &b = b_.nodes()[pairing_.pairs[i].b];
      const SourceNode& norm = a_replayed_ ? a : b;
      if (norm.op != "rms_norm") continue;
      const auto input = by_replayed_name_.find(norm.inputs.front());
      if (input == by_replayed_name_.end()) continue;
      State& state = state_[i];
      state.norm_of = static_cast<int>(input->second);
      state.width = norm.attrs.i(Attr::width, norm.cols);
      if (a.op == norm.op) state.epsilon = static_cast<double>(a.attrs.f(Attr::eps));
      state.same_bits = a.op == b.op && a_.arithmetic() == b_.arithmetic() && !a_.arithmetic().empty();
    }
  }

  Router* router_of(int number) { return number < 0 ? nullptr : &routers_[static_cast<std::size_t>(number)]; }

  Result<void> step(std::span<const std::int32_t> ids, std::size_t first) {
    for (State& state : state_) state.given.clear();
    for (Router& router : routers_) router.given.clear();
    Visit keep;
    keep.values = [&](std::string_view name, std::int64_t rows, std::int64_t cols, const float* data) {
      if (const auto at = router_by_scores_.find(name); at != router_by_scores_.end())
        router_of(at->second)->given_scores.assign(data, data + rows * cols);
      const auto at = by_given_name_.find(name);
      if (at == by_given_name_.end()) return;
      state_[at->second].given.assign(data, data + rows * cols);
      state_[at->second].fresh = true;
    };
    keep.choices = [&](std::string_view name, std::int64_t rows, std::int64_t cols, const std::int32_t* data) {
      if (const auto at = router_by_name_.find(name); at != router_by_name_.end())
        router_of(at->second)->given.assign(data, data + rows * cols);
    };
    TRY_VOID(given_.run(ids, static_cast<std::int64_t>(first), Lane::free, keep));
    for (const Lane lane : {Lane::replay, Lane::free}) {
      Visit compare_with;
      compare_with.values = [&](std::string_view name, std::int64_t rows, std::int64_t cols, float* data) {
        const auto at = by_replayed_name_.find(name);
        if (at == by_replayed_name_.end()) return;
        const Part part = common(at->second, ids, first, rows, cols);
        float* both = data + part.skipped * cols;
        lane == Lane::replay ? replay(at->second, part, cols, both) : carry(at->second, part, cols, both);
      };
      compare_with.choices = [&](std::string_view name, std::int64_t rows, std::int64_t cols, std::int32_t* data) {
        const auto at = router_by_name_.find(name);
        if (at != router_by_name_.end()) choose(*router_of(at->second), lane, ids, first, rows, cols, data);
      };
      TRY_VOID(replayed_.run(ids, static_cast<std::int64_t>(first), lane, compare_with));
    }
    return {};
  }

  // Replayed, the router takes A's choice: so what comes after it is comparable.
  void choose(Router& router, Lane lane, std::span<const std::int32_t> ids, std::size_t first, std::int64_t rows,
              std::int64_t cols, std::int32_t* data) {
    router.top_k = static_cast<std::size_t>(cols);
    router.made.assign(data, data + rows * cols);
    if (router.given.size() != router.made.size()) return;
    const auto count = static_cast<std::size_t>(rows);
    const std::size_t experts = router.given_scores.size() / count;
    if (lane == Lane::replay && router.correction.size() == experts)  // once a step
      for (std::size_t i = 0; i < router.given_scores.size(); ++i) {
        float& score = router.given_scores[i];
        score = 1 / (1 + std::exp(-score)) + router.correction[i % experts];
      }
    router.explained.assign(count, false);
    for (std::size_t i = 0; i < count; ++i) {
      const auto scores = std::span<const float>(router.given_scores).subspan(i * experts, experts);
      Disagreement other = disagreement(router.row(router.given, i), router.row(router.made, i), scores);
      router.found.tokens += lane == Lane::free ? 1 : 0;
      if (other.a.empty() && other.b.empty()) continue;
      const double noise = lane == Lane::free && i < router.noise.size() ? router.noise[i] : 0;
      double scale = 0;
      for (const float score : scores) scale = std::max(scale, std::abs(static_cast<double>(score)));
      // Either score may be off by the noise; in what is replayed there is that of computing with them.
      const bool explained = other.margin >= 0 && other.margin <= std::max(2 * noise, born_floor * scale);
      router.explained[i] = explained;
      ++(lane == Lane::free ? router.found.flipped : router.found.own);
      router.found.unexplained += explained ? 0 : 1;
      if (lane != Lane::free || router.found.flips.size() >= AlignedRouter::most_flips) continue;
      router.found.flips.push_back({.sequence = sequence_,
                                    .position = static_cast<std::int64_t>(first + i),
                                    .token = ids[ids.size() - count + i],
                                    .a = std::move(other.a),
                                    .b = std::move(other.b),
                                    .margin = other.margin,
                                    .noise = noise,
                                    .noise_alone = explained});
    }
    if (lane == Lane::replay) std::copy(router.given.begin(), router.given.end(), data);
  }

  // A's and B's weights of a token's experts, so that they are of the same ones.
  [[nodiscard]] Dense weights(const Router& router, Lane lane, std::size_t number, std::span<const float> a,
                              std::span<const float> b) const {
    const Experts chosen = router.row(router.given, number), other = router.row(router.made, number);
    // Nearly equal scores have nearly equal weights.
    if (lane == Lane::replay && router.explained[number])
      return {.a = {a.begin(), a.end()}, .b = in_order_of(chosen, other, b)};
    return dense(chosen, a, other, b);
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
      const Router* router = router_of(state.weights_of);
      Dense of_experts;
      if (router != nullptr && router->given.size() == router->made.size())
        of_experts = weights(*router, Lane::replay, i, a, b);
      const Sums sums = of_experts.a.empty() ? compare(a, b) : compare(of_experts.a, of_experts.b);
      if (state.norm_of >= 0) {
        const std::vector<float>& read = state_[static_cast<std::size_t>(state.norm_of)].given;
        const auto width = static_cast<std::size_t>(cols);
        if (read.size() == part.ids.size() * width)
          state.scale.add(std::span(read).subspan(i * width, width), a, b, state.width, state.epsilon.value_or(0));
      }
      state.born_cosine = std::min(state.born_cosine, sums.cosine());
      AlignedToken& token = tokens_[before_ + part.first + i];
      if (sums.rel_l2() > token.born) {
        token.born = sums.rel_l2();
        token.born_at = name_of(number);
      }
      if (sums.rel_l2() <= state.born_rel_l2) continue;
      state.born_rel_l2 = sums.rel_l2();
      state.born_position = static_cast<std::int64_t>(part.first + i);
      state.born_token = part.ids[i];
    }
    std::copy(state.given.begin(), state.given.end(), data);  // of what A did not make there is nothing
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
    Router* scores = router_of(state.scores_of);
    std::vector<double>* noise = scores != nullptr ? &scores->noise : nullptr;
    if (noise != nullptr) noise->clear();
    for (std::size_t i = 0; i < part.ids.size(); ++i) {
      auto [a, b] = row(state, i, cols, data);
      const Router* router = router_of(state.weights_of);
      Dense of_experts;
      if (router != nullptr && router->given.size() == router->made.size()) {
        of_experts = weights(*router, Lane::free, i, a, b);
        a = of_experts.a, b = of_experts.b;
      }
      const Sums sums = compare(a, b);
      if (noise != nullptr) noise->push_back(sums.max_abs);
      state.free.add(sums);
      state.range.add(a, b);
      for (std::size_t j = 0; j < a.size(); ++j) state.beyond += !std::isfinite(a[j]) && !std::isfinite(b[j]) ? 1 : 0;
      const std::size_t token = before_ + part.first + i;
      state.by_token[token] = static_cast<float>(sums.rel_l2());
      if (number != logits_) continue;
      tokens_[token].kl = kl_divergence(a, b);
      kl_[token] = static_cast<float>(tokens_[token].kl);
      tokens_[token].same_top = likeliest(a) == likeliest(b);
    }
  }

  // As the side that knows the graph has it; what was taken apart as the side that has it whole.
  [[nodiscard]] const SourceNode& known(std::size_t number) const {
    const SourceNode &a = a_.nodes()[pairing_.pairs[number].a], &b = b_.nodes()[pairing_.pairs[number].b];
    return a_replayed_ || b.name.starts_with(a.name + "/") ? a : b;
  }
  [[nodiscard]] const std::string& name_of(std::size_t number) const { return known(number).name; }

  // Of several sequences the worst.
  [[nodiscard]] std::vector<float> by_position(const std::vector<float>& by_token) const {
    std::vector<float> worst(longest_, not_compared);
    for (std::size_t i = 0; i < by_token.size(); ++i) {
      float& at = worst[static_cast<std::size_t>(tokens_[i].position)];
      if (std::isnan(at) || by_token[i] > at) at = by_token[i];
    }
    return worst;
  }

  [[nodiscard]] AlignedNode node(std::size_t number) const {
    const State& state = state_[number];
    const SourceNode& known = this->known(number);
    AlignedNode node{.name = known.name, .op = known.op};
    node.layer = layer_of(node.name);
    node.free = {state.free.cosine(), state.free.rel_l2(), state.free.max_abs, state.free.sqnr_db()};
    node.by_position = by_position(state.by_token);
    node.not_finite = state.free.not_finite;
    node.beyond = state.beyond;
    node.median_rel_l2 = median(state.by_token);
    node.rounds_a = a_.nodes()[pairing_.pairs[number].a].rounds;
    node.rounds_b = b_.nodes()[pairing_.pairs[number].b].rounds;
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
    if (state.norm_of >= 0) judge(state, node);
    node.broken = node.born && (node.born_cosine < options_.cosine || node.born_rel_l2 > most_rel_l2());
    return node;
  }

  // What turns a vector by as much as the least cosine allows.
  [[nodiscard]] double most_rel_l2() const { return std::sqrt(2 * (1 - options_.cosine)); }

  // Of the tokens that were compared.
  static double median(std::vector<float> by_token) {
    std::erase_if(by_token, [](float error) { return std::isnan(error); });
    if (by_token.empty()) return 0;
    const auto middle = by_token.begin() + std::ssize(by_token) / 2;
    std::nth_element(by_token.begin(), middle, by_token.end());
    return static_cast<double>(*middle);
  }

  // A norm may be wrong where no single token is far off.
  static void judge(const State& state, AlignedNode& node) {
    const auto scale = state.scale.found(state.same_bits ? 0 : norm_rounding);
    node.born = node.born || scale || (state.same_bits && node.born_rel_l2 > 0);
    if (!scale || !scale->of_epsilon) return;
    node.hint = fmt::format("all elements of a token by one factor, in the mean 1 {} {:.2g}",
                            scale->factor < 0 ? '-' : '+', std::abs(scale->factor));
    if (state.epsilon)
      node.hint += fmt::format(": as an epsilon of about {:.1g} in B, of {:.2g} in A", *state.epsilon + scale->epsilon,
                               *state.epsilon);
    else
      node.hint += fmt::format(": as an epsilon larger by about {:.1g} in B", scale->epsilon);
  }

  // order: numbers of pairs, as they are made.
  void report_tokens(const std::vector<std::size_t>& order, Alignment& out) const {
    out.by_token = tokens_;
    for (const std::size_t number : order) {
      const std::vector<float>& errors = state_[number].by_token;
      if (std::any_of(errors.begin(), errors.end(), [](float error) { return std::isnan(error); })) continue;
      out.token_value = name_of(number);
      for (std::size_t i = 0; i < errors.size(); ++i) out.by_token[i].rel_l2 = static_cast<double>(errors[i]);
    }
    const bool by_kl = std::all_of(tokens_.begin(), tokens_.end(), [](const AlignedToken& t) { return t.kl >= 0; });
    out.worst_tokens.resize(tokens_.size());
    std::iota(out.worst_tokens.begin(), out.worst_tokens.end(), std::size_t{0});
    std::stable_sort(out.worst_tokens.begin(), out.worst_tokens.end(), [&](std::size_t x, std::size_t y) {
      const AlignedToken &p = out.by_token[x], &q = out.by_token[y];
      return by_kl ? p.kl > q.kl : p.rel_l2 > q.rel_l2;
    });
  }

  [[nodiscard]] Result<Alignment> report(std::int64_t tokens) const {
    Alignment out{.a = a_.label(), .b = b_.label(), .a_how = a_.how(), .b_how = b_.how()};
    out.tokens = tokens;
    out.a_replayed = a_replayed_;
    out.a_only = pairing_.a_only;
    out.b_only = pairing_.b_only;
    out.cosine = options_.cosine;
    out.rel_l2 = most_rel_l2();
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
    for (const Router& router : routers_) out.routers.push_back(router.found);
    report_tokens(order, out);
    const auto predicted =
        std::count_if(tokens_.begin(), tokens_.end(), [](const AlignedToken& t) { return t.kl >= 0; });
    if (predicted > 0) {
      double kl = 0, agreed = 0;
      for (const AlignedToken& token : tokens_) {
        if (token.kl < 0) continue;
        kl += token.kl;
        agreed += token.same_top ? 1 : 0;
      }
      out.has_logits = true;
      out.logits = {.tokens = predicted,
                    .kl = kl / static_cast<double>(predicted),
                    .top1 = agreed / static_cast<double>(predicted),
                    .cosine = state_[logits_].free.cosine(),
                    .kl_by_position = by_position(kl_)};
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
  std::vector<Router> routers_;
  std::map<std::string, int, std::less<>> router_by_name_, router_by_scores_;
  std::int64_t sequence_ = 0;
  std::size_t longest_ = 0;
  std::size_t before_ = 0;  // tokens of the sequences before
  std::vector<AlignedToken> tokens_;
  std::vector<float> kl_;  // by token
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
