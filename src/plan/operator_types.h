// At which type a toolchain runs a node on one NPU, and what was wanted and is not to be had there: weights in blocks
// of 4 bits, a KV cache of 16. From the types its table lists, its version, the NPU's generation and features; not for
// whether the node is taken at all (inventory.h).
#pragma once

#include <string>
#include <string_view>

#include "device/profile.h"
#include "device/toolchain.h"
#include "graph/decompose/decompose.h"

namespace knapsack {

struct TypeChoice {
  std::string dtype{};  // "a16w4"; of two activations "int16 x int8"; empty: not stated
  std::string
      blocks_lost{};      // why weights in blocks of 4 bits are not taken as such; empty: they are, or are not known
  std::string kv_lost{};  // why a KV cache of 16 bits is not
};

class OperatorTypes {
 public:
  // toolchain: null where there is no table. kv_bits: 8 or 16.
  OperatorTypes(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain, std::int64_t kv_bits);

  // sensitive: as exact a type as there is; otherwise the narrowest that keeps activations of 16 bits, or what there
  // is.
  [[nodiscard]] TypeChoice choose(const Node& node, const OpSupport& support, bool sensitive) const;

  // At which the operator writes the KV cache: what attention's products read it at, where their row says that.
  [[nodiscard]] std::string cache_type(const OpSupport& writer) const;

  // Whether the check binds in this version and generation; where the generation is not known, it does.
  [[nodiscard]] bool binds(const OpCheck& check) const;
  // "before 2.39; this is 2.38"; empty: it always binds.
  [[nodiscard]] std::string when(const OpCheck& check) const;

  [[nodiscard]] bool weighted(const Node& node) const;       // a product with constant weights
  [[nodiscard]] bool reads_cache(const Node& node) const;    // one of attention's two
  [[nodiscard]] std::string stored(const Node& node) const;  // of the weights; empty: no data
  [[nodiscard]] bool has(std::string_view feature) const;    // of the NPU's; so is what no profile says
  [[nodiscard]] bool lists(const OpSupport& support, std::string_view dtype) const;

 private:
  [[nodiscard]] std::vector<std::string> listed(const OpSupport& support) const;
  [[nodiscard]] TypeChoice of_weights(const Node& node, const OpSupport& support,
                                      const std::vector<std::string>& types) const;
  [[nodiscard]] TypeChoice of_cache(const OpSupport& support, const std::vector<std::string>& types) const;
  [[nodiscard]] std::string blocks_lost(const OpSupport& support, const std::vector<std::string>& types) const;

  const Graph& graph_;
  const UnitProfile* npu_;
  const Toolchain* toolchain_;
  std::int64_t kv_bits_;
};

// Weights in blocks with a scale each: "Q4_0", "Q6_K", "IQ4_XS".
bool is_block_format(std::string_view stored);

}  // namespace knapsack
