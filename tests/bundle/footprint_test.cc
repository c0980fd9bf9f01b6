#include "bundle/footprint.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/tiny_model.h"

namespace knapsack {
namespace {

TEST(Footprint, IsWhatASessionThenTakes) {
  const auto bundle = *make_bundle(testing::tiny_imported(false), {.chunk = 8});
  const auto found = footprint(*bundle, 128, DType::F16);
  // Two layers of k and v, two heads of six: 24 columns a state and layer, two bytes each.
  EXPECT_EQ(found.kv_per_token, 2 * 2 * 12 * 2);
  EXPECT_EQ(found.kv, 128 * found.kv_per_token);
  EXPECT_EQ(footprint(*bundle, 128, DType::F32).kv, 2 * found.kv);
  std::int64_t weights = 0;
  for (const auto& weight : bundle->decode->weights) weights += weight->bytes();
  EXPECT_EQ(found.weights, weights);  // once, though two programs use them
  auto session = Session::create(bundle, {.ctx = 128});
  ASSERT_TRUE(session);
  EXPECT_EQ(static_cast<std::int64_t>((*session)->kv_bytes()), found.kv);
  EXPECT_GE(static_cast<std::int64_t>((*session)->arena_bytes()), found.arena);
  EXPECT_EQ(found.total(), found.weights + found.kv + found.arena);
}

TEST(Footprint, HugeContextsDoNotWrap) {
  const auto bundle = *make_bundle(testing::tiny_imported(false), {.chunk = 8});
  EXPECT_GT(footprint(*bundle, std::numeric_limits<std::int64_t>::max(), DType::F32).total(), std::int64_t{1} << 60);
}

}  // namespace
}  // namespace knapsack
