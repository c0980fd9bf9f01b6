#include "plan/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace knapsack {
namespace {

struct Equivalent {
  OnnxOp op;
  std::string_view by, how;
};
constexpr std::array equivalents{
#define KNAP_EQUIVALENT(op, by, how) Equivalent{OnnxOp::op, by, how},
#include "plan/equivalents.inc"
#undef KNAP_EQUIVALENT
};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <class T>
const T& at(const std::vector<T>& list, int index) {
  return list[static_cast<std::size_t>(index)];
}

bool at(const std::vector<bool>& list, int index) { return list[static_cast<std::size_t>(index)]; }

class Inventor {
 public:
  Inventor(const PrimitiveGraph& graph, const DeviceProfile& device, const Toolchain* toolchain)
      : graph_(graph), device_(device), toolchain_(toolchain) {
    if (device.npu) generation_ = device.npu->generation;
  }

  Inventory run() {
    by_position();
    find_merges();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) out_.nodes.push_back(decide(i));
    cut();
    price();
    summarize();
    killers();
    if (!device_.npu) {
      out_.unknown.emplace_back("where anything runs: the profile has no NPU");
    } else if (toolchain_ == nullptr) {
      out_.unknown.emplace_back("what is taken: no toolchain's table is known for this device");
    }
    if (out_.crossings.copies > 0 && !out_.crossings_us)
      out_.unknown.emplace_back(
          "microseconds of crossings: the profile has no latency of the link between CPU and NPU");
    return std::move(out_);
  }

