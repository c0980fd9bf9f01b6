#include "files/onnx_tensor_parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace knapsack {
namespace {

// The typed field in which TensorProto keeps a type's elements where it has no raw_data.
struct TypedField {
  std::uint32_t number;
  std::string_view name;
};
constexpr std::array<TypedField, 6> typed_fields = {{{4, "float_data"},
                                                     {5, "int32_data"},
                                                     {6, "string_data"},
                                                     {7, "int64_data"},
                                                     {10, "double_data"},
                                                     {11, "uint64_data"}}};
const TypedField* typed_field(std::uint32_t number) {
  const auto* field =
      std::find_if(typed_fields.begin(), typed_fields.end(), [&](const auto& f) { return f.number == number; });
  return field == typed_fields.end() ? nullptr : field;
}
const TypedField& field_of(OnnxType type) {
  switch (type) {
    case OnnxType::f32:
      return *typed_field(4);
    case OnnxType::f64:
      return *typed_field(10);
    case OnnxType::i64:
      return *typed_field(7);
    case OnnxType::u32:
    case OnnxType::u64:
      return *typed_field(11);
    default:
      return *typed_field(5);
  }
}

// What int32_data may hold of a type. Bits of floats and pairs of nibbles are meant unsigned; written with a sign they
// are the same bits.
std::pair<std::int64_t, std::int64_t> range_of(OnnxType type) {
  switch (type) {
    case OnnxType::u8:
      return {0, UINT8_MAX};
    case OnnxType::i8:
      return {INT8_MIN, INT8_MAX};
    case OnnxType::u16:
      return {0, UINT16_MAX};
    case OnnxType::i16:
      return {INT16_MIN, INT16_MAX};
    case OnnxType::boolean:
      return {0, 1};
    case OnnxType::i32:
      return {INT32_MIN, INT32_MAX};
    case OnnxType::f16:
    case OnnxType::bf16:
      return {INT16_MIN, UINT16_MAX};
    default:
      return {INT8_MIN, UINT8_MAX};
  }
}

// What TensorProto has for its data.
struct Stored {
  std::optional<std::span<const std::byte>> raw;
  std::vector<ProtoField> typed;
  std::vector<std::pair<std::string, std::string>> external;
  std::int64_t location = 0;
  bool segment = false;
};

}  // namespace

Result<OnnxTensor> OnnxTensorParser::tensor(const OnnxMessage& message) {
  OnnxTensor made;
  Stored stored;
  const auto on_field = [&](const ProtoField& field) -> Result<void> {
    switch (field.number) {
      case 1:
        return integers(field, "the dimensions of a tensor", made.dims);
      case 2:
        return element_type(field, made.type);
      case 3:
        stored.segment = true;
        return {};
      case 8:
        return text(field, "the name of a tensor", made.name);
      case 9: {
        TRY(const OnnxMessage raw, nested(field, "raw_data"));
        stored.raw = raw.bytes;
        return {};
      }
      case 13: {
        std::pair<std::string, std::string> entry;
        TRY_VOID(string_pair(field, entry));
        return append(stored.external, std::move(entry));
      }
      case 14:
        return integer(field, "data_location", stored.location);
      default:
        return typed_field(field.number) != nullptr ? append(stored.typed, ProtoField(field)) : Result<void>();
    }
  };
  TRY_VOID(each_field(message, on_field));
  const std::string what = made.name.empty() ? fmt::format("{} at byte {}", message.what, offset_of(message.bytes))
                                             : fmt::format("tensor {}", printable(made.name));
  TRY(const std::uint64_t size, size_of(made, what));
  if (stored.segment) return unsupported("{}: {} is stored in segments, which this version does not read", path_, what);
  if (stored.location < 0 || stored.location > 1)
    return bad_input("{}: {} has data_location {}; expected 0 (in the model) or 1 (external)", path_, what,
                     stored.location);
  const bool inside = stored.raw || !stored.typed.empty();
  if (stored.location == 1) {
    if (inside) return bad_input("{}: {} has its data both in the model and in an external file", path_, what);
    TRY(made.place, place(stored.external, what, size));
  } else if (stored.raw && !stored.typed.empty()) {
    return bad_input("{}: {} has its data both in raw_data and in {}", path_, what,
                     typed_field(stored.typed.front().number)->name);
  } else if (stored.raw) {
    if (stored.raw->size() != size)
      return bad_input("{}: {}: raw_data has {} bytes, its shape and type ({}) need {}", path_, what,
                       stored.raw->size(), onnx_type_name(made.type), size);
    made.data = *stored.raw;
    made.owner = owner_;
  } else if (inside) {
    TRY_VOID(typed(made, stored.typed, what, size));
  } else if (size != 0) {
    return bad_input("{}: {} has no data; its shape and type ({}) need {} bytes", path_, what,
                     onnx_type_name(made.type), size);
  }
  return made;
}

Result<std::uint64_t> OnnxTensorParser::size_of(const OnnxTensor& tensor, const std::string& what) const {
  if (onnx_type_bits(tensor.type) == 0)
    return unsupported("{}: {} has the element type {}, which this version does not read", path_, what,
                       onnx_type_name(tensor.type));
  if (tensor.dims.size() > onnx_most_dims)
    return bad_input("{}: {} has {} dimensions; at most {} are allowed", path_, what, tensor.dims.size(),
                     onnx_most_dims);
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] < 0)
      return bad_input("{}: dimension {} of {} is {}; expected at least 0", path_, i, what, tensor.dims[i]);
  }
  const auto size = onnx_bytes(tensor.type, tensor.dims);
  if (!size) return bad_input("{}: {}: its shape needs more than 2^63 bytes", path_, what);
  return *size;
}

