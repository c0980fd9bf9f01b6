// How each op of ours is written in primitive operators, but for experts (experts.cc). The forms are those of Hugging
// Face's models as torch exports them in float16: norms, tables of positions and softmax are computed in float32
// between Casts, weights are the right side of MatMul, rsqrt is 1 / Sqrt.
#include <cmath>
#include <numbers>

#include "graph/decompose/decomposer.h"

namespace knapsack {
namespace {

constexpr OnnxType f16 = OnnxType::float16;
constexpr OnnxType f32 = OnnxType::float32;

ValueId out_of(const Node& node) { return node.outputs.front(); }

// [1, heads, tokens, columns] -> the halves swapped, the second one negated.
int rotate_half(Decomposer& d, int x) {
  const std::int64_t columns = d.shape(x).dims[3];
  const int first = d.add(OnnxOp::Slice, {x}, {3, 0, columns / 2});
  const int second = d.add(OnnxOp::Slice, {x}, {3, columns / 2, columns});
  return d.add(OnnxOp::Concat, {d.add(OnnxOp::Neg, {second}), first}, {3});
}

// Each KV head as often as query heads read it.
int repeat_heads(Decomposer& d, int x, std::int64_t heads) {
  const auto dims = d.shape(x).dims;
  if (dims[1] == heads) return x;
  d.purpose(Purpose::repeat_heads);
  const int apart = d.add(OnnxOp::Unsqueeze, {x}, {2});
  const int repeated = d.add(OnnxOp::Expand, {apart}, {1, dims[1], heads / dims[1], dims[2], dims[3]});
  const int out = d.add(OnnxOp::Reshape, {repeated}, {1, heads, dims[2], dims[3]});
  d.purpose(Purpose::plain);
  return out;
}

int capped(Decomposer& d, int x, float cap) {
  const int limit = d.number(cap, f16);
  return d.add(OnnxOp::Mul, {d.add(OnnxOp::Tanh, {d.add(OnnxOp::Div, {x, limit})}), limit});
}

}  // namespace

int activate(Decomposer& d, int x, std::int64_t act) {
  if (act == 0) return d.add(OnnxOp::Mul, {x, d.add(OnnxOp::Sigmoid, {x})});
  int inner = 0;
  if (act == 1) {
    inner = d.add(OnnxOp::Erf, {d.add(OnnxOp::Div, {x, d.number(std::numbers::sqrt2, f16)})});
  } else {
    const int cube = d.add(OnnxOp::Mul, {x, d.add(OnnxOp::Mul, {x, x})});
    const int sum = d.add(OnnxOp::Add, {x, d.add(OnnxOp::Mul, {cube, d.number(0.044715, f16)})});
    inner =
        d.add(OnnxOp::Tanh, {d.add(OnnxOp::Mul, {sum, d.number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi, f16)})});
  }
  const int factor = d.add(OnnxOp::Add, {inner, d.number(1, f16)});
  return d.add(OnnxOp::Mul, {d.add(OnnxOp::Mul, {x, factor}), d.number(0.5, f16)});
}

void decompose_embed(Decomposer& d, const Node& node) {
  const int ids = d.input("input_ids", {OnnxType::int64, {1, d.tokens()}, false});
  d.purpose(Purpose::embedding);
  int out = d.add(OnnxOp::Gather, {d.weight(node.inputs[1]), ids}, {0});
  d.purpose(Purpose::plain);
  const float scale = node.attrs.f(Attr::scale, 1);
  if (scale != 1) out = d.add(OnnxOp::Mul, {out, d.number(scale, f16)});
  d.set_flat(out_of(node), out);
}

void decompose_rms_norm(Decomposer& d, const Node& node) {
  const std::int64_t cols = d.source().value(node.inputs[0]).cols;
  const std::int64_t heads = cols / node.attrs.i(Attr::width, cols);
  const int x = d.cast(heads == 1 ? d.flat(node.inputs[0]) : d.split(node.inputs[0], heads), f32);
  const std::int64_t axis = static_cast<std::int64_t>(d.shape(x).dims.size()) - 1;
  const int mean = d.add(OnnxOp::ReduceMean, {d.add(OnnxOp::Pow, {x, d.number(2, f32)})}, {axis, 1});
  const int root = d.add(OnnxOp::Sqrt, {d.add(OnnxOp::Add, {mean, d.number(node.attrs.f(Attr::eps), f32)})});
  int out = d.add(OnnxOp::Mul, {x, d.add(OnnxOp::Div, {d.number(1, f32), root})});
  const bool weighted = node.inputs.size() > 1;
  const bool shifted = node.attrs.f(Attr::offset) != 0;  // its factor, 1 + w, is folded and still of float32
  if (weighted && shifted) out = d.add(OnnxOp::Mul, {out, d.weight(node.inputs[1], f32)});
  out = d.cast(out, f16);
  if (weighted && !shifted) out = d.add(OnnxOp::Mul, {d.weight(node.inputs[1]), out});
  if (heads == 1) {
    d.set_flat(out_of(node), out);
  } else {
    d.set_split(out_of(node), out);
  }
}

