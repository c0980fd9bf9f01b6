#include "cli/output_file.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/arguments.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

// "NAME-00001-of-00003.gguf" without the number of the part, and what follows that; empty: no part of a split model.
std::pair<std::string, std::string> around_number(const std::string& name) {
  constexpr std::size_t number = 5;
  constexpr std::size_t rest = std::string_view("-of-00003.gguf").size();
  if (name.size() < number + rest || name.substr(name.size() - rest, 4) != "-of-" || !name.ends_with(".gguf"))
    return {};
  return {name.substr(0, name.size() - rest - number), name.substr(name.size() - rest)};
}

bool is_read_from_a_folder(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".onnx") || name == "weights.data" ||
         name.ends_with(".safetensors.index.json") || name.ends_with("config.json") || name.starts_with("tokenizer.") ||
         name.starts_with("chat_template.");
}

}  // namespace

Result<void> not_the_model(const std::string& output, const std::string& model) {
  std::error_code ignored;
  if (!fs::exists(output, ignored)) return {};
  const fs::path path(model);
  const bool folder = fs::is_directory(path, ignored);
  const auto around = around_number(path.filename().string());
  const std::string &before = around.first, &after = around.second;
  const auto of_the_model = [&](const std::string& name) {
    return folder ? is_read_from_a_folder(name) : !after.empty() && name.starts_with(before) && name.ends_with(after);
  };
  bool same = fs::equivalent(output, path, ignored);
  if (folder || !after.empty()) {
    const fs::path where = folder ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
    for (const auto& entry : fs::directory_iterator(where, ignored))
      same = same || (of_the_model(entry.path().filename().string()) && fs::equivalent(output, entry.path(), ignored));
  }
  if (same) return usage_error("{}: this is the model itself, or a part of it; name another file", output);
  return {};
}

bool is_standard_output(const std::string& path) {
  struct stat there {
  }, output{};
  if (::stat(path.c_str(), &there) != 0 || ::fstat(STDOUT_FILENO, &output) != 0) return false;
  if (S_ISCHR(output.st_mode) && ::isatty(STDOUT_FILENO) == 0) return false;  // /dev/null takes all there is
  return there.st_dev == output.st_dev && there.st_ino == output.st_ino;
}

Result<void> only_over(const std::string& output, std::initializer_list<std::string_view> extensions,
                       std::string_view option) {
  std::error_code failed;
  if (!fs::is_regular_file(output, failed)) return {};
  const std::string extension = fs::path(output).extension().string();
  if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) return {};
  return usage_error("{}: {} is there already, and is not named as such a file is ({}); remove it or name another file",
                     option, in_quotes(output), fmt::join(extensions, ", "));
}

Result<void> file_or_nothing(const std::string& output, std::string_view option) {
  std::error_code failed;
  const auto status = std::filesystem::status(output, failed);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return usage_error("{}: expected the name of a file, found {}, which is something else", option, in_quotes(output));
  return {};
}

}  // namespace knapsack
