// The KV cache: pages at their boundaries, slots side by side, and refusal before the machine is short of memory.
#include "program/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace knapsack {
namespace {

const std::vector<StateInfo> two_states{{"a", 6, 3, 2}, {"b", 10, 1, 10}};

TEST(KvCache, EveryRowHasItsOwnPlace) {
  for (const std::int64_t ctx : {1, 63, 64, 65, 128, 200}) {
    for (const DType dtype : {DType::F16, DType::F32}) {
      auto kv = KvCache::create(two_states, 3, ctx, dtype);
      ASSERT_TRUE(kv);
      std::set<std::byte*> rows;
      for (int s = 0; s < 2; ++s) {
        const StateView& view = kv->state(s);
        EXPECT_EQ(view.cols, two_states[static_cast<std::size_t>(s)].cols);
        EXPECT_EQ(view.dtype, dtype);
        EXPECT_EQ(view.head_cols, s == 0 ? 2 : 10);
        const auto bytes = static_cast<std::size_t>(view.row_stride());
        for (std::int64_t slot = 0; slot < 3; ++slot)
          for (std::int64_t p = 0; p < ctx; ++p)
            for (std::int64_t col = 0; col < view.cols; col += view.head_cols) {
              EXPECT_TRUE(rows.insert(view.at(slot, p, col)).second);
              EXPECT_EQ(view.at(slot, p, col + 1) - view.at(slot, p, col), row_bytes(dtype, 1));
              std::memset(view.at(slot, p, col), static_cast<int>(slot * 7 + p + s + col), bytes);
            }
      }
      for (int s = 0; s < 2; ++s)
        for (std::int64_t slot = 0; slot < 3; ++slot)
          for (std::int64_t p = 0; p < ctx; ++p)
            for (std::int64_t col = 0; col < kv->state(s).cols; ++col)
              for (std::int64_t i = 0; i < row_bytes(dtype, 1); ++i)
                ASSERT_EQ(kv->state(s).at(slot, p, col)[i],
                          static_cast<std::byte>(slot * 7 + p + s + (s == 0 ? col / 2 * 2 : 0)));
    }
  }
}

TEST(KvCache, IsWholePagesZeroAtFirstAndKeepsItsAddressWhenMoved) {
  auto made = KvCache::create(two_states, 2, 65, DType::F16);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->bytes(), static_cast<std::size_t>(2 * 128 * (6 + 10) * 2));
  const StateView* view = &made->state(1);
  const std::byte* row = view->at(1, 64);
  EXPECT_EQ(*row, std::byte{0});
  const KvCache kv = std::move(*made);
  EXPECT_EQ(&kv.state(1), view);
  EXPECT_EQ(kv.state(1).at(1, 64), row);
  EXPECT_EQ(kv.ctx(), 65);
  EXPECT_EQ(kv.slots(), 2);
}

TEST(KvCache, PagesBeginOnCacheLines) {
  auto kv = KvCache::create(two_states, 2, 300, DType::F16);
  ASSERT_TRUE(kv);
  for (int s = 0; s < 2; ++s)
    for (const std::byte* page : kv->state(s).pages) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page) % 64, 0U);
}

TEST(KvCache, NoStatesTakeNothing) {
  auto kv = KvCache::create({}, 1, 100, DType::F16);
  ASSERT_TRUE(kv);
  EXPECT_EQ(kv->bytes(), 0U);
}

TEST(KvCache, MoreThanTheMachineHasIsRefusedWithTheFigure) {
  const std::int64_t huge = std::int64_t{1} << 60;
  const std::vector<StateInfo> wide{{"k", std::int64_t{1} << 30}};
  for (const std::int64_t ctx : {std::int64_t{1} << 40, huge, std::numeric_limits<std::int64_t>::max()}) {
    auto kv = KvCache::create(wide, 4, ctx, DType::F32);
    ASSERT_FALSE(kv);
    EXPECT_EQ(kv.error().code, Code::resource);
    EXPECT_NE(kv.error().message.find("MiB"), std::string::npos) << kv.error().message;
    EXPECT_NE(kv.error().message.find("--ctx"), std::string::npos) << kv.error().message;
    EXPECT_NE(kv.error().message.find("--kv f16"), std::string::npos) << kv.error().message;
  }
}

TEST(KvCache, EightBitsTakeWholeBlocks) {
  auto kv =
      KvCache::create(std::vector<StateInfo>{{.name = "k", .cols = 192, .heads = 3, .run = 64}}, 1, 65, DType::Q8_0);
  ASSERT_TRUE(kv);
  EXPECT_EQ(kv->bytes(), 128U * 192 / 32 * 34);
  EXPECT_EQ(kv->state(0).at(0, 1) - kv->state(0).at(0, 0), 68);
  EXPECT_EQ(kv->state(0).at(0, 0, 32) - kv->state(0).at(0, 0), 34);
  for (const StateInfo& odd : {StateInfo{.name = "k", .cols = 192, .heads = 4, .run = 48},
                               StateInfo{.name = "latent", .cols = 96, .heads = 1, .run = 16}}) {
    auto refused = KvCache::create(std::vector<StateInfo>{odd}, 1, 65, DType::Q8_0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::unsupported);
    EXPECT_NE(refused.error().message.find("--kv f16"), std::string::npos) << refused.error().message;
  }
}

// 2^40 columns times 2^24 tokens wrap to zero in 64 bits; a wrapped size would be granted.
TEST(KvCache, SizesThatWrapAreRefused) {
  const std::vector<StateInfo> wide{{"k", std::int64_t{1} << 38}};
  auto kv = KvCache::create(wide, 1, std::int64_t{1} << 25, DType::F16);
  ASSERT_FALSE(kv);
  EXPECT_EQ(kv.error().code, Code::resource);
}

}  // namespace
}  // namespace knapsack
