#include "runtime/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "runtime/exact_math.h"
#include "runtime/logit_scan.h"

namespace knapsack {
namespace {

constexpr std::size_t sum_block = 256;  // tokens whose p are added up between two entries of p_before_

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

Error out_of_range(const char* name, double value, const char* expected) {
  return usage_error("sampling option {}: expected {}, found {}", name, expected, value);
}

// Higher logit first, then the lower id: a total order, so every selection has one answer.
constexpr auto better = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

// Extreme options must not make infinities out of finite logits; -inf stays, it is a ban.
float bounded(float logit) { return logit == minus_infinity ? logit : std::clamp(logit, -3e38F, 3e38F); }

std::uint64_t split_mix(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::span<const std::int32_t> tail(std::span<const std::int32_t> history, int window) {
  if (window < 0 || static_cast<std::size_t>(window) >= history.size()) return history;
  return history.last(static_cast<std::size_t>(window));
}

}  // namespace

Result<void> check(const SamplerOptions& o) {
  // Written so that NaN fails each of them.
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    return out_of_range("temperature", o.temperature, "0 or more");
  if (o.top_k < 0) return out_of_range("top_k", o.top_k, "0 (off) or more");
  if (!(o.top_p > 0 && o.top_p <= 1)) return out_of_range("top_p", o.top_p, "more than 0 and at most 1");
  if (!(o.min_p >= 0 && o.min_p <= 1)) return out_of_range("min_p", o.min_p, "0 to 1");
  if (!(o.typical_p > 0 && o.typical_p <= 1))
    return out_of_range("typical_p", o.typical_p, "more than 0 and at most 1");
  if (!(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty)))
    return out_of_range("repetition_penalty", o.repetition_penalty, "more than 0 (1 is off)");
  if (!std::isfinite(o.presence_penalty))
    return out_of_range("presence_penalty", o.presence_penalty, "a finite number");
  if (!std::isfinite(o.frequency_penalty))
    return out_of_range("frequency_penalty", o.frequency_penalty, "a finite number");
  if (o.penalty_window < -1) return out_of_range("penalty_window", o.penalty_window, "-1 (all) or more");
  for (const auto& [id, bias] : o.logit_bias) {
    if (id < 0) return out_of_range("logit_bias", id, "token ids of 0 or more");
    if (!(bias < std::numeric_limits<float>::infinity()))
      return out_of_range("logit_bias", bias, "finite numbers or -inf");
  }
  if (o.mirostat != 0 && o.mirostat != 2) return out_of_range("mirostat", o.mirostat, "0 (off) or 2");
  if (!(o.mirostat_tau >= 0 && std::isfinite(o.mirostat_tau)))
    return out_of_range("mirostat_tau", o.mirostat_tau, "0 or more");
  if (!(o.mirostat_eta >= 0 && o.mirostat_eta <= 1)) return out_of_range("mirostat_eta", o.mirostat_eta, "0 to 1");
  if (!(o.dry_multiplier >= 0 && std::isfinite(o.dry_multiplier)))
    return out_of_range("dry_multiplier", o.dry_multiplier, "0 (off) or more");
  if (!(o.dry_base >= 1 && std::isfinite(o.dry_base))) return out_of_range("dry_base", o.dry_base, "1 or more");
  if (o.dry_allowed_length < 0) return out_of_range("dry_allowed_length", o.dry_allowed_length, "0 or more");
  if (o.dry_window < -1) return out_of_range("dry_window", o.dry_window, "-1 (all) or more");
  for (const auto& breaker : o.dry_breakers)
    if (breaker.empty())
      return usage_error("sampling option dry_breakers: expected token sequences, found an empty one");
  return {};
}

Result<void> check(const SamplerOptions& options, std::int64_t vocab) {
  TRY_VOID(check(options));
  for (const auto& [id, bias] : options.logit_bias)
    if (id >= vocab)
      return usage_error("sampling option logit_bias: token id {} is outside the vocabulary of {}", id, vocab);
  return {};
}

Sampler::Sampler(const SamplerOptions& options, std::int64_t vocab, std::int64_t max_history)
    : options_(options),
      mu_(2.0 * static_cast<double>(options.mirostat_tau)),
      logits_(static_cast<std::size_t>(vocab)) {
  std::uint64_t seed = options.seed;
  for (auto& word : state_) word = split_mix(seed);
  if (options_.temperature > 0) {
    // Untouched until it is needed, and most of it never is.
    candidates_.reserve(logits_.size());
    found_.reserve(logits_.size());
    keys_.reserve(logits_.size());
    keys_after_.reserve(logits_.size());
    p_.resize(logits_.size());
    p_before_.resize(logits_.size() / sum_block + 2);
  }
  count_.resize(static_cast<std::size_t>(vocab));
  if (options_.dry_multiplier > 0) repeat_.reserve(static_cast<std::size_t>(max_history));
}

// xoshiro256** of Blackman and Vigna.
std::uint64_t Sampler::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

void Sampler::apply_penalties(std::span<const std::int32_t> history) {
  const auto window = tail(history, options_.penalty_window);
  const bool off =
      options_.repetition_penalty == 1 && options_.presence_penalty == 0 && options_.frequency_penalty == 0;
  if (off || window.empty()) return;
  for (const auto id : window) ++count_[static_cast<std::size_t>(id)];
  for (const auto id : window) {
    auto& count = count_[static_cast<std::size_t>(id)];
    if (count == 0) continue;  // a token seen before in this loop
    float& logit = logits_[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    logit = bounded(logit - static_cast<float>(count) * options_.frequency_penalty - options_.presence_penalty);
    count = 0;
  }
}

void Sampler::apply_dry(std::span<const std::int32_t> history) {
  if (options_.dry_multiplier == 0) return;
  const auto window = tail(history, options_.dry_window);
  const auto n = static_cast<std::int64_t>(window.size());
  const std::int64_t allowed = options_.dry_allowed_length;
  if (n <= allowed) return;
  const auto back = [&](std::int64_t i) { return window[static_cast<std::size_t>(n - 1 - i)]; };

  // A repeat may not reach over a breaker: only what follows the last one counts.
  std::int64_t limit = n;
  for (const auto& breaker : options_.dry_breakers) {
    const auto length = static_cast<std::int64_t>(breaker.size());
    for (std::int64_t i = 0; i < limit && i + length <= n; ++i) {
      if (std::equal(breaker.begin(), breaker.end(), window.end() - i - length)) {
        limit = i;
        break;
      }
    }
  }
  if (limit < allowed) return;

  // Z-function of the reversed window: repeat_[k] is how many tokens before position n-k equal the window's end.
  repeat_.assign(static_cast<std::size_t>(n), 0);
  const auto z = [&](std::int64_t k) -> std::int32_t& { return repeat_[static_cast<std::size_t>(k)]; };
  for (std::int64_t k = 1, left = 0, right = 0; k < n; ++k) {
    std::int64_t length = k < right ? std::min<std::int64_t>(right - k, z(k - left)) : 0;
    while (k + length < n && back(length) == back(k + length)) ++length;
    z(k) = static_cast<std::int32_t>(length);
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
  // count_ holds one more than the longest repeat each token would continue.
  for (std::int64_t k = 1; k < n; ++k) {
    const auto length = std::min<std::int64_t>(z(k), limit);
    if (length < allowed) continue;
    auto& longest = count_[static_cast<std::size_t>(back(k - 1))];
    longest = std::max(longest, static_cast<std::int32_t>(length + 1));
  }
  for (std::int64_t k = 1; k < n; ++k) {
    const std::int32_t id = back(k - 1);
    auto& longest = count_[static_cast<std::size_t>(id)];
    if (longest == 0) continue;
    const bool breaks = std::any_of(options_.dry_breakers.begin(), options_.dry_breakers.end(),
                                    [&](const auto& b) { return b.size() == 1 && b[0] == id; });
    if (!breaks) {
      // base^exponent by squaring, held below the largest float.
      double power = 1;
      double square = options_.dry_base;
      for (std::int64_t e = longest - 1 - allowed; e > 0; e >>= 1) {
        if ((e & 1) != 0) power *= square;
        square = std::min(square * square, 1e38);
        power = std::min(power, 1e38);
      }
      float& logit = logits_[static_cast<std::size_t>(id)];
      logit = bounded(logit - static_cast<float>(std::min(options_.dry_multiplier * power, 1e38)));
    }
    longest = 0;
  }
}

void Sampler::gather() {
  candidates_.clear();
  sorted_ = 0;
  whole_ = false;
  for (std::size_t i = 0; i < logits_.size(); ++i)
    if (logits_[i] > minus_infinity) candidates_.push_back({logits_[i], static_cast<std::int32_t>(i), 0});
}

// Fills p_ with exp((logit - best) / temperature) and returns their sum, in the order of ids.
double Sampler::weigh_vocabulary(double temperature) {
  weigh_all(logits_, best_, temperature, p_);
  double sum = 0;
  for (std::size_t i = 0; i < p_.size(); ++i) {
    if (i % sum_block == 0) p_before_[i / sum_block] = sum;
    sum += p_[i];
  }
  p_before_[(p_.size() - 1) / sum_block + 1] = sum;
  return sum;
}

// Appends the tokens of found_ (ascending ids) to the candidates, the best first. A radix sort: a flat distribution
// leaves tens of thousands.
void Sampler::sort_found() {
  const std::size_t begin = candidates_.size();
  constexpr std::size_t few = 512;
  if (found_.size() <= few) {
    for (const auto id : found_) {
      const auto i = static_cast<std::size_t>(id);
      candidates_.push_back({logits_[i], id, p_[i]});
    }
    std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(begin), candidates_.end(), better);
    return;
  }
  constexpr unsigned digit_bits = 11;
  constexpr std::uint32_t digits = 1U << digit_bits;
  keys_.clear();
  for (const auto id : found_) {
    const float logit = logits_[static_cast<std::size_t>(id)];
    const auto bits = std::bit_cast<std::uint32_t>(logit == 0 ? 0.0F : logit);
    // The higher the logit, the lower the key.
    keys_.emplace_back((bits & 0x80000000U) != 0 ? bits : ~(bits | 0x80000000U), id);
  }
  for (unsigned shift = 0; shift < 32; shift += digit_bits) {
    std::array<std::uint32_t, digits> at{};
    for (const auto& [key, id] : keys_) ++at[(key >> shift) % digits];
    std::uint32_t total = 0;
    for (auto& place : at) {
      const std::uint32_t count = place;
      place = total;
      total += count;
    }
    keys_after_.resize(keys_.size());
    for (const auto& entry : keys_) keys_after_[at[(entry.first >> shift) % digits]++] = entry;
    keys_.swap(keys_after_);
  }
  for (const auto& [key, id] : keys_) {
    const auto i = static_cast<std::size_t>(id);
    candidates_.push_back({logits_[i], id, p_[i]});
  }
}

// From the whole vocabulary to its best tokens, in order, with their p_: as many as it takes until
// enough(candidate, index) says that this is the last one.
template <class Enough>
void Sampler::take_best(const Enough& enough) {
  candidates_.clear();
  whole_ = false;
  // Bands of logits below the best one; each is found, sorted and looked through before the next.
  constexpr std::array bands{1.0F, 2.0F, 3.0F, 4.0F, 6.0F, 8.0F, 11.0F, 15.0F, 20.0F, 30.0F, 50.0F};
  float below = std::numeric_limits<float>::infinity();
  for (std::size_t band = 0; band <= bands.size(); ++band) {
    const float low = band < bands.size() ? best_ - bands[band] : std::numeric_limits<float>::lowest();
    found_.clear();
    find_between(logits_, low, below, found_);
    below = low;
    std::size_t next = candidates_.size();
    sort_found();
    for (; next < candidates_.size(); ++next) {
      if (!enough(candidates_[next], next)) continue;
      candidates_.resize(next + 1);
      sorted_ = next + 1;
      return;
    }
  }
  sorted_ = candidates_.size();
}

// Brings the best `count` candidates to the front, in order.
void Sampler::sort_first(std::size_t count) {
  count = std::min(count, candidates_.size());
  if (count <= sorted_) return;
  const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  const auto middle = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(begin, middle - 1, candidates_.end(), better);
  std::sort(begin, middle, better);
  sorted_ = count;
}

// Fills p of the first `count` with exp((logit - best) / temperature) and returns their sum.
double Sampler::weigh(std::size_t count, double temperature) {
  float best = minus_infinity;
  for (std::size_t i = 0; i < count; ++i) best = std::max(best, candidates_[i].logit);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto& c = candidates_[i];
    c.p = exact_exp((static_cast<double>(c.logit) - static_cast<double>(best)) / temperature);
    sum += c.p;
  }
  return sum;
}

void Sampler::top_k() {
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k == 0 || k >= logits_.size()) return;
  constexpr std::size_t few = 1024;
  if (k > few) {
    gather();
    if (k >= candidates_.size()) return;
    sort_first(k);
    candidates_.resize(k);
    return;
  }
  // A heap of the best so far, its worst on top. Most blocks hold nothing better.
  candidates_.clear();
  constexpr std::size_t block = 256;
  for (std::size_t begin = 0; begin < logits_.size(); begin += block) {
    const auto part = std::span(logits_).subspan(begin, std::min(block, logits_.size() - begin));
    if (candidates_.size() == k && !(highest(part) > candidates_.front().logit)) continue;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Candidate next{part[i], static_cast<std::int32_t>(begin + i), 0};
      if (next.logit == minus_infinity) continue;
      if (candidates_.size() == k) {
        if (!better(next, candidates_.front())) continue;
        std::pop_heap(candidates_.begin(), candidates_.end(), better);
        candidates_.pop_back();
      }
      candidates_.push_back(next);
      std::push_heap(candidates_.begin(), candidates_.end(), better);
    }
  }
  if (candidates_.size() < k) return;  // all that are possible stay, as they are
  std::sort_heap(candidates_.begin(), candidates_.end(), better);
  sorted_ = k;
  whole_ = false;
}

