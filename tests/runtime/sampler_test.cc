// The sampler against distributions worked out by hand, and chi-square tests with fixed seeds.
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "runtime/exact_math.h"

namespace knapsack {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<float> logs(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// How often each id comes in `draws` draws.
std::vector<int> histogram(const SamplerOptions& options, const std::vector<float>& logits, int draws,
                           const std::vector<std::int32_t>& history = {}) {
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    const auto id = sampler.sample(logits, history);
    EXPECT_TRUE(id) << id.error().message;
    if (!id) break;
    ++counts[static_cast<std::size_t>(*id)];
  }
  return counts;
}

// Pearson's statistic against `expected` (normalised here); ids with no expected mass must not come at all.
double chi_square(const std::vector<int>& counts, std::vector<double> expected) {
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  double statistic = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double e = expected[i] / sum * n;
    if (e == 0) {
      EXPECT_EQ(counts[i], 0) << "id " << i;
    } else {
      statistic += (counts[i] - e) * (counts[i] - e) / e;
    }
  }
  return statistic;
}
constexpr double limit_of_5 = 20.5;  // chi-square, 5 degrees of freedom, p = 0.001

std::int32_t greedy(const SamplerOptions& options, const std::vector<float>& logits,
                    const std::vector<std::int32_t>& history) {
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  const auto id = sampler.sample(logits, history);
  EXPECT_TRUE(id);
  return id ? *id : -1;
}

TEST(ExactMath, AgreesWithLibm) {
  for (double x = -700; x <= 700; x += 0.37) EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 2e-15) << x;
  for (double x = -1; x <= 1; x += 0.001) EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 1e-15) << x;
  for (double x = 1e-300; x < 1e300; x *= 1.7)
    EXPECT_NEAR(exact_log(x), std::log(x), 1e-15 * (1 + std::abs(std::log(x)))) << x;
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_exp(-1000), 0);
  EXPECT_EQ(exact_exp(1000), std::numeric_limits<double>::infinity());
  EXPECT_EQ(exact_log(1), 0);
  EXPECT_EQ(exact_log(0), -std::numeric_limits<double>::infinity());
}

TEST(Sampler, GreedyTakesTheHighestAndTheLowestIdOfEquals) {
  EXPECT_EQ(greedy({}, {1, 3, 2}, {}), 1);
  EXPECT_EQ(greedy({}, {1, 3, 3, 3}, {}), 1);
  EXPECT_EQ(greedy({}, {-inf, -5, -inf}, {}), 1);
}

