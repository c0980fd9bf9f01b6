#include "pipeline/graph_stage.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "base/utf8.h"
#include "graph/decompose/decompose.h"
#include "graph/decompose/size.h"
#include "passes/recognize/inputs.h"

namespace knapsack {
namespace {

constexpr GraphStage primitive{
    "primitive",
    "no stage on that way: what is imported in ONNX's operators, as exporters write a step at the end of the context"};
constexpr std::array stages{Stage::imported, Stage::canonical, Stage::fixed, Stage::fused};

bool has_data(const Graph& graph) {
  const auto& values = graph.values();
  return std::all_of(values.begin(), values.end(),
                     [](const Value& v) { return v.kind != ValueKind::constant || !v.weight->slabs.empty(); });
}

}  // namespace

std::vector<GraphStage> graph_stages() {
  std::vector<GraphStage> all;
  all.reserve(stages.size() + 1);
  for (const Stage stage : stages) all.push_back({stage_name(stage), stage_text(stage)});
  all.push_back(primitive);
  return all;
}

std::vector<std::string> graph_stage_names() {
  std::vector<std::string> names;
  for (const GraphStage& stage : graph_stages()) names.emplace_back(stage.name);
  return names;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  names.reserve(all_passes().size());
  for (const PassInfo& info : all_passes()) names.emplace_back(info.name);
  return names;
}

StepSize step_of(const Graph& imported) {
  if (!imported.tokens()) {
    if (const auto inputs = recognition::inputs_of(imported))
      return {.tokens = inputs->tokens, .ctx = inputs->past + inputs->tokens};
  }
  return {.tokens = 1, .ctx = 4096};
}

Result<StagedGraph> graph_at_stage(const Graph& imported, std::string_view stage, PassOptions options,
                                   ThreadPool& pool) {
  const PassContext& context = options.context;
  if (context.step.tokens < 1 || context.step.ctx < context.step.tokens)
    return usage_error("a step of {} tokens does not fit a context of {}", context.step.tokens, context.step.ctx);
  if (options.prove && !has_data(imported))
    return usage_error("--prove runs the graph, and the weights of this model are not there; name a checkpoint");
  if (stage == primitive.name) {
    if (!imported.tokens()) return StagedGraph{imported};  // it came in primitives
    TRY_VOID(decomposable(imported));
    return StagedGraph{
        decompose(imported, {.tokens = context.step.tokens, .past = context.step.ctx - context.step.tokens})};
  }
  for (const Stage each : stages) {
    if (stage_name(each) != stage) continue;
    options.to = each;
    TRY(Passed passed, run_passes(imported, Stage::imported, options, pool));
    return StagedGraph{std::move(passed.graph), std::move(passed.passes)};
  }
  const auto names = graph_stage_names();
  const std::string near = nearest(stage, names);
  return usage_error("stage: expected one of {}, found {}{}", fmt::join(names, ", "), printable(stage),
                     near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

}  // namespace knapsack
