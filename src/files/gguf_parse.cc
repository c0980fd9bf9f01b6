#include "files/gguf_parse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "base/utf8.h"
#include "files/sniff.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place");

// The specification's limit for keys, and one for names: 64 bytes by the specification, but files for other engines
// (diffusion models) hold up to twice that, and refusing those for their names alone would help nobody.
constexpr std::uint64_t key_limit = 65535;
constexpr std::uint64_t name_limit = 255;
constexpr std::uint32_t dims_limit = 4;
// 16 bytes of memory each: 64 MiB at most. The largest vocabularies have 0.3 million tokens, 0.6 million merges.
constexpr std::uint64_t strings_limit = std::uint64_t{1} << 22;

// Room made ahead of reading: a few MiB. A sparse file can announce millions of entries and hold none.
constexpr std::uint64_t reserve_limit = std::uint64_t{1} << 14;

enum ValueType : std::uint32_t {
  type_u8 = 0,
  type_i8,
  type_u16,
  type_i16,
  type_u32,
  type_i32,
  type_f32,
  type_bool,
  type_string,
  type_array,
  type_u64,
  type_i64,
  type_f64,
  type_count
};
constexpr std::array<std::string_view, type_count> type_names = {"UINT8",  "INT8",    "UINT16", "INT16",  "UINT32",
                                                                 "INT32",  "FLOAT32", "BOOL",   "STRING", "ARRAY",
                                                                 "UINT64", "INT64",   "FLOAT64"};
