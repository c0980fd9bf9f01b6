#include "files/npz.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "files/inflate.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

static_assert(std::endian::native == std::endian::little, "ZIP and .npy are read as this machine's numbers are");

constexpr std::uint64_t most_members = 1 << 20;
constexpr std::size_t most_name = 4096;
constexpr std::uint64_t unpacked_ratio = 32, unpacked_spare = 16 << 20;

template <class T>
T number(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  CHECK(at + sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::int64_t size_of(NpyType type) {
  switch (type) {
    case NpyType::f16:
      return 2;
    case NpyType::f32:
    case NpyType::i32:
      return 4;
    default:
      return 8;
  }
}

// The value of a key in the header's Python dictionary, which NumPy writes in one form: {'descr': '<f4',
// 'fortran_order': False, 'shape': (3, 4), }.
std::string_view value_of(std::string_view header, std::string_view key) {
  const auto at = header.find(key);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size());
  const auto begin = header.find_first_not_of(": ");
  return begin == std::string_view::npos ? std::string_view{} : header.substr(begin);
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<std::vector<NpyArray>> read() {
    TRY(const std::size_t end, end_record());
    std::uint64_t count = number<std::uint16_t>(bytes_, end + 10);
    std::uint64_t size = number<std::uint32_t>(bytes_, end + 12);
    std::uint64_t at = number<std::uint32_t>(bytes_, end + 16);
    constexpr std::size_t locator_bytes = 20;
    if ((count == 0xFFFF || at == 0xFFFFFFFF) && end >= locator_bytes &&
        number<std::uint32_t>(bytes_, end - locator_bytes) == 0x07064b50) {
      const auto record = number<std::uint64_t>(bytes_, end - locator_bytes + 8);
      if (record > bytes_.size() || bytes_.size() - record < 56 || number<std::uint32_t>(bytes_, record) != 0x06064b50)
        return fault(end, "the ZIP64 record it points to is not there");
      count = number<std::uint64_t>(bytes_, record + 32);
      size = number<std::uint64_t>(bytes_, record + 40);
      at = number<std::uint64_t>(bytes_, record + 48);
    }
    if (at > bytes_.size() || size > bytes_.size() - at)
      return fault(end, "the directory would lie behind the end of the file");
    constexpr std::uint64_t least_entry = 46;
    if (count > most_members || count > size / least_entry)
      return fault(end, fmt::format("{} members announced, more than its directory of {} bytes holds", count, size));
    std::vector<NpyArray> arrays;
    arrays.reserve(count);
    std::set<std::string, std::less<>> names;
    for (std::uint64_t i = 0; i < count; ++i) {
      TRY(NpyArray array, member(at));
      if (!names.insert(array.name).second)
        return bad_input("{}: two arrays are called '{}'", path_, printable(array.name));
      arrays.push_back(std::move(array));
    }
    return arrays;
  }

 private:
  [[nodiscard]] Error fault(std::uint64_t at, std::string_view what) const {
    return bad_input("{}: byte {}: {}", path_, at, what);
  }
  static std::string printable(std::string_view name) {
    std::string out;
    for (const char c : name.substr(0, 80)) out += c >= ' ' && c <= '~' ? c : '?';
    return out;
  }

  // The record stands last; only a comment of at most 65535 bytes follows.
  [[nodiscard]] Result<std::size_t> end_record() const {
    constexpr std::size_t record = 22;
    if (bytes_.size() < record || text(bytes_.first(2)) != "PK")
      return bad_input("{}: expected a NumPy archive (a ZIP, as numpy.savez writes it), found something else", path_);
    for (std::size_t back = 0; back <= 0xFFFF && back + record <= bytes_.size(); ++back) {
      const std::size_t at = bytes_.size() - record - back;
      if (number<std::uint32_t>(bytes_, at) == 0x06054b50 && number<std::uint16_t>(bytes_, at + 20) == back) return at;
    }
    return bad_input("{}: a ZIP without its end: cut short?", path_);
  }

  // The member whose entry in the directory is at `at`, which is moved to the next entry.
  Result<NpyArray> member(std::uint64_t& at) {
    constexpr std::size_t entry = 46;
    if (at > bytes_.size() || bytes_.size() - at < entry || number<std::uint32_t>(bytes_, at) != 0x02014b50)
      return fault(at, "expected an entry of the ZIP's directory");
    const auto flags = number<std::uint16_t>(bytes_, at + 8);
    const auto method = number<std::uint16_t>(bytes_, at + 10);
    const auto crc = number<std::uint32_t>(bytes_, at + 16);
    std::uint64_t packed = number<std::uint32_t>(bytes_, at + 20);
    std::uint64_t size = number<std::uint32_t>(bytes_, at + 24);
    const std::size_t name_bytes = number<std::uint16_t>(bytes_, at + 28);
    const std::size_t extra_bytes = number<std::uint16_t>(bytes_, at + 30);
    const std::size_t comment_bytes = number<std::uint16_t>(bytes_, at + 32);
    std::uint64_t local = number<std::uint32_t>(bytes_, at + 42);
    if (bytes_.size() - at - entry < name_bytes + extra_bytes + comment_bytes)
      return fault(at, "the entry would end behind the file");
    std::string_view name = text(bytes_.subspan(at + entry, name_bytes));
    TRY_VOID(wide(bytes_.subspan(at + entry + name_bytes, extra_bytes), at, size, packed, local));
    if (name_bytes > most_name || !is_valid_utf8(name)) return fault(at, "the member's name is too long or no text");
    if (!name.ends_with(".npy"))
      return bad_input("{}: expected arrays alone (NAME.npy), found '{}'", path_, printable(name));
    name.remove_suffix(4);
    if ((flags & 1) != 0) return unsupported("{}: '{}' is encrypted", path_, printable(name));
    constexpr int stored = 0;
    constexpr int deflated = 8;
    if (method != stored && method != deflated)
      return unsupported("{}: '{}' is compressed by method {}; write it with numpy.savez or savez_compressed", path_,
                         printable(name), method);
    if (method == stored) packed = size;
    at += entry + name_bytes + extra_bytes + comment_bytes;
    constexpr std::size_t header = 30;
    if (local > bytes_.size() || bytes_.size() - local < header || number<std::uint32_t>(bytes_, local) != 0x04034b50)
      return fault(local, fmt::format("expected the member '{}'", printable(name)));
    const std::uint64_t data = local + header + number<std::uint16_t>(bytes_, local + 26) +
                               std::uint64_t{number<std::uint16_t>(bytes_, local + 28)};
    if (data > bytes_.size() || packed > bytes_.size() - data)
      return fault(local, fmt::format("'{}' would end behind the file", printable(name)));
    const auto held = bytes_.subspan(data, packed);
    if (method == stored) return array(std::string(name), held, data);
    TRY_VOID(room(name, packed, size, data));
    TRY(auto plain, inflate(held, size, crc, fmt::format("{}: byte {}: array '{}'", path_, data, printable(name))));
    const auto unpacked = std::make_shared<const std::vector<std::byte>>(std::move(plain));
    TRY(NpyArray made, array(std::string(name), *unpacked, data));
    made.unpacked = unpacked;
    return made;
  }

  // Whether `size` bytes more may be unpacked, which the file only claims so far.
  Result<void> room(std::string_view name, std::uint64_t packed, std::uint64_t size, std::uint64_t at) {
    if (size / deflate_most_ratio > packed)
      return fault(at, fmt::format("array '{}': {} bytes cannot be packed into {}", printable(name), size, packed));
    unpacked_ += size;  // cannot overflow: each is at most 1032 times the file
    const std::uint64_t most = unpacked_ratio * bytes_.size() + unpacked_spare;
    if (unpacked_ > most)
      return unsupported(
          "{}: its arrays unpack to {} bytes or more, over {} times the file's {}: write them with numpy.savez", path_,
          unpacked_, unpacked_ratio, bytes_.size());
    if (unpacked_ > memory_limit() / 2)
      return out_of_resource(
          "{}: its arrays unpack to {} bytes or more, over half of this machine's memory: write them "
          "with numpy.savez, which leaves them in the file",
          path_, unpacked_);
    return {};
  }

  // ZIP64: what did not fit into 32 bits stands in an extra field, in this order.
  [[nodiscard]] Result<void> wide(std::span<const std::byte> extra, std::uint64_t at, std::uint64_t& size,
                                  std::uint64_t& packed, std::uint64_t& local) const {
    while (extra.size() >= 4) {
      const auto id = number<std::uint16_t>(extra, 0);
      const std::size_t length = number<std::uint16_t>(extra, 2);
      if (length > extra.size() - 4) return fault(at, "an extra field of the entry is cut");
      auto field = extra.subspan(4, length);
      extra = extra.subspan(4 + length);
      if (id != 1) continue;
      const auto take = [&](std::uint64_t& value, bool wanted) {
        if (!wanted || field.size() < 8) return;
        value = number<std::uint64_t>(field, 0);
        field = field.subspan(8);
      };
      take(size, size == 0xFFFFFFFF);
      take(packed, packed == 0xFFFFFFFF);
      take(local, local == 0xFFFFFFFF);
    }
    return {};
  }

  [[nodiscard]] Result<NpyArray> array(std::string name, std::span<const std::byte> bytes, std::uint64_t at) const {
    const auto wrong = [&](const std::string& what) {
      return fault(at, fmt::format("array '{}': {}", printable(name), what));
    };
    if (bytes.size() < 12 || text(bytes.first(6)) != "\x93NUMPY") return wrong("expected NumPy's magic");
    const auto major = std::to_integer<int>(bytes[6]);
    if (major < 1 || major > 3) return wrong(fmt::format("version {} of the format is not known", major));
    const std::size_t before = major == 1 ? 10 : 12;
    const std::size_t length = major == 1 ? number<std::uint16_t>(bytes, 8) : number<std::uint32_t>(bytes, 8);
    if (length > bytes.size() - before) return wrong("its header would end behind it");
    const std::string_view header = text(bytes.subspan(before, length));
    NpyArray made{.name = name, .data = bytes.subspan(before + length)};
    const std::string_view type = value_of(header, "'descr'");
    if (type.starts_with("'<f2'")) {
      made.type = NpyType::f16;
    } else if (type.starts_with("'<f4'")) {
      made.type = NpyType::f32;
    } else if (type.starts_with("'<f8'")) {
      made.type = NpyType::f64;
    } else if (type.starts_with("'<i4'")) {
      made.type = NpyType::i32;
    } else if (type.starts_with("'<i8'")) {
      made.type = NpyType::i64;
    } else {
      return wrong(fmt::format("expected float16, float32, float64, int32 or int64, little-endian, found {}",
                               printable(type.substr(0, 12))));
    }
    if (!value_of(header, "'fortran_order'").starts_with("False"))
      return wrong("expected rows one after the other (C order); use numpy.ascontiguousarray");
    TRY_VOID(shape(value_of(header, "'shape'"), made.shape, wrong));
    // The dimensions are capped, so that no product of them overflows before it is compared.
    const auto most = static_cast<std::int64_t>(bytes.size());
    std::int64_t count = 1;
    for (const std::int64_t dimension : made.shape) {
      if (dimension > 0 && count > most / dimension) return wrong("its shape holds more than its bytes");
      count *= dimension;
    }
    if (static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size_of(made.type)) != made.data.size())
      return wrong(fmt::format("{} elements of {} bytes each expected, found {} bytes", count, size_of(made.type),
                               made.data.size()));
    return made;
  }

  template <class Wrong>
  static Result<void> shape(std::string_view text, std::vector<std::int64_t>& shape, const Wrong& wrong) {
    constexpr std::size_t most_dimensions = 8;
    if (!text.starts_with("(")) return wrong("its header has no shape");
    text.remove_prefix(1);
    while (true) {
      const auto at = text.find_first_not_of(" ,");
      if (at == std::string_view::npos) return wrong("its shape has no end");
      text.remove_prefix(at);
      if (text.front() == ')') return {};
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || value < 0 || shape.size() == most_dimensions) return wrong("its shape is none");
      shape.push_back(value);
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::uint64_t unpacked_ = 0;
};

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) count *= dimension;
  return count;
}

void NpyArray::floats_at(std::int64_t first, std::span<float> out) const {
  CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= elements() && floats());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<std::size_t>((first + static_cast<std::int64_t>(i)) * size_of(type));
    out[i] = type == NpyType::f32   ? number<float>(data, at)
             : type == NpyType::f64 ? static_cast<float>(number<double>(data, at))
                                    : half_to_float(number<std::uint16_t>(data, at));
  }
}

std::int64_t NpyArray::integer_at(std::int64_t index) const {
  CHECK(index >= 0 && index < elements() && !floats());
  const auto at = static_cast<std::size_t>(index * size_of(type));
  return type == NpyType::i32 ? number<std::int32_t>(data, at) : number<std::int64_t>(data, at);
}

Result<std::vector<NpyArray>> parse_npz(std::span<const std::byte> bytes, const std::string& path) {
  return Reader(bytes, path).read();
}

Result<NpzFile> open_npz(const std::string& path) {
  TRY(auto file, MappedFile::open(path));
  TRY(auto arrays, parse_npz(file->bytes(), path));
  return NpzFile{.file = std::move(file), .arrays = std::move(arrays)};
}

}  // namespace knapsack