void Sampler::typical() {
  if (options_.typical_p >= 1) return;
  if (whole_) {
    weigh_vocabulary(1);
    take_best([](const Candidate&, std::size_t) { return false; });  // all, sorted
  }
  const std::size_t n = candidates_.size();
  sort_first(n);  // so that the sums and the ties below do not depend on how the candidates came
  const double sum = weigh(n, 1);
  // The surprise takes p's place, then the distance from the entropy; p is found again from the logit.
  double entropy = 0;
  for (auto& c : candidates_) {
    const double surprise = c.p > 0 ? -exact_log(c.p / sum) : std::numeric_limits<double>::max();
    if (c.p > 0) entropy += c.p / sum * surprise;
    c.p = surprise;
  }
  const double best = candidates_[0].logit;
  for (auto& c : candidates_) c.p = std::abs(c.p - entropy);
  const auto nearer = [](const Candidate& a, const Candidate& b) { return a.p != b.p ? a.p < b.p : better(a, b); };
  double mass = 0;
  std::size_t kept = 0;
  std::size_t in_order = 0;
  for (std::size_t ahead = 64; kept == in_order && kept < n; ahead *= 4) {
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(in_order);
    in_order = std::min(ahead, n);
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(in_order);
    std::nth_element(begin, end - 1, candidates_.end(), nearer);
    std::sort(begin, end, nearer);
    while (kept < in_order && mass <= static_cast<double>(options_.typical_p))
      mass += exact_exp(static_cast<double>(candidates_[kept++].logit) - best) / sum;
    if (mass > static_cast<double>(options_.typical_p)) break;
  }
  candidates_.resize(kept);
  sorted_ = 0;
}

