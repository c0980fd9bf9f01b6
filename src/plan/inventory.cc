#include "plan/inventory.h"
#include "plan/primitive_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "plan/killers.h"
#include "plan/operator_checks.h"
#include "plan/operator_types.h"

namespace knapsack {
namespace {

struct Equivalent {
  Op op;
  std::string_view by, how;
};
constexpr std::array equivalents{
#define KNAP_EQUIVALENT(op, by, how) Equivalent{Op::op, by, how},
#include "graph/equivalents.inc"
#undef KNAP_EQUIVALENT
};

template <class T>
const T& at(const std::vector<T>& list, int index) {
  return list[static_cast<std::size_t>(index)];
}

bool at(const std::vector<bool>& list, int index) { return list[static_cast<std::size_t>(index)]; }

class Inventor {
 public:
  Inventor(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain, const InventoryOptions& options)
      : graph_(graph),
        device_(device),
        toolchain_(toolchain),
        options_(options),
        types_(graph, device, toolchain, options.kv_bits) {}

  Inventory run() {
    out_.has_npu = device_.npu.has_value();
    by_position();
    find_merges();
    for (std::size_t i = 0; i < graph_.list().size(); ++i) out_.nodes.push_back(decide(i));
    cut();
    price();
    summarize();
    out_.killers = find_killers(graph_, device_, toolchain_, types_, out_);
    if (device_.npu && toolchain_ == nullptr)
      out_.unknown.emplace_back("what is taken: no toolchain's table is known for this device");
    if (device_.npu && toolchain_ != nullptr)
      for (const OperatorRow& each : out_.operators)
        if (each.sites[static_cast<std::size_t>(Site::unknown)] > 0)
          out_.not_listed.emplace_back(op_info(each.op).text);
    if (out_.crossings.copies > 0 && !out_.crossings_time.us)
      out_.unknown.emplace_back(
          "microseconds of crossings: the profile has no latency of the link between CPU and NPU (--link-latency-us)");
    return std::move(out_);
  }

