// What the parts of an ONNX parser have in common: fields of messages as strings, numbers and lists, with errors that
// name the byte, and the count of what they take in memory. Not for what the fields mean.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/utf8.h"
#include "files/onnx.h"
#include "files/protobuf.h"

namespace knapsack {

// A message within the file; what: for messages of errors.
struct OnnxMessage {
  std::span<const std::byte> bytes;
  std::string_view what;
};

class OnnxFields {
 public:
  // path: for messages of errors; owner: of `bytes`. Both outlive this.
  OnnxFields(std::span<const std::byte> bytes, const std::string& path, const std::shared_ptr<const void>& owner,
             std::uint64_t memory_limit)
      : bytes_(bytes), path_(path), owner_(owner), memory_limit_(memory_limit), memory_left_(memory_limit) {}

 protected:
  [[nodiscard]] std::size_t offset_of(std::span<const std::byte> part) const {
    return static_cast<std::size_t>(part.data() - bytes_.data());
  }
  [[nodiscard]] Error fault(const ProtoField& field, std::string_view text) const {
    return bad_input("{}: byte {}: {}", path_, field.at, text);
  }

  template <class F>
  Result<void> each_field(const OnnxMessage& message, F&& on_field) {
    ProtoReader reader(message.bytes, offset_of(message.bytes), path_, message.what);
    while (true) {
      TRY(const auto field, reader.next());
      if (!field) return {};
      TRY_VOID(on_field(*field));
    }
  }

  // Counts what the model takes in memory.
  Result<void> take(std::uint64_t size) {
    if (size > memory_left_)
      return unsupported(
          "{}: what describes the model would take more than {} MiB of memory (small weights stored one by one? store "
          "them as raw_data, or in an external file)",
          path_, memory_limit_ >> 20);
    memory_left_ -= size;
    return {};
  }
  template <class T>
  Result<void> append(std::vector<T>& list, T item) {
    TRY_VOID(take(2 * sizeof(T)));  // vectors grow by doubling
    list.push_back(std::move(item));
    return {};
  }

  Result<void> expect(const ProtoField& field, std::string_view label, ProtoWire wire) const {
    if (field.wire == wire) return {};
    return bad_input("{}: byte {}: {} is {}; expected {}", path_, field.at, label, proto_wire_name(field.wire),
                     proto_wire_name(wire));
  }
  Result<OnnxMessage> nested(const ProtoField& field, std::string_view what) const {
    TRY_VOID(expect(field, what, ProtoWire::bytes));
    return OnnxMessage{field.bytes, what};
  }
  Result<void> integer(const ProtoField& field, std::string_view label, std::int64_t& out) const {
    TRY_VOID(expect(field, label, ProtoWire::varint));
    out = static_cast<std::int64_t>(field.value);
    return {};
  }
  Result<void> bytes(const ProtoField& field, std::string_view label, std::string& out) {
    TRY_VOID(expect(field, label, ProtoWire::bytes));
    TRY_VOID(take(field.bytes.size()));
    out.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    return {};
  }
  Result<void> text(const ProtoField& field, std::string_view label, std::string& out) {
    TRY_VOID(bytes(field, label, out));
    if (!is_valid_utf8(out))
      return bad_input("{}: byte {}: {} is not UTF-8: {}", path_, field.at, label, printable(out));
    return {};
  }
  Result<void> texts(const ProtoField& field, std::string_view label, std::vector<std::string>& out) {
    std::string item;
    TRY_VOID(text(field, label, item));
    return append(out, std::move(item));
  }
  // A repeated integer, packed or one by one: readers must take both.
  Result<void> integers(const ProtoField& field, std::string_view label, std::vector<std::int64_t>& out) {
    if (field.wire == ProtoWire::varint) return append(out, static_cast<std::int64_t>(field.value));
    TRY_VOID(expect(field, label, ProtoWire::bytes));
    for (std::size_t at = 0; at < field.bytes.size();) {
      const auto value = read_varint(field.bytes, at);
      if (!value) return bad_varint(field, label, at);
      TRY_VOID(append(out, static_cast<std::int64_t>(*value)));
    }
    return {};
  }
  Result<void> floats(const ProtoField& field, std::string_view label, std::vector<float>& out) {
    if (field.wire == ProtoWire::fixed32)
      return append(out, std::bit_cast<float>(static_cast<std::uint32_t>(field.value)));
    TRY_VOID(expect(field, label, ProtoWire::bytes));
    if (field.bytes.size() % sizeof(float) != 0)
      return bad_input("{}: byte {}: {} packed into {} bytes; expected a multiple of 4", path_, field.at, label,
                       field.bytes.size());
    const std::size_t had = out.size();
    TRY_VOID(take(2 * field.bytes.size()));
    out.resize(had + field.bytes.size() / sizeof(float));
    if (!field.bytes.empty()) std::memcpy(out.data() + had, field.bytes.data(), field.bytes.size());
    return {};
  }
  [[nodiscard]] Error bad_varint(const ProtoField& field, std::string_view label, std::size_t at) const {
    return bad_input("{}: byte {}: {} does not end in whole numbers of at most 64 bits", path_,
                     offset_of(field.bytes) + at, label);
  }

  Result<void> string_pair(const ProtoField& field, std::pair<std::string, std::string>& out) {
    TRY(const OnnxMessage message, nested(field, "a key and its value"));
    return each_field(message, [&](const ProtoField& part) -> Result<void> {
      if (part.number == 1) return text(part, "a key", out.first);
      if (part.number == 2) return text(part, "a value", out.second);
      return {};
    });
  }

  Result<void> element_type(const ProtoField& field, OnnxType& type) const {
    std::int64_t number = 0;
    TRY_VOID(integer(field, "an element type", number));
    if (number < 0 || number > UINT8_MAX) return fault(field, fmt::format("the element type {} is none", number));
    type = static_cast<OnnxType>(number);
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  const std::shared_ptr<const void>& owner_;

 private:
  std::uint64_t memory_limit_;
  std::uint64_t memory_left_;
};

}  // namespace knapsack