TEST(Sampler, TemperatureOneIsTheDistributionItself) {
  const std::vector<double> p = {0.05, 0.4, 0.1, 0.2, 0.15, 0.1};
  const auto counts = histogram({.temperature = 1, .seed = 7}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
  EXPECT_LT(chi_square(counts, p), limit_of_5);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<double> p = {0.05, 0.4, 0.1, 0.2, 0.15, 0.1};
  for (const float t : {0.5F, 2.0F}) {
    std::vector<double> expected;
    for (const double x : p) expected.push_back(std::pow(x, 1.0 / static_cast<double>(t)));
    const auto counts = histogram({.temperature = t, .seed = 11}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
    EXPECT_LT(chi_square(counts, expected), limit_of_5) << t;
  }
}

TEST(Sampler, TinyAndHugeTemperaturesAreDefined) {
  const auto counts = histogram({.temperature = 1e-38F}, {1, 3, 2}, 100);
  EXPECT_EQ(counts, (std::vector<int>{0, 100, 0}));
  const auto flat = histogram({.temperature = 3e38F, .seed = 3}, {1, 30, 2}, 3000);
  for (const int n : flat) EXPECT_NEAR(n, 1000, 120);
}

TEST(Sampler, TopKKeepsTheBestAndRenormalises) {
  const auto counts =
      histogram({.temperature = 1, .top_k = 3, .seed = 5}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
  EXPECT_LT(chi_square(counts, {0, 0.4, 0, 0.2, 0.15, 0}), limit_of_5);
  // Of equal logits the lower ids are kept.
  const auto ties = histogram({.temperature = 1, .top_k = 2, .seed = 5}, {1, 1, 1, 1}, 1000);
  EXPECT_EQ(ties[2] + ties[3], 0);
  EXPECT_GT(ties[0], 400);
}

TEST(Sampler, TopPIncludesTheTokenThatReachesTheMass) {
  // 0.4 + 0.2 = 0.6 < 0.7; with 0.15 it is reached.
  auto counts = histogram({.temperature = 1, .top_p = 0.7F, .seed = 5}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
  EXPECT_LT(chi_square(counts, {0, 0.4, 0, 0.2, 0.15, 0}), limit_of_5);
  counts = histogram({.temperature = 1, .top_p = 0.01F}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 50);
  EXPECT_EQ(counts[1], 50);
  // Its mass is that of temperature 1, whatever the temperature.
  counts = histogram({.temperature = 100, .top_p = 0.7F}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 3000);
  EXPECT_EQ(counts[0] + counts[2] + counts[5], 0);
  EXPECT_NEAR(counts[4], 1000, 130);
}

TEST(Sampler, TopPOverALargeVocabularyEqualsAFullSort) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(5000);
  for (auto& x : logits) x = normal(random);
  for (const float top_p : {0.1F, 0.5F, 0.9F, 0.999F}) {
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    std::vector<bool> kept(logits.size());
    double mass = 0;
    for (const auto i : order) {
      kept[i] = true;
      mass += std::exp(static_cast<double>(logits[i])) / sum;
      if (mass >= static_cast<double>(top_p)) break;
    }
    Sampler sampler({.temperature = 1e30F, .top_p = top_p, .seed = 9}, 5000);  // flat over what is kept
    std::size_t seen_rank = 0;
    for (int i = 0; i < 100; ++i) {
      const auto id = sampler.sample(logits, {});
      ASSERT_TRUE(id);
      EXPECT_TRUE(kept[static_cast<std::size_t>(*id)]) << top_p;
      seen_rank = std::max(
          seen_rank, static_cast<std::size_t>(std::find(order.begin(), order.end(), static_cast<std::size_t>(*id)) -
                                              order.begin()));
    }
    const auto count = static_cast<std::size_t>(std::count(kept.begin(), kept.end(), true));
    EXPECT_GE(seen_rank + 1, count * 9 / 10) << "the draw reaches the end of the " << count << " kept";
  }
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  // 0.3 * 0.4 = 0.12: 0.2 and 0.15 stay, 0.1 and 0.05 go.
  const auto counts =
      histogram({.temperature = 1, .min_p = 0.3F, .seed = 5}, logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
  EXPECT_LT(chi_square(counts, {0, 0.4, 0, 0.2, 0.15, 0}), limit_of_5);
  EXPECT_EQ(histogram({.temperature = 1, .min_p = 1}, {0, 2, 2, 1}, 100)[0], 0);
}

TEST(Sampler, TypicalKeepsWhatIsNearTheEntropy) {
  // Entropy of (0.5, 0.2, 0.1, 0.1, 0.05, 0.05): 1.428 nats. Surprises 0.693 1.609 2.303 2.303 2.996 2.996, distances
  // 0.735 0.181 0.875 0.875 1.568 1.568. In order: id 1 (mass 0.2), id 0 (0.7), then ids 2 and 3.
  const auto logits = logs({0.5, 0.2, 0.1, 0.1, 0.05, 0.05});
  auto counts = histogram({.temperature = 1, .typical_p = 0.15F}, logits, 100);
  EXPECT_EQ(counts[1], 100);
  counts = histogram({.temperature = 1, .typical_p = 0.6F, .seed = 2}, logits, 20000);
  EXPECT_LT(chi_square(counts, {0.5, 0.2, 0, 0, 0, 0}), 10.8);  // 1 degree of freedom
  counts = histogram({.temperature = 1, .typical_p = 0.75F, .seed = 2}, logits, 20000);
  EXPECT_LT(chi_square(counts, {0.5, 0.2, 0.1, 0, 0, 0}), 13.8);  // 2
}

TEST(Sampler, FiltersApplyOneAfterTheOther) {
  // top_k 4 leaves 0.4 0.2 0.15 0.1 of 0.85; top_p 0.8 of that is 0.68: 0.4 + 0.2 + 0.15 = 0.75.
  const auto counts = histogram({.temperature = 1, .top_k = 4, .top_p = 0.8F, .seed = 3},
                                logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
  EXPECT_LT(chi_square(counts, {0, 0.4, 0, 0.2, 0.15, 0}), limit_of_5);
}

TEST(Sampler, RepetitionDividesPositiveAndMultipliesNegative) {
  EXPECT_EQ(greedy({.repetition_penalty = 2}, {4, 3, 1}, {0}), 1);           // 4 / 2 = 2 < 3
  EXPECT_EQ(greedy({.repetition_penalty = 1.2F}, {4, 3, 1}, {0}), 0);        // 3.33 > 3
  EXPECT_EQ(greedy({.repetition_penalty = 2}, {-2, -3, -9}, {0}), 1);        // -4 < -3
  EXPECT_EQ(greedy({.repetition_penalty = 2}, {4, 2.5F, 1}, {0, 0, 0}), 1);  // once, however often it came: 2 < 2.5
  EXPECT_EQ(greedy({.repetition_penalty = 2}, {4, 1.9F, 1}, {0, 0, 0}), 0);
}

TEST(Sampler, PresenceAndFrequencySubtract) {
  EXPECT_EQ(greedy({.presence_penalty = 1.5F}, {4, 3, 1}, {0, 0, 0}), 1);   // 2.5
  EXPECT_EQ(greedy({.presence_penalty = 0.9F}, {4, 3, 1}, {0, 0, 0}), 0);   // 3.1
  EXPECT_EQ(greedy({.frequency_penalty = 0.4F}, {4, 3, 1}, {0, 0, 0}), 1);  // 2.8
  EXPECT_EQ(greedy({.frequency_penalty = 0.4F}, {4, 3, 1}, {0, 0}), 0);     // 3.2
  EXPECT_EQ(greedy({.presence_penalty = -2}, {4, 3, 1}, {1}), 1);           // encouraged
}

TEST(Sampler, PenaltiesSeeTheirWindow) {
  const std::vector<std::int32_t> history = {0, 1, 2, 2};
  EXPECT_EQ(greedy({.presence_penalty = 2, .penalty_window = 2}, {4, 3, 1}, history), 0);
  EXPECT_EQ(greedy({.presence_penalty = 2, .penalty_window = 3}, {4, 3.5F, 1}, history), 0);
  EXPECT_EQ(greedy({.presence_penalty = 2, .penalty_window = 4}, {4, 3.5F, 1.9F, 1.8F}, history), 0);
  EXPECT_EQ(greedy({.presence_penalty = 4, .penalty_window = -1}, {4, 3.5F, 1.9F, 1.8F}, history), 3);
  EXPECT_EQ(greedy({.presence_penalty = 4, .penalty_window = 0}, {4, 3.5F, 1.9F, 1.8F}, history), 0);
}

TEST(Sampler, BiasForcesAndBans) {
  EXPECT_EQ(greedy({.logit_bias = {{2, 100}}}, {4, 3, 1}, {}), 2);
  EXPECT_EQ(greedy({.logit_bias = {{0, -inf}}}, {4, 3, 1}, {}), 1);
  EXPECT_EQ(greedy({.logit_bias = {{0, -inf}, {0, 1000}}}, {4, 3, 1}, {}), 1);
  EXPECT_EQ(greedy({.logit_bias = {{2, 2}, {2, 2}}}, {4, 3, 1}, {}), 2);
  const auto counts = histogram({.temperature = 1, .logit_bias = {{1, -inf}}, .seed = 4},
                                logs({0.05, 0.4, 0.1, 0.2, 0.15, 0.1}), 20000);
  EXPECT_LT(chi_square(counts, {0.05, 0, 0.1, 0.2, 0.15, 0.1}), limit_of_5);
}

TEST(Sampler, BanningEverythingIsAUsageError) {
  for (const float temperature : {0.0F, 1.0F}) {
    Sampler sampler({.temperature = temperature, .logit_bias = {{0, -inf}, {1, -inf}}}, 2);
    const auto id = sampler.sample(std::vector<float>{1, 2}, {});
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().code, Code::usage);
  }
  Sampler sampler({}, 2);
  const auto id = sampler.sample(std::vector<float>{-inf, -inf}, {});
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, Code::bad_input);
}

TEST(Sampler, BrokenLogitsAreAnErrorThatNamesTheToken) {
  for (const float broken : {std::numeric_limits<float>::quiet_NaN(), inf}) {
    for (const float temperature : {0.0F, 0.8F}) {
      Sampler sampler({.temperature = temperature, .top_p = 0.9F}, 3);
      const auto id = sampler.sample(std::vector<float>{1, broken, 2}, std::vector<std::int32_t>{0, 1});
      ASSERT_FALSE(id);
      EXPECT_EQ(id.error().code, Code::bad_input);
      EXPECT_NE(id.error().message.find("token 1 after 2 tokens"), std::string::npos) << id.error().message;
    }
  }
}

TEST(Sampler, DryPenalisesWhatWouldContinueARepeat) {
  // ... 1 2 3 4 ... 1 2 3: emitting 4 would continue a repeat of length 3: 1 * 2^(3-2) = 2.
  const std::vector<std::int32_t> history = {1, 2, 3, 4, 5, 1, 2, 3};
  SamplerOptions options{.dry_multiplier = 1, .dry_base = 2, .dry_allowed_length = 2};
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 3.1F}, history), 5);
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 2.9F}, history), 4);
  options.dry_allowed_length = 4;  // the repeat is shorter
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 4.9F}, history), 4);
  options.dry_allowed_length = 3;  // 2^0 = 1
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 4.1F}, history), 5);
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 3.9F}, history), 4);
}

