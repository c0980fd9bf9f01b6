#include "import/public_models.h"
#include "import/import.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/support.h"

namespace knapsack {
namespace {

TEST(PublicModels, BuiltInAreTheFilesOfTheRepository) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_dir() / "models")) {
    if (entry.path().extension() != ".json") continue;
    ++count;
    const std::string id = entry.path().stem().string();
    const auto model = find_public_model(id);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->id, id);
    auto file = parse_json_object(testing::read_file(entry.path()), id);
    ASSERT_TRUE(file) << id;
    EXPECT_EQ(model->parameters, file->at("knapsack").at("parameters").to_number<std::int64_t>());
    file->erase("knapsack");
    EXPECT_EQ(model->config, *file) << id;
  }
  EXPECT_EQ(public_model_ids().size(), count);
}

TEST(PublicModels, HaveNoWeights) {
  const auto made = import_model("qwen2.5-0.5b", {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::usage);
  EXPECT_NE(made.error().message.find("no weights are here"), std::string::npos) << made.error().message;
}

TEST(PublicModels, ByAnyOfTheirNames) {
  EXPECT_EQ(find_public_model("QWEN2.5-1.5B")->id, "qwen2.5-1.5b");
  EXPECT_EQ(find_public_model("Qwen/Qwen2.5-1.5B-Instruct")->id, "qwen2.5-1.5b");
  const auto unknown = find_public_model("qwen2.5-15b");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::usage);
  EXPECT_NE(
      unknown.error().message.find(
          "unknown model 'qwen2.5-15b': there is no such file, and of public models the nearest are qwen2.5-1.5b, "),
      std::string::npos)
      << unknown.error().message;
}

}  // namespace
}  // namespace knapsack
