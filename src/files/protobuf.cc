#include "files/protobuf.h"

#include <bit>
#include <cstring>

#include "tensor/half.h"

namespace knapsack {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed-size values are read in place");

constexpr std::uint64_t most_number = (1 << 29) - 1;

// The longest varint, of 64 bits, seven a byte.
constexpr std::size_t varint_limit = 10;

struct Varint {
  std::size_t length = 0;
  std::byte bytes[varint_limit] = {};  // NOLINT(*-avoid-c-arrays)
};
Varint encode(std::uint64_t value) {
  Varint out;
  while (value >= 0x80) {
    out.bytes[out.length++] = static_cast<std::byte>(value | 0x80);
    value >>= 7;
  }
  out.bytes[out.length++] = static_cast<std::byte>(value);
  return out;
}

}  // namespace

std::optional<std::uint64_t> read_varint(std::span<const std::byte> bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < varint_limit && at + i < bytes.size(); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at + i]);
    if (i == varint_limit - 1 && byte > 1) return std::nullopt;
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      at += i + 1;
      return value;
    }
  }
  return std::nullopt;
}

std::string_view proto_wire_name(ProtoWire wire) {
  switch (wire) {
    case ProtoWire::varint:
      return "a varint";
    case ProtoWire::fixed64:
      return "8 bytes";
    case ProtoWire::bytes:
      return "a length and bytes";
    case ProtoWire::fixed32:
      return "4 bytes";
  }
  return "";
}

Result<std::optional<ProtoField>> ProtoReader::next() {
  if (at_ == message_.size()) return std::optional<ProtoField>();
  ProtoField field;
  field.at = offset_ + at_;
  const auto tag = read_varint(message_, at_);
  const auto cut = [&](std::string_view part, std::size_t where) {
    return bad_input("{}: byte {}: {} of {} runs past the end of that message at byte {} (an incomplete download?)",
                     path_, offset_ + where, part, what_, offset_ + message_.size());
  };
  if (!tag) return cut("the number of a field", at_);
  if (*tag >> 3 == 0 || *tag >> 3 > most_number)
    return bad_input("{}: byte {}: field {} of {}; protobuf has fields 1 to {}", path_, field.at, *tag >> 3, what_,
                     most_number);
  field.number = static_cast<std::uint32_t>(*tag >> 3);
  const std::size_t start = at_;
  const auto wire = static_cast<unsigned>(*tag & 7);
  switch (wire) {
    case 0: {
      const auto value = read_varint(message_, at_);
      if (!value && message_.size() - start >= varint_limit)
        return bad_input("{}: byte {}: field {} of {} is a number of more than 64 bits", path_, field.at, field.number,
                         what_);
      if (!value) return cut(fmt::format("field {}", field.number), field.at - offset_);
      field.value = *value;
      break;
    }
    case 1:
    case 5: {
      const std::size_t size = wire == 1 ? 8 : 4;
      if (message_.size() - at_ < size) return cut(fmt::format("field {}", field.number), field.at - offset_);
      const std::byte* value = message_.data() + at_;
      field.value = wire == 1 ? load_unaligned<std::uint64_t>(value) : load_unaligned<std::uint32_t>(value);
      at_ += size;
      break;
    }
    case 2: {
      const auto length = read_varint(message_, at_);
      if (!length) return cut(fmt::format("the length of field {}", field.number), field.at - offset_);
      if (*length > message_.size() - at_)
        return bad_input(
            "{}: byte {}: field {} of {} has {} bytes by its length, but only {} follow in that message (an incomplete "
            "download?)",
            path_, field.at, field.number, what_, *length, message_.size() - at_);
      field.bytes = message_.subspan(at_, *length);
      at_ += *length;
      break;
    }
    default:
      return bad_input("{}: byte {}: field {} of {} has the wire type {}; expected 0, 1, 2 or 5", path_, field.at,
                       field.number, what_, wire);
  }
  field.wire = static_cast<ProtoWire>(wire);
  return std::optional<ProtoField>(field);
}

void ProtoWriter::varint(std::uint64_t value) {
  const Varint encoded = encode(value);
  out_.append(reinterpret_cast<const char*>(encoded.bytes), encoded.length);
}

void ProtoWriter::tag(std::uint32_t field, ProtoWire wire) {
  varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(wire));
}

void ProtoWriter::integer(std::uint32_t field, std::int64_t value) {
  tag(field, ProtoWire::varint);
  varint(static_cast<std::uint64_t>(value));
}

void ProtoWriter::f32(std::uint32_t field, float value) {
  tag(field, ProtoWire::fixed32);
  out_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void ProtoWriter::bytes(std::uint32_t field, std::span<const std::byte> value) {
  tag(field, ProtoWire::bytes);
  varint(value.size());
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void ProtoWriter::text(std::uint32_t field, std::string_view value) { bytes(field, std::as_bytes(std::span(value))); }

void ProtoWriter::put_length_before(std::size_t begin) {
  const Varint encoded = encode(out_.size() - begin);
  out_.insert(begin, reinterpret_cast<const char*>(encoded.bytes), encoded.length);
}

}  // namespace knapsack