TEST(Sampler, DryTakesTheLongestRepeatAndItsWindow) {
  // Before the first 9: "1 2"; before the second: "0 1 2". The longest, 3, counts once.
  const std::vector<std::int32_t> history = {1, 2, 9, 0, 1, 2, 9, 7, 0, 1, 2};
  SamplerOptions options{.dry_multiplier = 1, .dry_base = 3, .dry_allowed_length = 2};
  std::vector<float> logits(10);
  logits[9] = 5;
  logits[8] = 2.1F;  // 5 - 3 = 2
  EXPECT_EQ(greedy(options, logits, history), 8);
  logits[8] = 1.9F;
  EXPECT_EQ(greedy(options, logits, history), 9);
  options.dry_window = 5;  // 9 7 0 1 2: no repeat left
  logits[8] = 4.9F;
  EXPECT_EQ(greedy(options, logits, history), 9);
  options.dry_window = 0;
  EXPECT_EQ(greedy(options, logits, history), 9);
}

TEST(Sampler, DryStopsAtBreakers) {
  const std::vector<std::int32_t> history = {1, 2, 3, 4, 5, 1, 2, 3};
  SamplerOptions options{.dry_multiplier = 1, .dry_base = 2, .dry_allowed_length = 2};
  options.dry_breakers = {{1}};  // the repeat after it is "2 3": 2^0 = 1
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 4.1F}, history), 5);
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 3.9F}, history), 4);
  options.dry_breakers = {{1, 2}};  // leaves "3" alone
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 4.9F}, history), 4);
  options.dry_breakers = {{4}};  // a breaker itself is never penalised
  EXPECT_EQ(greedy(options, {0, 0, 0, 0, 5, 4.9F}, history), 4);
}

