// What the fusing passes share: a product as fused_linear has it, whether it is fused already or not.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {

struct Product {
  ValueId x = -1, w = -1, norm = -1, bias = -1, residual = -1;  // values of the new graph; -1: without
  float eps = 0, offset = 0;
  std::int64_t act = -1;

  [[nodiscard]] std::vector<ValueId> inputs() const;
  [[nodiscard]] Attrs attrs() const;
};

inline bool is_product(const Node& node) { return node.op == Op::linear || node.op == Op::fused_linear; }
// As a fused_linear has them.
Attrs product_attrs(const Node& product);
Product product_of(Rewriter& to, const Node& node);

// Whether `floats` floats may stay on the chip between the parts of a fused op; for each of the step's tokens.
bool fits_on_chip(const Target& target, std::int64_t floats);
bool fits_on_chip(const PassContext& context, std::int64_t floats);

// Whether the target has an op of these attributes, in the place of `node` or with more inputs.
bool encodes(const Target& target, const Graph& graph, const Node& node, Op op, const Attrs& attrs);

}  // namespace knapsack
