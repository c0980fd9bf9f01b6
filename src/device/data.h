// devices/ as it was when the program was built: what is found without any file beside it. devices.h reads it.
#pragma once

#include <span>
#include <string_view>

namespace knapsack {

struct DataFile {
  std::string_view name;  // "rk3588"
  std::string_view text;  // JSON, on one line
};
std::span<const DataFile> device_data();     // devices/*.json, in the order of their names; efficiency among them
std::span<const DataFile> toolchain_data();  // devices/toolchains/*.json

}  // namespace knapsack