TEST(Sampler, DryAgreesWithTheDefinitionOnRandomHistories) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto n = static_cast<std::size_t>(random() % 40 + 1);
    std::vector<std::int32_t> history(n);
    for (auto& id : history) id = static_cast<std::int32_t>(random() % 3);
    // By definition: for each earlier place, how many tokens before it equal the history's end.
    std::map<std::int32_t, int> longest;
    for (std::size_t at = 1; at < n; ++at) {
      int length = 0;
      while (static_cast<std::size_t>(length) < at &&
             history[at - 1 - static_cast<std::size_t>(length)] == history[n - 1 - static_cast<std::size_t>(length)])
        ++length;
      longest[history[at]] = std::max(longest[history[at]], length);
    }
    std::vector<float> expected(3);
    for (const auto& [id, length] : longest)
      if (length >= 2) expected[static_cast<std::size_t>(id)] = -0.5F * std::pow(1.25F, static_cast<float>(length - 2));
    const auto best = static_cast<std::int32_t>(std::max_element(expected.begin(), expected.end()) - expected.begin());
    EXPECT_EQ(greedy({.dry_multiplier = 0.5F, .dry_base = 1.25F}, {0, 0, 0}, history), best);
    // The penalty of each token, found by a bias that just outweighs it.
    for (std::int32_t id = 0; id < 3; ++id) {
      const float penalty = expected[static_cast<std::size_t>(id)];
      std::vector<float> logits(3, -1000);
      logits[static_cast<std::size_t>(id)] = 0;
      const auto other = static_cast<std::size_t>((id + 1) % 3);
      // `other` may be penalised too: put it there after its own penalty.
      logits[other] = penalty - expected[other] + 0.01F * std::abs(penalty) + 0.001F;
      EXPECT_EQ(greedy({.dry_multiplier = 0.5F, .dry_base = 1.25F}, logits, history), static_cast<std::int32_t>(other));
      logits[other] = penalty - expected[other] - 0.01F * std::abs(penalty) - 0.001F;
      EXPECT_EQ(greedy({.dry_multiplier = 0.5F, .dry_base = 1.25F}, logits, history), id);
    }
  }
}

