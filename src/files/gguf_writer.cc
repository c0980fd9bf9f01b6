#include "files/gguf_writer.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/check.h"
#include "base/utf8.h"

namespace knapsack {
namespace {

constexpr std::uint64_t alignment = 32;
constexpr std::size_t name_limit = 63;

// GGUF's numbers for value types.
constexpr std::uint32_t type_u32 = 4, type_i32 = 5, type_f32 = 6, type_bool = 7, type_string = 8, type_array = 9;

using Bytes = std::vector<std::byte>;

void put_bytes(Bytes& out, std::span<const std::byte> bytes) {
  const std::size_t at = out.size();
  out.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class T>
void put(Bytes& out, const T& value) {
  put_bytes(out, std::as_bytes(std::span(&value, 1)));
}

void put_text(Bytes& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  put_bytes(out, std::as_bytes(std::span(text)));
}

template <class T>
Bytes scalar(std::uint32_t type, const T& value) {
  Bytes out;
  put(out, type);
  put(out, value);
  return out;
}

template <class T>
Bytes array(std::uint32_t type, std::span<const T> values) {
  Bytes out;
  put(out, type_array);
  put(out, type);
  put(out, std::uint64_t{values.size()});
  put_bytes(out, std::as_bytes(values));
  return out;
}

std::uint64_t padded(std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; }

std::uint64_t size_of(DType dtype, std::span<const std::int64_t> shape) {
  auto size = static_cast<std::uint64_t>(row_bytes(dtype, shape.back()));
  for (const auto extent : shape.first(shape.size() - 1)) size *= static_cast<std::uint64_t>(extent);
  return size;
}

}  // namespace

void GgufWriter::add(std::string key, std::vector<std::byte> encoded) {
  CHECK(!key.empty() && is_valid_utf8(key));
  CHECK(std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; }));
  entries_.push_back({std::move(key), std::move(encoded)});
}

void GgufWriter::add_u32(std::string key, std::uint32_t value) { add(std::move(key), scalar(type_u32, value)); }
void GgufWriter::add_f32(std::string key, float value) { add(std::move(key), scalar(type_f32, value)); }
void GgufWriter::add_bool(std::string key, bool value) {
  add(std::move(key), scalar(type_bool, static_cast<std::uint8_t>(value ? 1 : 0)));
}

void GgufWriter::add_string(std::string key, std::string_view value) {
  Bytes out;
  put(out, type_string);
  put_text(out, value);
  add(std::move(key), std::move(out));
}

void GgufWriter::add_strings(std::string key, std::span<const std::string> values) {
  Bytes out;
  put(out, type_array);
  put(out, type_string);
  put(out, std::uint64_t{values.size()});
  for (const auto& value : values) put_text(out, value);
  add(std::move(key), std::move(out));
}

void GgufWriter::add_f32s(std::string key, std::span<const float> values) {
  add(std::move(key), array(type_f32, values));
}
void GgufWriter::add_i32s(std::string key, std::span<const std::int32_t> values) {
  add(std::move(key), array(type_i32, values));
}

void GgufWriter::add_tensor(std::string name, DType dtype, std::vector<std::int64_t> shape,
                            std::function<Result<void>(std::span<std::byte>)> produce) {
  CHECK(!name.empty() && name.size() <= name_limit && is_valid_utf8(name));
  CHECK(format(dtype).ggml_type >= 0 && !shape.empty() && shape.size() <= 4);
  CHECK(std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent > 0; }));
  CHECK(shape.back() % format(dtype).block == 0);
  CHECK(std::none_of(tensors_.begin(), tensors_.end(), [&](const Tensor& tensor) { return tensor.name == name; }));
  tensors_.push_back({std::move(name), dtype, std::move(shape), std::move(produce)});
}

std::vector<std::byte> GgufWriter::encode_header() const {
  Bytes out;
  for (const char c : {'G', 'G', 'U', 'F'}) put(out, c);
  put(out, std::uint32_t{3});
  put(out, std::uint64_t{tensors_.size()});
  put(out, std::uint64_t{entries_.size()});
  for (const auto& entry : entries_) {
    put_text(out, entry.key);
    put_bytes(out, entry.encoded);
  }
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors_) {
    put_text(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) put(out, *extent);
    put(out, static_cast<std::uint32_t>(format(tensor.dtype).ggml_type));
    put(out, offset);
    offset += padded(size_of(tensor.dtype, tensor.shape));
  }
  out.resize(padded(out.size()));
  return out;
}

Result<void> GgufWriter::write(const std::string& path,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress, Existing existing) {
  TRY(AtomicFile file, AtomicFile::create(path, existing));
  TRY_VOID(file.write(encode_header()));
  std::uint64_t done = 0, all = 0;
  for (const auto& tensor : tensors_) all += padded(size_of(tensor.dtype, tensor.shape));
  Bytes data;
  for (const auto& tensor : tensors_) {
    const std::uint64_t size = size_of(tensor.dtype, tensor.shape);
    data.assign(padded(size), std::byte{0});
    TRY_VOID(tensor.produce(std::span(data).first(size)));
    TRY_VOID(file.write(data));
    done += data.size();
    if (progress) progress(done, all);
  }
  return file.commit();
}

}  // namespace knapsack
