// That measuring gives what was asked for and what is said of it; never how much it is.
#include "device/peaks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace knapsack {

void emulated_amx_tiles(std::int64_t steps);  // device/x86/mixes_amx.cc over tests/support/amx.h

namespace {

TEST(Peaks, EveryFigureIsMeasured) {
  Host host = read_host();
  host.memory_limit_bytes = 0;  // the smallest buffer
  double last = -1;
  MeasureOptions options{.threads = {1, 2}, .ms = 1};
  options.progress = [&](double done) {
    EXPECT_GT(done, last);
    EXPECT_LT(done, 1);
    last = done;
  };
  const auto peaks = measure_peaks(host, options);
  ASSERT_TRUE(peaks) << peaks.error().message;
  for (const int threads : {1, 2}) {
    EXPECT_GT(peaks->read(threads), 0);
    EXPECT_GT(peaks->fp32(threads), 0);
  }
  EXPECT_EQ(peaks->read(3), 0);
  EXPECT_EQ(peaks->compute.size(), 2 * mixes(host).size());
  for (const CachePeak& peak : peaks->caches) EXPECT_GT(peak.gb_per_s, 0);
  if (host.has("avx2") && host.has("fma")) {
    EXPECT_GT(peaks->int8(2, 4), 0);
    EXPECT_GE(peaks->int8(2, 4), peaks->int8(2, 6));
    EXPECT_GE(peaks->int8(2, 6), peaks->int8(2, 8));
    EXPECT_EQ(peaks->int8(2, 9), 0);
  }
}

TEST(Peaks, AnyMachineHasSomeMixAndAReader) {
  const Host plain;
  EXPECT_TRUE(native_mixes(plain).empty());
  ASSERT_EQ(mixes(plain).size(), 1U);
  mixes(plain)[0].run(3);
  const std::vector<std::byte> bytes(1024);
  reader(plain)(bytes.data(), 1024);
}

TEST(Peaks, NamesDoNotRepeat) {
  std::set<std::string_view> names;
  const Host host = read_host();
  for (const Mix& mix : mixes(host)) EXPECT_TRUE(names.insert(mix.name).second) << mix.name;
}

#if defined(KNAPSACK_EMULATED_TILES)
// The emulated tiles end the process where the processor would refuse a shape.
TEST(Peaks, TilesAreShapedAsTheProcessorWants) { emulated_amx_tiles(2); }

// Listed only, not run: this machine need not have it. Of a processor with everything but the system's leave for tiles
// all but those are there.
TEST(Peaks, EveryMixOfAProcessorThatHasThemAll) {
  Host all;
  all.features = {"avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"};
  const auto mixes = native_mixes(all);
  EXPECT_EQ(mixes.size(), 10U);
  all.features.emplace_back("amx_int8");
  const auto tiles = native_mixes(all);
  ASSERT_GE(tiles.size(), mixes.size());
  if (tiles.size() > mixes.size()) {
    EXPECT_EQ(tiles.back().name, "tdpbssd, tiles");
    EXPECT_EQ(tiles.back().operations_a_step, 4 * 2.0 * 16 * 64 * 16);
  }
}
#endif

TEST(Peaks, Stopped) {
  std::stop_source source;
  source.request_stop();
  MeasureOptions options;
  options.stop = source.get_token();
  const auto peaks = measure_peaks(read_host(), options);
  ASSERT_FALSE(peaks);
  EXPECT_EQ(peaks.error().code, Code::interrupted);
}

TEST(Peaks, TheBetterOfTwoMeasurements) {
  Peaks a{.memory = {{.threads = 1, .gb_per_s = 5}}};
  a.compute.push_back({.mix = "fma", .threads = 1, .gop_per_s = 10});
  Peaks b{.memory = {{.threads = 1, .gb_per_s = 6}, {.threads = 2, .gb_per_s = 9}}};
  b.compute.push_back({.mix = "fma", .threads = 1, .gop_per_s = 8});
  a.merge(b);
  EXPECT_EQ(a.read(1), 6);
  EXPECT_EQ(a.fp32(1), 10);
  EXPECT_EQ(a.memory.size(), 1U);
}

TEST(Peaks, ThreadCounts) {
  EXPECT_EQ(thread_counts(1), std::vector<int>({1}));
  EXPECT_EQ(thread_counts(2), std::vector<int>({1, 2}));
  EXPECT_EQ(thread_counts(6), std::vector<int>({1, 2, 4, 6}));
}

}  // namespace
}  // namespace knapsack
