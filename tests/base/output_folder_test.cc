#include "base/output_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "base/leftovers.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::TempDir;

TEST(OutputFolder, GoesAgainWhereNothingCameOfIt) {
  const TempDir folder;
  const std::string deep = folder.file("a") + "/b/c";
  {
    auto made = OutputFolder::create(deep);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(std::filesystem::is_directory(deep));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  {
    ASSERT_TRUE(OutputFolder::create(deep));
    const auto made = OutputFolder::create(deep);
    testing::write_file(folder.file("a") + "/b/kept", "x");
  }
  EXPECT_TRUE(std::filesystem::exists(folder.file("a") + "/b/kept"));
  EXPECT_FALSE(std::filesystem::exists(deep));
  ASSERT_TRUE(OutputFolder::create(folder.path().string()));
  EXPECT_TRUE(std::filesystem::exists(folder.path()));  // it was there
}

TEST(OutputFolder, IsOnesAtATime) {
  const TempDir folder;
  auto first = OutputFolder::create(folder.file("x"));
  ASSERT_TRUE(first);
  const auto second = OutputFolder::create(folder.file("x"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::usage);
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
  { const OutputFolder gone = std::move(*first); }
  EXPECT_TRUE(OutputFolder::create(folder.file("x")));
  testing::write_file(folder.file("file"), "");
  EXPECT_EQ(OutputFolder::create(folder.file("file")).error().code, Code::usage);
}

TEST(Leftovers, FilesGoBeforeTheirFoldersAndFullFoldersStay) {
  const TempDir folder;
  const std::string outer = folder.file("out"), inner = outer + "/step.npz", full = folder.file("full");
  for (const std::string& path : {outer, full}) std::filesystem::create_directory(path);
  testing::write_file(inner, "x");
  testing::write_file(full + "/kept", "x");
  for (const std::string& path : {outer, inner, full}) remember_path(path);
  remove_leftovers();
  EXPECT_FALSE(std::filesystem::exists(outer));
  EXPECT_TRUE(std::filesystem::exists(full + "/kept"));
  for (const std::string& path : {outer, inner, full}) forget_path(path);
}

}  // namespace
}  // namespace knapsack
