// The small files of a Hugging Face folder, by name. Not for weights: files/safetensors.h.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/result.h"

namespace knapsack {

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::string file(std::string_view name) const { return (std::filesystem::path(path_) / name).string(); }
  [[nodiscard]] bool has(std::string_view name) const {
    std::error_code error;
    return std::filesystem::exists(file(name), error);
  }
  // The text of an object's file, checked to be one; "{}" when there is no such file.
  [[nodiscard]] Result<std::string> object_text(std::string_view name) const {
    if (!has(name)) return std::string("{}");
    TRY(std::string text, read_text_file(file(name)));
    TRY_VOID(as_void(parse_json_object(text, file(name))));
    return text;
  }

 private:
  static Result<void> as_void(Result<json::object> parsed) {
    if (!parsed) return std::move(parsed).error();
    return {};
  }
  std::string path_;
};

}  // namespace knapsack
