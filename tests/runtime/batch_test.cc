// Texts decoded together are those each would be alone, whatever joins and leaves beside them.
#include "runtime/batch.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/session.h"
#include "runtime/tiny_model.h"

namespace knapsack {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Request {
  Tokens prompt;
  GenerateOptions options;
};

Tokens prompt_of(std::size_t n, std::int32_t salt) {
  Tokens ids(n);
  for (std::size_t i = 0; i < n; ++i)
    ids[i] = static_cast<std::int32_t>((i * i * 5 + i * 3 + static_cast<std::size_t>(salt)) % 35) + 2;
  return ids;
}

// Prompts shorter and longer than a chunk of 8, every kind of sampler, several ends.
std::vector<Request> requests() {
  return {
      {prompt_of(3, 0), {.max_tokens = 40}},
      {prompt_of(21, 1), {.max_tokens = 25, .sampler = {.temperature = 1.1F, .top_k = 20, .seed = 5}, .logprobs = 2}},
      {prompt_of(8, 2), {.max_tokens = 30, .sampler = {.temperature = 1, .mirostat = 2, .seed = 6}}},
      {prompt_of(1, 3), {.max_tokens = 1}},
      {prompt_of(13, 4), {.sampler = {.repetition_penalty = 1.2F, .dry_multiplier = 0.5F}}},  // to the context's end
      {prompt_of(40, 5), {.max_tokens = 12, .sampler = {.temperature = 0.7F, .seed = 7}}},
      {prompt_of(9, 6), {.max_tokens = 33, .sampler = {.temperature = 1.4F, .seed = 8}, .stop = {"a", "e"}}},
      {prompt_of(64, 7), {}},                                              // fills the context
      {prompt_of(5, 8), {.max_tokens = 0}},                                // nothing is wanted
      {{}, {.max_tokens = 10, .sampler = {.temperature = 1, .seed = 9}}},  // from BOS
  };
}

std::shared_ptr<const Bundle> tiny() {
  return *make_bundle(testing::tiny_imported(true), {.chunk = 8, .decode_rows = 8});
}

Completion alone(const Request& request) {
  auto session = Session::create(tiny(), {.ctx = 64, .threads = 1});
  EXPECT_TRUE(session);
  auto result = (*session)->generate(request.prompt, request.options, {}, {});
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

void expect_same(const Completion& found, const Completion& expected) {
  testing::expect_same_text(found, expected);
  EXPECT_EQ(found.finish, expected.finish);
  EXPECT_EQ(found.prompt_tokens, expected.prompt_tokens);
  EXPECT_EQ(found.decode_tokens, expected.decode_tokens);
}

TEST(Batch, EachTextIsWhatItIsAlone) {
  const auto all = requests();
  std::vector<Completion> expected;
  for (const auto& request : all) expected.push_back(alone(request));
  for (const std::int64_t slots : {1, 3, 8}) {
    for (const int threads : {1, 3}) {
      for (const std::int64_t prefill_tokens : {0, 3}) {
        auto batch =
            Batch::create(tiny(), {.slots = slots, .ctx = 64, .threads = threads, .prefill_tokens = prefill_tokens});
        ASSERT_TRUE(batch) << batch.error().message;
        std::vector<std::pair<std::int32_t, std::size_t>> running;  // slot, request
        std::vector<std::string> streamed(2 * all.size());
        std::size_t next = 0;
        for (int step = 0; next < streamed.size() || !running.empty(); ++step) {
          // One joins every other step, where there is room: all sorts of neighbours come about. Each comes twice, and
          // then finds some of its prompt in the cache.
          while (next < streamed.size() && step % 2 == 0 && (*batch)->taken() < slots) {
            const auto& request = all[next * 7 % all.size()];
            const auto slot = (*batch)->join(request.prompt, request.options,
                                             [&text = streamed[next]](std::string_view piece) { text += piece; });
            ASSERT_TRUE(slot) << slot.error().message;
            running.emplace_back(*slot, next++);
            if (step % 4 == 0) break;
          }
          (*batch)->step();
          std::erase_if(running, [&](const auto& entry) {
            if (!(*batch)->ended(entry.first)) return false;
            auto done = (*batch)->leave(entry.first);
            EXPECT_TRUE(done);
            if (!done) return true;
            expect_same(*done, expected[entry.second * 7 % all.size()]);
            EXPECT_EQ(done->text, streamed[entry.second]);
            return true;
          });
        }
        EXPECT_EQ((*batch)->taken(), 0);
        EXPECT_FALSE((*batch)->step());
      }
    }
  }
}

TEST(Batch, ATextMayLeaveAtAnyTime) {
  const Request request{prompt_of(20, 3), {.max_tokens = 30, .sampler = {.temperature = 1, .seed = 3}}};
  const auto expected = alone(request);
  for (int after = 0; after < 12; ++after) {
    auto batch = *Batch::create(tiny(), {.slots = 2, .ctx = 64, .threads = 2});
    const auto stays = *batch->join(request.prompt, request.options, {});
    const auto goes = *batch->join(prompt_of(17, 9), {.max_tokens = 30}, {});
    for (int i = 0; i < after; ++i) batch->step();
    const auto cut = batch->leave(goes);
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->finish, Finish::cancelled);
    const auto again = *batch->join(request.prompt, request.options, {});
    EXPECT_EQ(again, goes);
    while (batch->step()) {
    }
    expect_same(*batch->leave(stays), expected);
    expect_same(*batch->leave(again), expected);
  }
}

TEST(Batch, ASlotThatHoldsThePromptIsTaken) {
  auto batch = *Batch::create(tiny(), {.slots = 3, .ctx = 64});
  const auto finish = [&](const Tokens& prompt) {
    const auto slot = *batch->join(prompt, {.max_tokens = 4}, {});
    while (!batch->ended(slot)) batch->step();
    return std::pair{slot, *batch->leave(slot)};
  };
  const auto [a, first] = finish(prompt_of(20, 1));
  const auto [b, second] = finish(prompt_of(20, 2));
  EXPECT_NE(a, b);  // an empty slot, not one that holds something
  EXPECT_EQ(second.prefilled_tokens, 20);
  Tokens longer = prompt_of(20, 1);
  longer.insert(longer.end(), first.ids.begin(), first.ids.end());
  longer.push_back(5);
  const auto [c, third] = finish(longer);
  EXPECT_EQ(c, a);
  EXPECT_EQ(third.prefilled_tokens, 2);
}

TEST(Batch, RefusesWhatItCannotDo) {
  EXPECT_FALSE(Batch::create(tiny(), {.slots = 0}));
  EXPECT_FALSE(Batch::create(tiny(), {.slots = 9}));  // a decode step has eight rows
  EXPECT_FALSE(Batch::create(tiny(), {.slots = 2, .prefill_tokens = -1}));
  auto batch = *Batch::create(tiny(), {.slots = 1, .ctx = 32});
  EXPECT_EQ(batch->join(prompt_of(33, 0), {}, {}).error().code, Code::usage);
  EXPECT_EQ(batch->join(Tokens{99}, {}, {}).error().code, Code::usage);
  const auto slot = *batch->join(prompt_of(3, 0), {.max_tokens = 3}, {});
  EXPECT_EQ(batch->join(prompt_of(3, 0), {}, {}).error().code, Code::resource);
  while (batch->step()) {
  }
  EXPECT_TRUE(batch->ended(slot));
  EXPECT_EQ(batch->taken(), 1);  // until it leaves
  EXPECT_TRUE(batch->leave(slot));
  EXPECT_TRUE(batch->join(prompt_of(3, 0), {}, {}));
}

// Token 36 has no number for an embedding: a text with it fails, the one beside it does not notice.
TEST(Batch, AFailureIsThatTextsAlone) {
  const auto bundle = tiny();
  for (const auto& weight : bundle->decode->weights) {
    if (weight->name != "embed.weight") continue;
    auto* row = const_cast<float*>(reinterpret_cast<const float*>(weight->slab(0))) + 36 * 24;
    std::fill_n(row, 24, std::numeric_limits<float>::quiet_NaN());
  }
  const GenerateOptions options{.max_tokens = 20, .sampler = {.logit_bias = {{36, -1000.0F}}}};
  auto session = *Session::create(bundle, {.ctx = 64});
  const auto expected = session->generate(prompt_of(9, 1), options, {}, {});
  ASSERT_TRUE(expected);
  auto batch = *Batch::create(bundle, {.slots = 2, .ctx = 64});
  const auto sound = *batch->join(prompt_of(9, 1), options, {});
  const auto broken = *batch->join(Tokens{3, 36}, options, {});
  while (batch->step()) {
  }
  const auto failed = batch->leave(broken);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::bad_input);
  EXPECT_EQ(batch->leave(sound)->ids, expected->ids);
}

}  // namespace
}  // namespace knapsack