 private:
  // What depends on nothing but positions can be made once, for all of them.
  void by_position() {
    from_position_.assign(graph_.tensors.size(), false);
    std::vector<bool> fixed(graph_.tensors.size(), false);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      const PrimitiveTensor& tensor = graph_.tensors[i];
      fixed[i] =
          tensor.kind == ValueKind::constant || (tensor.kind == ValueKind::input && tensor.name == "position_ids");
    }
    for (const PrimitiveNode& node : graph_.nodes) {
      const bool all = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int id) { return at(fixed, id); });
      for (const int id : node.outputs)
        fixed[static_cast<std::size_t>(id)] = from_position_[static_cast<std::size_t>(id)] = all;
    }
  }

  [[nodiscard]] const OpSupport* row(std::string_view name) const {
    return toolchain_ == nullptr ? nullptr : toolchain_->op(name);
  }

  [[nodiscard]] bool takes(std::string_view name) const {
    const OpSupport* support = row(name);
    if (support == nullptr || support->support == Support::no) return false;
    return support->support == Support::yes || held(*support);
  }

  // Constraints that every graph of this form keeps: one sequence, static shapes, indices from 0.
  [[nodiscard]] bool held(const OpSupport& support) const {
    const std::string& c = support.constraint;
    if (support.constrained_before_generation && generation_ && *generation_ >= *support.constrained_before_generation)
      return true;
    return c == "batch 1" || c == "static shape only" || c == "positive indices only" || c == "constant B" ||
           c == "constant weights" || c == "alpha = 1";
  }

  // Parts of an op of ours that the toolchain has as one operator.
  void find_merges() {
    std::map<std::string, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (const PrimitiveNode& node = graph_.nodes[i]; !at(from_position_, node.outputs.front()))
        groups[node.from_node].push_back(i);
    for (auto& [name, nodes] : groups) {
      std::string_view into;
      switch (graph_.nodes[nodes.front()].from) {
        case Op::rms_norm:
          into = "RMSNormalization";
          break;
        case Op::rope:
          into = "RotaryEmbedding";
          std::erase_if(nodes, [&](std::size_t i) { return is_layout(graph_.nodes[i].op); });
          break;
        case Op::attention:
          into = takes("GroupQueryAttention") ? "GroupQueryAttention" : "Attention";
          break;
        case Op::gated_act: {
          const bool gelu = std::any_of(nodes.begin(), nodes.end(), [&](std::size_t i) {
            return graph_.nodes[i].op == OnnxOp::Erf || graph_.nodes[i].op == OnnxOp::Tanh;
          });
          into = gelu ? "Gelu" : "Silu";
          nodes.pop_back();  // gate * up
          break;
        }
        default:
          continue;
      }
      const OpSupport* support = row(into);
      if (support == nullptr || support->support != Support::yes) continue;
      for (const std::size_t i : nodes) merges_[i] = into;
    }
  }

  static bool is_layout(OnnxOp op) { return op == OnnxOp::Reshape || op == OnnxOp::Transpose || op == OnnxOp::Split; }

  [[nodiscard]] bool dynamic(const PrimitiveNode& node) const {
    const auto is = [&](int id) { return graph_.tensor(id).shape.dynamic; };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is);
  }

  // Toolchains list products with constant weights apart from those of two activations.
  [[nodiscard]] const OpSupport* row(const PrimitiveNode& node) const {
    if (weighted(node))
      if (const OpSupport* support = row("Gemm"); support != nullptr && support->support != Support::no) return support;
    return row(onnx_name(node.op));
  }

  [[nodiscard]] bool weighted(const PrimitiveNode& node) const {
    return node.op == OnnxOp::MatMul && graph_.tensor(node.inputs[1]).kind == ValueKind::constant;
  }

  // The type it runs at: fp16 for what quantization hurts, else the narrowest that keeps activations of 16 bits.
  [[nodiscard]] std::string dtype(const OpSupport& support, bool sensitive, bool weights) const {
    const auto lists = [&](std::string_view type) {
      if (type == "a16w4" && !weights) return false;
      if (type == "fp16" && support.fp16_since_generation && generation_ &&
          *generation_ < *support.fp16_since_generation)
        return false;
      return std::find(support.dtypes.begin(), support.dtypes.end(), type) != support.dtypes.end();
    };
    constexpr std::array<std::string_view, 10> exact{"fp16",  "bf16", "a16w8", "int16", "uint16",
                                                     "a16w4", "int8", "uint8", "a8w8",  "fp32"};
    constexpr std::array<std::string_view, 10> narrow{"a16w4",  "a16w8", "int8", "uint8", "a8w8",
                                                      "uint16", "int16", "fp16", "bf16",  "fp32"};
    for (const std::string_view type : sensitive ? exact : narrow)
      if (lists(type)) return std::string(type);
    return {};
  }

  [[nodiscard]] Decision taken(const PrimitiveNode& node, const OpSupport& support, std::string why) const {
    Decision d;
    d.site = Site::npu;
    d.source = support.source;
    d.dtype = dtype(support, onnx_class(node.op) == OpClass::sensitive, weighted(node));
    const bool integers = std::any_of(support.dtypes.begin(), support.dtypes.end(), [](const std::string& type) {
      return type != "fp16" && type != "fp32" && type != "bf16";
    });
    d.strategy = onnx_class(node.op) == OpClass::sensitive && d.dtype == "fp16" && integers ? Strategy::keep_fp16
                                                                                            : Strategy::map;
    d.why = std::move(why);
    if (d.strategy == Strategy::keep_fp16) d.why += "; quantization hurts it, and fp16 is taken";
    return d;
  }

  [[nodiscard]] static Decision off(const OpSupport& support, std::string why) {
    Decision d;
    d.site = Site::cpu;
    d.strategy = Strategy::cpu;
    d.source = support.source;
    d.why = std::move(why);
    return d;
  }

  [[nodiscard]] Decision refused(const PrimitiveNode& node, const OpSupport& support) const {
    for (const Equivalent& each : equivalents) {
      if (each.op != node.op) continue;
      bool all = true;
      const OpSupport* last = nullptr;
      for (std::size_t begin = 0; begin < each.by.size();) {
        const std::size_t end = std::min(each.by.find(' ', begin), each.by.size());
        const std::string_view name = each.by.substr(begin, end - begin);
        all = all && takes(name);
        last = row(name);
        begin = end + 1;
      }
      if (!all || last == nullptr) continue;
      Decision d = taken(node, *last, fmt::format("refused ({}); {}", support.constraint, each.how));
      d.strategy = Strategy::replace;
      d.with = each.by;
      return d;
    }
    return off(support, support.constraint.empty() ? "refused" : support.constraint);
  }

  [[nodiscard]] Decision decide(std::size_t index) const {
    const PrimitiveNode& node = graph_.nodes[index];
    Decision d;
    if (at(from_position_, node.outputs.front())) {
      d.site = Site::ahead;
      d.strategy = Strategy::precompute;
      d.why = "depends on positions alone: a table made once, whose rows are inputs of the graph";
      return d;
    }
    if (!device_.npu) {
      d.site = Site::cpu;
      d.strategy = Strategy::cpu;
      d.why = "the profile has no NPU";
      return d;
    }
    if (node.purpose == Purpose::kv_append) return append();
    if (node.op == OnnxOp::Cast && floats(node)) {
      d.site = Site::ahead;
      d.strategy = Strategy::merge;
      d.with = "its neighbours";
      d.why = "a compiled graph chooses the type of each operator: nothing is left to convert";
      return d;
    }
    if (const auto merge = merges_.find(index); merge != merges_.end()) {
      const OpSupport& support = *row(merge->second);
      d = taken(node, support, fmt::format("its neighbours and it are one {}", merge->second));
      d.dtype = dtype(support, true, false);
      d.strategy = Strategy::merge;
      d.with = merge->second;
      return d;
    }
    const OpSupport* support = row(node);
    if (dynamic(node) && toolchain_ != nullptr) {
      const OpSupport* trait = toolchain_->trait("dynamic_shape");
      if (trait != nullptr && trait->support != Support::yes)
        return off(*trait, fmt::format("its size depends on data; {}", trait->constraint));
    }
    if (support == nullptr) {
      d.why = toolchain_ == nullptr ? "no table of a toolchain" : "the table does not list it";
      return d;
    }
    switch (support->support) {
      case Support::yes:
        return taken(node, *support, "taken");
      case Support::no:
        return refused(node, *support);
      case Support::partial:
        break;
    }
    const std::string& c = support->constraint;
    if (held(*support)) return taken(node, *support, fmt::format("taken ({})", c));
    if (has(c, "CPU")) return off(*support, c);
    if (has(c, "rank 4") && graph_.tensor(node.inputs[0]).shape.dims.size() > 4) return refused(node, *support);
    d = taken(node, *support, fmt::format("taken on a condition: {}", c));
    if (c.starts_with("no ") && has(c, ":")) {
      d.strategy = Strategy::replace;
      d.with = c.substr(c.find(':') + 2);
      d.why = "the toolchain has no such operator and writes it otherwise";
    }
    return d;
  }

  [[nodiscard]] bool floats(const PrimitiveNode& node) const {
    const auto is = [&](int id) {
      const OnnxType type = graph_.tensor(id).shape.type;
      return type == OnnxType::float16 || type == OnnxType::float32;
    };
    return is(node.inputs[0]) && is(node.outputs[0]);
  }

  [[nodiscard]] Decision append() const {
    Decision d;
    d.strategy = Strategy::replace;
    const OpSupport* state = toolchain_ == nullptr ? nullptr : toolchain_->trait("state_variables");
    const OpSupport* scatter = row("ScatterND");
    if (state != nullptr && state->support == Support::yes) {
      d.site = Site::npu;
      d.with = "a state variable";
      d.source = state->source;
      d.why = "written by index into a buffer of full length that stays in the graph";
    } else if (takes("ScatterND")) {
      d.site = Site::npu;
      d.with = "ScatterND";
      d.dtype = dtype(*scatter, false, false);
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
    std::vector<std::int64_t> level(graph_.tensors.size(), 0);
    std::map<std::int64_t, bool> pieces;  // level: has a matrix product
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const PrimitiveNode& node = graph_.nodes[i];
      Decision& d = out_.nodes[i];
      std::int64_t mine = 0;
      for (const int id : node.inputs) mine = std::max(mine, at(level, id));
      if (in_graph(d.site) && (mine % 2 == 1) != on_npu(d.site)) ++mine;
      for (const int id : node.outputs) level[static_cast<std::size_t>(id)] = mine;
      if (!in_graph(d.site) || !on_npu(d.site)) continue;
      d.piece = mine / 2;
      bool& matrix = pieces[d.piece];
      matrix = matrix || onnx_class(node.op) == OpClass::matrix;
    }
    out_.pieces = static_cast<std::int64_t>(pieces.size());
    for (const auto& [piece, matrix] : pieces) out_.tiny_pieces += matrix ? 0 : 1;
  }

  [[nodiscard]] std::optional<double> microseconds(const Crossing& cost) const {
    if (cost.copies == 0) return 0;
    const LinkProfile* link = device_.link(UnitKind::cpu, UnitKind::npu);
    if (link == nullptr || !link->latency_us) return {};
    double us = link->latency_us->value * static_cast<double>(cost.copies);
    const bool shared = link->shared_memory && link->shared_memory->value;
    if (!shared) {
      if (!link->bandwidth_gb_per_s) return {};
      us += static_cast<double>(cost.to_cpu_bytes + cost.to_npu_bytes) / (link->bandwidth_gb_per_s->value * 1e3);
    }
    return us;
  }

  void price() {
    std::vector<int> maker(graph_.tensors.size(), -1);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const int id : graph_.nodes[i].outputs) maker[static_cast<std::size_t>(id)] = static_cast<int>(i);
    // Where a tensor really comes from: what is merged into its neighbours only passes it on.
    const auto origin = [&](int id) {
      int node = at(maker, id);
      while (node >= 0 && at(out_.nodes, node).site == Site::ahead) {
        id = at(graph_.nodes, node).inputs.back();
        node = at(out_.nodes, node).strategy == Strategy::merge ? at(maker, id) : -1;
      }
      return std::pair{id, node};
    };
    std::set<int> to_cpu;
    std::set<int> to_npu;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Decision& here = out_.nodes[i];
      if (!in_graph(here.site)) continue;
      for (const int input : graph_.nodes[i].inputs) {
        const auto [id, from] = origin(input);
        if (from < 0) continue;
        Decision& there = out_.nodes[static_cast<std::size_t>(from)];
        const std::int64_t bytes = graph_.tensor(id).bytes;
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
    out_.crossings_us = microseconds(out_.crossings);
  }

  void summarize() {
    std::map<OnnxOp, OperatorRow> rows;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Decision& d = out_.nodes[i];
      OperatorRow& row = rows[graph_.nodes[i].op];
      row.op = graph_.nodes[i].op;
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
      row.cost_us = microseconds(row.cost);
      out_.operators.push_back(std::move(row));
    }
  }

  void killer(std::string id, std::int64_t count, std::string example, std::string what, std::string fix) {
    if (count > 0) out_.killers.push_back({std::move(id), count, std::move(example), std::move(what), std::move(fix)});
  }

  template <class Predicate>
  std::pair<std::int64_t, std::string> count(Predicate predicate) const {
    std::pair<std::int64_t, std::string> found{0, {}};
    for (const PrimitiveNode& node : graph_.nodes)
      if (predicate(node) && found.first++ == 0) found.second = node.name;
    return found;
  }

  void killers() {
    std::int64_t rewritten = 0;
    const auto appends = count([&](const PrimitiveNode& node) {
      if (node.purpose != Purpose::kv_append) return false;
      rewritten += graph_.tensor(node.outputs[0]).bytes;
      return true;
    });
    killer("kv_concat", appends.first, appends.second,
           fmt::format("the KV cache grows by Concat: {} bytes are written anew at each step", rewritten),
           "write the new row by index into a buffer of full length");
    const auto tables =
        count([](const PrimitiveNode& node) { return node.op == OnnxOp::Sin || node.op == OnnxOp::Cos; });
    killer("rope_sin_cos", tables.first, tables.second, "RoPE's Sin and Cos are computed in the graph",
           "precompute both as tables by position");
    const auto sizes = count([&](const PrimitiveNode& node) { return dynamic(node); });
    killer("dynamic_dims", sizes.first, sizes.second, "sizes that depend on data",
           "compute every expert for every token, or one graph an expert that the host starts");
    std::int64_t infinite = 0;
    std::string example;
    for (const PrimitiveNode& node : graph_.nodes)
      for (const int id : node.inputs)
        if (graph_.tensor(id).minus_infinity && infinite++ == 0) example = node.name;
    const OpSupport* trait = toolchain_ == nullptr ? nullptr : toolchain_->trait("infinite_mask");
    killer("infinite_mask", infinite, example,
           fmt::format("the mask holds minus infinity{}",
                       trait == nullptr ? "" : ", which this toolchain cannot represent"),
           "a large finite number, -65504 at most in fp16, -1e4 where scores are quantized");
    const auto indexed = count([](const PrimitiveNode& node) {
      return node.op == OnnxOp::Gather || node.op == OnnxOp::GatherElements || node.op == OnnxOp::GatherND ||
             node.op == OnnxOp::ScatterElements || node.op == OnnxOp::ScatterND;
    });
    killer("gather_scatter", indexed.first, indexed.second, "Gather or Scatter: memory is read or written by index",
           "look the embedding up on the CPU; route experts on the host");
    std::int64_t wide = 0;
    std::string first;
    for (const PrimitiveTensor& tensor : graph_.tensors)
      if (tensor.shape.type == OnnxType::int64 && tensor.kind != ValueKind::constant && wide++ == 0)
        first = tensor.name;
    killer("int64_indices", wide, first, "indices of 64 bits", "export them as int32");
    killer("tiny_fragments", out_.tiny_pieces, {},
           "pieces of the NPU's without a matrix product: they cost more to start than they save",
           "run them on the CPU with what is around them, or have their neighbours taken");
    missing_types();
  }

  void missing_types() {
    if (!device_.npu) return;
    std::set<std::string> seen;
    for (const PrimitiveNode& node : graph_.nodes) {
      const OpSupport* support = row(node);
      if (support == nullptr || !generation_) continue;
      if (support->constrained_before_generation && *generation_ < *support->constrained_before_generation &&
          seen.insert(support->name).second)
        killer("dtype_missing", 1, node.name,
               fmt::format("{}: generation {} is before {}: {}", support->name, *generation_,
                           *support->constrained_before_generation, support->constraint),
               "take the type that this generation has, or a later NPU");
      if (support->fp16_since_generation && *generation_ < *support->fp16_since_generation &&
          seen.insert("fp16").second)
        killer("dtype_missing", 1, node.name,
               fmt::format("fp16 is taken from generation {} on, this is {}", *support->fp16_since_generation,
                           *generation_),
               "quantize everything, with activations of 16 bits where it hurts");
    }
    std::int64_t blocks = 0;
    std::string example;
    for (const PrimitiveTensor& tensor : graph_.tensors)
      if ((tensor.stored.starts_with("Q4") || tensor.stored.starts_with("IQ4")) && blocks++ == 0) example = tensor.name;
    if (device_.npu->features && !lists("a16w4-block"))
      killer("dtype_missing", std::max<std::int64_t>(blocks, 1), example,
             "weights of 4 bits in blocks are not taken by this NPU", "4 bits a channel, or 8 bits");
    if (device_.npu->features && !lists("kv-16bit"))
      killer("dtype_missing", 1, {}, "a KV cache of 16 bits is not taken by this NPU", "a KV cache of 8 bits");
    const OpSupport* trait = toolchain_ == nullptr ? nullptr : toolchain_->trait("int4_weights");
    if (trait != nullptr && trait->support == Support::no)
      killer("dtype_missing", std::max<std::int64_t>(blocks, 1), example,
             fmt::format("weights of 4 bits are refused: {}", trait->constraint), "weights of 8 bits");
  }

  [[nodiscard]] bool lists(std::string_view feature) const {
    const auto& all = device_.npu->features->value;
    return std::find(all.begin(), all.end(), feature) != all.end();
  }

  const PrimitiveGraph& graph_;
  const DeviceProfile& device_;
  const Toolchain* toolchain_;
  std::optional<std::int64_t> generation_;
  std::vector<bool> from_position_;
  std::map<std::size_t, std::string_view> merges_;
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

Inventory take_inventory(const PrimitiveGraph& graph, const DeviceProfile& device, const Toolchain* toolchain) {
  return Inventor(graph, device, toolchain).run();
}

}  // namespace knapsack
