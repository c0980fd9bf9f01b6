#include "files/safetensors_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/json.h"
#include "base/utf8.h"
#include "files/sniff.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

// The reference reader's own cap on the header.
constexpr std::uint64_t header_limit = 100'000'000;
constexpr std::size_t dims_limit = 8;

struct StoredType {
  std::string_view name;
  std::optional<DType> dtype;  // empty: of the format, but not read by this version
};
constexpr std::array stored_types = {
    StoredType{"F64", DType::F64},
    StoredType{"F32", DType::F32},
    StoredType{"F16", DType::F16},
    StoredType{"BF16", DType::BF16},
    StoredType{"I64", DType::I64},
    StoredType{"U64", DType::I64},
    StoredType{"I32", DType::I32},
    StoredType{"U32", DType::I32},
    StoredType{"I16", DType::I16},
    StoredType{"U16", DType::I16},
    StoredType{"I8", DType::I8},
    StoredType{"U8", DType::I8},
    StoredType{"BOOL", DType::I8},
    StoredType{"F8_E4M3", DType::F8_E4M3},
    StoredType{"F8_E5M2", std::nullopt},
    StoredType{"F8_E8M0", std::nullopt},
    StoredType{"F8_E4M3FNUZ", std::nullopt},
    StoredType{"F8_E5M2FNUZ", std::nullopt},
    StoredType{"F4", std::nullopt},
    StoredType{"F6_E2M3", std::nullopt},
    StoredType{"F6_E3M2", std::nullopt},
    StoredType{"C64", std::nullopt},
};

std::string known_types() {
  std::string list;
  for (const auto& type : stored_types) {
    if (!type.dtype) continue;
    if (!list.empty()) list += ", ";
    list += type.name;
  }
  return list;
}

Result<std::uint64_t> whole_number(const json::value& value, const std::string& where) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  return bad_input("{}: expected integers of at least 0, found {}", where,
                   value.is_primitive() ? json::serialize(value) : std::string(json_kind(value)));
}

struct Span {
  std::uint64_t begin = 0, end = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<SafetensorsPart> parse() {
    TRY(const json::object header, read_header());
    for (const auto& [name, value] : header) {
      if (name == "__metadata__") {
        TRY_VOID(metadata(value));
      } else {
        TRY_VOID(tensor(name, value));
      }
    }
    TRY_VOID(layout());
    return std::move(part_);
  }

 private:
  Result<json::object> read_header() {
    if (bytes_.size() < 8) {
      const auto guess = guess_content(bytes_);
      return bad_input("{}: {} bytes; a safetensors file has at least 8{}", path_, bytes_.size(),
                       guess.empty() ? "" : "; it seems to be " + guess);
    }
    const auto length = load_unaligned<std::uint64_t>(bytes_.data());
    if (length > header_limit || length > bytes_.size() - 8 || length < 2) {
      const auto guess = guess_content(bytes_);
      if (!guess.empty() && guess != "a safetensors file")
        return bad_input("{}: not a safetensors file; it seems to be {}", path_, guess);
      return bad_input("{}: byte 0: a header of {} bytes announced; expected 2 to {} (an incomplete download?)", path_,
                       length, std::min<std::uint64_t>(header_limit, bytes_.size() - 8));
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + 8, length);
    part_.header_bytes = 8 + length;
    return parse_json_object(text, fmt::format("header of {} (from byte 8)", path_));
  }

  // Free text beside the tensors; all that is asked of it is that it maps strings to strings.
  Result<void> metadata(const json::value& value) const {
    const auto* object = value.if_object();
    if (object == nullptr) return bad_input("{}: '__metadata__' must be an object, found {}", path_, json_kind(value));
    for (const auto& [key, entry] : *object) {
      if (!entry.is_string())
        return bad_input("{}: '__metadata__' {} must be a string, found {}", path_, printable(key), json_kind(entry));
    }
    return {};
  }

