// The session on a small decoder: the context contract, the reuse of the KV cache, stops, cancellation, figures.
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "runtime/log_softmax.h"
#include "runtime/tiny_model.h"

namespace knapsack {
namespace {

using Ids = std::vector<std::int32_t>;

struct Setup {
  std::int64_t ctx = 64;
  std::int64_t chunk = 8;
  std::int64_t max_selected = 1;
  int threads = 1;
  DType kv = DType::F16;
  bool tokenizer = true;
  Ids eos{};
};

std::unique_ptr<Session> open(const Setup& setup) {
  auto imported = testing::tiny_imported(setup.tokenizer);
  imported.eos_ids = setup.eos;
  auto bundle = make_bundle(imported, {.chunk = setup.chunk, .max_selected = setup.max_selected});
  EXPECT_TRUE(bundle) << bundle.error().message;
  auto session = Session::create(*bundle, {.ctx = setup.ctx, .kv = setup.kv, .threads = setup.threads});
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

Ids prompt_of(std::size_t n, std::int32_t salt = 0) {
  Ids ids(n);
  for (std::size_t i = 0; i < n; ++i)
    ids[i] = static_cast<std::int32_t>((i * i * 7 + i * 3 + static_cast<std::size_t>(salt)) % 35) + 2;
  return ids;
}

Completion must(Result<Completion> result) {
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? std::move(*result) : Completion{};
}

Completion generate(Session& session, const Ids& prompt, const GenerateOptions& options) {
  std::string streamed;
  auto result = must(session.generate(prompt, options, [&](std::string_view piece) { streamed += piece; }, {}));
  EXPECT_EQ(result.text, streamed);
  return result;
}

// Logits of every position, [tokens, 37].
std::vector<float> scored(Session& session, const Ids& ids) {
  std::vector<float> all;
  const auto done = session.score(ids, [&](std::int64_t first, std::int64_t rows, std::span<const float> logits) {
    EXPECT_EQ(static_cast<std::size_t>(first) * 37, all.size());
    EXPECT_EQ(static_cast<std::size_t>(rows) * 37, logits.size());
    all.insert(all.end(), logits.begin(), logits.end());
  });
  EXPECT_TRUE(done);
  return all;
}

TEST(Session, GreedyIsTheArgmaxOfEveryPosition) {
  auto session = open({});
  const Ids prompt = prompt_of(13);
  const auto result = generate(*session, prompt, {.max_tokens = 20});
  ASSERT_EQ(result.ids.size(), 20U);
  EXPECT_EQ(result.finish, Finish::length);
  Ids all = prompt;
  all.insert(all.end(), result.ids.begin(), result.ids.end());
  const auto logits = scored(*session, all);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>((prompt.size() - 1 + i) * 37);
    EXPECT_EQ(result.ids[i], std::max_element(row, row + 37) - row) << i;
  }
  const auto tokenizer = session->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(result.text, (*tokenizer)->decode(result.ids, true));
}

TEST(Session, ChunksThreadsAndReuseDoNotChangeABit) {
  const Ids prompt = prompt_of(21);
  const GenerateOptions options{
      .max_tokens = 24, .sampler = {.temperature = 1.1F, .top_k = 20, .top_p = 0.95F, .seed = 5}, .logprobs = 3};
  auto reference = open({});
  const auto expected = generate(*reference, prompt, options);
  const auto expected_logits = scored(*reference, prompt);
  const auto same = [&](const Completion& found) { testing::expect_same_text(found, expected); };
  for (const std::int64_t chunk : {1, 2, 5, 21, 64}) {
    for (const int threads : {1, 3}) {
      auto session = open({.chunk = chunk, .max_selected = (chunk + 1) / 2, .threads = threads});
      same(generate(*session, prompt, options));
      same(generate(*session, prompt, options));  // all but the last token reused
      EXPECT_EQ(scored(*session, prompt), expected_logits);
      generate(*session, prompt_of(30, 4), {.max_tokens = 5});  // something else in the cache
      same(generate(*session, prompt, options));
      session->reset();
      same(generate(*session, prompt, options));
    }
  }
}

TEST(Session, TheCommonPrefixIsNotComputedAgain) {
  auto session = open({});
  Ids conversation = prompt_of(10);
  auto turn = generate(*session, conversation, {.max_tokens = 6});
  EXPECT_EQ(turn.prompt_tokens, 10);
  EXPECT_EQ(turn.prefilled_tokens, 10);
  EXPECT_EQ(turn.decode_steps, 5);
  conversation.insert(conversation.end(), turn.ids.begin(), turn.ids.end());
  const Ids more = prompt_of(4, 9);
  conversation.insert(conversation.end(), more.begin(), more.end());
  turn = generate(*session, conversation, {.max_tokens = 6});
  EXPECT_EQ(turn.prompt_tokens, 20);
  EXPECT_EQ(turn.prefilled_tokens, 5);  // the last token of the completion was never run
  turn = generate(*session, conversation, {.max_tokens = 6});
  EXPECT_EQ(turn.prefilled_tokens, 1);
  Ids shorter(conversation.begin(), conversation.begin() + 7);
  turn = generate(*session, shorter, {.max_tokens = 2});
  EXPECT_EQ(turn.prefilled_tokens, 1);
  shorter[3] += 1;
  turn = generate(*session, shorter, {.max_tokens = 2});
  EXPECT_EQ(turn.prefilled_tokens, 4);
}

TEST(Session, TheContextIsAContract) {
  auto session = open({.ctx = 32});
  const auto too_long = session->generate(prompt_of(33), {}, {}, {});
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, Code::usage);
  EXPECT_NE(too_long.error().message.find("33"), std::string::npos);
  EXPECT_NE(too_long.error().message.find("32"), std::string::npos);
  auto result = generate(*session, prompt_of(32), {});
  EXPECT_TRUE(result.ids.empty());
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.finish, Finish::context);
  result = generate(*session, prompt_of(31), {});
  EXPECT_EQ(result.ids.size(), 1U);
  EXPECT_EQ(result.finish, Finish::context);
  result = generate(*session, prompt_of(20), {});
  EXPECT_EQ(result.ids.size(), 12U);
  EXPECT_EQ(result.finish, Finish::context);
  result = generate(*session, prompt_of(20), {.max_tokens = 100});
  EXPECT_EQ(result.ids.size(), 12U);
  EXPECT_EQ(result.finish, Finish::context);
  result = generate(*session, prompt_of(20), {.max_tokens = 11});
  EXPECT_EQ(result.finish, Finish::length);
  result = generate(*session, prompt_of(20), {.max_tokens = 12});  // both at once
  EXPECT_EQ(result.ids.size(), 12U);
  EXPECT_EQ(result.finish, Finish::length);
  result = generate(*session, prompt_of(20), {.max_tokens = 0});
  EXPECT_TRUE(result.ids.empty());
  EXPECT_EQ(result.finish, Finish::length);
  auto one = open({.ctx = 1});
  EXPECT_EQ(generate(*one, {5}, {}).finish, Finish::context);
  EXPECT_FALSE(one->generate(prompt_of(2), {}, {}, {}));
}