void Sampler::top_p() {
  if (options_.top_p >= 1) return;
  if (whole_) {
    const double wanted = static_cast<double>(options_.top_p) * weigh_vocabulary(1);
    double mass = 0;
    take_best([&](const Candidate& c, std::size_t) { return (mass += c.p) >= wanted; });
    return;
  }
  const double sum = weigh(candidates_.size(), 1);
  const double wanted = static_cast<double>(options_.top_p) * sum;
  double mass = 0;
  std::size_t kept = 0;
  // The best few usually hold the mass: sort more only as it is needed.
  for (std::size_t ahead = 64; kept < candidates_.size(); ahead *= 4) {
    sort_first(ahead);
    while (kept < sorted_) {
      mass += candidates_[kept++].p;
      if (mass >= wanted) {
        candidates_.resize(kept);
        sorted_ = kept;
        return;
      }
    }
  }
}

void Sampler::min_p() {
  if (options_.min_p <= 0) return;
  if (whole_) {
    const double least = static_cast<double>(best_) + exact_log(static_cast<double>(options_.min_p));
    const auto low = static_cast<float>(least - std::abs(least) * 1e-6 - 1e-30);  // surely no higher
    candidates_.clear();
    found_.clear();
    find_between(logits_, std::max(low, std::numeric_limits<float>::lowest()), std::numeric_limits<float>::infinity(),
                 found_);
    for (const auto id : found_)
      if (const float logit = logits_[static_cast<std::size_t>(id)]; !(static_cast<double>(logit) < least))
        candidates_.push_back({logit, id, 0});
    sorted_ = 0;
    whole_ = false;
    return;
  }
  float best = minus_infinity;
  for (const auto& c : candidates_) best = std::max(best, c.logit);
  const double least = static_cast<double>(best) + exact_log(static_cast<double>(options_.min_p));
  std::erase_if(candidates_, [&](const Candidate& c) { return static_cast<double>(c.logit) < least; });
  sorted_ = std::min(sorted_, candidates_.size());
}

