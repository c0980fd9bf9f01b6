#include "runtime/speculation.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/clock.h"

namespace knapsack {
namespace {

constexpr std::int64_t longest_match = 32;  // beyond this a longer match says nothing more
constexpr int candidates = 24;              // earlier places that are compared, the latest first

// A guess must promise this much before it is made: measured times are noisy.
constexpr double least_gain = 1.04;
// A measurement counts a quarter; one beyond these bounds (the system ran something else) counts as the bound.
constexpr double weight = 0.25;
constexpr double first_weight = 0.5;  // of a first one, against what was expected
constexpr double bound = 1.6;
// How counts fade: with each judgement, so that the last few matter, and with each step, so that a source that failed
// is tried again after a few hundred tokens. No success, however long, counts for more than so many tokens.
constexpr double fade_judged = 0.85;
constexpr double fade_step = 0.998;
constexpr double most_right = 20;
// What a step of several rows was seen to cost is doubted, too, while none is made.
constexpr double fade_cost = 0.999;
// What each source is taken to do before anything is known, and for how many observations that counts.
constexpr std::array<double, draft_sources> prior{0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.4, 0.6};
constexpr double prior_count = 2;
// What a further row adds to a step, before it is measured.
constexpr double first_slope = 0.2;

DraftSource source_of(std::int64_t match) {
  if (match >= 16) return DraftSource::repeat_16;
  if (match >= 10) return DraftSource::repeat_10;
  if (match >= 6) return DraftSource::repeat_6;
  if (match >= 4) return DraftSource::repeat_4;
  return match == 3 ? DraftSource::repeat_3 : DraftSource::repeat_2;
}

void blend(double& estimate, double sample, double share = weight) {
  if (estimate == 0) {
    estimate = sample;
  } else {
    estimate += share * (std::clamp(sample, estimate / bound, estimate * bound) - estimate);
  }
}

}  // namespace

DraftPace::DraftPace(std::int64_t rows) : cost_(static_cast<std::size_t>(rows) + 1) {
  for (std::size_t i = 0; i < draft_sources; ++i)
    records_[i] = {.right = prior[i] * prior_count, .wrong = (1 - prior[i]) * prior_count};
}

// On the straight line between the nearest counts of rows that were seen.
double DraftPace::cost(std::int64_t rows) const {
  const auto at = [&](std::int64_t r) { return r == 1 ? 1.0 : cost_[static_cast<std::size_t>(r)]; };
  std::int64_t below = rows;
  while (at(below) == 0) --below;
  if (below == rows) return at(rows);
  const auto end = static_cast<std::int64_t>(cost_.size());
  std::int64_t above = rows;
  while (above < end && at(above) == 0) ++above;
  double slope = first_slope;
  if (above < end) {
    slope = (at(above) - at(below)) / static_cast<double>(above - below);
  } else if (below > 1) {
    slope = (at(below) - 1) / static_cast<double>(below - 1);
  }
  return at(below) + slope * static_cast<double>(rows - below);
}

DraftPace::Choice DraftPace::choose(DraftSource source, std::int64_t most, double token_ms) const {
  Choice best;
  if (step_ms_ == 0) return best;
  const auto& [right, wrong] = records_[static_cast<std::size_t>(source)];
  const double p = right / (right + wrong);
  const double token_cost = token_ms / step_ms_;
  double tokens = 1;  // that the step is expected to give
  double all_right = 1;
  most = std::min(most, static_cast<std::int64_t>(cost_.size()) - 2);
  for (std::int64_t n = 1; n <= most; ++n) {
    all_right *= p;
    tokens += all_right;
    const double gain = tokens / (cost(n + 1) + token_cost * static_cast<double>(n));
    if (gain > least_gain && gain > best.gain) best = {.length = n, .gain = gain};
  }
  return best;
}

void DraftPace::stepped(std::int64_t rows, double ms) {
  for (std::size_t i = 0; i < draft_sources; ++i) {
    // Towards what was believed before anything was seen.
    records_[i].right += (1 - fade_step) * (prior[i] * prior_count - records_[i].right);
    records_[i].wrong += (1 - fade_step) * ((1 - prior[i]) * prior_count - records_[i].wrong);
  }
  if (rows == 1) {
    blend(step_ms_, ms);
    for (double& cost : cost_)
      if (cost > 1) cost = 1 + (cost - 1) * fade_cost;
  } else if (step_ms_ > 0) {
    // The first measurement is weighed against what was expected: alone, one step that the system disturbed would end
    // all guessing, since its price would not be measured again.
    double& known = cost_[static_cast<std::size_t>(rows)];
    const bool first = known == 0;
    if (first) known = cost(rows);
    blend(known, std::max(1.0, ms / step_ms_), first ? first_weight : weight);
  }
}

void DraftPace::judged(DraftSource source, std::int64_t drafted, std::int64_t accepted) {
  Record& record = records_[static_cast<std::size_t>(source)];
  record.right = std::min(most_right, record.right * fade_judged + static_cast<double>(accepted));
  record.wrong = record.wrong * fade_judged + (accepted < drafted ? 1 : 0);
}

RepeatFinder::RepeatFinder(std::int64_t ctx) {
  std::size_t size = 256;
  while (size < static_cast<std::size_t>(ctx)) size *= 2;
  last_.resize(size);
  previous_.resize(static_cast<std::size_t>(ctx) + 1);
}

std::size_t RepeatFinder::bucket(std::int32_t a, std::int32_t b) const {
  const std::uint64_t both = static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
  return static_cast<std::size_t>(both * 0x9E3779B97F4A7C15ULL >> 32) & (last_.size() - 1);
}

RepeatFinder::Repeat RepeatFinder::find(Ids history) {
  const auto size = static_cast<std::int64_t>(history.size());
  if (seen_ == 0 || seen_ > size) {
    std::fill(last_.begin(), last_.end(), 0);
    seen_ = 1;
  }
  const auto at = [&](std::int64_t i) { return history[static_cast<std::size_t>(i)]; };
  // Each pair goes into the tables with the token behind it: what ends the history is not in them yet.
  for (; seen_ < size - 1; ++seen_) {
    auto& last = last_[bucket(at(seen_ - 1), at(seen_))];
    previous_[static_cast<std::size_t>(seen_ + 1)] = last;
    last = static_cast<std::int32_t>(seen_ + 1);
  }
  Repeat best;
  if (size < 3) return best;
  std::int64_t next = last_[bucket(at(size - 2), at(size - 1))];
  for (int tried = 0; next > 0 && tried < candidates; ++tried) {
    std::int64_t length = 0;
    while (length < std::min(next, longest_match) && at(next - 1 - length) == at(size - 1 - length)) ++length;
    if (length >= 2 && length > best.length) best = {.length = length, .next = next};
    if (best.length == longest_match) break;
    next = previous_[static_cast<std::size_t>(next)];
  }
  return best;
}

Result<void> check_same_vocabulary(Engine& model, Engine& draft) {
  const Bundle& a = model.bundle();
  const Bundle& b = draft.bundle();
  const char* advice = "a draft must have the model's own vocabulary: take a smaller model of the same family";
  if (model.has_tokenizer() != draft.has_tokenizer())
    return usage_error("the draft {} and the model {} cannot be compared, as only one of them has a tokenizer; {}",
                       b.name, a.name, advice);
  if (!model.has_tokenizer()) {
    if (a.vocab == b.vocab) return {};
    return usage_error("the draft {} has a vocabulary of {} tokens, the model {} one of {}; {}", b.name, b.vocab,
                       a.name, a.vocab, advice);
  }
  // The same description means the same vocabulary, and spares building the second tokenizer.
  TRY(const std::string text_a, a.tokenizer_json());
  TRY(const std::string text_b, b.tokenizer_json());
  if (text_a == text_b) return {};
  TRY(const auto tokens_a, model.tokenizer());
  TRY(const auto tokens_b, draft.tokenizer());
  if (tokens_a->largest_id() != tokens_b->largest_id())
    return usage_error("the draft {} has a vocabulary of {} tokens, the model {} one of {}; {}", b.name,
                       tokens_b->vocab_size(), a.name, tokens_a->vocab_size(), advice);
  for (std::int32_t id = 0; id <= tokens_a->largest_id(); ++id)
    if (tokens_a->piece(id) != tokens_b->piece(id))
      return usage_error("token {} is \"{}\" to the draft {} and \"{}\" to the model {}; {}", id, tokens_b->piece(id),
                         b.name, tokens_a->piece(id), a.name, advice);
  return {};
}

Speculation::Speculation(const Engine& model, bool lookup, std::unique_ptr<Engine> draft, std::int64_t guesses)
    : pace_(model.rows()),
      finder_(lookup ? std::make_unique<RepeatFinder>(model.ctx()) : nullptr),
      draft_(std::move(draft)),
      vocab_(model.bundle().vocab),
      most_(model.rows() - 1),
      guesses_wanted_(guesses) {
  guesses_.reserve(static_cast<std::size_t>(model.rows()));
}

void Speculation::begin() {
  if (finder_ != nullptr) finder_->reset();
  replaced_ = 0;
}

DraftPace::Choice Speculation::choose(DraftSource source, std::int64_t most) const {
  if (guesses_wanted_ >= 0) return {.length = std::min(guesses_wanted_, most), .gain = 1};
  return pace_.choose(source, most, source == DraftSource::model ? draft_token_ms_ : 0);
}

Ids Speculation::propose(Ids history, std::int64_t most) {
  guesses_.clear();
  most = std::min(most, most_);
  DraftPace::Choice best;
  std::int64_t from = 0;
  const auto consider = [&](DraftSource source, std::int64_t place) {
    const auto choice = choose(source, most);
    if (choice.length == 0 || (best.length > 0 && choice.gain <= best.gain)) return;
    best = choice;
    source_ = source;
    from = place;
  };
  if (finder_ != nullptr) {
    const auto found = finder_->find(history);
    if (found.length > 0) consider(source_of(found.length), found.next);
    if (replaced_ > 0) consider(DraftSource::replaced, replaced_);
  }
  if (draft_ != nullptr) consider(DraftSource::model, 0);
  replaced_ = 0;
  if (best.length == 0) return guesses_;
  if (source_ == DraftSource::model) {
    ask_draft(history, best.length);
  } else {
    from_ = from;
    repeat(history, from, best.length);
  }
  return guesses_;
}

void Speculation::judged(std::int64_t drafted, std::int64_t accepted) {
  pace_.judged(source_, drafted, accepted);
  if (accepted < drafted && source_ != DraftSource::model) replaced_ = from_ + accepted + 1;
}

// What followed before; where that runs into the history's end, it goes on with the guesses themselves.
void Speculation::repeat(Ids history, std::int64_t from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(from + i);
    guesses_.push_back(at < history.size() ? history[at] : guesses_[at - history.size()]);
  }
}