TEST(Session, AnEmptyPromptIsTheBosOrAUsageError) {
  auto session = open({});
  const auto from_bos = generate(*session, {0}, {.max_tokens = 5});
  const auto from_nothing = generate(*session, {}, {.max_tokens = 5});
  EXPECT_EQ(from_nothing.ids, from_bos.ids);
  EXPECT_EQ(from_nothing.prompt_tokens, 1);
  auto without = open({.tokenizer = false});
  const auto refused = without->generate({}, {.max_tokens = 5}, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::usage);
}

TEST(Session, IdsOutsideTheVocabularyAreRefused) {
  auto session = open({});
  for (const std::int32_t id : {-1, 37, 1 << 30}) {
    const auto result = session->generate(Ids{3, id}, {}, {}, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::usage);
    EXPECT_NE(result.error().message.find(std::to_string(id)), std::string::npos);
    EXPECT_FALSE(session->score(Ids{id}, [](auto...) {}));
  }
}

TEST(Session, OptionsOutOfRangeAreUsageErrors) {
  auto session = open({});
  const std::vector<GenerateOptions> cases = {{.max_tokens = -2},
                                              {.sampler = {.temperature = -1}},
                                              {.sampler = {.logit_bias = {{37, 1}}}},
                                              {.stop = {""}},
                                              {.logprobs = -1}};
  for (const auto& options : cases) {
    const auto result = session->generate(Ids{3}, options, {}, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::usage);
  }
  auto without = open({.tokenizer = false});
  const auto result = without->generate(Ids{3}, {.stop = {"x"}}, {}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::unsupported);
}

