// What tests share: where the sources and the program are, running a command, a folder that goes away.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace knapsack::testing {

std::filesystem::path source_dir();                            // the repository
std::filesystem::path data_path(const std::string& relative);  // tests/<relative>
std::string binary();                                          // the knapsack program

struct CommandResult {
  int exit_code = 0;  // 128 + signal when killed
  std::string out, err;
  long peak_rss_kib = 0;
};
// Runs without a shell and without a terminal; env entries ("K=V") are added to the environment.
CommandResult run(const std::vector<std::string>& argv, const std::string& stdin_text = "",
                  const std::vector<std::string>& env = {});

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace knapsack::testing
