// The rows of onnx_rows.inc for ops of a decoder. Not for primitives: onnx_rows.cc.
#pragma once

#include "export/onnx_builder.h"

namespace knapsack {

void write_positions(OnnxBuilder& b, const Node& n);
void write_kv_write(OnnxBuilder& b, const Node& n);
void write_kv_read(OnnxBuilder& b, const Node& n);
// As contrib ops.
void write_rms_norm(OnnxBuilder& b, const Node& n);
void write_rope(OnnxBuilder& b, const Node& n);
void write_attention(OnnxBuilder& b, const Node& n);

// Why a node cannot be a contrib op and is written in primitives; empty: it can. Of a decoder's other ops: always
// something.
std::string_view contrib_refusal(const Graph& graph, const Node& node);

}  // namespace knapsack