constexpr std::array<std::uint64_t, type_count> type_sizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Tensor types that GGML once had, and those it has that this version does not read.
std::string_view removed_type(std::uint32_t type) {
  switch (type) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return "";
  }
}
std::string_view unread_type(std::uint32_t type) {
  switch (type) {
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    case 40:
      return "NVFP4";
    default:
      return "";
  }
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<GgufPart> parse() {
    TRY_VOID(magic_and_version());
    TRY(const auto tensors, scalar<std::uint64_t>("the number of tensors"));
    TRY(const auto entries, scalar<std::uint64_t>("the number of metadata entries"));
    // The least an entry takes (length, one byte of key, type, one byte of value), and a tensor (length, one byte of
    // name, dimensions, one dimension, type, offset).
    TRY_VOID(fits("metadata entries", entries, 14, at_ - 8));
    TRY_VOID(fits("tensors", tensors, 33, at_ - 16));
    TRY_VOID(metadata(entries));
    TRY_VOID(alignment());
    TRY_VOID(tensor_table(tensors));
    part_.header_bytes = at_;
    TRY_VOID(place_tensors());
    return std::move(part_);
  }

 private:
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - at_; }

  [[nodiscard]] Error cut_off(std::string_view what, std::uint64_t need) const {
    return bad_input(
        "{}: the file ends at byte {}, inside its header: {} at byte {} needs {} bytes, {} are left "
        "(an incomplete download?)",
        path_, bytes_.size(), what, at_, need, remaining());
  }

  // Refuses `count` items of at least `least` bytes each where the rest of the file cannot hold them.
  Result<void> fits(std::string_view what, std::uint64_t count, std::uint64_t least, std::size_t where) const {
    if (count <= remaining() / least) return {};
    return bad_input("{}: byte {}: {} {} announced, but the {} bytes that follow hold at most {}", path_, where, count,
                     what, remaining(), remaining() / least);
  }

  template <class T>
  Result<T> scalar(std::string_view what) {
    if (remaining() < sizeof(T)) return cut_off(what, sizeof(T));
    const T value = load_unaligned<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> text(std::string_view what, std::uint64_t limit) {
    const std::size_t start = at_;
    TRY(const auto length, scalar<std::uint64_t>(what));
    if (length > limit)
      return bad_input("{}: byte {}: {} has {} bytes; at most {} are allowed", path_, start, what, length, limit);
    if (length > remaining())
      return bad_input("{}: byte {}: {} has {} bytes by its length, but only {} follow in the file", path_, start, what,
                       length, remaining());
    const std::string_view value(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    at_ += length;
    return value;
  }

  // A key or a tensor's name.
  Result<std::string_view> name(std::string_view what, std::uint64_t limit) {
    const std::size_t start = at_;
    TRY(const auto value, text(what, limit));
    if (value.empty()) return bad_input("{}: byte {}: {} is empty", path_, start, what);
    if (!is_valid_utf8(value))
      return bad_input("{}: byte {}: {} is not UTF-8: {}", path_, start, what, printable(value));
    return value;
  }

  Result<void> magic_and_version() {
    const std::string_view magic(reinterpret_cast<const char*>(bytes_.data()), std::min<std::size_t>(4, bytes_.size()));
    if (magic != "GGUF") {
      auto guess = guess_content(bytes_);
      if (guess.empty()) guess = "something else, starting with " + printable(magic);
      return bad_input("{}: not a GGUF file: expected 'GGUF' at byte 0; it seems to be {}", path_, guess);
    }
    at_ = 4;
    TRY(part_.version, scalar<std::uint32_t>("the version"));
    if (part_.version == 2 || part_.version == 3) return {};
    // A small number whose bytes stand the other way round.
    const std::uint32_t swapped = __builtin_bswap32(part_.version);
    if (swapped >= 1 && swapped <= 0xff)
      return unsupported(
          "{}: byte 4: a big-endian GGUF file (version {}); expected little-endian: convert it with "
          "gguf-py's gguf_convert_endian",
          path_, swapped);
    if (part_.version == 1)
      return unsupported("{}: byte 4: GGUF version 1; versions 2 and 3 are read: convert the model again", path_);
    if (part_.version == 0) return bad_input("{}: byte 4: GGUF version 0; expected 2 or 3", path_);
    return unsupported("{}: byte 4: GGUF version {}; versions 2 and 3 are read", path_, part_.version);
  }

  Result<void> metadata(std::uint64_t count) {
    part_.metadata.reserve(std::min(count, reserve_limit));
    std::unordered_set<std::string_view> seen;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t start = at_;
      TRY(const auto key, name("a metadata key", key_limit));
      if (!seen.insert(key).second)
        return bad_input("{}: byte {}: duplicate metadata key {}", path_, start, printable(key));
      TRY(auto value, this->value(key));
      part_.metadata.emplace_back(std::string(key), std::move(value));
    }
    return {};
  }

  Result<GgufValue> value(std::string_view key) {
    const std::size_t start = at_;
    const std::string what = "the value of " + printable(key);
    TRY(const auto type, scalar<std::uint32_t>(what));
    switch (type) {
      case type_u8:
        return unsigned_value<std::uint8_t>(what);
      case type_u16:
        return unsigned_value<std::uint16_t>(what);
      case type_u32:
        return unsigned_value<std::uint32_t>(what);
      case type_u64:
        return unsigned_value<std::uint64_t>(what);
      case type_i8:
        return signed_value<std::int8_t>(what);
      case type_i16:
        return signed_value<std::int16_t>(what);
      case type_i32:
        return signed_value<std::int32_t>(what);
      case type_i64:
        return signed_value<std::int64_t>(what);
      case type_f32:
        return float_value<float>(what);
      case type_f64:
        return float_value<double>(what);
      case type_bool: {
        TRY(const auto byte, scalar<std::uint8_t>(what));
        if (byte > 1) return bad_input("{}: byte {}: {} is a BOOL of {}; expected 0 or 1", path_, at_ - 1, what, byte);
        return GgufValue(byte == 1);
      }
      case type_string: {
        TRY(const auto string, text(what, std::numeric_limits<std::uint64_t>::max()));
        return GgufValue(string);
      }
      case type_array:
        return array(what);
      default:
        return bad_input("{}: byte {}: {} has the unknown type {}; expected 0 (UINT8) to 12 (FLOAT64)", path_, start,
                         what, type);
    }
  }

  template <class T>
  Result<GgufValue> unsigned_value(std::string_view what) {
    TRY(const T number, scalar<T>(what));
    return GgufValue(std::uint64_t{number});
  }
  template <class T>
  Result<GgufValue> signed_value(std::string_view what) {
    TRY(const T number, scalar<T>(what));
    return GgufValue(std::int64_t{number});
  }
  template <class T>
  Result<GgufValue> float_value(std::string_view what) {
    TRY(const T number, scalar<T>(what));
    return GgufValue(double{number});
  }

  Result<GgufValue> array(const std::string& what) {
    const std::size_t start = at_;
    GgufArray array;
    TRY(array.type, scalar<std::uint32_t>(what));
    TRY(const auto count, scalar<std::uint64_t>(what));
    if (array.type == type_array)
      return unsupported("{}: byte {}: {} is an array of arrays, which this version does not read", path_, start, what);
    if (array.type >= type_count)
      return bad_input("{}: byte {}: {} is an array of the unknown type {}; expected 0 (UINT8) to 12 (FLOAT64)", path_,
                       start, what, array.type);
    const std::uint64_t least = array.type == type_string ? 8 : type_sizes[array.type];
    TRY_VOID(fits("elements of " + what, count, least, start + 4));
    array.count = static_cast<std::int64_t>(count);
    if (array.type != type_string) {
      array.data = bytes_.subspan(at_, count * least);
      at_ += array.data.size();
      return GgufValue(std::move(array));
    }
    if (count > strings_limit)
      return bad_input("{}: byte {}: {} has {} strings; at most {} are allowed", path_, start + 4, what, count,
                       strings_limit);
    array.strings.reserve(count);
    const std::string element = "a string in " + what;
    for (std::uint64_t i = 0; i < count; ++i) {
      TRY(const auto string, text(element, std::numeric_limits<std::uint64_t>::max()));
      array.strings.push_back(string);
    }
    return GgufValue(std::move(array));
  }

  Result<void> alignment() {
    constexpr std::string_view key = "general.alignment";
    const auto entry =
        std::find_if(part_.metadata.begin(), part_.metadata.end(), [&](const auto& e) { return e.first == key; });
    if (entry == part_.metadata.end()) return {};
    const auto* number = std::get_if<std::uint64_t>(&entry->second);
    if (number == nullptr) return bad_input("{}: '{}' must be a UINT32", path_, key);
    const bool valid = *number != 0 && (std::has_single_bit(*number) || *number % 8 == 0);
    if (!valid || *number > std::numeric_limits<std::uint32_t>::max())
      return bad_input("{}: '{}' is {}; expected a power of two or a multiple of 8", path_, key, *number);
    if (*number > bytes_.size())
      return bad_input("{}: '{}' is {}, more than the file's {} bytes", path_, key, *number, bytes_.size());
    part_.alignment = *number;
    return {};
  }

  Result<void> tensor_table(std::uint64_t count) {
    part_.tensors.reserve(std::min(count, reserve_limit));
    std::unordered_set<std::string_view> seen;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t start = at_;
      TRY(const auto name, this->name("the name of a tensor", name_limit));
      if (!seen.insert(name).second)
        return bad_input("{}: byte {}: duplicate tensor {}", path_, start, printable(name));
      GgufTensor tensor;
      tensor.name = std::string(name);
      TRY_VOID(shape(tensor));
      TRY_VOID(dtype(tensor));
      TRY(tensor.offset, scalar<std::uint64_t>("the offset of tensor " + printable(name)));
      part_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  Result<void> shape(GgufTensor& tensor) {
    const std::string what = "tensor " + printable(tensor.name);
    const std::size_t start = at_;
    TRY(const auto dims, scalar<std::uint32_t>("the shape of " + what));
    if (dims == 0 || dims > dims_limit)
      return bad_input("{}: byte {}: {} has {} dimensions; expected 1 to {}", path_, start, what, dims, dims_limit);
    tensor.shape.resize(dims);
    std::int64_t elements = 1;
    for (std::uint32_t i = 0; i < dims; ++i) {
      TRY(const auto extent, scalar<std::uint64_t>("the shape of " + what));
      if (extent == 0)
        return bad_input("{}: byte {}: dimension {} of {} is 0; expected at least 1", path_, at_ - 8, i, what);
      if (extent > std::numeric_limits<std::int64_t>::max() ||
          __builtin_mul_overflow(elements, static_cast<std::int64_t>(extent), &elements))
        return bad_input("{}: byte {}: dimension {} of {} is {}; the number of elements exceeds 2^63", path_, at_ - 8,
                         i, what, extent);
      tensor.shape[dims - 1 - i] = static_cast<std::int64_t>(extent);
    }
    return {};
  }

  Result<void> dtype(GgufTensor& tensor) {
    const std::string what = "tensor " + printable(tensor.name);
    const std::size_t start = at_;
    TRY(const auto type, scalar<std::uint32_t>("the type of " + what));
    const auto known = dtype_from_ggml(type);
    if (!known) {
      if (const auto name = removed_type(type); !name.empty())
        return unsupported(
            "{}: byte {}: {} has type {} ({}), which was removed from the format: convert the model again", path_,
            start, what, type, name);
      if (const auto name = unread_type(type); !name.empty())
        return unsupported("{}: byte {}: {} has type {} ({}), which this version does not read", path_, start, what,
                           type, name);
      return unsupported("{}: byte {}: {} has the unknown type {}", path_, start, what, type);
    }
    tensor.dtype = *known;
    const std::int64_t block = format(*known).block;
    if (tensor.shape.back() % block != 0)
      return bad_input("{}: byte {}: rows of {} have {} elements, not a multiple of the {} in a block of {}", path_,
                       start, what, tensor.shape.back(), block, format(*known).name);
    return {};
  }

  // Where a tensor ends in the file, or nothing where that number wraps. shape: its elements fit 63 bits.
  static std::optional<std::uint64_t> end_of(const GgufTensor& tensor, std::uint64_t base) {
    const FormatInfo& info = format(tensor.dtype);
    auto blocks = static_cast<std::uint64_t>(tensor.shape.back() / info.block);
    for (const auto extent : std::span(tensor.shape).first(tensor.shape.size() - 1))
      blocks *= static_cast<std::uint64_t>(extent);
    std::uint64_t end = 0;
    if (__builtin_mul_overflow(blocks, static_cast<std::uint64_t>(info.block_bytes), &end) ||
        __builtin_add_overflow(end, base, &end) || __builtin_add_overflow(end, tensor.offset, &end))
      return std::nullopt;
    return end;
  }

  // Offsets count from the end of the table, rounded up to the alignment. The bytes of the padding need not exist
  // where no data follows: a vocabulary without tensors, and the end of the last tensor.
  Result<void> place_tensors() {
    if (part_.tensors.empty()) return {};
    const std::uint64_t base = (at_ + part_.alignment - 1) / part_.alignment * part_.alignment;  // at_ < 2^48
    for (auto& tensor : part_.tensors) {
      if (tensor.offset % part_.alignment != 0)
        return bad_input("{}: tensor {}: its offset {} is not a multiple of the alignment {}", path_,
                         printable(tensor.name), tensor.offset, part_.alignment);
      const auto end = end_of(tensor, base);
      if (!end || *end > bytes_.size()) return past_the_end(tensor, base);
      tensor.offset += base;
      tensor.data = bytes_.subspan(tensor.offset, *end - tensor.offset);
    }
    return layout();
  }

  // Says how large the file should be, where every tensor after this one is sane.
  [[nodiscard]] Error past_the_end(const GgufTensor& culprit, std::uint64_t base) const {
    const auto end = end_of(culprit, base);
    if (!end)
      return bad_input("{}: tensor {}: at offset {} its bytes reach past 2^64, and past the end of the file at byte {}",
                       path_, printable(culprit.name), culprit.offset, bytes_.size());
    std::uint64_t needed = 0;
    for (const auto& tensor : part_.tensors) {
      if (!tensor.data.empty()) continue;  // placed already
      needed = std::max(needed, end_of(tensor, base).value_or(UINT64_MAX));
    }
    const auto whole = needed == UINT64_MAX ? "" : fmt::format("; all tensors need {} bytes", needed);
    return bad_input(
        "{}: tensor {}: bytes {} to {} reach past the end of the file at byte {} (an incomplete download?{})", path_,
        printable(culprit.name), base + culprit.offset, *end, bytes_.size(), whole);
  }

  // No two tensors share a byte; what lies between them is only worth a remark.
  Result<void> layout() {
    std::vector<const GgufTensor*> order;
    order.reserve(part_.tensors.size());
    for (const auto& tensor : part_.tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    std::uint64_t gap = 0;
    std::uint64_t end = order.front()->offset;
    const GgufTensor* before = nullptr;
    for (const GgufTensor* tensor : order) {
      if (tensor->offset < end)
        return bad_input("{}: tensors {} (bytes {} to {}) and {} (from byte {}) overlap", path_,
                         printable(before->name), before->offset, end, printable(tensor->name), tensor->offset);
      if (tensor->offset - end >= part_.alignment) gap += tensor->offset - end;
      end = tensor->offset + tensor->data.size();
      before = tensor;
    }
    const auto note = [&](std::string text) { part_.oddities.push_back(path_ + ": " + std::move(text)); };
    if (gap > 0) note(fmt::format("{} unused bytes between tensors", gap));
    if (bytes_.size() - end >= part_.alignment)
      note(fmt::format("{} unused bytes after the last tensor, from byte {}", bytes_.size() - end, end));
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
  GgufPart part_;
};

}  // namespace

std::string gguf_type_name(std::uint32_t type) {
  return type < type_count ? std::string(type_names[type]) : fmt::format("type {}", type);
}

Result<GgufPart> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).parse();
}

}  // namespace knapsack