TEST(Sampler, ExtremePenaltiesNeverMakeNaN) {
  std::vector<std::int32_t> history(500, 1);
  for (const float temperature : {0.0F, 1.0F}) {
    SamplerOptions options{.temperature = temperature,
                           .repetition_penalty = 1e-38F,
                           .presence_penalty = 3e38F,
                           .frequency_penalty = -3e38F};
    options.dry_multiplier = 3e38F;
    options.dry_base = 3e38F;
    options.logit_bias = {{0, 3e38F}, {1, -3e38F}};
    Sampler sampler(options, 3);
    EXPECT_TRUE(sampler.sample(std::vector<float>{3e38F, -3e38F, 1}, history));
    EXPECT_TRUE(sampler.sample(std::vector<float>{-inf, 2, -inf}, history));
  }
}

TEST(Sampler, MirostatFollowsItsControllerAndHoldsTheSurpriseAtItsTarget) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> logits(500);
  for (auto& x : logits) x = normal(random);
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x)));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  const double best = *std::max_element(p.begin(), p.end());
  for (const double tau : {2.0, 4.0}) {
    Sampler sampler(
        {.temperature = 1, .mirostat = 2, .mirostat_tau = static_cast<float>(tau), .mirostat_eta = 0.1F, .seed = 1},
        500);
    double mu = 2 * tau;
    double total = 0;
    for (int i = 0; i < 800; ++i) {
      const auto id = sampler.sample(logits, {});
      ASSERT_TRUE(id);
      double left = 0;
      for (const double x : p) left += x == best || -std::log2(x / sum) <= mu ? x : 0;
      const double chosen = p[static_cast<std::size_t>(*id)];
      ASSERT_TRUE(chosen == best || -std::log2(chosen / sum) <= mu + 1e-9);
      const double surprise = -std::log2(chosen / left);
      mu -= static_cast<double>(0.1F) * (surprise - tau);
      if (i >= 200) total += surprise;
    }
    EXPECT_NEAR(total / 600, tau, 0.1);
  }
}

