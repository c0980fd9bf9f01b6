// Device profiles as `knapsack devices` prints them: the table of all, one with the source of each figure, what is
// wrong with one. Not for finding or reading them (src/device).
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "device/devices.h"

namespace knapsack {

std::string devices_table(std::span<const Device> devices);
json::object devices_json(std::span<const Device> devices);

// Whose table is asked: id, name, version, and `at`, the version of these that is asked about.
json::object toolchain_json(const Toolchain& toolchain);

// Every figure with its kind and a number for its source, then the sources, then the toolchains' tables in short.
std::string device_text(const Device& device, std::span<const Toolchain> toolchains);

}  // namespace knapsack
