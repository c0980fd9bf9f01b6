#include "device/data.h"

#include <array>

namespace knapsack {
namespace {

using namespace std::string_view_literals;

constexpr auto devices = std::to_array<DataFile>({
#include "device/devices.inc"
});
constexpr auto toolchains = std::to_array<DataFile>({
#include "device/toolchains.inc"
});

}  // namespace

std::span<const DataFile> device_data() { return devices; }
std::span<const DataFile> toolchain_data() { return toolchains; }

}  // namespace knapsack
