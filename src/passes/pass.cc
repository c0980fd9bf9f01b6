#include "passes/pass.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/clock.h"

namespace knapsack {
namespace {

constexpr auto table = std::to_array<PassInfo>({
#define KNAP_PASS(id, name, stage, what) {Pass::id, name, Stage::stage, what, pass_##id},
#include "passes/passes.inc"
#undef KNAP_PASS
});

std::string kept(const Graph& before, const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return fmt::format("; the graph of before is not kept, {} is there already", path);
  auto file = AtomicFile::create(path, Existing::kept);
  if (!file) return fmt::format("; the graph of before could not be kept: {}", file.error().message);
  auto done = file->write(to_text(before));
  if (done) done = file->commit();
  if (!done) return fmt::format("; the graph of before could not be kept: {}", done.error().message);
  return fmt::format("; the graph of before lies in {}", path);
}

// What cannot be run is no fault of the pass.
Error broken(const PassInfo& info, const Error& error, const Graph& before, const std::string& dump) {
  if (error.code == Code::unsupported || error.code == Code::resource)
    return Error{error.code, fmt::format("pass {}: {}", info.name, error.message)};
  return Error{error.code, fmt::format("pass {}: {}; --no-pass {} goes without it{}", info.name, error.message,
                                       info.name, kept(before, dump))};
}

// Each is a pass, and one that leads to the stage: what does nothing is a mistake.
Result<void> check_names(const std::vector<std::string>& names, Stage to) {
  for (const std::string& name : names) {
    const auto known =
        std::find_if(table.begin(), table.end(), [&](const PassInfo& each) { return each.name == name; });
    if (known != table.end() && known->stage <= to) continue;
    if (known != table.end())
      return usage_error("pass {} leads to stage {}: up to stage {} there is nothing to leave out", name,
                         stage_name(known->stage), stage_name(to));
    std::vector<std::string> all;
    all.reserve(table.size());
    for (const PassInfo& each : table) all.emplace_back(each.name);
    return usage_error("'{}' is no pass; they are {}", name, fmt::join(all, ", "));
  }
  return {};
}

class Mover {
 public:
  Mover(const Graph& graph, const StepSize& step) : graph_(graph), step_(step) {}

  [[nodiscard]] double bytes(const Node& node) const {
    // Other eyes on the same numbers.
    const bool view = node.op == Op::Reshape || node.op == Op::Squeeze || node.op == Op::Unsqueeze ||
                      node.op == Op::Split || node.op == Op::Identity;
    if (view) return 0;
    double sum = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) sum += read(node, i);
    for (const ValueId id : node.outputs) {
      const Value& v = graph_.value(id);
      if (v.state < 0) sum += size(v);
    }
    if (node.op == Op::kv_write) sum += size(graph_.value(node.inputs[0])) / 2;  // floats become halves
    return sum;
  }

 private:
  [[nodiscard]] double read(const Node& node, std::size_t input) const {
    const Value& v = graph_.value(node.inputs[input]);
    if (v.state >= 0) return node.op == Op::kv_write ? 0 : static_cast<double>(step_.ctx * v.cols()) * 2;
    if (v.kind != ValueKind::constant) return size(v);
    const Weight& w = *v.weight;
    const auto all = static_cast<double>(v.kept_bytes());
    const double row = all / static_cast<double>(w.elements()) * static_cast<double>(w.cols());
    const auto tokens = static_cast<double>(step_.tokens);
    if (node.op == Op::embed || (node.op == Op::Gather && input == 0 && w.shape.size() == 2))
      return std::min(all, tokens * row);
    if (node.op == Op::rope_cached) return tokens * row;
    if (node.op == Op::moe) {
      const auto experts = static_cast<double>(w.shape[0]);
      return all * std::min(1.0, tokens * static_cast<double>(node.attrs.i(Attr::top_k)) / experts);
    }
    return all;
  }
  [[nodiscard]] double size(const Value& v) const {
    double elements = 1;
    for (const std::int64_t d : v.dims)
      elements *= static_cast<double>(d == tokens_dim ? step_.tokens : d == selected_dim ? 1 : d);
    return elements * static_cast<double>(format(v.type()).block_bytes);
  }

  const Graph& graph_;
  const StepSize& step_;
};

}  // namespace

std::span<const PassInfo> all_passes() { return table; }

double bytes_moved(const Graph& graph, const StepSize& step) {
  const Mover mover(graph, step);
  double bytes = 0;
  for (const Node& node : graph.list()) bytes += mover.bytes(node);
  return bytes;
}

Result<Passed> run_passes(const Graph& graph, Stage from, const PassOptions& options, ThreadPool& pool,
                          std::span<const PassInfo> passes) {
  TRY_VOID(check_names(options.without, options.to));
  Passed out{.graph = graph, .passes = {}};
  TRY_VOID(verify(out.graph, from));
  Stage stage = from;
  ProveOptions proof_options = options.proof;
  if (proof_options.tokens == 0) proof_options.tokens = options.context.step.tokens;
  if (proof_options.ctx == 0) proof_options.ctx = options.context.step.ctx;
  Outcome known;
  for (const PassInfo& info : passes) {
    if (info.stage <= from || info.stage > options.to) continue;
    if (options.progress != nullptr) options.progress(info.name);
    PassReport report{.name = info.name, .what = info.what};
    report.nodes_before = report.nodes_after = out.graph.list().size();
    report.step = options.context.step;
    report.skipped = std::find(options.without.begin(), options.without.end(), info.name) != options.without.end();
    if (!report.skipped) {
      PassContext context = options.context;
      context.note = [&](std::string note) { report.note = std::move(note); };
      context.placed = [&](std::vector<PlacedNode> nodes) { report.placed = std::move(nodes); };
      context.was_for = [&](StepSize step) { report.step = step; };
      const Stopwatch since;
      auto made = info.run(out.graph, context);
      report.ms = since.ms();
      if (!made) return broken(info, made.error(), out.graph, options.dump);
      if (const auto valid = verify(*made); !valid) return broken(info, valid.error(), out.graph, options.dump);
      if (options.prove) {
        const auto proof = prove_equal(out.graph, *made, proof_options, pool, &known);
        // What cannot be run is no fault of the pass; what is recognised in it can be.
        const bool runs = proof || proof.error().code != Code::unsupported || info.pass != Pass::recognize;
        if (!proof && runs) return broken(info, proof.error(), out.graph, options.dump);
        if (proof) {
          report.rel_l2 = proof->rel_l2;
          if (proof->values > 0 && proof->finite == 0)
            report.note = "nothing is proved: every number of the outputs is NaN or infinite";
        } else {
          report.note = fmt::format("not proved: {}", proof.error().message);
        }
      }
      report.bytes_before = bytes_moved(out.graph, report.step);
      out.graph = std::move(*made);
      report.nodes_after = out.graph.list().size();
    }
    report.bytes_after = bytes_moved(out.graph, report.step);
    if (report.skipped) report.bytes_before = report.bytes_after;
    out.passes.push_back(report);
    stage = info.stage;
  }
  // What was left out may be what a stage asks for; then it is not reached, and nothing claims so.
  if (options.without.empty()) {
    if (const auto valid = verify(out.graph, std::max(stage, from)); !valid) return valid.error();
  }
  return out;
}

}  // namespace knapsack
