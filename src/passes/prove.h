// What a pass may not change: the outputs of a graph. Both graphs, before and after, run on the executor's scalar
// reference, on the same inputs, and are compared.
// Not for finding the node at fault: src/align does that.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "graph/graph.h"

namespace knapsack {

struct ProveOptions {
  std::vector<std::vector<std::int32_t>> prompts{};  // of a decoder, beside one of random ids; repeated to fill a step
  std::uint64_t seed = 1;
  double tolerance = 1e-4;  // relative L2 of the outputs
  // Of a decoder whose shapes are not fixed: tokens of a step, rows of the context; 0: a few.
  std::int64_t tokens = 0, ctx = 0;
  double most_products = 2e11;  // multiply-adds that one run may take: a minute or two of the scalar kernels
};

// What a graph made of the inputs of a proof, for who compares it with the next one: each graph runs once then.
struct Outcome {
  std::string inputs{};  // of which
  std::vector<std::vector<float>> outputs{};
};

struct Proof {
  double rel_l2 = 0;        // the largest found
  std::int64_t values = 0;  // numbers compared
  std::int64_t finite = 0;  // of which so many were neither NaN nor infinite: of 0 nothing is proved
};

// An error: `bad_input` where they differ by more than the tolerance or are not finite in one only, with how much and
// where; `unsupported` where one of them cannot be run; `out_of_resource`, with the flag to lower, where one takes more
// memory than there is or more multiply-adds than are allowed. As many steps are compared as those suffice for.
// known: what `before` made, where it was asked; what `after` made, from here on.
Result<Proof> prove_equal(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool,
                          Outcome* known = nullptr);

// A decoder on a sequence, in steps of `step` tokens (those of a static graph: its own): the logits of the last row of
// each step, [ids / step, vocab]. ids: a multiple of the step, within ctx.
Result<std::vector<float>> run_decoder(const Graph& graph, std::span<const std::int32_t> ids, std::int64_t step,
                                       std::int64_t ctx, ThreadPool& pool);

}  // namespace knapsack
