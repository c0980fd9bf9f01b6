#include "pipeline/device_target.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "graph/decompose/decompose.h"
#include "plan/inventory.h"

namespace knapsack {
namespace {

// What phones' NPUs and their memory move at a time; no profile says otherwise yet.
constexpr std::int64_t line_bytes = 128;

struct Table {
  DeviceProfile device;
  std::optional<Toolchain> toolchain;

  [[nodiscard]] const OpSupport* row(std::string_view name) const {
    const OpSupport* support = toolchain->op(name);
    const bool there = support != nullptr && support->support != Support::no && !support->on_cpu &&
                       !toolchain->before(support->since_version);
    return there ? support : nullptr;
  }
  // In any form: whether a node keeps its conditions is asked of the node.
  [[nodiscard]] bool lists(std::string_view name) const { return row(name) != nullptr; }
  // Without a condition.
  [[nodiscard]] bool whole(std::string_view name) const {
    const OpSupport* support = row(name);
    return support != nullptr && support->support == Support::yes && support->written_as.empty() &&
           support->within.empty();
  }
  [[nodiscard]] bool multiplies() const { return lists("Gemm") || lists("MatMul"); }
  // As a part of what it stands behind.
  [[nodiscard]] bool ends(std::string_view act, std::string_view product) const {
    const OpSupport* support = row(act);
    return lists(product) && support != nullptr && (support->support == Support::yes || support->within == product);
  }

  // Whether it is one operator there. Of primitives only whether what passes made of them is.
  [[nodiscard]] bool has(const Node& node) const {
    const Attrs& a = node.attrs;
    switch (node.op) {
      case Op::rms_norm:
        return whole("RMSNormalization") && node.inputs.size() > 1 && a.f(Attr::offset) == 0;
      case Op::rope:
      case Op::rope_cached:
        return whole("RotaryEmbedding");
      case Op::attention:
        return whole("GroupQueryAttention") || whole("Attention");
      case Op::linear:
        return multiplies();
      case Op::fused_linear:  // the bias is Gemm's; norms, gates and sums are operators of their own in every table
        return lists("Gemm") && !a.has(Attr::act) && a.i(Attr::norm) == 0 && a.i(Attr::residual) == 0;
      case Op::embed:
      case Op::select_rows:
        return lists("Gather");
      case Op::gather_cols:
        return false;
      case Op::add:
        return lists("Add");
      case Op::scale:
        return lists("Mul");
      // How the step begins and the cache is kept is no operator of the table: the runtime's part.
      case Op::positions:
      case Op::kv_write:
      case Op::kv_read:
        return a.i(Attr::transposed) == 0;
      case Op::MatMul:
        return !a.has(Attr::alpha);
      case Op::Gemm:
      case Op::Conv: {
        const bool relu = a.has(Attr::low) && !a.has(Attr::high) && a.f(Attr::low) == 0;
        return (!a.has(Attr::low) && !a.has(Attr::high)) || ends(relu ? "Relu" : "Clip", op_info(node.op).text);
      }
      default:
        return op_info(node.op).primitive;
    }
  }

  // kv_write: by index into a buffer that stays in the graph, or else by the host.
  [[nodiscard]] bool writes_cache() const {
    const OpSupport* states = toolchain->trait("state_variables");
    return (states != nullptr && states->support == Support::yes) || whole("ScatterND") || whole("ScatterElements");
  }

  // Nodes of ours that stay whole, and of whose primitive parts one is refused: by their name, with the reason. Other
  // eyes on the same numbers are the decomposition's, not the node's.
  [[nodiscard]] std::map<std::string, std::string, std::less<>> refused_parts(const Graph& graph) const {
    std::map<std::string, std::string, std::less<>> refused;
    if (!graph.tokens()) return refused;
    std::int64_t ctx = 0;
    for (const Value& v : graph.values())
      if (v.kind == ValueKind::state) ctx = v.dims.front();
    const Graph parts =
        decompose(graph, {.tokens = *graph.tokens(), .kv = KvForm::indexed, .ctx = ctx, .floats = DType::F32});
    const Inventory inventory = take_inventory(parts, device, &*toolchain);
    for (std::size_t i = 0; i < parts.list().size(); ++i) {
      const Node& node = parts.list()[i];
      const bool view = node.op == Op::Reshape || node.op == Op::Unsqueeze || node.op == Op::Squeeze;
      if (inventory.nodes[i].site == Site::cpu && !node.origin.empty() && !view)
        refused.emplace(node.origin, fmt::format("{}: {}", op_info(node.op).text, inventory.nodes[i].why));
    }
    return refused;
  }

  [[nodiscard]] std::vector<Placement> judge(const Graph& graph) const {
    using Kind = Placement::Kind;
    const Inventory inventory = take_inventory(graph, device, toolchain ? &*toolchain : nullptr);
    const auto refused = device.npu ? refused_parts(graph) : std::map<std::string, std::string, std::less<>>{};
    std::vector<Placement> placements;
    placements.reserve(graph.list().size());
    for (std::size_t i = 0; i < graph.list().size(); ++i) {
      const Node& node = graph.list()[i];
      const Decision& decision = inventory.nodes[i];
      const auto part = refused.find(node.name);
      Placement p;
      if (decision.strategy == Strategy::precompute) {
        p = {.kind = Kind::ahead, .by = {}, .why = decision.why};
      } else if (!device.npu) {
        p = {.kind = Kind::cpu, .by = {}, .why = decision.why};
      } else if (node.op == Op::kv_write) {
        if (!writes_cache()) p = {.kind = Kind::cpu, .by = {}, .why = "the host writes new rows by index"};
      } else if (part != refused.end()) {
        p = {.kind = Kind::cpu, .by = {}, .why = part->second};
      } else if (!op_info(node.op).primitive) {
        if (!has(node)) p = {.kind = Kind::cpu, .by = {}, .why = "the table has no operator that is it"};
      } else if (decision.site == Site::cpu) {
        p = {.kind = Kind::cpu, .by = {}, .why = decision.why};
      } else if (decision.strategy == Strategy::replace) {
        p = {.kind = Kind::replace, .by = decision.with, .why = decision.why};
      } else if (decision.strategy == Strategy::merge) {
        p = {.kind = Kind::taken, .by = decision.with, .why = decision.why};
      } else if (decision.site == Site::unknown) {
        p = {.kind = Kind::taken, .by = {}, .why = fmt::format("taken as it seems: {}", decision.why)};
      } else if (decision.why != "taken") {
        p = {.kind = Kind::taken, .by = {}, .why = decision.why};
      }
      placements.push_back(std::move(p));
    }
    return placements;
  }
};

}  // namespace

Target device_target(const DeviceProfile& device, const Toolchain* toolchain) {
  Target target;
  target.name = device.id;
  if (!device.npu && device.gpu) target.other = "cpu or gpu";
  if (device.npu) {
    const UnitProfile& npu = *device.npu;
    if (const auto& bytes = npu.sram_bytes ? npu.sram_bytes : npu.sram_per_tile_bytes)
      target.on_chip_bytes = bytes->value;
    target.weight_line = line_bytes;
  }
  const auto table =
      std::make_shared<const Table>(Table{device, toolchain != nullptr ? std::optional(*toolchain) : std::nullopt});
  if (toolchain != nullptr && device.npu)
    target.has = [table](const Graph&, const Node& node) { return table->has(node); };
  if (toolchain != nullptr || !device.npu) target.judge = [table](const Graph& graph) { return table->judge(graph); };
  return target;
}

}  // namespace knapsack
