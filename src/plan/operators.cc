#include "plan/operators.h"

#include <algorithm>
#include <map>

#include "graph/decompose/decompose.h"
#include "plan/operator_types.h"

namespace knapsack {
namespace {

// Of products with constant weights, which most toolchains list as Gemm.
std::vector<std::int64_t> bits_of_weights(const OperatorTypes& types, const Toolchain& toolchain) {
  const OpSupport* row = toolchain.op("Gemm");
  if (row == nullptr || row->support == Support::no) row = toolchain.op("MatMul");
  if (row == nullptr) return {};
  const OpSupport* four = toolchain.trait("int4_weights");
  std::vector<std::int64_t> bits;
  for (const std::string& dtype : row->dtypes) {
    if (!types.lists(*row, dtype)) continue;
    const bool floats = dtype == "fp16" || dtype == "bf16" || dtype == "fp32";
    const std::int64_t each = floats                                             ? 16
                              : dtype.ends_with("w2")                            ? 2
                              : dtype.ends_with("w4") || dtype.ends_with("int4") ? 4
                              : dtype.ends_with("w8") || dtype.ends_with("int8") ? 8
                                                                                 : 16;
    if (each == 4 && four != nullptr && four->support == Support::no) continue;
    if (std::find(bits.begin(), bits.end(), each) == bits.end()) bits.push_back(each);
  }
  std::sort(bits.begin(), bits.end());
  return bits;
}

}  // namespace

PlanOperators plan_operators(const Graph& graph, const DeviceProfile& device, const Toolchain& toolchain,
                             std::int64_t ctx, bool stored) {
  const Graph decode = decompose(graph, {.tokens = 1, .past = ctx - 1, .stored = stored});
  const Inventory inventory = take_inventory(decode, device, &toolchain);
  PlanOperators out{.toolchain = toolchain.id, .at = toolchain.at};
  std::map<std::string, std::int64_t, std::less<>> refused;
  for (std::size_t i = 0; i < inventory.nodes.size(); ++i) {
    ++out.nodes;
    switch (inventory.nodes[i].site) {
      case Site::npu:
        ++out.on_npu;
        break;
      case Site::cpu:
        ++out.on_cpu;
        ++refused[std::string(op_info(decode.list()[i].op).text)];
        break;
      case Site::ahead:
        ++out.ahead;
        break;
      case Site::unknown:
        ++out.unknown;
        break;
    }
  }
  out.refused.reserve(refused.size());
  for (const auto& [name, count] : refused) out.refused.push_back(name);
  std::stable_sort(out.refused.begin(), out.refused.end(),
                   [&](const std::string& a, const std::string& b) { return refused[a] > refused[b]; });
  out.pieces = inventory.pieces;
  out.tiny_pieces = inventory.tiny_pieces;
  out.crossings = inventory.crossings;
  out.time = inventory.crossings_time;
  out.weight_bits = bits_of_weights(OperatorTypes(decode, device, &toolchain, 16), toolchain);
  return out;
}

}  // namespace knapsack