 private:
  // What depends on nothing but positions can be made once, for all of them.
  void by_position() {
    from_position_.assign(graph_.values().size(), false);
    std::vector<bool> fixed(graph_.values().size(), false);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      const Value& tensor = graph_.values()[i];
      fixed[i] =
          tensor.kind == ValueKind::constant || (tensor.kind == ValueKind::input && tensor.name == "position_ids");
    }
    for (const Node& node : graph_.list()) {
      const bool all = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int id) { return at(fixed, id); });
      for (const int id : node.outputs)
        fixed[static_cast<std::size_t>(id)] = from_position_[static_cast<std::size_t>(id)] = all;
    }
  }

  [[nodiscard]] const OpSupport* row(std::string_view name) const {
    return toolchain_ == nullptr ? nullptr : toolchain_->op(name);
  }

  // Whether an operator may stand in the place of the node: listed, and without a condition that nobody here can check.
  [[nodiscard]] bool takes(std::string_view name, const Node& node) const {
    const OpSupport* support = row(name);
    if (support == nullptr || support->support == Support::no || toolchain_->before(support->since_version))
      return false;
    if (!support->condition.empty() || !support->written_as.empty() || !support->within.empty() || support->on_cpu)
      return false;
    return std::none_of(support->checks.begin(), support->checks.end(),
                        [&](const OpCheck& check) { return types_.binds(check) && broken(check, graph_, node, true); });
  }

  [[nodiscard]] bool takes_all(const std::vector<std::string>& names, const Node& node) const {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return takes(name, node); });
  }

  // Parts of an op of ours that the toolchain has as one operator.
  void find_merges() {
    if (toolchain_ == nullptr) return;
    std::map<std::string, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < graph_.list().size(); ++i)
      if (const Node& node = graph_.list()[i]; !at(from_position_, node.outputs.front()))
        groups[node.origin].push_back(i);
    for (auto& group : groups) {
      std::vector<std::size_t>& nodes = group.second;
      std::vector<std::string_view> into;
      bool erf = false;
      switch (graph_.list()[nodes.front()].origin_op) {
        case Op::rms_norm:
          into = {"RMSNormalization"};
          break;
        case Op::rope:
          into = {"RotaryEmbedding"};
          std::erase_if(nodes, [&](std::size_t i) { return is_layout(graph_.list()[i].op); });
          break;
        case Op::attention:
          into = {"GroupQueryAttention", "Attention"};
          break;
        case Op::gated_act: {
          const auto has = [&](Op op) {
            return std::any_of(nodes.begin(), nodes.end(), [&](std::size_t i) { return graph_.list()[i].op == op; });
          };
          erf = has(Op::Erf);
          into = {erf || has(Op::Tanh) ? "Gelu" : "Silu"};
          nodes.pop_back();  // gate * up
          break;
        }
        default:
          continue;
      }
      bool merged = false;
      for (const std::string_view each : into) merged = merged || merge(nodes, each, row(each));
      if (!merged && into.front() == "RMSNormalization") merge_root(nodes);
      // "Erf, but only within a Gelu": the pattern is there.
      if (const OpSupport* part = erf ? row("Erf") : nullptr; part != nullptr && part->within == into.front())
        merge(nodes, into.front(), part);
    }
  }

  // 1 / sqrt(x) of a norm, where one of the two is refused.
  void merge_root(const std::vector<std::size_t>& nodes) {
    for (const std::size_t i : nodes) {
      const Node& node = graph_.list()[i];
      if (node.op != Op::Sqrt && node.op != Op::Div) continue;
      if (takes("Rsqrt", node) && !(takes("Sqrt", node) && takes("Div", node))) merges_[i] = {"Rsqrt", row("Rsqrt")};
    }
  }

  bool merge(const std::vector<std::size_t>& nodes, std::string_view into, const OpSupport* support) {
    if (support == nullptr || support->support == Support::no) return false;
    if (support->support == Support::partial && support->within.empty()) return false;
    if (toolchain_->before(support->since_version)) {
      for (const std::size_t i : nodes)
        later_[i] = fmt::format("as one {} from {} on; this is {}", into, support->since_version, toolchain_->at);
      return false;
    }
    for (const std::size_t i : nodes) {
      merges_[i] = {into, support};
      later_.erase(i);
    }
    return true;
  }

  static bool is_layout(Op op) { return op == Op::Reshape || op == Op::Transpose || op == Op::Split; }

  // Toolchains list products with constant weights apart from those of two activations, some those of blocks of 4 bits
  // once more.
  [[nodiscard]] const OpSupport* row(const Node& node) const {
    const auto taken = [](const OpSupport* support) { return support != nullptr && support->support != Support::no; };
    if (types_.weighted(node)) {
      if (const OpSupport* blocks = row("MatMulNBits"); is_block_format(types_.stored(node)) && taken(blocks))
        return blocks;
      if (const OpSupport* support = row("Gemm"); taken(support)) return support;
    }
    return row(op_info(node.op).text);
  }

  [[nodiscard]] Decision taken(const Node& node, const OpSupport& support, std::string why) const {
    Decision d;
    d.site = Site::npu;
    d.source = support.source;
    const bool sensitive = op_info(node.op).cls == OpClass::sensitive;
    const TypeChoice type = types_.choose(node, support, sensitive);
    d.dtype = type.dtype;
    const bool integers = std::any_of(support.dtypes.begin(), support.dtypes.end(), [](const std::string& each) {
      return each != "fp16" && each != "fp32" && each != "bf16";
    });
    d.strategy = sensitive && d.dtype == "fp16" && integers ? Strategy::keep_fp16 : Strategy::map;
    d.why = std::move(why);
    for (const auto& [type_name, since] : support.dtypes_since_version)
      if (toolchain_->before(since))
        d.why += fmt::format("; {} from {} on, this is {}", type_name, since, toolchain_->at);
    if (!type.kv_lost.empty()) d.why += fmt::format("; no KV cache of 16 bits: {}", type.kv_lost);
    if (types_.weighted(node) && is_block_format(types_.stored(node))) d.why += blocks(node, support, type);
    if (!support.advice.empty()) d.why += fmt::format("; {}", support.advice);
    return d;
  }

  [[nodiscard]] std::string blocks(const Node& node, const OpSupport& support, const TypeChoice& type) const {
    const std::string stored = types_.stored(node);
    if (!type.blocks_lost.empty()) return fmt::format("; no {} blocks: {}", stored, type.blocks_lost);
    for (const OpCheck& check : support.checks)
      if (check.rule == CheckRule::stored &&
          std::find(check.types.begin(), check.types.end(), stored) == check.types.end())
        return fmt::format("; {} is quantized anew, {} goes as it is", stored, fmt::join(check.types, " or "));
    return {};
  }

  [[nodiscard]] static Decision off(const OpSupport& support, std::string why) {
    Decision d;
    d.site = Site::cpu;
    d.strategy = Strategy::cpu;
    d.source = support.source;
    d.why = std::move(why);
    return d;
  }

  [[nodiscard]] Decision refused(const Node& node, const OpSupport& support, const std::string& why) const {
    for (const Equivalent& each : equivalents) {
      if (each.op != node.op) continue;
      bool all = true;
      const OpSupport* last = nullptr;
      for (std::size_t begin = 0; begin < each.by.size();) {
        const std::size_t end = std::min(each.by.find(' ', begin), each.by.size());
        const std::string_view name = each.by.substr(begin, end - begin);
        all = all && takes(name, node);
        last = row(name);
        begin = end + 1;
      }
      if (!all || last == nullptr) continue;
      Decision d = taken(node, *last, fmt::format("{} instead; refused: {}", each.how, why));
      d.strategy = Strategy::replace;
      d.with = each.by;
      return d;
    }
    return off(support, why);
  }

  // What a shape makes of an operator that is taken: nothing where it keeps every check.
  [[nodiscard]] std::optional<Decision> refused_by_shape(const Node& node, const OpSupport& support) const {
    for (const OpCheck& check : support.checks) {
      if (!types_.binds(check)) continue;
      auto why = broken(check, graph_, node);
      if (!why) continue;
      if (const std::string when = types_.when(check); !when.empty()) *why += fmt::format(" {}", when);
      const auto how = kept_reshaped(check, graph_, node);
      if (!how || !takes("Reshape", node)) return refused(node, support, *why);
      Decision d = taken(node, support, fmt::format("{}: {}", *why, *how));
      d.strategy = Strategy::replace;
      d.with = "the same, reshaped";
      return d;
    }
    return std::nullopt;
  }

  // A dimension longer than the NPU's longest.
  [[nodiscard]] std::optional<Decision> too_long(const Node& node, const OpSupport& support) const {
    if (!device_.npu->limits.tensor_dim) return std::nullopt;
    const std::int64_t most = device_.npu->limits.tensor_dim->value;
    for (const auto* ids : {&node.outputs, &node.inputs}) {
      for (const int id : *ids) {
        const Value& tensor = graph_.value(id);
        for (const std::int64_t dim : tensor.dims) {
          if (dim <= most) continue;
          std::string why = fmt::format("a dimension is {}; at most {} is taken", dim, most);
          if (!types_.weighted(node)) return off(support, std::move(why));
          const std::int64_t parts = (dim + most - 1) / most;
          Decision d = taken(node, support, std::move(why));
          d.strategy = Strategy::replace;
          d.with = fmt::format("{} products of parts of the matrix", parts);
          return d;
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] Decision decide(std::size_t index) const {
    Decision d = decide_alone(index);
    if (d.strategy == Strategy::keep_fp16) d.why += "; quantization hurts it, and fp16 is taken";
    if (const auto later = later_.find(index); later != later_.end() && d.strategy != Strategy::merge)
      d.why += fmt::format("; {}", later->second);
    return d;
  }

  [[nodiscard]] Decision decide_alone(std::size_t index) const {
    const Node& node = graph_.list()[index];
    Decision d;
    if (at(from_position_, node.outputs.front())) {
      d.site = Site::ahead;
      d.strategy = Strategy::precompute;
      d.why = "of positions alone: made once, its rows are inputs";
      return d;
    }
    if (!device_.npu) {
      d.site = Site::cpu;
      d.strategy = Strategy::cpu;
      d.why = "the device has no NPU";
      return d;
    }
    if (node.purpose == Purpose::kv_append) return append(node);
    if (node.op == Op::Cast && floats(node)) {
      d.site = Site::ahead;
      d.strategy = Strategy::merge;
      d.with = "its neighbours";
      d.why = "each operator of a compiled graph has its type";
      return d;
    }
    if (const auto merge = merges_.find(index); merge != merges_.end()) {
      const auto& [into, support] = merge->second;
      d = taken(node, *support, fmt::format("its neighbours and it are one {}", into));
      d.dtype = types_.choose(node, *support, true).dtype;
      d.strategy = Strategy::merge;
      d.with = into;
      return d;
    }
    const OpSupport* support = row(node);
    if (is_dynamic(graph_, node) && toolchain_ != nullptr) {
      const OpSupport* trait = toolchain_->trait("dynamic_shape");
      if (trait != nullptr && trait->support != Support::yes)
        return off(*trait, fmt::format("its size depends on data; {}", trait->constraint));
    }
    if (support == nullptr) {
      d.why = toolchain_ == nullptr ? "no table of a toolchain" : "the table does not list it";
      return d;
    }
    return by_row(node, *support);
  }

  [[nodiscard]] Decision by_row(const Node& node, const OpSupport& support) const {
    const std::string& constraint = support.constraint;
    if (support.support == Support::no) return refused(node, support, constraint.empty() ? "refused" : constraint);
    if (toolchain_->before(support.since_version))
      return refused(node, support, fmt::format("taken from {} on; this is {}", support.since_version, toolchain_->at));
    if (support.on_cpu) return off(support, constraint.empty() ? "runs on the CPU" : constraint);
    if (!support.within.empty())
      return refused(node, support, fmt::format("taken within {} only, which it is no part of", support.within));
    if (!support.written_as.empty()) {
      if (!takes_all(support.written_as, node)) return refused(node, support, constraint);
      Decision d = taken(node, support, "the toolchain writes it otherwise");
      d.strategy = Strategy::replace;
      d.with = fmt::format("{}", fmt::join(support.written_as, " "));
      return d;
    }
    if (auto d = refused_by_shape(node, support)) return *d;
    if (auto d = too_long(node, support)) return *d;
    if (!support.condition.empty())
      return taken(node, support, fmt::format("taken on a condition: {}", support.condition));
    if (support.support == Support::yes || !support.advice.empty()) return taken(node, support, "taken");
    return taken(node, support, fmt::format("taken ({})", constraint));
  }

  [[nodiscard]] bool floats(const Node& node) const {
    const auto is = [&](int id) {
      const DType type = graph_.value(id).type();
      return type == DType::F16 || type == DType::F32;
    };
    return is(node.inputs[0]) && is(node.outputs[0]);
  }

  [[nodiscard]] Decision append(const Node& node) const {
    Decision d;
    d.strategy = Strategy::replace;
    const OpSupport* state = toolchain_ == nullptr ? nullptr : toolchain_->trait("state_variables");
    const OpSupport* scatter = row("ScatterND");
    if (state != nullptr && state->support == Support::yes) {
      d.site = Site::npu;
      d.with = "a state variable";
      d.source = state->source;
      d.why = "written by index into a buffer of full length that stays in the graph";
    } else if (takes("ScatterND", node)) {
      d.site = Site::npu;
      d.with = "ScatterND";
      d.dtype = types_.cache_type(*scatter);
      d.source = scatter->source;
      d.why = "written by index into a buffer of full length";
    } else {
      d.site = Site::ahead;
      d.with = "a write by the host";
      d.why = "the graph gives the new row, the host writes it by index into a buffer of full length";
    }
    return d;
  }

  [[nodiscard]] static bool in_graph(Site site) { return site != Site::ahead; }
  [[nodiscard]] static bool on_npu(Site site) { return site == Site::npu || site == Site::unknown; }

  // Pieces: nodes of one side that need no result of the other side's between them are one; levels of the CPU are even,
  // those of the NPU odd. What is made ahead hands its inputs' level on.
  void cut() {
    std::vector<std::int64_t> level(graph_.values().size(), 0);
    std::map<std::int64_t, bool> pieces;  // level: has a matrix product
    for (std::size_t i = 0; i < graph_.list().size(); ++i) {
      const Node& node = graph_.list()[i];
      Decision& d = out_.nodes[i];
      std::int64_t mine = 0;
      for (const int id : node.inputs) mine = std::max(mine, at(level, id));
      if (in_graph(d.site) && (mine % 2 == 1) != on_npu(d.site)) ++mine;
      for (const int id : node.outputs) level[static_cast<std::size_t>(id)] = mine;
      if (!in_graph(d.site) || !on_npu(d.site)) continue;
      d.piece = mine / 2;
      bool& matrix = pieces[d.piece];
      matrix = matrix || op_info(node.op).cls == OpClass::matrix;
    }
    out_.pieces = static_cast<std::int64_t>(pieces.size());
    for (const auto& [piece, matrix] : pieces) out_.tiny_pieces += matrix ? 0 : 1;
  }

  [[nodiscard]] CrossingTime time_of(const Crossing& cost) const {
    if (cost.copies == 0) return {0, 0};
    const LinkProfile* link = device_.link(UnitKind::cpu, UnitKind::npu);
    const bool shared = link != nullptr && link->shared_memory && link->shared_memory->value;
    std::optional<double> latency = options_.link_latency_us;
    if (!latency && link != nullptr && link->latency_us) latency = link->latency_us->value;
    const Number* gb_per_s = nullptr;
    const MemoryProfile& memory = device_.memory;
    if (shared && memory.theoretical_gb_per_s)
      gb_per_s = &*memory.theoretical_gb_per_s;
    else if (shared && memory.sustained_gb_per_s)
      gb_per_s = &*memory.sustained_gb_per_s;
    else if (!shared && link != nullptr && link->bandwidth_gb_per_s)
      gb_per_s = &*link->bandwidth_gb_per_s;
    CrossingTime out;
    if (latency) out.at_least_us = *latency * static_cast<double>(cost.copies);
    if (gb_per_s != nullptr) {
      const double bytes = static_cast<double>(cost.to_cpu_bytes + cost.to_npu_bytes);
      out.at_least_us = out.at_least_us.value_or(0) + bytes / (gb_per_s->value * 1e3);
    }
    // Shared bytes pass through memory, too; where its bandwidth is not known, handing over is what is left.
    if (latency && (shared || gb_per_s != nullptr)) out.us = out.at_least_us;
    return out;
  }

  void price() {
    std::vector<int> maker(graph_.values().size(), -1);
    for (std::size_t i = 0; i < graph_.list().size(); ++i)
      for (const int id : graph_.list()[i].outputs) maker[static_cast<std::size_t>(id)] = static_cast<int>(i);
    // Where a tensor really comes from: what is merged into its neighbours only passes it on.
    const auto origin = [&](int id) {
      int node = at(maker, id);
      while (node >= 0 && at(out_.nodes, node).site == Site::ahead) {
        id = at(graph_.list(), node).inputs.back();
        node = at(out_.nodes, node).strategy == Strategy::merge ? at(maker, id) : -1;
      }
      return std::pair{id, node};
    };
    std::set<int> to_cpu;
    std::set<int> to_npu;
    for (std::size_t i = 0; i < graph_.list().size(); ++i) {
      Decision& here = out_.nodes[i];
      if (!in_graph(here.site)) continue;
      for (const int input : graph_.list()[i].inputs) {
        const auto [id, from] = origin(input);
        if (from < 0) continue;
        Decision& there = out_.nodes[static_cast<std::size_t>(from)];
        const std::int64_t bytes = value_bytes(graph_.value(id));
        if (on_npu(there.site) && !on_npu(here.site)) {
          here.cost.to_cpu_bytes += bytes;
          ++here.cost.copies;
          if (to_cpu.insert(id).second) out_.crossings.to_cpu_bytes += bytes;
        } else if (!on_npu(there.site) && on_npu(here.site) && to_npu.insert(id).second) {
          there.cost.to_npu_bytes += bytes;
          ++there.cost.copies;
          out_.crossings.to_npu_bytes += bytes;
        }
      }
    }
    out_.crossings.copies = static_cast<std::int64_t>(to_cpu.size() + to_npu.size());
    out_.crossings_time = time_of(out_.crossings);
  }

  void summarize() {
    std::map<Op, OperatorRow> rows;
    for (std::size_t i = 0; i < graph_.list().size(); ++i) {
      const Decision& d = out_.nodes[i];
      OperatorRow& row = rows[graph_.list()[i].op];
      row.op = graph_.list()[i].op;
      ++row.count;
      ++row.sites[static_cast<std::size_t>(d.site)];
      const auto same = [&](const Decision& each) {
        return std::tie(each.strategy, each.site, each.dtype, each.with, each.why, each.source) ==
               std::tie(d.strategy, d.site, d.dtype, d.with, d.why, d.source);
      };
      auto way = std::find_if(row.ways.begin(), row.ways.end(), same);
      if (way == row.ways.end()) {
        row.ways.push_back(d);
        row.ways.back().cost = {};
        row.counts.push_back(0);
        way = row.ways.end() - 1;
      }
      ++row.counts[static_cast<std::size_t>(way - row.ways.begin())];
      for (Crossing* cost : {&way->cost, &row.cost}) {
        cost->to_cpu_bytes += d.cost.to_cpu_bytes;
        cost->to_npu_bytes += d.cost.to_npu_bytes;
        cost->copies += d.cost.copies;
      }
    }
    for (auto& [op, row] : rows) {
      row.time = time_of(row.cost);
      row.times.reserve(row.ways.size());
      for (const Decision& way : row.ways) row.times.push_back(time_of(way.cost));
      out_.operators.push_back(std::move(row));
    }
  }

  const Graph& graph_;
  const DeviceProfile& device_;
  const Toolchain* toolchain_;
  InventoryOptions options_;
  OperatorTypes types_;
  std::vector<bool> from_position_;
  std::map<std::size_t, std::pair<std::string_view, const OpSupport*>> merges_;
  std::map<std::size_t, std::string> later_;  // what a later version would merge it into
  Inventory out_;
};

}  // namespace

std::string_view strategy_name(Strategy strategy) {
  constexpr std::array<std::string_view, 7> names{"map",       "merge", "precompute", "replace",
                                                  "keep_fp16", "cpu",   "unknown"};
  return names[static_cast<std::size_t>(strategy)];
}

std::string_view site_name(Site site) {
  constexpr std::array<std::string_view, 4> names{"npu", "cpu", "ahead", "unknown"};
  return names[static_cast<std::size_t>(site)];
}

Inventory take_inventory(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain,
                         const InventoryOptions& options) {
  return Inventor(graph, device, toolchain, options).run();
}

}  // namespace knapsack
