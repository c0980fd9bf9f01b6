#include "files/gguf.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/utf8.h"
#include "files/gguf_parse.h"
#include "files/tensor_files.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

std::string kind(const GgufValue& value) {
  struct Names {
    std::string operator()(std::uint64_t v) const { return fmt::format("the unsigned integer {}", v); }
    std::string operator()(std::int64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(double v) const { return fmt::format("the float {}", v); }
    std::string operator()(bool v) const { return v ? "the bool true" : "the bool false"; }
    std::string operator()(std::string_view v) const { return "the string " + printable(v, 40); }
    std::string operator()(const GgufArray& v) const {
      return fmt::format("an array of {} {}", v.count, gguf_type_name(v.type));
    }
  };
  return std::visit(Names{}, value);
}

// Element `index` of a numeric array, widened: `out` is called with a std::int64_t, std::uint64_t or double.
template <class F>
bool with_element(const GgufArray& array, std::size_t index, F&& out) {
  const std::byte* data = array.data.data();
  switch (array.type) {
    case 0:
      return out(std::int64_t{load_unaligned<std::uint8_t>(data + index)});
    case 1:
      return out(std::int64_t{load_unaligned<std::int8_t>(data + index)});
    case 2:
      return out(std::int64_t{load_unaligned<std::uint16_t>(data + 2 * index)});
    case 3:
      return out(std::int64_t{load_unaligned<std::int16_t>(data + 2 * index)});
    case 4:
      return out(std::int64_t{load_unaligned<std::uint32_t>(data + 4 * index)});
    case 5:
      return out(std::int64_t{load_unaligned<std::int32_t>(data + 4 * index)});
    case 10: {
      const auto value = load_unaligned<std::uint64_t>(data + 8 * index);
      return value <= INT64_MAX && out(static_cast<std::int64_t>(value));
    }
    case 11:
      return out(load_unaligned<std::int64_t>(data + 8 * index));
    default:
      return false;
  }
}

class Opened final : public TensorFiles<GgufFile, GgufTensor> {
 public:
  Opened(const std::vector<std::shared_ptr<const MappedFile>>& files, std::vector<GgufPart> parts)
      : path_(files.front()->path()) {
    version_ = parts.front().version;
    metadata_ = std::move(parts.front().metadata);
    keys_.reserve(metadata_.size());
    for (std::size_t i = 0; i < metadata_.size(); ++i) keys_.emplace(metadata_[i].first, i);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      add_part(files[p], parts[p].header_bytes);
      for (auto& tensor : parts[p].tensors) add_tensor(std::move(tensor));
      std::move(parts[p].oddities.begin(), parts[p].oddities.end(), std::back_inserter(oddities_));
    }
  }

  [[nodiscard]] std::uint32_t version() const override { return version_; }
  [[nodiscard]] std::span<const std::pair<std::string, GgufValue>> metadata() const override { return metadata_; }
  [[nodiscard]] const GgufValue* find(std::string_view key) const override {
    const auto entry = keys_.find(key);
    return entry == keys_.end() ? nullptr : &metadata_[entry->second].second;
  }
  [[nodiscard]] std::span<const std::string> oddities() const override { return oddities_; }

  [[nodiscard]] Result<std::int64_t> integer(std::string_view key) const override {
    TRY(const GgufValue* value, required(key, "an integer"));
    if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
    if (const auto* number = std::get_if<std::uint64_t>(value); number != nullptr && *number <= INT64_MAX)
      return static_cast<std::int64_t>(*number);
    return wrong(key, "an integer", *value);
  }
  [[nodiscard]] Result<double> number(std::string_view key) const override {
    TRY(const GgufValue* value, required(key, "a number"));
    if (const auto* number = std::get_if<double>(value)) return *number;
    if (const auto* number = std::get_if<std::int64_t>(value)) return static_cast<double>(*number);
    if (const auto* number = std::get_if<std::uint64_t>(value)) return static_cast<double>(*number);
    return wrong(key, "a number", *value);
  }
  [[nodiscard]] Result<std::string_view> string(std::string_view key) const override {
    TRY(const GgufValue* value, required(key, "a string"));
    if (const auto* text = std::get_if<std::string_view>(value)) return *text;
    return wrong(key, "a string", *value);
  }
  [[nodiscard]] Result<bool> boolean(std::string_view key) const override {
    TRY(const GgufValue* value, required(key, "a bool"));
    if (const auto* flag = std::get_if<bool>(value)) return *flag;
    return wrong(key, "a bool", *value);
  }
  [[nodiscard]] Result<std::vector<float>> f32_array(std::string_view key) const override {
    constexpr std::string_view expected = "an array of FLOAT32";
    TRY(const GgufArray* array, required_array(key, expected));
    const auto count = static_cast<std::size_t>(array->count);
    std::vector<float> out(count);
    if (array->type == 6) {
      std::copy_n(array->data.data(), array->data.size(), reinterpret_cast<std::byte*>(out.data()));
    } else if (array->type == 12) {
      for (std::size_t i = 0; i < count; ++i)
        out[i] = static_cast<float>(load_unaligned<double>(array->data.data() + 8 * i));
    } else {
      return wrong(key, expected, *find(key));
    }
    return out;
  }
  [[nodiscard]] Result<std::vector<std::int32_t>> i32_array(std::string_view key) const override {
    constexpr std::string_view expected = "an array of INT32";
    TRY(const GgufArray* array, required_array(key, expected));
    const bool integers = array->type <= 5 || array->type == 10 || array->type == 11;
    if (!integers) return wrong(key, expected, *find(key));
    const auto count = static_cast<std::size_t>(array->count);
    std::vector<std::int32_t> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool fits = with_element(*array, i, [&](std::int64_t value) {
        out[i] = static_cast<std::int32_t>(value);
        return out[i] == value;
      });
      if (!fits) return bad_input("{}: metadata key {}: element {} does not fit 32 bits", path_, printable(key), i);
    }
    return out;
  }
  [[nodiscard]] Result<std::vector<bool>> bool_array(std::string_view key) const override {
    constexpr std::string_view expected = "an array of BOOL";
    TRY(const GgufArray* array, required_array(key, expected));
    if (array->type != 7) return wrong(key, expected, *find(key));
    std::vector<bool> out;
    out.reserve(array->data.size());
    for (const std::byte byte : array->data) out.push_back(byte != std::byte{0});
    return out;
  }
  [[nodiscard]] Result<std::span<const std::string_view>> string_array(std::string_view key) const override {
    constexpr std::string_view expected = "an array of STRING";
    TRY(const GgufArray* array, required_array(key, expected));
    if (array->type != 8) return wrong(key, expected, *find(key));
    return std::span<const std::string_view>(array->strings);
  }

 private:
  [[nodiscard]] Error wrong(std::string_view key, std::string_view expected, const GgufValue& value) const {
    return bad_input("{}: metadata key {} must be {}, found {}", path_, printable(key), expected, kind(value));
  }
  [[nodiscard]] Result<const GgufValue*> required(std::string_view key, std::string_view expected) const {
    const GgufValue* value = find(key);
    if (value == nullptr)
      return bad_input("{}: metadata key {} is missing (expected {})", path_, printable(key), expected);
    return value;
  }
  [[nodiscard]] Result<const GgufArray*> required_array(std::string_view key, std::string_view expected) const {
    TRY(const GgufValue* value, required(key, expected));
    if (const auto* array = std::get_if<GgufArray>(value)) return array;
    return wrong(key, expected, *value);
  }

  std::string path_;
  std::uint32_t version_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::unordered_map<std::string_view, std::size_t> keys_;
  std::vector<std::string> oddities_;
};