void decompose_linear(Decomposer& d, const Node& node) {
  const auto family = d.siblings(node);
  if (family.empty()) {
    int out = d.add(OnnxOp::MatMul, {d.flat(node.inputs[0]), d.matrix(node.inputs[1])});
    if (node.inputs.size() > 2) out = d.add(OnnxOp::Add, {d.weight(node.inputs[2]), out});
    d.set_flat(out_of(node), out);
    return;
  }
  // One matrix in the checkpoint (qkv_proj, gate_up_proj): exporters multiply by the whole and split the product.
  if (family.front() != &node) return;
  std::vector<ValueId> parts;
  std::vector<ValueId> biases;
  std::vector<std::int64_t> numbers{2};
  for (const Node* each : family) {
    parts.push_back(each->inputs[1]);
    if (each->inputs.size() > 2) biases.push_back(each->inputs[2]);
    numbers.push_back(d.source().value(each->inputs[1]).weight->shape[0]);
  }
  const auto whole = [&](ValueId part) {
    const std::string& name = d.source().value(part).name;
    return name.substr(0, name.rfind('['));
  };
  int out = d.add(OnnxOp::MatMul, {d.flat(node.inputs[0]), d.matrix_rows(whole(parts.front()) + ".T", parts)});
  if (biases.size() == family.size()) out = d.add(OnnxOp::Add, {d.matrix_rows(whole(biases.front()), biases), out});
  const auto made = d.add_all(OnnxOp::Split, {out}, numbers);
  for (std::size_t i = 0; i < made.size(); ++i) d.set_flat(out_of(*family[i]), made[i]);
}

// Both are parts of attention on a latent only, which writes them otherwise (latent.cc).
void decompose_head_linear(Decomposer& d, const Node& node) { CHECK(d.in_latent(node)); }
void decompose_head_concat(Decomposer& d, const Node& node) { CHECK(d.in_latent(node)); }

void decompose_gather_cols(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node),
             d.add(OnnxOp::Gather, {d.flat(node.inputs[0]), d.weight(node.inputs[1], OnnxType::int64)}, {2}));
}

void decompose_rope(Decomposer& d, const Node& node) {
  const Attrs& a = node.attrs;
  const std::int64_t begin = a.i(Attr::begin);
  const std::int64_t rotary = a.i(Attr::rotary);
  int x = d.columns(node.inputs[0], a.i(Attr::heads), begin, rotary);
  const auto [cos, sin] = d.rope_table(node.inputs[1], a.f(Attr::scale, 1));
  if (a.i(Attr::interleaved) != 0) {
    const auto dims = d.shape(x).dims;
    const int pairs = d.add(OnnxOp::Reshape, {x}, {dims[0], dims[1], dims[2], rotary / 2, 2});
    x = d.add(OnnxOp::Reshape, {d.add(OnnxOp::Transpose, {pairs}, {0, 1, 2, 4, 3})}, dims);
  }
  const int straight = d.add(OnnxOp::Mul, {x, cos});
  const int crossed = d.add(OnnxOp::Mul, {rotate_half(d, x), sin});
  const int out = d.add(OnnxOp::Add, {straight, crossed});
  if (rotary == a.i(Attr::stride)) {
    d.set_headed(out_of(node), out);
  } else {
    d.set_part(out_of(node), out, begin, rotary, node.inputs[0]);
  }
}

void decompose_kv_write(Decomposer& d, const Node& node) {
  d.write(out_of(node), node.inputs[1], node.inputs[0], node.attrs.i(Attr::col));
}

void decompose_attention(Decomposer& d, const Node& node) {
  const Attrs& a = node.attrs;
  const std::int64_t heads = a.i(Attr::heads);
  const std::int64_t kv_heads = a.i(Attr::kv_heads);
  ValueId out = out_of(node);
  int q = -1;
  int keys = -1;
  int values = -1;
  if (const auto latent = d.latent(node)) {
    q = latent->q;
    keys = latent->keys;
    values = latent->values;
    out = latent->out;
  } else {
    q = d.headed(node.inputs[0], heads);
    keys = repeat_heads(d, d.cache(node.inputs[1], kv_heads), heads);
    values = repeat_heads(d, d.cache(node.inputs[2], kv_heads), heads);
  }
  int scores = d.add(OnnxOp::MatMul, {q, d.add(OnnxOp::Transpose, {keys}, {0, 1, 3, 2})});
  scores = d.add(OnnxOp::Mul, {scores, d.number(a.f(Attr::scale), f16)});
  if (a.f(Attr::softcap) > 0) scores = capped(d, scores, a.f(Attr::softcap));
  scores = d.add(OnnxOp::Add, {scores, d.mask(a.i(Attr::window))});
  const int shares = d.cast(d.add(OnnxOp::Softmax, {d.cast(scores, f32)}, {3}), f16);
  d.set_headed(out, d.add(OnnxOp::MatMul, {shares, values}));
}

void decompose_add(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node), d.add(OnnxOp::Add, {d.flat(node.inputs[0]), d.flat(node.inputs[1])}));
}

void decompose_scale(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node), d.add(OnnxOp::Mul, {d.flat(node.inputs[0]), d.number(node.attrs.f(Attr::scale, 1), f16)}));
}

void decompose_gated_act(Decomposer& d, const Node& node) {
  const int gate = activate(d, d.flat(node.inputs[0]), node.attrs.i(Attr::act));
  d.set_flat(out_of(node), d.add(OnnxOp::Mul, {gate, d.flat(node.inputs[1])}));
}

void decompose_sigmoid_scale(Decomposer& d, const Node& node) {
  const int gate = d.add(OnnxOp::Sigmoid, {d.flat(node.inputs[1])});
  d.set_flat(out_of(node), d.add(OnnxOp::Mul, {gate, d.flat(node.inputs[0])}));
}

void decompose_softcap(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node), capped(d, d.flat(node.inputs[0]), node.attrs.f(Attr::softcap)));
}

void decompose_select_rows(Decomposer& d, const Node& node) {
  const int x = d.flat(node.inputs[0]);
  d.set_flat(out_of(node), d.tokens() == 1 ? x : d.add(OnnxOp::Slice, {x}, {1, d.tokens() - 1, d.tokens()}));
}

}  // namespace knapsack