std::int32_t Sampler::draw_from_vocabulary(double temperature) {
  const double sum = weigh_vocabulary(temperature);
  const double target = static_cast<double>(next() >> 11) * 0x1p-53 * sum;  // uniform in [0, sum)
  // The first block whose end is beyond the target, then the first token; in case of rounding the last possible one.
  const auto blocks = (p_.size() - 1) / sum_block + 1;
  std::size_t block = 0;
  while (block + 1 < blocks && !(p_before_[block + 1] > target)) ++block;
  double mass = p_before_[block];
  for (std::size_t i = block * sum_block; i < p_.size(); ++i) {
    mass += p_[i];
    if (p_[i] > 0 && mass > target) return static_cast<std::int32_t>(i);
  }
  std::size_t last = p_.size() - 1;
  while (p_[last] == 0) --last;  // the best one's p is 1
  return static_cast<std::int32_t>(last);
}

std::int32_t Sampler::draw(double temperature) {
  if (whole_) return draw_from_vocabulary(temperature);
  const double sum = weigh(candidates_.size(), temperature);
  const double target = static_cast<double>(next() >> 11) * 0x1p-53 * sum;  // uniform in [0, sum)
  double mass = 0;
  const Candidate* last = nullptr;
  for (const auto& c : candidates_) {
    if (c.p == 0) continue;
    last = &c;
    mass += c.p;
    if (mass > target) break;
  }
  CHECK(last != nullptr);  // the best one's p is 1
  return last->id;
}

