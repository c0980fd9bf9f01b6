#include "plan/killers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "plan/operator_checks.h"
#include "plan/primitive_values.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

class Finder {
 public:
  Finder(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain, const OperatorTypes& types,
         const Inventory& inventory)
      : graph_(graph), device_(device), toolchain_(toolchain), types_(types), inventory_(inventory) {}

  std::vector<Killer> run() {
    graph_shape();
    if (inventory_.has_npu) {
      add("tiny_fragments", inventory_.tiny_pieces, {},
          "pieces of the NPU's without a matrix product: they cost more to start than they save",
          "run them on the CPU with what is around them, or have their neighbours taken");
      missing_types();
    }
    return std::move(out_);
  }

 private:
  void add(std::string id, std::int64_t count, std::string example, std::string what, std::string fix) {
    if (count > 0) out_.push_back({std::move(id), count, std::move(example), std::move(what), std::move(fix)});
  }

  struct Found {
    std::int64_t count = 0;
    std::string example{};
  };
  template <class Predicate>
  Found count(Predicate predicate) const {
    Found found;
    for (const Node& node : graph_.list())
      if (predicate(node) && found.count++ == 0) found.example = node.name;
    return found;
  }

  [[nodiscard]] const OpSupport* row(std::string_view name) const {
    return toolchain_ == nullptr ? nullptr : toolchain_->op(name);
  }
  [[nodiscard]] const OpSupport* trait(std::string_view name) const {
    return toolchain_ == nullptr ? nullptr : toolchain_->trait(name);
  }

  void graph_shape() {
    std::int64_t rewritten = 0;
    const Found appends = count([&](const Node& node) {
      if (node.purpose != Purpose::kv_append) return false;
      rewritten += value_bytes(graph_.value(node.outputs[0]));
      return true;
    });
    add("kv_concat", appends.count, appends.example,
        fmt::format("the KV cache grows by Concat: {} are written anew at each step",
                    format_bytes(static_cast<double>(rewritten))),
        "write the new row by index into a buffer of full length");
    latents();
    const Found tables = count([](const Node& node) { return node.op == Op::Sin || node.op == Op::Cos; });
    add("rope_sin_cos", tables.count, tables.example, "RoPE's Sin and Cos are computed in the graph",
        "precompute both as tables by position");
    const Found sizes = count([&](const Node& node) { return is_dynamic(graph_, node); });
    add("dynamic_dims", sizes.count, sizes.example, "sizes that depend on data",
        "compute every expert for every token, or one graph an expert that the host starts");
    const Found infinite = count([&](const Node& node) {
      for (const int id : node.inputs)
        if (is_minus_infinity(graph_.value(id))) return true;
      return false;
    });
    add("infinite_mask", infinite.count, infinite.example,
        fmt::format("the mask holds minus infinity{}",
                    trait("infinite_mask") == nullptr ? "" : ", which this toolchain cannot represent"),
        "a large finite number, -65504 at most in fp16, -1e4 where scores are quantized");
    const Found indexed = count([](const Node& node) {
      return node.op == Op::Gather || node.op == Op::GatherElements || node.op == Op::GatherND ||
             node.op == Op::ScatterElements || node.op == Op::ScatterND;
    });
    const bool experts = indexed.count > 1;
    add("gather_scatter", indexed.count, indexed.example, "Gather or Scatter: memory is read or written by index",
        experts ? "look the embedding up on the CPU; route experts on the host" : "look the embedding up on the CPU");
    Found wide;
    for (const Value& tensor : graph_.values())
      if (tensor.type() == DType::I64 && tensor.kind != ValueKind::constant && wide.count++ == 0)
        wide.example = tensor.name;
    add("int64_indices", wide.count, wide.example, "indices of 64 bits", "export them as int32");
  }

  // K and V of all heads kept, where the latent that they are made of would do.
  void latents() {
    const Found found = count([](const Node& node) { return node.purpose == Purpose::latent_up; });
    std::vector<const Value*> kept;
    const Value* latent = nullptr;
    std::int64_t made = 0;
    for (const Node& node : graph_.list()) {
      if (node.purpose == Purpose::kv_append && kept.size() < 2) kept.push_back(&graph_.value(node.outputs[0]));
      if (node.purpose != Purpose::latent_up || latent != nullptr) continue;
      latent = &graph_.value(node.inputs[0]);
      made = graph_.value(node.outputs[0]).dims.back();
    }
    if (latent == nullptr || kept.size() < 2) return;
    const std::int64_t heads = kept[0]->dims[1];
    const std::int64_t rotated = kept[0]->dims[3] + kept[1]->dims[3] - made / heads;
    const std::int64_t all = heads * (kept[0]->dims[3] + kept[1]->dims[3]);
    const std::int64_t least = latent->dims.back() + rotated;
    add("mla_expanded", found.count, found.example,
        fmt::format(
            "K and V of all heads are made from the latent and kept: {} numbers a token and layer, where the latent "
            "and what is rotated are {}",
            all, least),
        "multiply kv_b_proj into q and o (absorbed MLA), and keep the latent");
  }

