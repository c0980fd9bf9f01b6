// The wire format of Protocol Buffers (protobuf.dev, "Encoding"): fields read one after the other out of bytes that
// stay where they are, and messages written with their fields in the order given. Not for schemas: who reads a message
// knows its fields, and skips those it does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

enum class ProtoWire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct ProtoField {
  std::uint32_t number = 0;  // 1 to 2^29 - 1
  ProtoWire wire{};
  std::uint64_t value = 0;           // varint, or the bits of a fixed32 or fixed64
  std::span<const std::byte> bytes;  // ProtoWire::bytes; in the message given
  std::size_t at = 0;                // in the file
};

// A varint at `at`, which is moved behind it; nothing where the bytes end in it or it is longer than 64 bits.
std::optional<std::uint64_t> read_varint(std::span<const std::byte> bytes, std::size_t& at);

class ProtoReader {
 public:
  // `path` and `what` ("a node") only name the place in messages; offset: where the message lies in the file. All three
  // outlive the reader.
  ProtoReader(std::span<const std::byte> message, std::size_t offset, const std::string& path, std::string_view what)
      : message_(message), offset_(offset), path_(path), what_(what) {}

  // The next field; nothing at the message's end. A group, which no writer in use makes, is an error.
  Result<std::optional<ProtoField>> next();
  [[nodiscard]] std::size_t position() const { return at_; }  // in the message

 private:
  std::span<const std::byte> message_;
  std::size_t offset_;
  const std::string& path_;
  std::string_view what_;
  std::size_t at_ = 0;
};

// "a varint", "8 bytes", "a length and bytes", "4 bytes".
std::string_view proto_wire_name(ProtoWire wire);

class ProtoWriter {
 public:
  void integer(std::uint32_t field, std::int64_t value);  // int32, int64, enum: varints
  void f32(std::uint32_t field, float value);
  void bytes(std::uint32_t field, std::span<const std::byte> value);
  void text(std::uint32_t field, std::string_view value);
  // A message within: what `fill` writes.
  template <class F>
  void message(std::uint32_t field, F&& fill) {
    tag(field, ProtoWire::bytes);
    const std::size_t begin = out_.size();
    fill();
    put_length_before(begin);
  }
  [[nodiscard]] const std::string& written() const { return out_; }

 private:
  void tag(std::uint32_t field, ProtoWire wire);
  void varint(std::uint64_t value);
  void put_length_before(std::size_t begin);
  std::string out_;
};

}  // namespace knapsack