TEST(Sampler, MirostatFirstStepDropsWhatIsMoreSurprisingThanTwiceTau) {
  // tau 1: mu = 2 bits: 0.25 and more stay.
  const auto logits = logs({0.3, 0.26, 0.24, 0.2});
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Sampler sampler({.temperature = 1, .mirostat = 2, .mirostat_tau = 1, .seed = seed}, 4);
    const auto id = sampler.sample(logits, {});
    ASSERT_TRUE(id);
    EXPECT_LT(*id, 2);
  }
}

TEST(Sampler, TheSameSeedGivesTheSameIdsAndAnotherSeedOthers) {
  std::mt19937 random(1);
  std::vector<float> logits(1000);
  for (auto& x : logits) x = static_cast<float>(random() % 1000) / 200;
  const auto ids = [&](std::uint64_t seed) {
    Sampler sampler({.temperature = 0.9F, .top_k = 200, .top_p = 0.95F, .seed = seed}, 1000);
    std::vector<std::int32_t> result;
    for (int i = 0; i < 20; ++i) result.push_back(*sampler.sample(logits, result));
    return result;
  };
  EXPECT_EQ(ids(1), ids(1));
  EXPECT_NE(ids(1), ids(2));
}

TEST(Sampler, ASeedMeansTheseIdsOnEveryMachine) {
  // 8 equally likely tokens: an id is the top three bits of each number of the generator, which pins it.
  Sampler sampler({.temperature = 1, .seed = 42}, 8);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 16; ++i) ids.push_back(*sampler.sample(std::vector<float>(8), {}));
  EXPECT_EQ(ids, (std::vector<std::int32_t>{0, 3, 5, 7, 7, 6, 5, 6, 6, 4, 5, 2, 6, 2, 5, 7}));
}

TEST(Sampler, CheckNamesTheOption) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, SamplerOptions>> cases = {
      {"temperature", {.temperature = -0.1F}},
      {"temperature", {.temperature = nan}},
      {"temperature", {.temperature = inf}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = 0}},
      {"top_p", {.top_p = 1.01F}},
      {"top_p", {.top_p = nan}},
      {"min_p", {.min_p = -0.1F}},
      {"min_p", {.min_p = 1.1F}},
      {"typical_p", {.typical_p = 0}},
      {"repetition_penalty", {.repetition_penalty = 0}},
      {"repetition_penalty", {.repetition_penalty = inf}},
      {"presence_penalty", {.presence_penalty = nan}},
      {"frequency_penalty", {.frequency_penalty = inf}},
      {"penalty_window", {.penalty_window = -2}},
      {"logit_bias", {.logit_bias = {{-1, 1}}}},
      {"logit_bias", {.logit_bias = {{1, nan}}}},
      {"logit_bias", {.logit_bias = {{1, inf}}}},
      {"mirostat", {.mirostat = 1}},
      {"mirostat_tau", {.mirostat_tau = -1}},
      {"mirostat_eta", {.mirostat_eta = 2}},
      {"dry_multiplier", {.dry_multiplier = -1}},
      {"dry_base", {.dry_base = 0.5F}},
      {"dry_allowed_length", {.dry_allowed_length = -1}},
      {"dry_window", {.dry_window = -2}},
      {"dry_breakers", {.dry_breakers = {{}}}},
  };
  for (const auto& [name, options] : cases) {
    const auto result = check(options);
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, Code::usage);
    EXPECT_NE(result.error().message.find(name), std::string::npos) << result.error().message;
  }
  EXPECT_TRUE(check(SamplerOptions{}));
  EXPECT_TRUE(check({.temperature = 2, .top_k = 40, .top_p = 1, .min_p = 0.05F, .logit_bias = {{1, -inf}}}));
  const auto outside = check({.logit_bias = {{100, 1}}}, 100);
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message.find("100"), std::string::npos);
}

}  // namespace
}  // namespace knapsack
