#include "device/engine_speed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace knapsack {
namespace {

EngineSpeed example() {
  EngineSpeed engine;
  engine.matrices = {{"Q4_0", 512, 20, 400}, {"Q4_0", 2048, 40, 500}, {"Q8_0", 2048, 60, 450}, {"F16", 512, 10, 90}};
  engine.layers = {{512, 4, 0.5}, {2048, 10, 0.3}};
  return engine;
}

TEST(EngineSpeed, BetweenWidthsAlongTheLogarithm) {
  const EngineSpeed engine = example();
  EXPECT_DOUBLE_EQ(engine.matrix("Q4_0", 512).decode_gb_per_s, 20);
  EXPECT_DOUBLE_EQ(engine.matrix("Q4_0", 1024).decode_gb_per_s, 30);  // half way from 2^9 to 2^11
  EXPECT_DOUBLE_EQ(engine.matrix("Q4_0", 1024).prefill_gop_per_s, 450);
  EXPECT_DOUBLE_EQ(engine.matrix("Q4_0", 128).decode_gb_per_s, 20);
  EXPECT_DOUBLE_EQ(engine.matrix("Q4_0", 8192).decode_gb_per_s, 40);
  EXPECT_DOUBLE_EQ(engine.layer(1024).decode_us, 7);
  EXPECT_DOUBLE_EQ(engine.layer(1024).prefill_ns, 0.4);
}

TEST(EngineSpeed, WidthsOfOneFormatStandForAnother) {
  // Measured at 2048 only: at 512 half of it, as with Q4_0.
  EXPECT_DOUBLE_EQ(example().matrix("Q8_0", 512).decode_gb_per_s, 30);
  EXPECT_DOUBLE_EQ(example().matrix("Q8_0", 512).prefill_gop_per_s, 360);
}

TEST(EngineSpeed, TheNearestFormat) {
  EXPECT_EQ(example().matrix("IQ4_NL", 512).format, "Q4_0");
  EXPECT_EQ(example().matrix("Q6_K", 512).format, "Q8_0");  // 6.5625 bits: 2.06 from 4.5, 1.94 from 8.5
  EXPECT_EQ(example().matrix("BF16", 512).format, "F16");
  EXPECT_EQ(example().matrix("F32", 512).format, "F16");
}

}  // namespace
}  // namespace knapsack