TEST(Session, EndTokensStopAndAreNotPartOfTheCompletion) {
  auto free = open({});
  const Ids prompt = prompt_of(9);
  const auto whole = generate(*free, prompt, {.max_tokens = 30, .sampler = {.temperature = 1, .seed = 1}});
  const std::int32_t end = whole.ids[11];
  const auto first = static_cast<std::size_t>(std::find(whole.ids.begin(), whole.ids.end(), end) - whole.ids.begin());
  auto session = open({.eos = {1, end}});
  auto result = generate(*session, prompt, {.max_tokens = 30, .sampler = {.temperature = 1, .seed = 1}});
  EXPECT_EQ(result.finish, Finish::stop);
  EXPECT_EQ(result.ids, Ids(whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(first)));
  result = generate(*session, prompt, {.max_tokens = 30, .sampler = {.temperature = 1, .seed = 1}, .ignore_eos = true});
  EXPECT_EQ(result.ids, whole.ids);
  // Right at the limit the limit is what ended it: the end token was not asked for yet.
  if (first > 0) {
    result = generate(*session, prompt,
                      {.max_tokens = static_cast<std::int64_t>(first), .sampler = {.temperature = 1, .seed = 1}});
    EXPECT_EQ(result.finish, Finish::length);
  }
}

TEST(Session, StopStringsEndTheTextAndNoneOfThemIsEmitted) {
  auto session = open({});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SamplerOptions sampler{.temperature = 1.5F, .logit_bias = {{0, -100}, {1, -100}}, .seed = seed};
    const auto whole = generate(*session, prompt_of(9), {.max_tokens = 40, .sampler = sampler});
    // Stops that are three whole characters of the text: cut where no continuation byte stands.
    for (std::size_t at = 0; at + 8 < whole.text.size(); at += 5) {
      const auto boundary = [&](std::size_t i) { return (static_cast<unsigned char>(whole.text[i]) & 0xC0) != 0x80; };
      std::size_t begin = at;
      while (begin < whole.text.size() && !boundary(begin)) ++begin;
      std::size_t end = begin;
      for (int n = 0; n < 3 && end < whole.text.size(); ++n) {
        ++end;
        while (end < whole.text.size() && !boundary(end)) ++end;
      }
      const std::string stop = whole.text.substr(begin, end - begin);
      if (stop.size() < 3 || stop.find("\xEF\xBF\xBD") != std::string::npos) continue;
      const auto result =
          generate(*session, prompt_of(9), {.max_tokens = 40, .sampler = sampler, .stop = {"never there", stop}});
      EXPECT_EQ(result.text, whole.text.substr(0, whole.text.find(stop)));
      EXPECT_EQ(result.finish, Finish::stop);
      EXPECT_TRUE(std::equal(result.ids.begin(), result.ids.end(), whole.ids.begin()));
    }
  }
}

