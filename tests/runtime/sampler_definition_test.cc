// The sampler's shortcuts for large vocabularies against the definition in sampler.h, written down with full sorts.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "graph/tiny.h"
#include "runtime/exact_math.h"
#include "runtime/logit_scan.h"
#include "runtime/sampler.h"

namespace knapsack {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Token {
  float logit;
  std::int32_t id;
  double p;
};

class Definition {
 public:
  explicit Definition(const SamplerOptions& options) : o_(options), mu_(2.0 * static_cast<double>(o_.mirostat_tau)) {
    std::uint64_t seed = o_.seed;
    for (auto& word : state_) {
      std::uint64_t z = seed += 0x9E3779B97F4A7C15ULL;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
      word = z ^ (z >> 31);
    }
  }

  std::int32_t sample(const std::vector<float>& logits) {
    tokens_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (logits[i] > -infinity) tokens_.push_back({logits[i], static_cast<std::int32_t>(i), 0});
    const auto temperature = static_cast<double>(o_.temperature);
    if (o_.mirostat == 2) {
      const double sum = weigh(temperature);
      sort();
      std::size_t kept = 1;
      while (kept < tokens_.size() && surprise(tokens_[kept].p / sum) <= mu_) ++kept;
      tokens_.resize(kept);
      const auto id = draw(temperature);
      double left = 0;
      for (const auto& t : tokens_) left += t.p;
      for (const auto& t : tokens_)
        if (t.id == id)
          mu_ -= static_cast<double>(o_.mirostat_eta) * (surprise(t.p / left) - static_cast<double>(o_.mirostat_tau));
      return id;
    }
    if (o_.top_k > 0 && static_cast<std::size_t>(o_.top_k) < tokens_.size()) {
      sort();
      tokens_.resize(static_cast<std::size_t>(o_.top_k));
    }
    if (o_.typical_p < 1) typical();
    if (o_.top_p < 1) {
      const double wanted = static_cast<double>(o_.top_p) * weigh(1);
      sort();
      double mass = 0;
      std::size_t kept = 0;
      while (kept < tokens_.size() && mass < wanted) mass += tokens_[kept++].p;
      tokens_.resize(kept);
    }
    if (o_.min_p > 0) {
      float best = -infinity;
      for (const auto& t : tokens_) best = std::max(best, t.logit);
      const double least = static_cast<double>(best) + exact_log(static_cast<double>(o_.min_p));
      std::erase_if(tokens_, [&](const auto& t) { return static_cast<double>(t.logit) < least; });
    }
    return draw(temperature);
  }

