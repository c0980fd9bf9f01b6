// Files made byte by byte, valid or broken as a test wants them, and the attempt to open one in a child process, which
// also tells how much memory that took.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace knapsack::testing {

// Little-endian values one after the other.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& u8(std::uint8_t v) { return put(v); }
  Bytes& u32(std::uint32_t v) { return put(v); }
  Bytes& u64(std::uint64_t v) { return put(v); }
  Bytes& raw(const std::string& bytes) {
    text_ += bytes;
    return *this;
  }
  Bytes& string(const std::string& bytes) { return u64(bytes.size()).raw(bytes); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct CraftedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // in the file's order
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::optional<std::uint32_t> n_dims;  // where the count shall lie
};

// A GGUF file. Defaults: v3, a few entries, tensors a (F32 [4]), b (F32 [3, 4]) and c (Q8_0 [2, 32]).
struct CraftedGguf {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::pair<std::string, std::string>> entries;  // key -> type and value, encoded
  std::vector<CraftedTensor> tensors;
  std::uint64_t alignment = 32;  // of the padding before the data
  std::optional<std::uint64_t> n_tensors, n_entries;
  std::string data;

  CraftedGguf();
  CraftedGguf& entry(std::string key, std::uint32_t type, const Bytes& value);
  [[nodiscard]] std::string build() const;
};

// Length, JSON, data.
std::string crafted_safetensors(const std::string& header, const std::string& data);

// A message of protobuf, field by field; apart from the writer in files/protobuf.h.
class Proto {
 public:
  Proto& number(std::uint32_t field, std::uint64_t value) { return varint(field << 3).varint(value); }
  Proto& bytes(std::uint32_t field, const std::string& value) {
    return varint(field << 3 | 2).varint(value.size()).raw(value);
  }
  Proto& message(std::uint32_t field, const Proto& value) { return bytes(field, value.text()); }
  Proto& fixed32(std::uint32_t field, float value) { return varint(field << 3 | 5).put(value); }
  Proto& fixed64(std::uint32_t field, double value) { return varint(field << 3 | 1).put(value); }
  Proto& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
    return *this;
  }
  Proto& raw(const std::string& value) {
    text_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <class T>
  Proto& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string text_;
};

// A small ONNX model, IR version 8, opset 17: y = Add(x, w), float [n, 2]. `tensor` in the place of w, `more` at the
// graph's end and at the model's.
struct CraftedOnnx {
  Proto tensor;
  Proto node;
  Proto more_graph, more_model;

  CraftedOnnx();
  [[nodiscard]] std::string build() const;
  static Proto value(const std::string& name, const Proto& dims);
};

struct Attempt {
  bool opened = false;
  Code code{};
  std::string message;
  long extra_kib = 0;  // peak memory above that of a child which does nothing
};
Attempt attempt(const std::function<Result<void>()>& open);

// Fails the test unless the attempt ended in `code` with a message holding every part, in less than 64 MiB.
void expect_refused(const Attempt& attempt, Code code, const std::vector<std::string>& parts);

}  // namespace knapsack::testing