TEST(Session, AStopStringThatIsASpecialTokenStopsAtIt) {
  auto session = open({});
  const auto result =
      generate(*session, prompt_of(9), {.max_tokens = 40, .sampler = {.logit_bias = {{1, 1000}}}, .stop = {"</s>"}});
  EXPECT_EQ(result.finish, Finish::stop);
  EXPECT_TRUE(result.ids.empty());
}

TEST(Session, LogprobsAreTheModelsOwn) {
  auto session = open({});
  const Ids prompt = prompt_of(9);
  const auto result =
      generate(*session, prompt,
               {.max_tokens = 8,
                .sampler = {.temperature = 2, .top_k = 3, .repetition_penalty = 3, .logit_bias = {{4, -50}}, .seed = 2},
                .logprobs = 4});
  ASSERT_EQ(result.logprobs.size(), result.ids.size());
  Ids all = prompt;
  all.insert(all.end(), result.ids.begin(), result.ids.end());
  const auto logits = scored(*session, all);
  for (std::size_t i = 0; i < result.ids.size(); ++i) {
    const auto row = std::span(logits).subspan((prompt.size() - 1 + i) * 37, 37);
    const auto expected = token_logprob(row, result.ids[i], 4);
    EXPECT_EQ(result.logprobs[i].id, result.ids[i]);
    EXPECT_EQ(result.logprobs[i].logprob, expected.logprob);
    EXPECT_EQ(result.logprobs[i].top, expected.top);
    EXPECT_EQ(result.logprobs[i].top.size(), 4U);
    double sum = 0;
    for (const auto& [id, p] : result.logprobs[i].top) sum += std::exp(static_cast<double>(p));
    EXPECT_LE(sum, 1.0001);
  }
}

TEST(Session, CancellingKeepsWhatThereIs) {
  auto session = open({});
  std::stop_source before;
  before.request_stop();
  auto result = must(session->generate(prompt_of(9), {.max_tokens = 40}, {}, before.get_token()));
  EXPECT_EQ(result.finish, Finish::cancelled);
  EXPECT_TRUE(result.ids.empty());
  EXPECT_EQ(result.prompt_tokens, 9);
  std::stop_source during;
  std::string text;
  result = must(session->generate(
      prompt_of(9), {.max_tokens = 40, .sampler = {.temperature = 1, .logit_bias = {{0, -100}, {1, -100}}}},
      [&](std::string_view piece) {
        text += piece;
        if (text.size() >= 5) during.request_stop();
      },
      during.get_token()));
  EXPECT_EQ(result.finish, Finish::cancelled);
  EXPECT_EQ(result.text, text);
  EXPECT_GE(result.ids.size(), 1U);
  EXPECT_LT(result.ids.size(), 40U);
  EXPECT_GT(result.ttft_ms, 0);
  // And the session goes on as if nothing had been.
  const auto after = generate(*session, prompt_of(12), {.max_tokens = 6});
  auto fresh = open({});
  EXPECT_EQ(after.ids, generate(*fresh, prompt_of(12), {.max_tokens = 6}).ids);
}

TEST(Session, ScoreCanBeginLateAndBeStopped) {
  auto session = open({.chunk = 8, .max_selected = 3});
  const Ids ids = prompt_of(30);
  const auto all = scored(*session, ids);
  std::vector<float> late;
  ASSERT_TRUE(session->score(ids, 11,
                             [&](std::int64_t first, std::int64_t, std::span<const float> logits) {
                               EXPECT_TRUE(!late.empty() || first == 11);
                               late.insert(late.end(), logits.begin(), logits.end());
                             },
                             {}));
  EXPECT_EQ(late, std::vector<float>(all.begin() + 11 * 37, all.end()));
  std::stop_source source;
  const auto stopped = session->score(
      ids, 0, [&](auto...) { source.request_stop(); }, source.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::interrupted);
  EXPECT_FALSE(session->score(prompt_of(65), [](auto...) {}));
}