  Result<void> tensor(std::string_view name, const json::value& value) {
    const std::string where = fmt::format("{}: tensor {}", path_, printable(name));
    if (name.empty()) return bad_input("{}: a tensor without a name", path_);
    const auto* object = value.if_object();
    if (object == nullptr) return bad_input("{}: must be an object, found {}", where, json_kind(value));
    for (const auto& [key, ignored] : *object) {
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        return bad_input("{}: unknown field {}; expected dtype, shape and data_offsets", where, printable(key));
    }
    TRY(const std::string type_name, json_string(*object, "dtype", where));
    TRY(const json::array* dims, json_array(*object, "shape", where));
    TRY(const json::array* offsets, json_array(*object, "data_offsets", where));

    const auto type =
        std::find_if(stored_types.begin(), stored_types.end(), [&](const auto& t) { return t.name == type_name; });
    if (type == stored_types.end())
      return bad_input("{}: unknown dtype {}; known: {}", where, printable(type_name), known_types());
    if (!type->dtype)
      return unsupported("{}: dtype {} is not read by this version; it reads: {}", where, type_name, known_types());

    SafeTensor tensor;
    tensor.name = std::string(name);
    tensor.dtype = *type->dtype;
    tensor.stored = type_name;
    if (dims->size() > dims_limit)
      return bad_input("{}: {} dimensions; at most {} are allowed", where, dims->size(), dims_limit);
    std::uint64_t expected = static_cast<std::uint64_t>(format(tensor.dtype).block_bytes);
    for (const auto& dim : *dims) {
      TRY(const std::uint64_t extent, whole_number(dim, where + ": shape"));
      if (extent == 0)
        return bad_input("{}: shape {} has no elements (saved from a model that was spread over processes?)", where,
                         json::serialize(*dims));
      if (__builtin_mul_overflow(expected, extent, &expected) || expected > INT64_MAX)
        return bad_input("{}: shape {} of {} needs more than 2^63 bytes", where, json::serialize(*dims), type_name);
      tensor.shape.push_back(static_cast<std::int64_t>(extent));
    }
    if (offsets->size() != 2)
      return bad_input("{}: data_offsets must be [begin, end], found {} numbers", where, offsets->size());
    TRY(const std::uint64_t begin, whole_number(offsets->at(0), where + ": data_offsets"));
    TRY(const std::uint64_t end, whole_number(offsets->at(1), where + ": data_offsets"));
    const std::uint64_t data = bytes_.size() - part_.header_bytes;
    if (begin > end) return bad_input("{}: data_offsets [{}, {}]: begins after its end", where, begin, end);
    if (end - begin != expected)
      return bad_input("{}: data_offsets [{}, {}] span {} bytes, but shape {} of {} needs {}", where, begin, end,
                       end - begin, json::serialize(*dims), type_name, expected);
    if (end > data)
      return bad_input(
          "{}: data_offsets [{}, {}] reach past the {} bytes of data in the file of {} bytes (an incomplete "
          "download?)",
          where, begin, end, data, bytes_.size());
    tensor.offset = part_.header_bytes + begin;
    tensor.data = bytes_.subspan(tensor.offset, expected);
    part_.tensors.push_back(std::move(tensor));
    return {};
  }

  // The tensors cover the data exactly, as the format demands.
  Result<void> layout() {
    auto& tensors = part_.tensors;
    std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::uint64_t end = part_.header_bytes;
    const SafeTensor* before = nullptr;
    for (const auto& tensor : tensors) {
      if (tensor.offset < end)
        return bad_input("{}: tensors {} (bytes {} to {}) and {} (from byte {}) overlap", path_,
                         printable(before->name), before->offset, end, printable(tensor.name), tensor.offset);
      if (tensor.offset > end)
        return bad_input("{}: a hole of {} bytes from byte {} to tensor {}; expected none", path_, tensor.offset - end,
                         end, printable(tensor.name));
      end += tensor.data.size();
      before = &tensor;
    }
    if (end != bytes_.size())
      return bad_input("{}: {} bytes after the last tensor, from byte {}; expected none", path_, bytes_.size() - end,
                       end);
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  SafetensorsPart part_;
};

// A plain name: what an index may not do is lead out of its folder.
bool plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

Result<SafetensorsPart> parse_safetensors(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).parse();
}

Result<std::map<std::string, std::string, std::less<>>> parse_safetensors_index(std::string_view text,
                                                                                const std::string& path) {
  TRY(const json::object index, parse_json_object(text, path));
  TRY(const json::object* weights, json_object(index, "weight_map", path));
  if (weights->empty()) return bad_input("{}: 'weight_map' names no tensor", path);
  std::map<std::string, std::string, std::less<>> map;
  for (const auto& [name, value] : *weights) {
    if (!value.is_string())
      return bad_input("{}: 'weight_map' {} must be the name of a file, found {}", path, printable(name),
                       json_kind(value));
    const std::string_view shard = value.get_string();
    if (!plain_file_name(shard))
      return bad_input("{}: 'weight_map' {} names the shard {}; expected a plain file name beside the index", path,
                       printable(name), printable(shard));
    map.emplace(std::string(name), std::string(shard));
  }
  return map;
}

}  // namespace knapsack