std::int32_t Sampler::mirostat() {
  const auto temperature = static_cast<double>(options_.temperature);
  const double sum = weigh_vocabulary(temperature);
  const auto surprise = [&](const Candidate& c, double total) {
    return c.p > 0 ? -exact_log(c.p / total) / ln2 : std::numeric_limits<double>::infinity();
  };
  bool too_many = false;
  take_best([&](const Candidate& c, std::size_t index) { return too_many = index > 0 && !(surprise(c, sum) <= mu_); });
  if (too_many) candidates_.pop_back();
  sorted_ = candidates_.size();
  const std::int32_t id = draw(temperature);
  double left = 0;
  for (const auto& c : candidates_) left += c.p;
  const auto chosen = std::find_if(candidates_.begin(), candidates_.end(), [&](const auto& c) { return c.id == id; });
  mu_ -= static_cast<double>(options_.mirostat_eta) *
         (surprise(*chosen, left) - static_cast<double>(options_.mirostat_tau));
  return id;
}

Result<std::int32_t> Sampler::sample(std::span<const float> logits, std::span<const std::int32_t> history) {
  CHECK(logits.size() == logits_.size());
  if (any_broken(logits)) {
    std::size_t broken = logits.size() - 1;
    while (logits[broken] < std::numeric_limits<float>::infinity()) --broken;
    return bad_input(
        "the model gave {} as the logit of token {} after {} tokens; its weights are damaged or overflow "
        "(see `knapsack inspect --check`)",
        logits[broken], broken, history.size());
  }
  if (highest(logits) == minus_infinity)
    return bad_input("the model gave no token a finite logit after {} tokens; its weights are damaged", history.size());
  std::copy(logits.begin(), logits.end(), logits_.begin());

  for (const auto& [id, bias] : options_.logit_bias) {
    float& logit = logits_[static_cast<std::size_t>(id)];
    logit = bounded(logit + bias);
  }
  apply_penalties(history);
  apply_dry(history);

  best_ = highest(logits_);
  if (best_ == minus_infinity)
    return usage_error("sampling option logit_bias bans every token the model could give; allow at least one");
  if (options_.temperature == 0)
    return static_cast<std::int32_t>(std::find(logits_.begin(), logits_.end(), best_) - logits_.begin());

  whole_ = true;
  if (options_.mirostat == 2) return mirostat();
  top_k();
  typical();
  top_p();
  min_p();
  return draw(static_cast<double>(options_.temperature));
}

}  // namespace knapsack
