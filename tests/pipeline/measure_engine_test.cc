#include "pipeline/measure_engine.h"

#include <gtest/gtest.h>

#include <array>

namespace knapsack {
namespace {

TEST(MeasureEngine, EveryFigureOfATinyShape) {
  const std::array shapes{EngineShape{"smollm2-135m", 1, {DType::Q4_0, DType::F16}}};
  double last = 0;
  const auto speed = measure_engine(2, shapes,
                                    [&](double done) {
                                      EXPECT_GE(done, last);
                                      last = done;
                                    },
                                    {});
  ASSERT_TRUE(speed) << speed.error().message;
  EXPECT_GT(last, 0.5);
  EXPECT_LE(last, 1);
  EXPECT_EQ(speed->threads, 2);
  ASSERT_EQ(speed->matrices.size(), 2U);
  EXPECT_EQ(speed->matrices[0].format, "Q4_0");
  EXPECT_EQ(speed->matrices[1].format, "F16");
  for (const MatrixSpeed& matrix : speed->matrices) {
    EXPECT_EQ(matrix.hidden, 576);
    // No machine is slower or faster than these, however busy.
    EXPECT_GT(matrix.decode_gb_per_s, 1e-4);
    EXPECT_LT(matrix.decode_gb_per_s, 1e5);
    EXPECT_GT(matrix.prefill_gop_per_s, 1e-3);
    EXPECT_LT(matrix.prefill_gop_per_s, 1e6);
  }
  ASSERT_EQ(speed->layers.size(), 1U);
  EXPECT_GT(speed->layers[0].decode_us, 1e-3);
  EXPECT_GT(speed->load_gb_per_s, 1e-4);
  EXPECT_GT(speed->attention_gb_per_s, 1e-4);
  EXPECT_GT(speed->attention_gop_per_s, 1e-4);
}

TEST(MeasureEngine, CanBeStopped) {
  std::stop_source source;
  source.request_stop();
  const auto speed = measure_engine(1, usual_engine_shapes().first(1), {}, source.get_token());
  ASSERT_FALSE(speed);
  EXPECT_EQ(speed.error().code, Code::interrupted);
}

TEST(MeasureEngine, AnUnknownModelIsAnError) {
  const std::array shapes{EngineShape{"no-such-model", 1, {DType::Q4_0}}};
  EXPECT_FALSE(measure_engine(1, shapes, {}, {}));
}

}  // namespace
}  // namespace knapsack