// What split.* says in one part. count 0: not a split.
struct Split {
  std::int64_t number = 0;
  std::int64_t count = 0;
  std::optional<std::int64_t> tensors;
};

Result<std::optional<std::int64_t>> small_integer(const GgufPart& part, const std::string& path, std::string_view key) {
  for (const auto& [name, value] : part.metadata) {
    if (name != key) continue;
    std::int64_t number = -1;
    if (const auto* u = std::get_if<std::uint64_t>(&value))
      number = *u <= INT32_MAX ? static_cast<std::int64_t>(*u) : -1;
    if (const auto* i = std::get_if<std::int64_t>(&value)) number = *i <= INT32_MAX ? *i : -1;
    if (number < 0) return bad_input("{}: metadata key '{}' must be a small integer, found {}", path, key, kind(value));
    return std::optional(number);
  }
  return std::optional<std::int64_t>();
}

Result<Split> split_of(const GgufPart& part, const std::string& path) {
  Split split;
  TRY(const auto count, small_integer(part, path, "split.count"));
  TRY(const auto number, small_integer(part, path, "split.no"));
  TRY(split.tensors, small_integer(part, path, "split.tensors.count"));
  if (!count || *count <= 1) return split;
  if (!number) return bad_input("{}: 'split.count' is {}, but 'split.no' is missing", path, *count);
  if (*number >= *count)
    return bad_input("{}: 'split.no' is {}; expected less than 'split.count', {}", path, *number, *count);
  split.count = *count;
  split.number = *number;
  return split;
}

std::string split_ending(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<GgufPart> parts;
  TRY(files.emplace_back(), MappedFile::open(path));
  TRY(auto first, parse_gguf(files.front()->bytes(), path));
  TRY(const Split split, split_of(first, path));
  parts.push_back(std::move(first));
  if (split.count > 1) {
    const std::string ending = split_ending(split.number, split.count);
    if (!path.ends_with(ending))
      return bad_input("{}: part {} of {} of a split model, whose name must end in {}", path, split.number + 1,
                       split.count, ending);
    const std::string stem = path.substr(0, path.size() - ending.size());
    if (split.number != 0) {
      const std::string opener = stem + split_ending(0, split.count);
      return bad_input("{}: part {} of {} of a split model; open its first part: {}{}", path, split.number + 1,
                       split.count, opener, exists(opener) ? "" : " (which is missing)");
    }
    for (std::int64_t i = 1; i < split.count; ++i) {
      const std::string beside = stem + split_ending(i, split.count);
      if (!exists(beside))
        return bad_input("{}: part {} of {} of this split model is missing: expected {}", path, i + 1, split.count,
                         beside);
      TRY(files.emplace_back(), MappedFile::open(beside));
      TRY(auto part, parse_gguf(files.back()->bytes(), beside));
      TRY(const Split own, split_of(part, beside));
      if (own.count != split.count || own.number != i)
        return bad_input("{}: expected part {} of {} (split.no {}), found split.no {} of split.count {}", beside, i + 1,
                         split.count, i, own.number, own.count);
      parts.push_back(std::move(part));
    }
  }
  std::size_t tensors = 0;
  for (const auto& part : parts) tensors += part.tensors.size();
  if (split.tensors && split.count > 1 && *split.tensors != static_cast<std::int64_t>(tensors))
    return bad_input("{}: 'split.tensors.count' is {}, but the {} parts hold {} tensors", path, *split.tensors,
                     split.count, tensors);
  auto opened = std::make_shared<Opened>(files, std::move(parts));
  TRY_VOID(opened->index_tensors());
  return std::shared_ptr<const GgufFile>(std::move(opened));
}

}  // namespace knapsack