// The draft model's likeliest token, again and again.
void Speculation::ask_draft(Ids history, std::int64_t count) {
  const std::int64_t vocab = draft_->bundle().vocab;
  if (static_cast<std::int64_t>(history.size()) + count > draft_->ctx()) return;
  const std::int64_t known = draft_->keep_prefix(0, history);
  auto rest = history.subspan(static_cast<std::size_t>(known));
  // Models of one vocabulary may be padded to different widths.
  if (std::any_of(rest.begin(), rest.end(), [&](auto id) { return id >= vocab; })) return;
  std::span<const float> logits;
  const Stopwatch since;
  const bool caught_up = rest.size() <= 2;
  while (!rest.empty()) {
    const auto part = rest.first(std::min(rest.size(), static_cast<std::size_t>(draft_->chunk())));
    rest = rest.subspan(part.size());
    logits = draft_->extend(0, part, rest.empty() ? 1 : 0);
  }
  while (true) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (best >= vocab_) break;
    guesses_.push_back(static_cast<std::int32_t>(best));
    if (static_cast<std::int64_t>(guesses_.size()) == count) break;
    logits = draft_->extend(0, Ids(guesses_).last(1), 1);
  }
  if (caught_up) blend(draft_token_ms_, since.ms() / static_cast<double>(count));
}

}  // namespace knapsack
