// NumPy archives made by tests, right or wrong.
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace knapsack::testing {

// A ZIP as numpy.savez writes it: members one after the other, then the directory.
class Npz {
 public:
  enum : int { stored = 0, deflated = 8 };

  // Of another method than `deflated` the bytes are stored all the same.
  void add(const std::string& name, const std::string& descr, const std::string& shape, std::string_view data,
           int method = stored) {
    const std::string array = npy(descr, shape, data);
    member(name, method == deflated ? deflate(array) : array, array.size(), crc(array), method);
  }
  void floats(const std::string& name, std::int64_t rows, const std::vector<float>& values) {
    add(name, "<f4", fmt::format("(1, {}, {})", rows, static_cast<std::int64_t>(values.size()) / rows),
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  // A member whose directory entry says what it likes.
  void member(const std::string& name, const std::string& held, std::size_t size, std::uint32_t crc32, int method) {
    const std::string file = name + ".npy";
    const std::size_t at = bytes_.size();
    bytes_ += "PK\x03\x04" + std::string(14, '\0');
    append(bytes_, held.size(), 4), append(bytes_, size, 4);
    append(bytes_, file.size(), 2), append(bytes_, 0, 2);
    bytes_ += file + held;
    directory_ += "PK\x01\x02" + std::string(6, '\0');
    append(directory_, static_cast<std::size_t>(method), 2);
    directory_ += std::string(4, '\0');
    append(directory_, crc32, 4);
    append(directory_, held.size(), 4), append(directory_, size, 4);
    append(directory_, file.size(), 2);
    directory_ += std::string(12, '\0');
    append(directory_, at, 4);
    directory_ += file;
    ++count_;
  }
  [[nodiscard]] std::string file() const {
    std::string out = bytes_ + directory_ + "PK\x05\x06" + std::string(4, '\0');
    append(out, count_, 2), append(out, count_, 2);
    append(out, directory_.size(), 4), append(out, bytes_.size(), 4);
    return out + std::string(2, '\0');
  }

  static std::string npy(const std::string& descr, const std::string& shape, std::string_view data) {
    const std::string dictionary =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n", descr, shape);
    std::string array("\x93NUMPY\x01\x00", 8);
    append(array, dictionary.size(), 2);
    array += dictionary;
    array += data;
    return array;
  }
  static std::uint32_t crc(std::string_view bytes) {
    return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  }
  static std::string deflate(std::string_view bytes) {
    std::string whole(compressBound(static_cast<uLong>(bytes.size())), '\0');
    auto size = static_cast<uLongf>(whole.size());
    compress2(reinterpret_cast<Bytef*>(whole.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
              static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
    // A ZIP has neither zlib's header nor its checksum.
    return whole.substr(2, size - 6);
  }

 private:
  static void append(std::string& to, std::size_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
  }
  std::string bytes_, directory_;
  std::size_t count_ = 0;
};

}  // namespace knapsack::testing
