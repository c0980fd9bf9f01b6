// Every golden model written as GGUF and read back gives the same logits; what GGUF cannot say is refused by name.
#include "import/convert.h"

#include "import/golden.h"

namespace knapsack::testing {
namespace {

class ConvertTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, ConvertTest, ::testing::ValuesIn(golden_names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Why a model has no GGUF form, or empty.
std::string refusal(const std::string& name) {
  if (name == "llama-linear-bias" || name == "llama-mha-gelu") return "activation";
  if (name == "qwen3-window-bias") return "biases";
  if (name == "qwen2-moe-sparse" || name == "qwen3-moe") return "every layer";
  if (name == "deepseek-v3-plain") return "biases";
  return {};
}

TEST_P(ConvertTest, ReadsBackWithTheSameLogits) {
  const Golden golden = load_golden(GetParam());
  const TempDir temp;
  const std::string out = temp.file("model.gguf");
  const auto converted = convert_to_gguf(golden.folder, out, DType::F32, {});
  if (const std::string why = refusal(golden.name); !why.empty()) {
    ASSERT_FALSE(converted.has_value());
    EXPECT_EQ(converted.error().code, Code::unsupported);
    EXPECT_NE(converted.error().message.find(why), std::string::npos) << converted.error().message;
    EXPECT_FALSE(std::filesystem::exists(out));
    return;
  }
  ASSERT_TRUE(converted.has_value()) << converted.error().message;
  const auto file = import_model(out, {});
  ASSERT_TRUE(file.has_value()) << file.error().message;
  // A window that llama.cpp would ignore shortens the context instead: only that far are they the same model.
  const bool shortened = file->config.ctx < 48;
  const auto& ids = shortened ? golden.ids_b : golden.ids_a;
  const auto& want = shortened ? golden.logits_b : golden.logits_a;
  Model model(out, static_cast<std::int64_t>(ids.size()), {});
  EXPECT_LE(max_error(model.logits(ids), want), golden.tolerance);

  const std::string half = temp.file("half.gguf");
  const auto again = convert_to_gguf(out, half, DType::F16, {});  // from GGUF, to 16 bits
  ASSERT_TRUE(again.has_value()) << again.error().message;
  Model coarse(half, static_cast<std::int64_t>(ids.size()), {});
  EXPECT_LE(max_error(coarse.logits(ids), want), 0.1);
  EXPECT_LT(std::filesystem::file_size(half), std::filesystem::file_size(out));
}

TEST(ConvertTest, OnlyFloatTypes) {
  const TempDir temp;
  const auto result = convert_to_gguf(data_path("golden/qwen3-tied"), temp.file("x.gguf"), DType::Q4_0, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::usage);
}

}  // namespace
}  // namespace knapsack::testing