TEST(Session, AModelWithoutATokenizerStillMakesIds) {
  auto session = open({.tokenizer = false});
  auto with = open({});
  const auto result = generate(*session, prompt_of(9), {.max_tokens = 10});
  EXPECT_EQ(result.ids, generate(*with, prompt_of(9), {.max_tokens = 10}).ids);
  EXPECT_EQ(result.text, "");
  const auto tokenizer = session->tokenizer();
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, Code::unsupported);
}

TEST(Session, ABrokenTokenizerIsAnErrorWhereItIsNeeded) {
  auto imported = testing::tiny_imported(true);
  imported.tokenizer_json = [] { return Result<std::string>(std::string("{\"not\": \"a tokenizer\"}")); };
  auto session = Session::create(*make_bundle(imported, {.chunk = 8}), {.ctx = 32});
  ASSERT_TRUE(session);
  EXPECT_FALSE((*session)->tokenizer());
  EXPECT_FALSE((*session)->generate(prompt_of(3), {.max_tokens = 2}, {}, {}));
  EXPECT_TRUE((*session)->score(prompt_of(3), [](auto...) {}));
}

TEST(Session, MayGoAwayWhileTheTokenizerLoads) {
  const auto bundle = *make_bundle(testing::tiny_imported(true), {.chunk = 8});
  for (int i = 0; i < 30; ++i) {
    auto session = Session::create(bundle, {.ctx = 32, .threads = 2});
    ASSERT_TRUE(session);
    if (i % 3 == 0) generate(**session, prompt_of(3), {.max_tokens = 2});
    if (i % 3 == 1) {
      EXPECT_TRUE((*session)->score(prompt_of(3), [](auto...) {}));
    }
  }
  auto lazy = Session::create(bundle, {.ctx = 32, .load_tokenizer = false});
  ASSERT_TRUE(lazy);
  EXPECT_TRUE((*lazy)->tokenizer());
}

TEST(Session, CreateRefusesWhatItCannotDo) {
  const auto bundle = *make_bundle(testing::tiny_imported(false), {.chunk = 8});
  const auto code_of = [&](const SessionOptions& options) {
    const auto session = Session::create(bundle, options);
    return session ? 0 : static_cast<int>(session.error().code);
  };
  EXPECT_EQ(code_of({.ctx = -1}), 2);
  EXPECT_EQ(code_of({.ctx = std::int64_t{1} << 40}), 2);
  EXPECT_EQ(code_of({.ctx = (std::int64_t{1} << 31) - 1}), 5);
  EXPECT_EQ(code_of({.threads = -1}), 2);
  EXPECT_EQ(code_of({.threads = 1 << 20}), 2);
  EXPECT_EQ(code_of({.kv = DType::BF16}), 2);
  setenv("KNAPSACK_ISA", "sse9", 1);
  EXPECT_EQ(code_of({}), 2);
  setenv("KNAPSACK_ISA", "scalar", 1);
  EXPECT_EQ(code_of({}), 0);
  unsetenv("KNAPSACK_ISA");
  auto session = Session::create(bundle, {});
  ASSERT_TRUE(session);
  EXPECT_EQ((*session)->ctx(), 512);  // what it was trained for, as that is below 4096
}

TEST(Session, FiguresAddUp) {
  auto session = open({});
  const auto result = generate(*session, prompt_of(20), {.max_tokens = 10});
  EXPECT_GT(result.prefill_ms, 0);
  EXPECT_GE(result.ttft_ms, result.prefill_ms);
  EXPECT_GT(result.decode_ms, 0);
  EXPECT_EQ(result.decode_steps, 9);
  EXPECT_GT(session->kv_bytes(), 0U);
  EXPECT_GT(session->arena_bytes(), 0U);
}

}  // namespace
}  // namespace knapsack
