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

TEST(AtomicFile, AppearsWhole) {
  const TempDir dir;
  const std::string path = dir.file("out");
  auto file = AtomicFile::create(path);
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

TEST(AtomicFile, TheOldFileStaysUntilCommit) {
  const TempDir dir;
  const std::string path = dir.file("out");
  write_file(path, "old");
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->write("new").has_value());
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(dir), 1U);
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file->write("new").has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(entries(dir), 1U);
}

TEST(AtomicFile, MovedFromOwnsNothing) {
  const TempDir dir;
  auto file = AtomicFile::create(dir.file("out"));
  AtomicFile moved = std::move(*file);
  ASSERT_TRUE(moved.write("x").has_value());
  ASSERT_TRUE(moved.commit().has_value());
  EXPECT_EQ(read_file(dir.file("out")), "x");
}

TEST(AtomicFile, TwoAtOnceDoNotMeet) {
  const TempDir dir;
  auto one = AtomicFile::create(dir.file("out"));
  auto two = AtomicFile::create(dir.file("out"));
  ASSERT_TRUE(one.has_value() && two.has_value());
  ASSERT_TRUE(one->write("1").has_value());
  ASSERT_TRUE(two->write("2").has_value());
  ASSERT_TRUE(one->commit().has_value());
  ASSERT_TRUE(two->commit().has_value());
  EXPECT_EQ(read_file(dir.file("out")), "2");
  EXPECT_EQ(entries(dir), 1U);
}

TEST(AtomicFile, OfTwoThatMayNotReplaceOneSucceeds) {
  const TempDir dir;
  auto one = AtomicFile::create(dir.file("out"), Existing::kept);
  auto two = AtomicFile::create(dir.file("out"), Existing::kept);
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

TEST(AtomicFile, WhatAKilledProcessLeftIsNotInTheWay) {
  const TempDir dir;
  // In a container every process may have the same id. The serial numbers to come are not known here: take many.
  for (int i = 0; i < 200; ++i)
    write_file(dir.file("out.tmp-" + std::to_string(getpid()) + "-" + std::to_string(i)), "");
  auto file = AtomicFile::create(dir.file("out"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_TRUE(file->write("x").has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_EQ(read_file(dir.file("out")), "x");
}

TEST(AtomicFile, ANameMayBeAsLongAsAFolderTakes) {
  const TempDir dir;
  std::string name(240, 'n');
  for (int i = 0; i < 5; ++i) name += "\xe4\xb8\xad";  // 255 bytes: the cut falls among these
  for (const std::string& path : {dir.file(name), dir.file(name.substr(0, 252))}) {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    ASSERT_TRUE(file->write("x").has_value());
    ASSERT_TRUE(file->commit().has_value());
    EXPECT_EQ(read_file(path), "x");
  }
  EXPECT_EQ(entries(dir), 2U);
  const auto longer = AtomicFile::create(dir.file(name + "x"));
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().code, Code::usage);
}

TEST(AtomicFile, NoFolder) {
  const TempDir dir;
  const auto file = AtomicFile::create(dir.file("absent/out"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::usage);
  EXPECT_NE(file.error().message.find("absent/out: cannot create: No such file"), std::string::npos);
}

TEST(AtomicFile, ReadOnlyFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  const TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0500), 0);
  const auto file = AtomicFile::create(dir.file("out"));
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

TEST(AtomicFile, ALinkStaysALink) {
  const TempDir dir;
  write_file(dir.file("target"), "old");
  std::filesystem::create_symlink("target", dir.file("link"));
  auto file = AtomicFile::create(dir.file("link"));
  ASSERT_TRUE(file->write("new").has_value());
  ASSERT_TRUE(file->commit().has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.file("link")));
  EXPECT_EQ(read_file(dir.file("target")), "new");
}

TEST(AtomicFile, AFullDiskIsAnErrorAndLeavesNothing) {
  const TempDir dir;
  const std::string path = dir.file("out");
  // A limit on the size of files stands in for the disk. In a child, since it cannot be raised again.
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    auto file = AtomicFile::create(path);
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
