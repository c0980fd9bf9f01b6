// The rows of onnx_rows.inc for primitives, which are ONNX's own operators: what differs is where axes and sizes stand,
// and what an opset does not have yet.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numbers>
#include <numeric>

#include "export/onnx_builder.h"
#include "export/onnx_decoder_rows.h"
#include "graph/decompose/unfuse.h"

namespace knapsack {
namespace {

using Dims = OnnxBuilder::Dims;
using Attributes = OnnxBuilder::Attributes;

Dims list(const Node& n, Attr key) {
  const auto given = n.attrs.list(key);
  return {given.begin(), given.end()};
}

std::string_view text(const Node& n) { return op_info(n.op).text; }

// The node with its inputs, and these after them.
void write_with(OnnxBuilder& b, const Node& n, const OnnxBuilder::Names& more, Attributes attributes = {}) {
  auto inputs = b.ins(n);
  inputs.insert(inputs.end(), more.begin(), more.end());
  b.write(n, text(n), std::move(inputs), std::move(attributes));
}

void write_plain(OnnxBuilder& b, const Node& n) { write_with(b, n, {}); }

void write_mod(OnnxBuilder& b, const Node& n) {
  const OnnxType type = b.type(n.inputs[0]);
  const bool floats = type == OnnxType::f32 || type == OnnxType::f16 || type == OnnxType::f64;
  write_with(b, n, {}, {onnx_attribute("fmod", floats ? 1 : 0)});
}

void write_gemm(OnnxBuilder& b, const Node& n) {
  CHECK(!is_fused(n));
  write_with(b, n, {},
             {onnx_attribute("alpha", n.attrs.f(Attr::alpha, 1)), onnx_attribute("beta", n.attrs.f(Attr::beta, 1)),
              onnx_attribute("transA", n.attrs.i(Attr::trans_a)), onnx_attribute("transB", n.attrs.i(Attr::trans_b))});
}

void write_window(OnnxBuilder& b, const Node& n) {
  CHECK(!is_fused(n));
  Attributes attributes;
  const auto numbers = [&](Attr key, const char* name) {
    if (n.attrs.has(key)) attributes.push_back(onnx_attribute(name, list(n, key)));
  };
  const auto number = [&](Attr key, const char* name) {
    if (n.attrs.i(key, -1) >= 0) attributes.push_back(onnx_attribute(name, n.attrs.i(key)));
  };
  numbers(Attr::kernel, "kernel_shape");
  numbers(Attr::strides, "strides");
  // AveragePool has none before opset 19; all 1 is as if it were not there.
  const Dims dilations = list(n, Attr::dilations);
  if (n.op != Op::AveragePool || std::any_of(dilations.begin(), dilations.end(), [](auto d) { return d != 1; }))
    numbers(Attr::dilations, "dilations");
  numbers(Attr::pads, "pads");
  number(Attr::group, "group");
  number(Attr::ceil, "ceil_mode");
  if (n.op == Op::AveragePool) number(Attr::count_pads, "count_include_pad");
  write_with(b, n, {}, std::move(attributes));
}

void write_slopes(OnnxBuilder& b, const Node& n) {
  Attributes attributes{onnx_attribute("alpha", n.attrs.f(Attr::alpha))};
  if (n.attrs.has(Attr::beta)) attributes.push_back(onnx_attribute("beta", n.attrs.f(Attr::beta)));
  write_with(b, n, {}, std::move(attributes));
}

// Nothing where the value is of that type in the model already.
void write_cast(OnnxBuilder& b, const Node& n) {
  const OnnxType to = onnx_type(static_cast<DType>(n.attrs.i(Attr::to)));
  if (b.value(n.inputs[0]).kind != ValueKind::constant && b.type(n.inputs[0]) == to) {
    b.hold_as(n.outputs[0], n.inputs[0]);
    return;
  }
  write_with(b, n, {}, {onnx_attribute("to", static_cast<std::int64_t>(to))});
}

void write_arg_max(OnnxBuilder& b, const Node& n) {
  write_with(b, n, {},
             {onnx_attribute("axis", n.attrs.i(Attr::axis)), onnx_attribute("keepdims", n.attrs.i(Attr::keepdims))});
}

void write_along(OnnxBuilder& b, const Node& n) {
  write_with(b, n, {}, {onnx_attribute("axis", n.attrs.i(Attr::axis))});
}

void write_scatter(OnnxBuilder& b, const Node& n) {
  constexpr std::array<const char*, 5> reductions{"none", "add", "mul", "max", "min"};
  Attributes attributes;
  if (n.op == Op::ScatterElements) attributes.push_back(onnx_attribute("axis", n.attrs.i(Attr::axis)));
  const auto how = static_cast<std::size_t>(n.attrs.i(Attr::reduction));
  if (how != 0) attributes.push_back(onnx_attribute("reduction", std::string(reductions[how])));
  write_with(b, n, {}, std::move(attributes));
}

void write_normalization(OnnxBuilder& b, const Node& n) {
  Attributes attributes{onnx_attribute("epsilon", n.attrs.f(Attr::eps))};
  if (n.attrs.has(Attr::axis)) attributes.push_back(onnx_attribute("axis", n.attrs.i(Attr::axis)));
  write_with(b, n, {}, std::move(attributes));
}

void write_depth_to_space(OnnxBuilder& b, const Node& n) {
  write_with(b, n, {},
             {onnx_attribute("blocksize", n.attrs.i(Attr::k)),
              onnx_attribute("mode", std::string(n.attrs.i(Attr::mode) == 0 ? "DCR" : "CRD"))});
}

// Chosen experts' matrices are gathered from the stack that all experts' are multiplied with, which is stored
// transposed: so both models share it.
void write_transpose(OnnxBuilder& b, const Node& n) {
  const Dims perm = list(n, Attr::perm);
  Dims last_two(perm.size());
  std::iota(last_two.begin(), last_two.end(), 0);
  const Node* gather = b.maker(n.inputs[0]);
  if (perm.size() >= 3) std::swap(last_two[perm.size() - 1], last_two[perm.size() - 2]);
  if (perm.size() >= 3 && perm == last_two && gather != nullptr && gather->op == Op::Gather &&
      gather->attrs.i(Attr::axis) == 0) {
    const ValueId stack = gather->inputs[0];
    const Value& v = b.value(stack);
    if (v.kind == ValueKind::constant && v.dims.size() == 3 && !v.transposed) {
      b.write(n, "Gather", {b.weight(stack, b.type(stack), true), b.in(gather->inputs[1])},
              {onnx_attribute("axis", 0)});
      return;
    }
  }
  write_with(b, n, {}, {onnx_attribute("perm", perm)});
}

void write_clip(OnnxBuilder& b, const Node& n) {
  const OnnxType type = b.type(n.inputs[0]);
  const auto bound = [&](Attr key) { return n.attrs.has(key) ? b.number(type, n.attrs.f(key)) : std::string(); };
  OnnxBuilder::Names bounds{bound(Attr::low), bound(Attr::high)};
  while (!bounds.empty() && bounds.back().empty()) bounds.pop_back();
  write_with(b, n, bounds);
}

// Axes are an input from opset 18 on, ReduceSum's from 13 on.
void write_reduce(OnnxBuilder& b, const Node& n) {
  const Dims axes = list(n, Attr::axes);
  Attributes attributes{onnx_attribute("keepdims", n.attrs.i(Attr::keepdims))};
  constexpr std::int64_t since = 18;
  if (n.op == Op::ReduceSum || b.opset() >= since) {
    write_with(b, n, {b.integers(axes)}, std::move(attributes));
  } else {
    attributes.insert(attributes.begin(), onnx_attribute("axes", axes));
    write_with(b, n, {}, std::move(attributes));
  }
}

void write_cum_sum(OnnxBuilder& b, const Node& n) {
  write_with(
      b, n, {b.integer(n.attrs.i(Attr::axis))},
      {onnx_attribute("exclusive", n.attrs.i(Attr::exclusive)), onnx_attribute("reverse", n.attrs.i(Attr::reverse))});
}

void write_slice(OnnxBuilder& b, const Node& n) {
  const Dims axes = list(n, Attr::axes);
  Dims ends = list(n, Attr::ends);
  // -1 is ours for "the first element, too"; ONNX counts it from the back.
  for (std::size_t i = 0; i < ends.size(); ++i)
    if (ends[i] < 0) ends[i] -= b.value(n.inputs[0]).dims[static_cast<std::size_t>(axes[i])];
  OnnxBuilder::Names more{b.integers(list(n, Attr::starts)), b.integers(ends), b.integers(axes)};
  if (n.attrs.has(Attr::steps)) more.push_back(b.integers(list(n, Attr::steps)));
  write_with(b, n, more);
}

void write_split(OnnxBuilder& b, const Node& n) {
  write_with(b, n, {b.integers(list(n, Attr::splits))}, {onnx_attribute("axis", n.attrs.i(Attr::axis))});
}

void write_axes(OnnxBuilder& b, const Node& n) { write_with(b, n, {b.integers(list(n, Attr::axes))}); }

void write_to_shape(OnnxBuilder& b, const Node& n) { write_with(b, n, {b.integers(list(n, Attr::shape))}); }

void write_pad(OnnxBuilder& b, const Node& n) {
  constexpr std::array<const char*, 3> modes{"constant", "reflect", "edge"};
  const auto mode = static_cast<std::size_t>(n.attrs.i(Attr::mode));
  OnnxBuilder::Names more{b.integers(list(n, Attr::pads))};
  if (mode == 0) more.push_back(b.number(b.type(n.inputs[0]), n.attrs.f(Attr::value)));
  write_with(b, n, more, {onnx_attribute("mode", std::string(modes[mode]))});
}

void write_trilu(OnnxBuilder& b, const Node& n) {
  const auto diagonal = n.attrs.list(Attr::starts);
  write_with(b, n, {b.integer(diagonal.empty() ? 0 : diagonal.front())},
             {onnx_attribute("upper", n.attrs.i(Attr::upper))});
}

void write_resize(OnnxBuilder& b, const Node& n) {
  constexpr std::array<const char*, 2> modes{"nearest", "linear"};
  constexpr std::array<const char*, 4> coords{"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
  constexpr std::array<const char*, 4> rounding{"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"};
  const auto pick = [&](Attr key) { return static_cast<std::size_t>(n.attrs.i(key)); };
  write_with(b, n, {"", "", b.integers(list(n, Attr::shape))},
             {onnx_attribute("mode", std::string(modes[pick(Attr::mode)])),
              onnx_attribute("coordinate_transformation_mode", std::string(coords[pick(Attr::coords)])),
              onnx_attribute("nearest_mode", std::string(rounding[pick(Attr::rounding)]))});
}

void write_top_k(OnnxBuilder& b, const Node& n) {
  write_with(b, n, {b.integers({n.attrs.i(Attr::k)})},
             {onnx_attribute("axis", n.attrs.i(Attr::axis)), onnx_attribute("largest", n.attrs.i(Attr::largest, 1)),
              onnx_attribute("sorted", 1)});
}

void write_one_hot(OnnxBuilder& b, const Node& n) {
  write_with(b, n, {b.integer(n.attrs.i(Attr::depth)), b.integers({0, 1})}, {onnx_attribute("axis", -1)});
}

// Written where it is read, and then of what it stands on: one for a chain of them, none where shapes agree.
void write_reshape(OnnxBuilder& b, const Node& n) { b.hold_as(n.outputs[0], n.inputs[0]); }

// A matrix that is read as it is stored, too (a tied head's): Gemm takes it so, and it is in the file once.
void write_mat_mul(OnnxBuilder& b, const Node& n) {
  CHECK(!is_fused(n));
  const ValueId right = n.inputs[1];
  if (!b.read_as_stored(right)) {
    write_plain(b, n);
    return;
  }
  const Dims& k_n = b.value(right).dims;
  const std::int64_t rows = b.value(n.inputs[0]).elements() / k_n[0];
  const OnnxType type = b.type(n.inputs[0]);
  const Dims flat{rows, k_n[1]};
  const std::string product = b.part(b.value(n.outputs[0]).name, "Gemm",
                                     {b.reshaped(n.inputs[0], {rows, k_n[0]}), b.weight(right, b.type(right), false)},
                                     {onnx_attribute("transB", 1)}, type, flat);
  b.hold(n.outputs[0], product, type, flat);
}

// An operator from opset 20 on.
void write_gelu(OnnxBuilder& b, const Node& n) {
  const bool tanh = n.attrs.i(Attr::mode) != 0;
  constexpr std::int64_t since = 20;
  if (b.opset() >= since) {
    write_with(b, n, {}, {onnx_attribute("approximate", std::string(tanh ? "tanh" : "none"))});
    return;
  }
  const ValueId id = n.inputs[0];
  const OnnxType type = b.type(id);
  const Dims& dims = b.value(id).dims;
  const std::string x = b.in(id);
  const auto part = [&](const char* op, OnnxBuilder::Names inputs) {
    return b.part(fmt::format("{}/{}", n.name, op), op, std::move(inputs), {}, type, dims);
  };
  std::string inner;
  if (tanh) {
    const std::string cube = part("Mul", {x, part("Mul", {x, x})});
    const std::string sum = part("Add", {x, part("Mul", {cube, b.number(type, 0.044715)})});
    inner = part("Tanh", {part("Mul", {sum, b.number(type, std::numbers::sqrt2 * std::numbers::inv_sqrtpi)})});
  } else {
    inner = part("Erf", {part("Div", {x, b.number(type, std::numbers::sqrt2)})});
  }
  const std::string factor = part("Add", {inner, b.number(type, 1)});
  b.write(n, "Mul", {part("Mul", {x, factor}), b.number(type, 0.5)});
}

constexpr std::array rows = [] {
  std::array<OnnxRow,
#define KNAP_OP(id, text, cls, min_in, max_in, out) 1 +
#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) 1 +
#include "ops/ops.inc"
#include "ops/primitives.inc"
#undef KNAP_OP
#undef KNAP_PRIMITIVE
             0>
      table{};
#define KNAP_ONNX(op, row) table[static_cast<std::size_t>(Op::op)] = write_##row;
#include "export/onnx_rows.inc"
#undef KNAP_ONNX
  return table;
}();

#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) \
  static_assert(rows[static_cast<std::size_t>(Op::id)] != nullptr, "a primitive without a row in onnx_rows.inc");
#include "ops/primitives.inc"
#undef KNAP_PRIMITIVE

}  // namespace

OnnxRow onnx_row(Op op) { return rows[static_cast<std::size_t>(op)]; }

}  // namespace knapsack
