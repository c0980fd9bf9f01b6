#include "files/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace knapsack {
namespace {

// zlib counts in 32 bits.
uInt portion(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

struct Stream {
  z_stream z{};
  ~Stream() { inflateEnd(&z); }
};

}  // namespace

Result<std::vector<std::byte>> inflate(std::span<const std::byte> packed, std::size_t size, std::uint32_t crc,
                                       const std::string& where) {
  std::vector<std::byte> out(size);
  Stream stream;
  z_stream& z = stream.z;
  // Negative: no header before the stream.
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return out_of_resource("{}: no memory to unpack it", where);
  // zlib reads through a pointer that is not const, and may be given none for no bytes.
  Bytef spare = 0;
  z.next_in = packed.empty() ? &spare : reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  z.next_out = out.empty() ? &spare : reinterpret_cast<Bytef*>(out.data());
  std::size_t in_left = packed.size();
  std::size_t out_left = size;
  int status = Z_OK;
  while (status == Z_OK) {
    z.avail_in = portion(in_left);
    z.avail_out = portion(out_left);
    const uInt in_before = z.avail_in;
    const uInt out_before = z.avail_out;
    status = ::inflate(&z, Z_NO_FLUSH);
    in_left -= in_before - z.avail_in;
    out_left -= out_before - z.avail_out;
  }
  if (status == Z_MEM_ERROR) return out_of_resource("{}: no memory to unpack it", where);
  if (status == Z_BUF_ERROR && in_left > 0) return bad_input("{}: it unpacks to more than {} bytes", where, size);
  if (status == Z_BUF_ERROR) return bad_input("{}: its packed bytes end too early", where);
  if (status != Z_STREAM_END)
    return bad_input("{}: packed byte {}: {}", where, packed.size() - in_left, z.msg != nullptr ? z.msg : "broken");
  if (out_left > 0) return bad_input("{}: it unpacks to {} bytes, expected {}", where, size - out_left, size);
  if (in_left > 0) return bad_input("{}: {} bytes follow the end of what is packed", where, in_left);
  const auto found = static_cast<std::uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(out.data()), out.size()));
  if (found != crc)
    return bad_input("{}: CRC-32 {:08x} expected, found {:08x}: its bytes were changed", where, crc, found);
  return out;
}

}  // namespace knapsack