  void missing_types() {
    missing_fp16();
    missing_kv();
    missing_blocks();
  }

  void missing_fp16() {
    const std::optional<std::int64_t>& generation = device_.npu->generation;
    if (!generation) return;
    std::int64_t since = 0;
    const Found found = count([&](const Node& node) {
      const OpSupport* support = row(op_info(node.op).text);
      if (op_info(node.op).cls != OpClass::sensitive || support == nullptr || !support->fp16_since_generation ||
          *generation >= *support->fp16_since_generation)
        return false;
      since = *support->fp16_since_generation;
      return true;
    });
    add("dtype_missing", found.count, found.example,
        fmt::format("fp16 is taken from generation {} on, this is {}", since, *generation),
        "quantize everything, with activations of 16 bits where it hurts");
  }

  // What of_cache and of_weights say of the rows that the products are looked up in.
  void missing_kv() {
    std::string why;
    const Found found = count([&](const Node& node) {
      const OpSupport* support = row("MatMul");
      if (!types_.reads_cache(node) || support == nullptr || support->support == Support::no) return false;
      const std::string lost = types_.choose(node, *support, false).kv_lost;
      if (lost.empty()) return false;
      why = lost;
      return true;
    });
    add("dtype_missing", found.count, found.example, fmt::format("a KV cache of 16 bits is not taken: {}", why),
        "a KV cache of 8 bits (--kv q8_0 says that it is wanted)");
  }

  void missing_blocks() {
    struct Lost {
      std::map<std::string, std::int64_t> formats;
      Found found;
    };
    std::map<std::string, Lost> reasons;
    std::set<int> seen;
    bool quantized = false;
    for (const Node& node : graph_.list()) {
      if (!types_.weighted(node) || !seen.insert(node.inputs[1]).second) continue;
      const std::string stored = types_.stored(node);
      const bool blocks = is_block_format(stored);
      quantized = quantized || blocks || stored == "Q8_0" || stored == "G8";
      const OpSupport* support = row("MatMulNBits");
      if (support == nullptr || support->support == Support::no) support = row("Gemm");
      if (support == nullptr || support->support == Support::no) support = row("MatMul");
      static const OpSupport none;
      const std::string why = types_.choose(node, support == nullptr ? none : *support, false).blocks_lost;
      if (why.empty()) continue;
      Lost& lost = reasons[why];
      if (blocks) ++lost.formats[stored];
      if (lost.found.count++ == 0) lost.found.example = node.name;
    }
    const OpSupport* gemm = row("Gemm");
    const bool channel =
        gemm != nullptr ? types_.lists(*gemm, "a16w4") : device_.npu->features && types_.has("a16w4-channel");
    const auto lists = [&](std::string_view type) { return gemm != nullptr && types_.lists(*gemm, type); };
    const bool eight =
        gemm == nullptr || gemm->dtypes.empty() || lists("a16w8") || lists("a8w8") || lists("int8") || lists("uint8");
    std::string fix = channel ? "4 bits with a scale a channel, or 8 bits"
                      : eight ? std::string("8 bits")
                              : fmt::format("{}", fmt::join(gemm->dtypes, " or "));
    if (device_.npu->features && types_.has("a16w4-block")) fix += "; the NPU itself has blocks, for another toolchain";
    for (const auto& [why, lost] : reasons) {
      std::string what;
      std::int64_t count = 0;
      for (const auto& [format, number] : lost.formats) {
        what += fmt::format("{}{} of {}", what.empty() ? "" : ", ", number, format);
        count += number;
      }
      if (count > 0)
        add("dtype_missing", count, lost.found.example,
            fmt::format("weights in blocks ({}) are not taken as they are: {}", what, why), fix);
      else if (!quantized)
        add("dtype_missing", lost.found.count, lost.found.example,
            fmt::format("weights of 4 bits in blocks, should they be wanted, are not taken: {}", why), fix);
    }
  }

  const Graph& graph_;
  const DeviceProfile& device_;
  const Toolchain* toolchain_;
  const OperatorTypes& types_;
  const Inventory& inventory_;
  std::vector<Killer> out_;
};

}  // namespace

std::vector<Killer> find_killers(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain,
                                 const OperatorTypes& types, const Inventory& inventory) {
  return Finder(graph, device, toolchain, types, inventory).run();
}

}  // namespace knapsack
