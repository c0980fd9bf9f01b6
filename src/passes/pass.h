// A pass: a graph in, a graph out that computes the same (prove.h). passes.inc is the list and the order; each is one
// file named as it is there. Not for choosing numbers of bits (quantize) or units (compile).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "passes/prove.h"

namespace knapsack {

// What a compiler makes of a node: takes it, would take other operators that compute the same (a row of
// graph/equivalents.inc), leaves it to the CPU, or is given it as a table or an input that was made before.
struct Placement {
  enum class Kind : std::uint8_t { taken, replace, cpu, ahead } kind = Kind::taken;
  std::string by{};   // replace: the operators of the row; taken: what it becomes a part of
  std::string why{};  // what is in the way, or on which condition it is taken
};

// The same of a node of the graph behind a pass, for who asks why it runs where it does.
struct PlacedNode {
  std::string name;
  Placement placement;
};

// What the passes may count on of the device that the graph is for.
struct Target {
  std::string name = "any";
  // Whether it does this op in one; what it lacks is taken apart. Null: every op.
  std::function<bool(const Graph&, const Node&)> has = nullptr;
  std::int64_t on_chip_bytes = 0;   // what a fused op keeps between its parts must fit; 0: nothing is known, so it may
  std::int64_t weight_line = 0;     // bytes that rows of weights are padded to; 0: as they are
  bool channel_first_keys = false;  // keys lie [cols, ctx] in the cache, so that a product with them reads whole lines
  std::int64_t channel_block = 0;   // convolutions work on blocks of so many channels (NCHWc8: 8); 0: on planes
  // Of every node, whether the device's compiler takes it; null: nothing is known, nothing is placed.
  std::function<std::vector<Placement>(const Graph&)> judge = nullptr;
  std::string unit = "npu";   // where what it takes runs
  std::string other = "cpu";  // where the rest runs
};

// What one run of a graph is for: so many tokens, behind what is left of the context.
struct StepSize {
  std::int64_t tokens = 1;
  std::int64_t ctx = 512;
  bool operator==(const StepSize&) const = default;
};

struct PassContext {
  StepSize step{};
  Target target{};
  // Merged weights are made: a copy of those that do not lie side by side. Without, they have a shape alone, and the
  // graph cannot be run.
  bool data = true;
  // Told by a pass that did nothing why that is so.
  std::function<void(std::string)> note = nullptr;
  // Told by a pass that places nodes: where and why, and which operators it wrote in others.
  std::function<void(std::vector<PlacedNode>)> placed = nullptr;
  // Told by a pass that made a graph of any step of one that was for this one alone.
  std::function<void(StepSize)> was_for = nullptr;
};

using PassFn = Result<Graph> (*)(const Graph& graph, const PassContext& context);

enum class Pass : std::uint8_t {
#define KNAP_PASS(id, name, stage, what) id,
#include "passes/passes.inc"
#undef KNAP_PASS
};

struct PassInfo {
  Pass pass;
  std::string_view name;
  Stage stage;  // the one it belongs to: all of a stage's passes lead there
  std::string_view what;
  PassFn run;
};
std::span<const PassInfo> all_passes();

struct PassReport {
  std::string_view name;
  std::string_view what;
  bool skipped = false;  // --no-pass
  std::size_t nodes_before = 0, nodes_after = 0;
  StepSize step{};                           // that bytes are counted for
  double bytes_before = 0, bytes_after = 0;  // moved to and from memory by one step (bytes_moved)
  double ms = 0;
  double rel_l2 = -1;  // of the proof; below 0: not proved
  std::string note{};  // why it did nothing
  // Of nodes that are not simply taken by the target; replaced ones by their name before.
  std::vector<PlacedNode> placed{};
};

struct PassOptions {
  PassContext context{};
  Stage to = Stage::fused;
  std::vector<std::string> without{};  // names of passes that are left out
  bool prove = false;
  ProveOptions proof{};
  std::string dump{};  // where the graph of before is written when a pass breaks it; empty: nowhere
  std::function<void(std::string_view pass)> progress = nullptr;
};

struct Passed {
  Graph graph;
  std::vector<PassReport> passes;
};

// All passes up to the stage, the verifier after each. A pass that breaks the verifier or the proof is an error that
// names it and the node, and says where the graph of before lies. Usage: `without` has a name that is no pass. The
// graph is taken at stage `from`. passes: others than those of the list are for tests.
Result<Passed> run_passes(const Graph& graph, Stage from, const PassOptions& options, ThreadPool& pool,
                          std::span<const PassInfo> passes = all_passes());

// Bytes that one step moves: each node reads its inputs and writes its outputs, weights as they are stored and only the
// rows or experts in use, attention the whole context. T and S of shapes that are not static are the context's.
double bytes_moved(const Graph& graph, const StepSize& step);

// One a row of the list.
#define KNAP_PASS(id, name, stage, what) Result<Graph> pass_##id(const Graph& graph, const PassContext& context);
#include "passes/passes.inc"
#undef KNAP_PASS

}  // namespace knapsack