 private:
  static bool better(const Token& a, const Token& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }
  static double surprise(double p) { return p > 0 ? -exact_log(p) / ln2 : std::numeric_limits<double>::infinity(); }
  void sort() { std::sort(tokens_.begin(), tokens_.end(), better); }
  double weigh(double temperature) {
    float best = -infinity;
    for (const auto& t : tokens_) best = std::max(best, t.logit);
    double sum = 0;
    for (auto& t : tokens_)
      sum += t.p = exact_exp((static_cast<double>(t.logit) - static_cast<double>(best)) / temperature);
    return sum;
  }
  void typical() {
    sort();
    const double sum = weigh(1);
    double entropy = 0;
    for (const auto& t : tokens_)
      if (t.p > 0) entropy -= t.p / sum * exact_log(t.p / sum);
    const double best = tokens_[0].logit;
    for (auto& t : tokens_)
      t.p = std::abs((t.p > 0 ? -exact_log(t.p / sum) : std::numeric_limits<double>::max()) - entropy);
    std::sort(tokens_.begin(), tokens_.end(),
              [](const Token& a, const Token& b) { return a.p != b.p ? a.p < b.p : better(a, b); });
    double mass = 0;
    std::size_t kept = 0;
    while (kept < tokens_.size() && mass <= static_cast<double>(o_.typical_p))
      mass += exact_exp(static_cast<double>(tokens_[kept++].logit) - best) / sum;
    tokens_.resize(kept);
  }
  std::int32_t draw(double temperature) {
    const double target = static_cast<double>(next() >> 11) * 0x1p-53 * weigh(temperature);
    double mass = 0;
    std::int32_t last = -1;
    for (const auto& t : tokens_) {
      if (t.p == 0) continue;
      last = t.id;
      mass += t.p;
      if (mass > target) break;
    }
    return last;
  }
  std::uint64_t next() {
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

  SamplerOptions o_;
  double mu_;
  std::uint64_t state_[4]{};
  std::vector<Token> tokens_;
};

// Peaked, flat, with many equals (zeros of both signs among them), with most tokens impossible, spread over thousands.
std::vector<float> logits_of(int kind, std::size_t vocab, std::uint64_t seed) {
  testing::Noise noise(seed);
  std::vector<float> logits(vocab);
  for (float& x : logits) {
    const float z = noise.next() + noise.next() + noise.next();
    x = 3 * z;
    if (kind == 0 && noise.next() > 0.99F) x += 12;
    if (kind == 1) x = 0.01F * z;
    if (kind == 2) x = std::round(z);
    if (kind == 2 && x == 0 && noise.next() > 0) x = -0.0F;
    if (kind == 3 && noise.next() > -0.98F) x = -infinity;
    if (kind == 4) x = 1000 * z;
    if (kind == 5) x = z - 20;
  }
  return logits;
}

TEST(SamplerDefinition, ShortcutsGiveTheSameTokens) {
  std::vector<SamplerOptions> all;
  for (const float temperature : {0.1F, 0.8F, 2.0F}) {
    const SamplerOptions base{.temperature = temperature, .seed = all.size()};
    const auto with = [&](auto change) {
      SamplerOptions options = base;
      change(options);
      all.push_back(options);
    };
    all.push_back(base);
    for (const int k : {1, 40, 1024, 1025, 3000, 5000}) with([&](auto& o) { o.top_k = k; });
    for (const float p : {1e-6F, 0.5F, 0.9F, 0.99F, 0.9999999F}) with([&](auto& o) { o.top_p = p; });
    for (const float p : {1e-30F, 0.001F, 0.05F, 1.0F}) with([&](auto& o) { o.min_p = p; });
    for (const float p : {0.1F, 0.9F, 0.999F}) with([&](auto& o) { o.typical_p = p; });
    for (const float tau : {0.5F, 5.0F, 20.0F}) with([&](auto& o) { o.mirostat = 2, o.mirostat_tau = tau; });
    with([](auto& o) { o.top_k = 50, o.top_p = 0.9F, o.min_p = 0.02F; });
    with([](auto& o) { o.top_p = 0.95F, o.min_p = 0.02F; });
    with([](auto& o) { o.typical_p = 0.95F, o.top_p = 0.9F; });
    with([](auto& o) { o.top_k = 2000, o.typical_p = 0.9F, o.top_p = 0.9F, o.min_p = 0.01F; });
  }
  for (const std::size_t vocab : {1, 37, 256, 3001}) {
    for (auto options : all) {
      Sampler sampler(options, static_cast<std::int64_t>(vocab));
      Definition definition(options);
      for (int round = 0; round < 18; ++round) {
        auto logits = logits_of(round % 6, vocab, static_cast<std::uint64_t>(round) * 31 + vocab);
        logits[static_cast<std::size_t>(round) % vocab] = 0.5F;  // one is possible always
        const auto found = sampler.sample(logits, {});
        ASSERT_TRUE(found) << found.error().message;
        ASSERT_EQ(*found, definition.sample(logits))
            << "vocab " << vocab << " round " << round << " T " << options.temperature << " k " << options.top_k
            << " p " << options.top_p << " min_p " << options.min_p << " typical " << options.typical_p << " mirostat "
            << options.mirostat;
      }
    }
  }
}

TEST(LogitScan, EachPassIsWhatItSays) {
  for (const std::size_t n : {1, 7, 64, 65, 1000}) {
    for (int kind = 0; kind < 6; ++kind) {
      auto x = logits_of(kind, n, n + static_cast<std::size_t>(kind));
      x[n / 2] = -3;
      EXPECT_FALSE(any_broken(x));
      const float best = *std::max_element(x.begin(), x.end());
      EXPECT_EQ(highest(x), best);
      std::vector<double> p(n);
      for (const double temperature : {0.01, 1.0, 3.7}) {
        weigh_all(x, best, temperature, p);
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_EQ(p[i], x[i] == -infinity
                              ? 0
                              : exact_exp((static_cast<double>(x[i]) - static_cast<double>(best)) / temperature));
      }
      for (const auto& [low, below] : std::vector<std::pair<float, float>>{
               {-1, 1}, {0, infinity}, {-0.0F, 2}, {-2, 0}, {-2, -0.0F}, {best, infinity}, {-1e30F, -100}}) {
        std::vector<std::int32_t> expected;
        for (std::size_t i = 0; i < n; ++i)
          if (x[i] >= low && x[i] < below) expected.push_back(static_cast<std::int32_t>(i));
        std::vector<std::int32_t> found;
        find_between(x, low, below, found);
        EXPECT_EQ(found, expected);
      }
      for (const float broken :
           {infinity, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
        auto y = x;
        y[n - 1] = broken;
        EXPECT_TRUE(any_broken(y));
      }
    }
  }
  EXPECT_EQ(highest(std::vector<float>{-infinity, -infinity}), -infinity);
}

}  // namespace
}  // namespace knapsack
