// DEFLATE (RFC 1951) as the members of a ZIP hold it, unpacked by zlib. Not for gzip or zlib streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace knapsack {

// A bit pair stands for at most 258 bytes, so no stream holds more than this many times its own bytes.
constexpr std::uint64_t deflate_most_ratio = 1032;

// What `packed` unpacks to, exactly `size` bytes of CRC-32 `crc`. The caller has judged whether there is memory for
// `size`. `where` opens the message of an error: the file and what of it.
Result<std::vector<std::byte>> inflate(std::span<const std::byte> packed, std::size_t size, std::uint32_t crc,
                                       const std::string& where);

}  // namespace knapsack
