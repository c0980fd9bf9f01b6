// Speculation changes nothing but the time: texts with guesses are those without, for every sampler and end.
#include "runtime/speculation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/session.h"
#include "runtime/tiny_model.h"

namespace knapsack {
namespace {

using Tokens = std::vector<std::int32_t>;

std::shared_ptr<const Bundle> tiny(std::int64_t layers = 2, bool tokenizer = true, const Tokens& eos = {}) {
  auto imported = testing::tiny_imported(tokenizer);
  imported.graph = testing::tiny_graph({.layers = layers});
  imported.eos_ids = eos;
  return *make_bundle(imported, {.chunk = 8, .decode_rows = 8});
}

std::unique_ptr<Session> open(const SessionOptions& options, std::shared_ptr<const Bundle> bundle = tiny()) {
  auto session = Session::create(std::move(bundle), options);
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

// The ways to guess, three tokens and seven (all that a step has room for).
std::vector<SessionOptions> ways(std::int64_t ctx) {
  std::vector<SessionOptions> all;
  for (const std::int64_t guesses : {3, 7}) {
    all.push_back({.ctx = ctx, .threads = 2, .lookup = true, .guesses = guesses});
    all.push_back({.ctx = ctx, .threads = 1, .draft = tiny(), .guesses = guesses});                   // always right
    all.push_back({.ctx = ctx, .threads = 1, .lookup = true, .draft = tiny(1), .guesses = guesses});  // mostly wrong
  }
  all.push_back({.ctx = ctx, .threads = 2, .lookup = true, .draft = tiny()});  // as many as pay
  return all;
}

// A phrase said again and again: much to look up.
Tokens phrase(std::size_t n) {
  Tokens ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::int32_t>(i % 11 * 3 % 35 + 2);
  return ids;
}

Completion run(Session& session, const Tokens& prompt, const GenerateOptions& options) {
  std::string streamed;
  auto result = session.generate(prompt, options, [&](std::string_view piece) { streamed += piece; }, {});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  if (!result) return {};
  EXPECT_EQ(result->text, streamed);
  return std::move(*result);
}

void expect_same(const Completion& found, const Completion& expected) {
  testing::expect_same_text(found, expected);
  EXPECT_EQ(found.finish, expected.finish);
  EXPECT_EQ(found.decode_tokens, expected.decode_tokens);
  EXPECT_EQ(found.prefilled_tokens, expected.prefilled_tokens);
  EXPECT_LE(found.accepted, found.drafted);
}

const std::vector<SamplerOptions> samplers = {
    {},
    {.temperature = 0.4F, .seed = 1},
    {.temperature = 1.2F, .top_k = 20, .top_p = 0.95F, .min_p = 0.01F, .typical_p = 0.99F, .seed = 2},
    {.temperature = 1, .mirostat = 2, .mirostat_tau = 3, .seed = 3},
    {.repetition_penalty = 1.3F, .presence_penalty = 0.2F, .frequency_penalty = 0.1F},
    {.temperature = 0.7F, .dry_multiplier = 0.8F, .dry_allowed_length = 2, .dry_breakers = {{5}}, .seed = 4},
    {.temperature = 0.5F, .logit_bias = {{7, 3.0F}, {8, -std::numeric_limits<float>::infinity()}}, .seed = 5},
};

TEST(Speculation, TextsAreThoseWithoutIt) {
  auto plain = open({.ctx = 256});
  std::int64_t right = 0;
  std::int64_t wrong = 0;
  for (const auto& way : ways(256)) {
    auto session = open(way);
    for (const auto& sampler : samplers) {
      for (const auto& prompt : {phrase(40), Tokens{3}, Tokens{4, 4, 4, 4}}) {
        plain->reset();
        session->reset();
        const GenerateOptions options{.max_tokens = 70, .sampler = sampler, .logprobs = 2};
        const auto expected = run(*plain, prompt, options);
        const auto found = run(*session, prompt, options);
        expect_same(found, expected);
        EXPECT_LE(found.decode_steps + found.accepted, found.decode_tokens + 7);  // what the last step had too much
        right += found.accepted;
        wrong += found.drafted - found.accepted;
      }
    }
  }
  EXPECT_GT(right, 1000);  // else nothing was proved
  EXPECT_GT(wrong, 1000);
}

TEST(Speculation, EndsWhereItEndsWithoutIt) {
  for (const std::int64_t ctx : {46, 60}) {
    auto plain = open({.ctx = ctx});
    for (const auto& way : ways(ctx)) {
      auto session = open(way);
      for (std::int64_t most = -1; most <= 20; ++most) {
        const GenerateOptions options{.max_tokens = most, .sampler = {.temperature = 0.4F, .seed = 9}};
        plain->reset();
        session->reset();
        expect_same(run(*session, phrase(40), options), run(*plain, phrase(40), options));
        // And what the cache holds afterwards is the same.
        expect_same(run(*session, phrase(44), options), run(*plain, phrase(44), options));
      }
    }
  }
}

TEST(Speculation, StopsAtTheSameEndTokensAndStopStrings) {
  const SamplerOptions sampler{.temperature = 0.6F, .seed = 12};
  auto free = open({.ctx = 128});
  const auto whole = run(*free, phrase(40), {.max_tokens = 60, .sampler = sampler});
  for (const std::size_t at : {1, 2, 3, 5, 8, 13, 21}) {
    const Tokens eos{whole.ids[at]};
    auto plain = open({.ctx = 128}, tiny(2, true, eos));
    const GenerateOptions options{.max_tokens = 60, .sampler = sampler};
    const auto expected = run(*plain, phrase(40), options);
    EXPECT_EQ(expected.finish, Finish::stop);
    const auto more = run(*plain, phrase(50), options);
    const std::string stop = whole.text.substr(at, 1);
    const GenerateOptions with_stop{.max_tokens = 60, .sampler = sampler, .stop = {stop}};
    free->reset();
    const auto stopped = run(*free, phrase(40), with_stop);
    for (const auto& way : {SessionOptions{.ctx = 128, .lookup = true, .guesses = 7},
                            SessionOptions{.ctx = 128, .draft = tiny(), .guesses = 5}}) {
      auto session = open(way, tiny(2, true, eos));
      expect_same(run(*session, phrase(40), options), expected);
      expect_same(run(*session, phrase(50), options), more);
      auto unbound = open(way);
      expect_same(run(*unbound, phrase(40), with_stop), stopped);
    }
  }
}

TEST(Speculation, CancellingLeavesASessionThatGoesOn) {
  auto session = open({.ctx = 256, .lookup = true, .guesses = 7});
  for (std::size_t after = 1; after < 12; ++after) {
    std::stop_source source;
    std::size_t pieces = 0;
    const auto cut = session->generate(
        phrase(40), {.max_tokens = 60, .sampler = {.temperature = 0.3F, .seed = 2}},
        [&](std::string_view) {
          if (++pieces == after) source.request_stop();
        },
        source.get_token());
    ASSERT_TRUE(cut);
    auto fresh = open({.ctx = 256});
    const GenerateOptions options{.max_tokens = 30};
    EXPECT_EQ(run(*session, phrase(43), options).ids, run(*fresh, phrase(43), options).ids);
  }
}

// What the third token is, over many seeds, against its probability: the sum over all that may come before it. It is
// picked from the last row of a step with two guesses, the first or the second of which may have been refused.
TEST(Speculation, SampledTokensHaveTheModelsDistribution) {
  constexpr double temperature = 1.5;
  constexpr std::int64_t vocab = 37;
  const Tokens prompt{5, 6, 7, 5, 6, 7, 5, 6};
  auto scorer = open({.ctx = 16});
  const auto probabilities = [&](const Tokens& ids) {
    std::vector<double> p;
    EXPECT_TRUE(scorer->score(ids, static_cast<std::int64_t>(ids.size()) - 1,
                              [&](auto, auto, std::span<const float> logits) {
                                double sum = 0;
                                for (const float logit : logits)
                                  sum += std::exp(static_cast<double>(logit) / temperature);
                                for (const float logit : logits)
                                  p.push_back(std::exp(static_cast<double>(logit) / temperature) / sum);
                              },
                              {}));
    return p;
  };
  std::vector<double> expected(static_cast<std::size_t>(vocab));
  const auto first = probabilities(prompt);
  for (std::int32_t a = 0; a < vocab; ++a) {
    Tokens ids = prompt;
    ids.push_back(a);
    const auto second = probabilities(ids);
    for (std::int32_t b = 0; b < vocab; ++b) {
      ids.push_back(b);
      const auto third = probabilities(ids);
      ids.pop_back();
      for (std::size_t c = 0; c < third.size(); ++c)
        expected[c] += first[static_cast<std::size_t>(a)] * second[static_cast<std::size_t>(b)] * third[c];
    }
  }
  constexpr int texts = 6000;
  std::vector<double> found(static_cast<std::size_t>(vocab));
  std::int64_t accepted = 0;
  auto session = open({.ctx = 16, .lookup = true, .draft = tiny(1), .guesses = 4});
  for (int seed = 0; seed < texts; ++seed) {
    const auto result =
        run(*session, prompt,
            {.max_tokens = 3,
             .sampler = {.temperature = static_cast<float>(temperature), .seed = static_cast<std::uint64_t>(seed)}});
    ASSERT_EQ(result.ids.size(), 3U);
    found[static_cast<std::size_t>(result.ids[2])] += 1;
    accepted += result.accepted;
  }
  EXPECT_GT(accepted, texts / 50);
  double chi2 = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double e = expected[i] * texts;
    chi2 += (found[i] - e) * (found[i] - e) / e;
  }
  EXPECT_LT(chi2, 75);  // 36 degrees of freedom: one in five thousand; the seeds are fixed
}

TEST(Speculation, ADraftOfAnotherVocabularyIsRefused) {
  const auto refused = [](std::shared_ptr<const Bundle> model, std::shared_ptr<const Bundle> draft) {
    const auto session = Session::create(std::move(model), {.ctx = 32, .draft = std::move(draft)});
    EXPECT_FALSE(session);
    if (session) return std::string();
    EXPECT_EQ(session.error().code, Code::usage);
    return session.error().message;
  };
  auto other = testing::tiny_imported(true);
  other.tokenizer_json = [] {
    std::string text = testing::tiny_tokenizer_json();
    text.replace(text.find("END"), 3, "FIN");
    return Result<std::string>(text);
  };
  EXPECT_NE(refused(tiny(), *make_bundle(other, {})).find("token 36 is \"FIN\""), std::string::npos);
  EXPECT_NE(refused(tiny(), tiny(1, false)).find("only one of them"), std::string::npos);
  auto wide = testing::tiny_imported(false);
  wide.graph = testing::tiny_graph({.vocab = 40});
  EXPECT_NE(refused(tiny(2, false), *make_bundle(wide, {})).find("40 tokens"), std::string::npos);
}

// Logits wider than the tokenizer's vocabulary are padding; models of one family differ in it.
TEST(Speculation, APaddedDraftServes) {
  for (const std::int64_t vocab : {37, 50}) {
    auto imported = testing::tiny_imported(true);
    imported.graph = testing::tiny_graph({.vocab = vocab});
    auto model = *make_bundle(imported, {.chunk = 8});
    imported.graph = testing::tiny_graph({.vocab = 87 - vocab});
    auto plain = open({.ctx = 128}, model);
    auto session = open({.ctx = 128, .draft = *make_bundle(imported, {.chunk = 8}), .guesses = 4}, model);
    for (const auto& sampler : samplers)
      expect_same(run(*session, phrase(9), {.max_tokens = 40, .sampler = sampler}),
                  run(*plain, phrase(9), {.max_tokens = 40, .sampler = sampler}));
  }
}

TEST(DraftPace, KnowsNothingAtFirst) {
  DraftPace pace(16);
  EXPECT_EQ(pace.choose(DraftSource::repeat_16, 15).length, 0);
  pace.stepped(1, 10);
  EXPECT_GT(pace.choose(DraftSource::repeat_16, 15).length, 3);
  EXPECT_LE(pace.choose(DraftSource::repeat_16, 2).length, 2);
  EXPECT_EQ(pace.choose(DraftSource::repeat_16, 0).length, 0);
}

TEST(DraftPace, GrowsWithSuccessAndStopsWithoutIt) {
  DraftPace pace(16);
  const auto step = [&](DraftSource source, double right_share) {
    const auto n = pace.choose(source, 15).length;
    pace.stepped(1 + n, 10.0 * (1 + 0.2 * static_cast<double>(n)));
    if (n > 0) pace.judged(source, n, static_cast<std::int64_t>(static_cast<double>(n) * right_share));
    return n;
  };
  for (int i = 0; i < 20; ++i) step(DraftSource::repeat_10, 1);
  EXPECT_EQ(pace.choose(DraftSource::repeat_10, 15).length, 15);
  std::int64_t wasted = 0;
  for (int i = 0; i < 1000; ++i) wasted += step(DraftSource::repeat_10, 0);
  EXPECT_LT(wasted, 100);  // at a fifth of a step each: 2 %
  // After a long while it is tried again.
  for (int i = 0; i < 1000; ++i) pace.stepped(1, 10);
  EXPECT_GT(pace.choose(DraftSource::repeat_10, 15).length, 0);
}

TEST(DraftPace, MindsWhatRowsAndGuessesCost) {
  DraftPace pace(16);
  pace.stepped(1, 10);
  EXPECT_GT(pace.choose(DraftSource::model, 15, 0.5).length, 0);
  EXPECT_EQ(pace.choose(DraftSource::model, 15, 9).length, 0);
  // A computer where two rows take twice as long as one.
  for (std::int64_t rows = 2; rows <= 16; ++rows)
    for (int i = 0; i < 6; ++i) pace.stepped(rows, 10.0 * static_cast<double>(rows));
  for (std::size_t i = 0; i < draft_sources; ++i)
    EXPECT_EQ(pace.choose(static_cast<DraftSource>(i), 15).length, 0) << i;
  // One measurement that the system disturbed does not decide.
  DraftPace steady(16);
  steady.stepped(1, 10);
  for (int i = 0; i < 10; ++i) steady.stepped(5, 13);
  const auto before = steady.choose(DraftSource::repeat_6, 4).length;
  steady.stepped(5, 500);
  EXPECT_EQ(steady.choose(DraftSource::repeat_6, 4).length, before);
  EXPECT_GT(before, 0);
  // Not even where it is the first of its rows.
  DraftPace young(16);
  young.stepped(1, 10);
  const auto hoped = young.choose(DraftSource::repeat_16, 15).length;
  young.stepped(1 + hoped, 500);
  EXPECT_GT(young.choose(DraftSource::repeat_16, 15).length, 0);
}

TEST(RepeatFinder, FindsTheLongestAndLatest) {
  testing::Noise noise(5);
  for (int round = 0; round < 200; ++round) {
    const int letters = 2 + round % 7;
    RepeatFinder finder(300);
    Tokens history;
    const auto length = static_cast<std::size_t>(10 + round);
    while (history.size() < length) {
      history.push_back(static_cast<std::int32_t>((noise.next() + 1) / 2 * static_cast<float>(letters)));
      if (noise.next() > 0.3F) continue;  // not asked after every token
      const auto found = finder.find(history);
      const auto n = static_cast<std::int64_t>(history.size());
      const auto agree = [&](std::int64_t next) {
        std::int64_t same = 0;
        while (same < std::min<std::int64_t>(next, 32) &&
               history[static_cast<std::size_t>(next - 1 - same)] == history[static_cast<std::size_t>(n - 1 - same)])
          ++same;
        return same;
      };
      // Among the 24 latest places where the last two tokens stood before.
      RepeatFinder::Repeat expected;
      int places = 0;
      for (std::int64_t next = n - 1; next >= 2 && places < 24; --next) {
        if (agree(next) < 2) continue;
        ++places;
        if (agree(next) > expected.length) expected = {.length = agree(next), .next = next};
      }
      EXPECT_EQ(found.length, expected.length);
      EXPECT_EQ(found.next, expected.next);
    }
  }
}

TEST(RepeatFinder, AnotherTextIsReadAnew) {
  RepeatFinder finder(64);
  EXPECT_EQ(finder.find(phrase(40)).length, 29);
  EXPECT_EQ(finder.find(Tokens{1, 2}).length, 0);
  finder.reset();
  EXPECT_EQ(finder.find(Tokens{1, 2, 3, 1, 2}).next, 2);
  EXPECT_EQ(finder.find(Tokens{}).length, 0);
}

}  // namespace
}  // namespace knapsack
