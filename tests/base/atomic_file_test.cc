// No half-written file is ever seen under its final name.
#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/support.h"

namespace knapsack::testing {
namespace {

std::size_t entries(const TempDir& dir) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir.path()), {}));
}

// What lies in its folder without a name until it is there, and where that is not to be had under another name.
class AtomicFileAside : public ::testing::TestWithParam<Aside> {
 protected:
  static Result<AtomicFile> create(const std::string& path, Existing existing = Existing::replaced) {
    return AtomicFile::create(path, existing, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(All, AtomicFileAside, ::testing::Values(Aside::nameless, Aside::named),
                         [](const auto& each) { return each.param == Aside::named ? "Named" : "Nameless"; });

TEST_P(AtomicFileAside, AppearsWhole) {
  const TempDir dir;
  const std::string path = dir.file("out");
  auto file = create(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->write("abc").has_value());
  ASSERT_TRUE(file->write(std::string(100'000, 'x')).has_value());
  EXPECT_EQ(file->written(), 100'003U);
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(path), "abc" + std::string(100'000, 'x'));
  EXPECT_EQ(entries(dir), 1U);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0600U, 0600U);
}

TEST_P(AtomicFileAside, HolesReadAsZeros) {
  const TempDir dir;
  const std::string path = dir.file("out");
  auto file = create(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->write("a").has_value());
  ASSERT_TRUE(file->skip(9999).has_value());
  ASSERT_TRUE(file->write("b").has_value());
  ASSERT_TRUE(file->skip(0).has_value());
  ASSERT_TRUE(file->skip(7).has_value());
  EXPECT_EQ(file->written(), 10'008U);
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(path), "a" + std::string(9999, '\0') + "b" + std::string(7, '\0'));
}

TEST(AtomicFile, APipeGetsZerosForHoles) {
  const TempDir dir;
  const std::string path = dir.file("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->skip(5000).has_value());
  ASSERT_TRUE(file->write("b").has_value());
  std::string got(6000, '?');
  const ssize_t n = ::read(reader, got.data(), got.size());
  ::close(reader);
  ASSERT_EQ(n, 5001);
  EXPECT_EQ(got.substr(0, 5001), std::string(5000, '\0') + "b");
}

TEST_P(AtomicFileAside, TheOldFileStaysUntilCommit) {
  const TempDir dir;
  const std::string path = dir.file("out");
  write_file(path, "old");
  {
    auto file = create(path);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->write("new").has_value());
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(dir), 1U);
  auto file = create(path);
  ASSERT_TRUE(file->write("new").has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(entries(dir), 1U);
}

TEST_P(AtomicFileAside, MovedFromOwnsNothing) {
  const TempDir dir;
  auto file = create(dir.file("out"));
  AtomicFile moved = std::move(*file);
  ASSERT_TRUE(moved.write("x").has_value());
  ASSERT_TRUE(moved.commit().has_value());
  EXPECT_EQ(read_file(dir.file("out")), "x");
}

TEST_P(AtomicFileAside, TwoAtOnceDoNotMeet) {
  const TempDir dir;
  auto one = create(dir.file("out"));
  auto two = create(dir.file("out"));
  ASSERT_TRUE(one.has_value() && two.has_value());
  ASSERT_TRUE(one->write("1").has_value());
  ASSERT_TRUE(two->write("2").has_value());
  ASSERT_TRUE(one->commit().has_value());
  ASSERT_TRUE(two->commit().has_value());
  EXPECT_EQ(read_file(dir.file("out")), "2");
  EXPECT_EQ(entries(dir), 1U);
}

TEST_P(AtomicFileAside, OfTwoThatMayNotReplaceOneSucceeds) {
  const TempDir dir;
  auto one = create(dir.file("out"), Existing::kept);
  auto two = create(dir.file("out"), Existing::kept);
  ASSERT_TRUE(one.has_value() && two.has_value());
  ASSERT_TRUE(one->write("1").has_value());
  ASSERT_TRUE(two->write("2").has_value());
  ASSERT_TRUE(two->commit().has_value());
  const auto late = one->commit();
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::usage);
  EXPECT_NE(late.error().message.find("appeared meanwhile"), std::string::npos);
  EXPECT_EQ(read_file(dir.file("out")), "2");
  EXPECT_EQ(entries(dir), 1U);
}

TEST_P(AtomicFileAside, WhatAKilledProcessLeftIsNotInTheWay) {
  const TempDir dir;
  // In a container every process may have the same id. The serial numbers to come are not known here: take many.
  for (int i = 0; i < 200; ++i)
    write_file(dir.file("out.tmp-" + std::to_string(getpid()) + "-" + std::to_string(i)), "");
  auto file = create(dir.file("out"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_TRUE(file->write("x").has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(dir.file("out")), "x");
}

TEST_P(AtomicFileAside, ANameMayBeAsLongAsAFolderTakes) {
  const TempDir dir;
  std::string name(240, 'n');
  for (int i = 0; i < 5; ++i) name += "\xe4\xb8\xad";  // 255 bytes: the cut falls among these
  for (const std::string& path : {dir.file(name), dir.file(name.substr(0, 252))}) {
    auto file = create(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    ASSERT_TRUE(file->write("x").has_value());
    ASSERT_TRUE(file->commit().has_value());
    EXPECT_EQ(read_file(path), "x");
  }
  EXPECT_EQ(entries(dir), 2U);
  const auto longer = create(dir.file(name + "x"));
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().code, Code::usage);
}

TEST_P(AtomicFileAside, NoFolder) {
  const TempDir dir;
  const auto file = create(dir.file("absent/out"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::usage);
  EXPECT_NE(file.error().message.find("absent/out: cannot create: No such file"), std::string::npos);
}

TEST_P(AtomicFileAside, ReadOnlyFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  const TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0500), 0);
  const auto file = create(dir.file("out"));
  ASSERT_EQ(chmod(dir.path().c_str(), 0700), 0);
  ASSERT_FALSE(file.has_value());
  EXPECT_NE(file.error().message.find("Permission denied"), std::string::npos);
}

TEST(AtomicFile, AFolderInThePlaceOfTheFile) {
  const TempDir dir;
  std::filesystem::create_directory(dir.file("out"));
  const auto file = AtomicFile::create(dir.file("out"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::usage);
  EXPECT_TRUE(std::filesystem::is_directory(dir.file("out")));
  EXPECT_EQ(entries(dir), 1U);
}

TEST(AtomicFile, DevicesAndPipesAreWrittenTo) {
  auto null = AtomicFile::create("/dev/null");
  ASSERT_TRUE(null.has_value());
  ASSERT_TRUE(null->write("x").has_value());
  ASSERT_TRUE(null->commit().has_value());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));

  const TempDir dir;
  ASSERT_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  const int reader = open(dir.file("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  auto pipe = AtomicFile::create(dir.file("pipe"));
  ASSERT_TRUE(pipe.has_value());
  ASSERT_TRUE(pipe->write("abc").has_value());
  ASSERT_TRUE(pipe->commit().has_value());
  char text[4] = {};
  EXPECT_EQ(read(reader, text, sizeof text), 3);
  close(reader);
  EXPECT_EQ(entries(dir), 1U);
}

TEST_P(AtomicFileAside, ALinkStaysALink) {
  const TempDir dir;
  write_file(dir.file("target"), "old");
  std::filesystem::create_symlink("target", dir.file("link"));
  auto file = create(dir.file("link"));
  ASSERT_TRUE(file->write("new").has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.file("link")));
  EXPECT_EQ(read_file(dir.file("target")), "new");
}

TEST_P(AtomicFileAside, LinksInACircle) {
  const TempDir dir;
  std::filesystem::create_symlink("circle", dir.file("circle"));
  const auto file = create(dir.file("circle"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::usage);
  EXPECT_NE(file.error().message.find("circle: cannot create: Too many levels"), std::string::npos)
      << file.error().message;
}

TEST(AtomicFile, AKilledProcessLeavesNothing) {
  const TempDir dir;
  const int nameless = open(dir.path().c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (nameless < 0) GTEST_SKIP() << "files without a name are not to be had here";
  close(nameless);
  const pid_t child = fork();
  if (child == 0) {
    auto file = AtomicFile::create(dir.file("out"));
    if (file && file->write("half").has_value()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(entries(dir), 0U);
}

TEST_P(AtomicFileAside, AFullDiskIsAnErrorAndLeavesNothing) {
  const TempDir dir;
  const std::string path = dir.file("out");
  // A limit on the size of files stands in for the disk. In a child, since it cannot be raised again.
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    auto file = create(path);
    const bool refused = file && !file->write(std::string(10'000, 'x')).has_value();
    if (file) {
      const AtomicFile gone = std::move(*file);
    }
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(entries(dir), 0U);
}

}  // namespace
}  // namespace knapsack::testing
