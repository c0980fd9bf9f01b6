// Names of instruction sets, and KNAPSACK_ISA.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/kernel.h"
#include "kernels/native.h"

namespace knapsack {
namespace {

TEST(Isa, NamesGoThereAndBack) {
#define KNAP_ISA(id, text)            \
  EXPECT_EQ(isa_name(Isa::id), text); \
  EXPECT_EQ(isa_from_name(text), Isa::id);
#include "kernels/isa.inc"
#undef KNAP_ISA
  for (const char* name : {"", "AVX2", "sse", "scalar "}) EXPECT_FALSE(isa_from_name(name)) << name;
}

TEST(Isa, ScalarIsAlwaysThere) { EXPECT_EQ(supported_isas().front(), Isa::scalar); }

// Said by who runs the tests on an emulated CPU, of which it knows what it has.
TEST(Isa, AreThoseOfTheCpuThatIsSaidToBeThere) {
  const char* expected = std::getenv("KNAPSACK_TEST_ISAS");
  if (expected == nullptr) GTEST_SKIP() << "KNAPSACK_TEST_ISAS is not set";
  std::string found;
  for (const Isa isa : supported_isas()) found += (found.empty() ? "" : ",") + std::string(isa_name(isa));
  EXPECT_EQ(found, expected);
}

TEST(Isa, EachOfThisArchitectureComesAfterWhatIsSlower) {
  Isa last = Isa::scalar;
  for (const IsaKernels& native : native_isas()) {
    EXPECT_LT(last, native.isa);
    last = native.isa;
  }
}

TEST(Isa, TheEnvironmentChooses) {
  const char* before = std::getenv("KNAPSACK_ISA");
  const std::string kept = before != nullptr ? before : "";
  unsetenv("KNAPSACK_ISA");
  EXPECT_EQ(*choose_isa(), supported_isas().back());
  setenv("KNAPSACK_ISA", "", 1);
  EXPECT_EQ(*choose_isa(), supported_isas().back());
  setenv("KNAPSACK_ISA", "scalar", 1);
  EXPECT_EQ(*choose_isa(), Isa::scalar);
  setenv("KNAPSACK_ISA", "avx3", 1);
  const auto unknown = choose_isa();
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::usage);
  EXPECT_NE(unknown.error().message.find("avx3"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("scalar"), std::string::npos);
  EXPECT_EQ(*choose_isa(Isa::scalar), Isa::scalar) << "who asks is not overruled by the environment";
  if (before != nullptr)
    setenv("KNAPSACK_ISA", kept.c_str(), 1);
  else
    unsetenv("KNAPSACK_ISA");
}

}  // namespace
}  // namespace knapsack
