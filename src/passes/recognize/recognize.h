// An imported graph of primitives as the decoder that it is: RMSNorm, RoPE, gated activations, grouped attention over a
// cache that is written in place, latent attention, mixtures of experts.
//
// How: values that no token decides (positions, masks, tables) are computed, and what they say is read from the numbers
// (side.h). What only moves data is no node: a value is known by the columns of an activation that it has (form.h). A
// function of one number is known by its values (samples.h). So one rule an operator (rules.h) is enough, however an
// exporter wrote it. Nodes are made when something needs them as an activation (builder.h), and named as an imported
// checkpoint's are (names.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack {

struct Recognised {
  Graph graph;
  std::int64_t tokens = 0, past = 0;  // of the imported graph
  struct Cache {
    std::string input;  // of the imported graph: rows of the past
    std::int64_t axis;  // along which they run
    // The activations whose rows the decoder's state keeps, columns in the order of the rest.
    std::vector<std::string> writes;
  };
  std::vector<Cache> caches;
  std::string note;  // what is not as importing the checkpoint gives it, and why; empty: nothing
};

// data: weights that must be turned or cut are made; without, they have a shape alone.
// Unsupported: it is no decoder that this version knows; with the node that hindered, and why.
Result<Recognised> recognize_decoder(const Graph& graph, bool data);

}  // namespace knapsack
