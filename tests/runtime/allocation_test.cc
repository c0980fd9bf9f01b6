// After load nothing is allocated a token: operator new is counted while short and long completions are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/batch.h"
#include "runtime/tiny_model.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<long> allocations{0};
}

// Not inlined: g++ would take malloc() and operator delete for a pair that does not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace knapsack {
namespace {

TEST(Allocations, NoneATokenWithAnySampler) {
  auto bundle = make_bundle(testing::tiny_imported(false), {.chunk = 16});
  ASSERT_TRUE(bundle);
  const std::vector<SessionOptions> sessions = {
      {.ctx = 400, .threads = 2},
      {.ctx = 400, .threads = 2, .lookup = true, .guesses = 5},
      {.ctx = 400, .threads = 2, .draft = *make_bundle(testing::tiny_imported(false), {.chunk = 16}), .guesses = 5}};
  const SamplerOptions plain{};
  const SamplerOptions filters{
      .temperature = 1, .top_k = 30, .top_p = 0.99F, .min_p = 0.001F, .typical_p = 0.99F, .seed = 1};
  const SamplerOptions penalties{
      .repetition_penalty = 1.1F, .presence_penalty = 0.1F, .logit_bias = {{3, 1}}, .dry_multiplier = 0.5F};
  const SamplerOptions mirostat{.temperature = 1, .mirostat = 2};
  for (const auto& how : sessions) {
    auto session = Session::create(*bundle, how);
    ASSERT_TRUE(session);
    for (const auto& sampler : {plain, filters, penalties, mirostat}) {
      const auto count = [&](std::int64_t tokens) {
        (*session)->reset();
        const long before = allocations.load();
        const auto result = (*session)->generate(std::vector<std::int32_t>{3, 4, 5},
                                                 {.max_tokens = tokens, .sampler = sampler}, {}, {});
        const long made = allocations.load() - before;
        EXPECT_TRUE(result);
        EXPECT_EQ(static_cast<std::int64_t>(result->ids.size()), tokens);
        return made;
      };
      // The least of three: reading the weights ahead goes on beside the first completions and may allocate once.
      const auto least = [&](std::int64_t tokens) { return std::min({count(tokens), count(tokens), count(tokens)}); };
      EXPECT_EQ(least(10), least(300));
    }
  }
}

TEST(Allocations, NoneAStepOfSeveralTexts) {
  auto bundle = make_bundle(testing::tiny_imported(false), {.chunk = 16});
  ASSERT_TRUE(bundle);
  auto batch = Batch::create(*bundle, {.slots = 4, .ctx = 400, .threads = 2});
  ASSERT_TRUE(batch);
  for (std::int32_t i = 0; i < 4; ++i)
    ASSERT_TRUE((*batch)->join(std::vector<std::int32_t>{3, 4, 5 + i},
                               {.max_tokens = 300, .sampler = {.temperature = 1, .top_p = 0.9F}}, {}));
  const auto steps = [&](int count) {
    const long before = allocations.load();
    for (int i = 0; i < count; ++i) EXPECT_TRUE((*batch)->step());
    return allocations.load() - before;
  };
  steps(50);  // prompts and first tokens; reading the weights ahead may allocate beside them
  EXPECT_EQ(std::min({steps(40), steps(40), steps(40)}), 0);
}

}  // namespace
}  // namespace knapsack
#endif
