// What a device's NPU toolchain makes of each primitive operator of a model: where it runs, at which type, by which
// strategy and what leaving the NPU costs there (docs/operators.md). Decided from facts of the toolchain's table; where
// it says nothing, nothing is known, and that is said. Not for text: inventory_text.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/profile.h"
#include "device/toolchain.h"
#include "graph/decompose/decompose.h"

namespace knapsack {

enum class Strategy : std::uint8_t { map, merge, precompute, replace, keep_fp16, cpu, unknown };
std::string_view strategy_name(Strategy strategy);

// ahead: it is not in the compiled graph; unknown: counted as if it were taken.
enum class Site : std::uint8_t { npu, cpu, ahead, unknown };
std::string_view site_name(Site site);

struct Crossing {
  std::int64_t to_cpu_bytes = 0, to_npu_bytes = 0;
  std::int64_t copies = 0;
};

// What it takes: known only where the link's latency is, at least what its bytes take at the bandwidth that is known.
struct CrossingTime {
  std::optional<double> us{}, at_least_us{};
};

struct Decision {
  Strategy strategy = Strategy::unknown;
  Site site = Site::unknown;
  std::string dtype{};  // empty: not known
  std::string with{};   // what it is merged into or replaced by
  std::string why{};
  std::string source{};  // of the toolchain's table; empty: it follows from the graph
  Crossing cost{};
  std::int64_t piece = -1;  // of the NPU's, from 0
};

struct OperatorRow {
  Op op{};
  std::int64_t count = 0;
  std::array<std::int64_t, 4> sites{};  // by Site
  std::vector<Decision> ways;           // one of each kind that occurs; cost: of all of the kind
  std::vector<std::int64_t> counts;
  std::vector<CrossingTime> times;
  Crossing cost{};
  CrossingTime time{};
};

struct Killer {
  std::string id{};  // "kv_concat"
  std::int64_t count = 0;
  std::string example{};
  std::string what{};
  std::string fix{};
};

struct Inventory {
  std::vector<Decision> nodes{};  // by the graph's
  std::vector<OperatorRow> operators{};
  std::vector<Killer> killers{};
  std::int64_t pieces = 0;       // NPU graphs that it falls into
  std::int64_t tiny_pieces = 0;  // without a matrix product
  Crossing crossings{};          // each tensor once a direction
  CrossingTime crossings_time{};
  bool has_npu = true;                    // otherwise nothing is decided, but for what can be precomputed
  std::vector<std::string> not_listed{};  // operators that the toolchain's table does not list
  std::vector<std::string> unknown{};     // what else could not be said, and why
};

struct InventoryOptions {
  std::int64_t kv_bits = 16;                // 8 or 16: what is wanted of the KV cache
  std::optional<double> link_latency_us{};  // of a copy between CPU and NPU; nothing: the profile's
};

// toolchain: null where there is no table.
Inventory take_inventory(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain,
                         const InventoryOptions& options = {});

}  // namespace knapsack
