// Tables that compute wrongly are found out, and what is done about them.
#include "kernels/self_check.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/native.h"

namespace knapsack {

const PackedTable& simde_avx512vnni_packed();
const PackedTable& simde_amx_packed();

namespace {

std::string difference(const PackedTable& packed) {
  return first_difference(packed, scalar_matmul(), KernelTable::get(Isa::scalar)[Op::attention]);
}

TEST(SelfCheck, WhatThisCpuRunsIsRight) {
  for (const Isa isa : supported_isas())
    EXPECT_EQ(first_difference(packed_table(isa), matmul_table(isa), KernelTable::get(isa)[Op::attention]), "")
        << isa_name(isa);
#if defined(KNAPSACK_SIMDE)
  if (supported_isas().size() > 1) {
    EXPECT_EQ(difference(simde_avx512vnni_packed()), "");
    EXPECT_EQ(difference(simde_amx_packed()), "");
  }
#endif
}

// Integer products as a CPU might get them wrong.
template <bool (*broken)(const PackedJob& job)>
PackedTable wrong_when() {
  PackedTable table = scalar_packed();
  table.panels = [](const PackedJob& job, std::int64_t begin, std::int64_t end) {
    scalar_packed().panels(job, begin, end);
    if (broken(job)) job.y[job.tokens * job.y_stride - 1] *= 1.0000001F;  // the last bit
  };
  return table;
}

bool eight(const PackedJob& job) { return job.w->kind.bits == 8; }
bool tiles(const PackedJob& job) { return job.tokens >= 16 && job.w->kind.groups == 2; }
bool alone(const PackedJob& job) { return job.tokens == 1; }

TEST(SelfCheck, OneWrongBitIsFound) {
  EXPECT_EQ(difference(wrong_when<eight>()), "integer products of 8-bit codes, 32 a group");
  EXPECT_EQ(difference(wrong_when<tiles>()), "integer products of 4-bit codes with mins, 16 a group");
  EXPECT_EQ(difference(wrong_when<alone>()), "integer products of 4-bit codes, 32 a group");
}

TEST(SelfCheck, SumsThatSaturateAreFound) {
  // maddubs taken for all kinds: pairs of products are cut off at 16 bits.
  PackedTable table = scalar_packed();
  table.panels = [](const PackedJob& job, std::int64_t begin, std::int64_t end) {
    scalar_packed().panels(job, begin, end);
    if (job.w->kind.bits != 8) return;
    for (std::int64_t t = 0; t < job.tokens; ++t)
      if (job.x.q[t * job.w->cols] == 127) job.y[t * job.y_stride] *= 1.001F;
  };
  EXPECT_NE(difference(table).find("8-bit"), std::string::npos);
}

TEST(SelfCheck, PackingAndRoundingAreLookedAtToo) {
  PackedTable table = scalar_packed();
  table.store = [](const PackedKind& kind, const Levels& rows, std::int64_t cols, std::byte* panel) {
    const bool fits = store_panel(kind, rows, cols, panel);
    if (kind.bits == 5) panel[7] ^= std::byte{16};
    return fits;
  };
  EXPECT_NE(difference(table).find("the packing of 5-bit"), std::string::npos);
  table = scalar_packed();
  table.round = [](const float* x, std::int64_t cols, const PackedKind& kind, const PackedInput& out) {
    scalar_packed().round(x, cols, kind, out);
    out.q[33] = static_cast<std::int8_t>(out.q[33] - 1);
  };
  EXPECT_NE(difference(table).find("the rounding of activations"), std::string::npos);
  table = scalar_packed();
  table.panels = [](const PackedJob&, std::int64_t, std::int64_t) {};  // writes nothing
  EXPECT_NE(difference(table).find("integer products"), std::string::npos);
}

TEST(SelfCheck, FloatsAndAttentionToo) {
  MatmulTable matmul = scalar_matmul();
  matmul.columns = [](const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
    scalar_matmul().columns(job, begin, end, scratch);
    job.y[job.y_stride] += 0.1F;
  };
  Kernel attention = KernelTable::get(Isa::scalar)[Op::attention];
  EXPECT_EQ(first_difference(scalar_packed(), matmul, attention), "products of floats");
  attention.run = [](const OpCall& call) {
    KernelTable::get(Isa::scalar)[Op::attention].run(call);
    call.out[0].f32()[3] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(first_difference(scalar_packed(), scalar_matmul(), attention), "attention");
}

constexpr std::array three{Isa::scalar, Isa::avx2, Isa::amx};

TEST(IsaChooser, PassesOverWhatComputesWrongly) {
  std::vector<Isa> tried;
  IsaChooser chooser(three, [&](Isa isa) {
    tried.push_back(isa);
    return std::string(isa == Isa::amx ? "integer products" : "");
  });
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(*chooser.choose({}, nullptr), Isa::avx2);
  EXPECT_EQ(*chooser.choose({}, ""), Isa::avx2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* part : {"warning", "amx", "integer products", "avx2", "KNAPSACK_ISA", "--isa"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  EXPECT_EQ(said.find("warning"), said.rfind("warning")) << "said once";
  EXPECT_EQ(tried, (std::vector{Isa::amx, Isa::avx2})) << "each tried once, and none that is not needed";
}

TEST(IsaChooser, WhatIsAskedForByNameIsUsedOrAnError) {
  IsaChooser chooser(three, [](Isa isa) { return std::string(isa == Isa::amx ? "integer products" : ""); });
  EXPECT_EQ(*chooser.choose(Isa::avx2, "amx"), Isa::avx2);
  EXPECT_EQ(*chooser.choose({}, "scalar"), Isa::scalar);
  for (const auto& chosen : {chooser.choose(Isa::amx, nullptr), chooser.choose({}, "amx")}) {
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().code, Code::unsupported);
    for (const char* part : {"amx", "integer products", "scalar, avx2"})
      EXPECT_NE(chosen.error().message.find(part), std::string::npos) << part << " in " << chosen.error().message;
  }
  EXPECT_EQ(chooser.choose(Isa::avx512, nullptr).error().code, Code::usage);
}

TEST(IsaChooser, ScalarIsWhatIsLeft) {
  IsaChooser chooser(three, [](Isa) { return std::string("attention"); });
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(*chooser.choose({}, nullptr), Isa::scalar);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("amx"), std::string::npos);
  EXPECT_NE(said.find("avx2"), std::string::npos);
}

}  // namespace
}  // namespace knapsack
