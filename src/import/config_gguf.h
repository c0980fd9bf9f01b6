// GGUF keys (general.architecture's own, "ARCH.block_count" ...) -> the config vocabulary, with the same ranges as
// config.json. Key meanings: the public GGUF specification and what llama.cpp's converter writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/gguf.h"
#include "import/config.h"

namespace knapsack {

// Keys of one architecture, read with ranges: absent (where required), of another type or out of range is `bad_input`
// naming file and key. Borrows the file.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string path, std::string architecture)
      : file_(&file), path_(std::move(path)), prefix_(std::move(architecture) + ".") {}

  [[nodiscard]] bool has(std::string_view key) const { return file_->find(full(key)) != nullptr; }
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  [[nodiscard]] Result<std::int64_t> integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                                std::int64_t otherwise) const;
  [[nodiscard]] Result<double> number(std::string_view key, double low, double high) const;
  [[nodiscard]] Result<double> number_or(std::string_view key, double low, double high, double otherwise) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  // A number, or an array of the same number for every layer (what some converters write).
  [[nodiscard]] Result<std::int64_t> uniform(std::string_view key, std::int64_t low, std::int64_t high) const;
  // An array of `count` booleans or integers.
  [[nodiscard]] Result<std::vector<std::int64_t>> array(std::string_view key, std::int64_t count) const;
  [[nodiscard]] bool is_array(std::string_view key) const;

  [[nodiscard]] const GgufFile& file() const { return *file_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string full(std::string_view key) const { return fmt::format("{}{}", prefix_, key); }

 private:
  const GgufFile* file_;
  std::string path_;
  std::string prefix_;
};

// block_count, embedding_length, heads, head size, feed_forward_length, context_length, eps, RoPE; vocab from
// token_embd.weight; tied where there is no output.weight; biases and q/k norms by their presence in layer 0.
Result<void> gguf_decoder(const GgufKeys& keys, ModelConfig& out);
// attention.sliding_window on the layers `slides` says; empty: on all.
Result<void> gguf_windows(const GgufKeys& keys, const std::vector<bool>& slides, ModelConfig& out);
// expert_count, expert_used_count, expert_feed_forward_length; all layers, or where a router tensor is.
Result<void> gguf_experts(const GgufKeys& keys, ModelConfig& out);

}  // namespace knapsack