Result<void> OnnxTensorParser::typed(OnnxTensor& tensor, const std::vector<ProtoField>& fields, const std::string& what,
                                     std::uint64_t size) {
  const TypedField& expected = field_of(tensor.type);
  for (const auto& field : fields) {
    if (field.number != expected.number)
      return bad_input("{}: byte {}: {} has {}; elements of type {} stand in {}", path_, field.at, what,
                       typed_field(field.number)->name, onnx_type_name(tensor.type), expected.name);
  }
  const bool fixed = tensor.type == OnnxType::f32 || tensor.type == OnnxType::f64;
  const ProtoWire wire = !fixed                         ? ProtoWire::varint
                         : tensor.type == OnnxType::f32 ? ProtoWire::fixed32
                                                        : ProtoWire::fixed64;
  const auto width = static_cast<std::uint64_t>(std::max(onnx_type_bits(tensor.type) / 8, 1));
  std::uint64_t found = 0;  // numbers that stand there
  for (const auto& field : fields) {
    if (field.wire != ProtoWire::bytes) {
      TRY_VOID(expect(field, expected.name, wire));
      ++found;
    } else if (fixed) {
      if (field.bytes.size() % width != 0)
        return bad_input("{}: byte {}: {} of {} has {} bytes; expected a multiple of {}", path_, field.at,
                         expected.name, what, field.bytes.size(), width);
      found += field.bytes.size() / width;
    } else {
      found += static_cast<std::uint64_t>(
          std::count_if(field.bytes.begin(), field.bytes.end(), [](std::byte byte) { return byte < std::byte{0x80}; }));
    }
  }
  if (found != size / width)
    return bad_input("{}: {}: {} has {} numbers, its shape and type ({}) need {}", path_, what, expected.name, found,
                     onnx_type_name(tensor.type), size / width);
  if (fixed && fields.size() == 1 && fields.front().wire == ProtoWire::bytes) {
    tensor.data = fields.front().bytes;
    tensor.owner = owner_;
    return {};
  }
  TRY_VOID(take(size));
  auto made = std::make_shared<std::vector<std::byte>>(size);
  std::byte* out = made->data();
  for (const auto& field : fields) {
    if (fixed && field.wire == ProtoWire::bytes) {
      if (!field.bytes.empty()) std::memcpy(out, field.bytes.data(), field.bytes.size());
      out += field.bytes.size();
      continue;
    }
    if (field.wire != ProtoWire::bytes) {
      TRY_VOID(number(field.value, tensor.type, field.at, what));
      std::memcpy(out, &field.value, width);
      out += width;
      continue;
    }
    for (std::size_t at = 0; at < field.bytes.size();) {
      const std::size_t start = at;
      const auto value = read_varint(field.bytes, at);
      if (!value) return bad_varint(field, expected.name, start);
      TRY_VOID(number(*value, tensor.type, offset_of(field.bytes) + start, what));
      std::memcpy(out, &*value, width);
      out += width;
    }
  }
  tensor.data = *made;
  tensor.owner = std::move(made);
  return {};
}

Result<void> OnnxTensorParser::number(std::uint64_t value, OnnxType type, std::size_t at,
                                      const std::string& what) const {
  if (type == OnnxType::f32 || type == OnnxType::f64 || type == OnnxType::i64 || type == OnnxType::u64) return {};
  if (type == OnnxType::u32) {
    if (value <= UINT32_MAX) return {};
    return bad_input("{}: byte {}: {} has the element {}; uint32 ends at {}", path_, at, what, value, UINT32_MAX);
  }
  const auto narrow = static_cast<std::int32_t>(value);  // as protobuf defines int32
  const auto [low, high] = range_of(type);
  if (narrow >= low && narrow <= high) return {};
  return bad_input("{}: byte {}: {} has the element {}; {} has {} to {} there", path_, at, what, narrow,
                   onnx_type_name(type), low, high);
}

Result<OnnxPlace> OnnxTensorParser::place(const std::vector<std::pair<std::string, std::string>>& entries,
                                          const std::string& what, std::uint64_t size) const {
  OnnxPlace made;
  const auto whole = [&](const std::pair<std::string, std::string>& entry, std::uint64_t& out) -> Result<void> {
    const char* end = entry.second.data() + entry.second.size();
    const auto [stop, error] = std::from_chars(entry.second.data(), end, out);
    if (error == std::errc() && stop == end) return {};
    return bad_input("{}: {}: external_data has {} as its {}; expected a whole number of bytes", path_, what,
                     printable(entry.second), entry.first);
  };
  for (const auto& entry : entries) {
    if (entry.first == "location") made.location = entry.second;
    if (entry.first == "offset") TRY_VOID(whole(entry, made.offset));
    if (entry.first == "length") {
      std::uint64_t length = 0;
      TRY_VOID(whole(entry, length));
      made.length = length;
    }
  }
  if (made.location.empty()) return bad_input("{}: {} is external, but names no file (location)", path_, what);
  if (made.length && *made.length != size)
    return bad_input("{}: {} has {} bytes in the external file {}, its shape and type need {}", path_, what,
                     *made.length, printable(made.location), size);
  return made;
}

}  // namespace knapsack
