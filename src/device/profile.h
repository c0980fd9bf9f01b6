// What is known of a device, as devices/ID.json says it (devices/schema.json describes each key, docs/devices.md the
// whole): every figure with its source, and what is not known absent: whoever computes with an absent figure does not
// know the result either. Not for where profiles are found (devices.h), nor for what follows from them (src/plan).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "device/engine_speed.h"
#include "device/host.h"
#include "device/peaks.h"

namespace knapsack {

enum class FactKind : std::uint8_t { unstated, published, derived, secondary, estimate, measured, configuration };
std::string_view fact_kind_name(FactKind kind);

template <class T>
struct Fact {
  T value{};
  std::optional<std::pair<T, T>> range{};  // of a number: what else is possible, lowest and highest
  FactKind kind = FactKind::unstated;
  std::string source{};  // never empty
  std::string note{};
};
using Number = Fact<double>;       // > 0; the unit is in the field's name
using Count = Fact<std::int64_t>;  // > 0
using Flag = Fact<bool>;
using Text = Fact<std::string>;
using Numbers = Fact<std::vector<double>>;
using Counts = Fact<std::vector<std::int64_t>>;
using Words = Fact<std::vector<std::string>>;

struct MemoryProfile {
  std::optional<Text> type{};
  std::optional<Counts> sizes_bytes{};  // it is sold with these; of `host` the one it has
  std::optional<Count> max_bytes{};
  std::optional<Number> os_share{};  // (0, 1]
  std::optional<Count> system_cache_bytes{};
  std::optional<Number> theoretical_gb_per_s{};  // 10^9 bytes, as everywhere here
  std::optional<Number> sustained_gb_per_s{};
};

struct UnitLimits {
  std::optional<Number> memory_share{};        // (0, 1]
  std::optional<Count> weight_buffer_bytes{};  // known to have failed to map: a warning, no wall
  std::optional<Count> process_domain_bytes{};
  std::optional<Count> context_bytes{};
  std::optional<Count> contexts{};
  std::optional<Count> tensor_dim{};
  std::optional<Count> address_bits{};
  std::optional<Flag> static_shapes_only{};
};

struct Cluster {
  std::string core{};  // "Cortex-A76"; empty: not stated
  Count cores{};
  std::optional<Number> clock_mhz{};
  std::optional<Words> isa{};
};

enum class UnitKind : std::uint8_t { cpu, gpu, npu };
std::string_view unit_name(UnitKind unit);

// What is of one unit only stays empty for the others.
struct UnitProfile {
  std::string name{};
  // Operations a second in units of 10^12, a multiply-add being two, by type: "int8", "fp16", "int8-sparse",
  // "unstated".
  std::map<std::string, Number, std::less<>> peak_tops{};
  UnitLimits limits{};
  // CPU
  std::vector<Cluster> clusters{};
  std::optional<Text> isa_note{};
  // GPU and NPU
  std::optional<Count> cores{};
  std::optional<Number> clock_mhz{};
  // NPU
  std::string architecture{};                // "hexagon-v75"
  std::optional<std::int64_t> generation{};  // 75: constraints of toolchains refer to it
  std::optional<Count> macs_per_cycle{};
  std::optional<Words> dtypes{};
  std::optional<Words> features{};  // "a16w4-block", "kv-16bit"
  std::optional<Count> sram_bytes{};
  std::optional<Count> sram_per_tile_bytes{};
  std::optional<Number> sram_port_gb_per_s{};
  std::optional<Count> dma_bytes_per_cycle{};
  std::optional<Count> dma_outstanding{};

  // Nothing: not known.
  [[nodiscard]] const Number* peak(std::string_view dtype) const;
};

struct LinkProfile {
  std::array<UnitKind, 2> between{};
  std::optional<Flag> shared_memory{};
  std::optional<Number> bandwidth_gb_per_s{};
  std::optional<Number> latency_us{};
};

struct PowerProfile {
  std::optional<Number> sustained_w{};
  std::optional<Numbers> modes_w{};
  std::optional<Number> peak_wall_w{};
};

struct ThrottlePoint {
  Number celsius{};
  std::string action{};  // "passive", "hard", "critical"
};
struct HeatProfile {
  std::optional<Number> resistance_c_per_w{};
  std::optional<Number> capacity_j_per_c{};
  std::vector<ThrottlePoint> throttle_points{};
};

enum class DeviceKind : std::uint8_t { soc, module, npu_ip, host };

// What `knapsack devices measure` found out about the machine.
struct Machine {
  Host host{};
  Peaks peaks{};
  std::optional<EngineSpeed> engine{};
};

struct DeviceProfile {
  std::string id{};
  std::string name{};
  DeviceKind kind = DeviceKind::soc;
  std::string vendor{};
  std::string family{};  // efficiencies are fitted by it; empty: none
  std::vector<std::string> aliases{};
  MemoryProfile memory{};
  std::optional<UnitProfile> cpu{}, gpu{}, npu{};
  std::vector<LinkProfile> links{};
  PowerProfile power{};
  HeatProfile heat{};
  std::vector<std::string> toolchains{};  // ids; the first is taken where none is asked for
  std::vector<std::string> notes{};
  std::optional<Machine> machine{};  // of `host`

  [[nodiscard]] const UnitProfile* unit(UnitKind which) const;
  [[nodiscard]] const LinkProfile* link(UnitKind a, UnitKind b) const;  // either way round
};

// Something a profile says wrongly: "memory.bandwidth_gb_per_s.theoretical.value" "-3 is negative; ...".
struct ProfileFault {
  std::string path;
  std::string message;
};

// All that is wrong with it (a hundred faults at most); empty: nothing, and `profile` is what it says. What does not
// parse as a JSON object is an error.
Result<std::vector<ProfileFault>> check_profile(std::string_view text, const std::string& origin,
                                                DeviceProfile& profile);
// One line of them, at least one: "my.json: memory.max_bytes.value: -1 is negative ...; and 2 more ...".
Error fault_error(const std::vector<ProfileFault>& faults, const std::string& origin);
// The same for who wants it whole or not at all: any fault is an error.
Result<DeviceProfile> read_profile(std::string_view text, const std::string& origin);

}  // namespace knapsack
