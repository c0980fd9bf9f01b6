// What may be mapped, and what is refused by name without waiting for it.
#include "base/mmap.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/lost_page.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

std::string refusal(const std::string& path) {
  const auto file = MappedFile::open(path);
  EXPECT_FALSE(file.has_value());
  if (file) return "";
  EXPECT_EQ(file.error().code, Code::bad_input);
  EXPECT_TRUE(file.error().message.starts_with(path)) << file.error().message;
  return file.error().message;
}

TEST(MappedFile, HoldsTheBytes) {
  const TempDir dir;
  const std::string text(10'000, 'x');
  write_file(dir.file("f"), text);
  const auto file = MappedFile::open(dir.file("f"));
  ASSERT_TRUE(file.has_value());
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), text);
  EXPECT_EQ((*file)->path(), dir.file("f"));
  prefetch_pages((*file)->bytes());
  // The mapping outlives the name.
  std::filesystem::remove(dir.file("f"));
  EXPECT_EQ(bytes[9999], std::byte{'x'});
}

TEST(MappedFile, EmptyFile) {
  const TempDir dir;
  write_file(dir.file("f"), "");
  const auto file = MappedFile::open(dir.file("f"));
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE((*file)->bytes().empty());
  prefetch_pages((*file)->bytes());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TempDir dir;
  EXPECT_NE(refusal(dir.path().string()).find("a directory"), std::string::npos);
  EXPECT_NE(refusal(dir.file("absent")).find("No such file"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("a regular file"), std::string::npos);
  ASSERT_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_NE(refusal(dir.file("pipe")).find("a regular file, found a pipe"),
            std::string::npos);  // and does not wait for a writer
  std::filesystem::create_symlink(dir.file("absent"), dir.file("dangling"));
  EXPECT_NE(refusal(dir.file("dangling")).find("No such file"), std::string::npos);
}

TEST(MappedFile, FollowsLinks) {
  const TempDir dir;
  write_file(dir.file("f"), "x");
  std::filesystem::create_symlink(dir.file("f"), dir.file("link"));
  EXPECT_TRUE(MappedFile::open(dir.file("link")).has_value());
}

TEST(MappedFile, Unreadable) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  const TempDir dir;
  write_file(dir.file("f"), "x");
  ASSERT_EQ(chmod(dir.file("f").c_str(), 0), 0);
  EXPECT_NE(refusal(dir.file("f")).find("Permission denied"), std::string::npos);
}

TEST(MappedFile, ALostPageIsToldWithItsFile) {
  const TempDir dir;
  write_file(dir.file("f"), std::string(10'000, 'x'));
  const auto file = MappedFile::open(dir.file("f"));
  ASSERT_TRUE(file.has_value());
  const std::byte* begin = (*file)->bytes().data();
  std::filesystem::resize_file(dir.file("f"), 100);
  const auto error = lost_page(begin + 5000);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, Code::bad_input);
  EXPECT_TRUE(error->message.starts_with(
      dir.file("f") + ": byte 5000 is gone: the file had 10000 bytes when it was opened and has 100 now"))
      << error->message;
  EXPECT_TRUE(lost_page(begin + 9999).has_value());
  EXPECT_FALSE(lost_page(begin - 1).has_value());
  EXPECT_FALSE(lost_page(&dir).has_value());
  EXPECT_FALSE(lost_page(nullptr).has_value());
}

TEST(TextFile, HoldsWhatTheSystemMakesUpAsItIsRead) {
  EXPECT_FALSE(read_text_file("/proc/version")->empty());  // whose size is said to be 0
}

TEST(TextFile, IsCapped) {
  const TempDir dir;
  write_file(dir.file("f"), "hello");
  EXPECT_EQ(*read_text_file(dir.file("f")), "hello");
  EXPECT_EQ(*read_text_file(dir.file("f"), 5), "hello");
  const auto large = read_text_file(dir.file("f"), 4);
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().message.find("5 bytes"), std::string::npos);
}

}  // namespace
}  // namespace knapsack::testing
