// How each op of ours is written in primitive operators, but for experts (experts.cc). The forms are those of Hugging
// Face's models as torch exports them, in float16 where that is asked for: norms, tables of positions and softmax are
// computed in float32 between Casts, weights are the right side of MatMul, rsqrt is 1 / Sqrt.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "graph/decompose/decomposer.h"

namespace knapsack {
namespace {

constexpr DType f32 = DType::F32;

ValueId out_of(const Node& node) { return node.outputs.front(); }

// [1, heads, tokens, columns] -> the halves swapped, the second one negated.
ValueId rotate_half(Decomposer& d, ValueId x) {
  const std::int64_t columns = d.dims(x)[3];
  const ValueId first = d.slice(x, 3, 0, columns / 2);
  const ValueId second = d.slice(x, 3, columns / 2, columns);
  return d.concat({d.add(Op::Neg, {second}), first}, 3);
}

// Each KV head as often as query heads read it.
ValueId repeat_heads(Decomposer& d, ValueId x, std::int64_t heads) {
  const Decomposer::Numbers dims = d.dims(x);
  if (dims[1] == heads) return x;
  d.purpose(Purpose::repeat_heads);
  const ValueId apart = d.unsqueeze(x, 2);
  const ValueId repeated = d.expand(apart, {1, dims[1], heads / dims[1], dims[2], dims[3]});
  const ValueId out = d.reshape(repeated, {1, heads, dims[2], dims[3]});
  d.purpose(Purpose::plain);
  return out;
}

// Of each head.
ValueId first_columns(Decomposer& d, ValueId x, std::int64_t count) {
  const std::int64_t width = d.dims(x)[3];
  return width == count ? x : d.slice(x, 3, 0, count);
}

ValueId capped(Decomposer& d, ValueId x, float cap) {
  const ValueId limit = d.number(cap, d.floats());
  return d.add(Op::Mul, {d.add(Op::Tanh, {d.add(Op::Div, {x, limit})}), limit});
}

}  // namespace

ValueId activate(Decomposer& d, ValueId x, std::int64_t act) {
  if (act == 0) return d.add(Op::Mul, {x, d.add(Op::Sigmoid, {x})});
  ValueId inner = 0;
  if (act == 1) {
    inner = d.add(Op::Erf, {d.add(Op::Div, {x, d.number(std::numbers::sqrt2, d.floats())})});
  } else {
    const ValueId cube = d.add(Op::Mul, {x, d.add(Op::Mul, {x, x})});
    const ValueId sum = d.add(Op::Add, {x, d.add(Op::Mul, {cube, d.number(0.044715, d.floats())})});
    inner =
        d.add(Op::Tanh, {d.add(Op::Mul, {sum, d.number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi, d.floats())})});
  }
  const ValueId factor = d.add(Op::Add, {inner, d.number(1, d.floats())});
  return d.add(Op::Mul, {d.add(Op::Mul, {x, factor}), d.number(0.5, d.floats())});
}

void decompose_embed(Decomposer& d, const Node& node) {
  ValueId ids = d.ids();
  if (!d.appends()) ids = d.reshape(ids, {1, d.tokens()});
  d.purpose(Purpose::embedding);
  ValueId out = d.add(Op::Gather, {d.weight(node.inputs[1]), ids}, axis(0));
  d.purpose(Purpose::plain);
  const float scale = node.attrs.f(Attr::scale, 1);
  if (scale != 1) out = d.add(Op::Mul, {out, d.number(scale, d.floats())});
  d.set_flat(out_of(node), out);
}

void decompose_rms_norm(Decomposer& d, const Node& node) {
  const std::int64_t cols = d.source().value(node.inputs[0]).cols();
  const std::int64_t heads = cols / node.attrs.i(Attr::width, cols);
  const ValueId x = d.cast(heads == 1 ? d.flat(node.inputs[0]) : d.split(node.inputs[0], heads), f32);
  const std::int64_t last = static_cast<std::int64_t>(d.dims(x).size()) - 1;
  const ValueId mean = d.add(Op::ReduceMean, {d.add(Op::Pow, {x, d.number(2, f32)})}, axes({last}, true));
  const ValueId root = d.add(Op::Sqrt, {d.add(Op::Add, {mean, d.number(node.attrs.f(Attr::eps), f32)})});
  ValueId out = d.add(Op::Mul, {x, d.add(Op::Div, {d.number(1, f32), root})});
  const bool weighted = node.inputs.size() > 1;
  const bool shifted = node.attrs.f(Attr::offset) != 0;  // its factor, 1 + w, is folded and still of float32
  if (weighted && shifted) out = d.add(Op::Mul, {out, d.shifted(node.inputs[1], node.attrs.f(Attr::offset))});
  out = d.cast(out, d.floats());
  if (weighted && !shifted) out = d.add(Op::Mul, {d.weight(node.inputs[1]), out});
  if (heads == 1) {
    d.set_flat(out_of(node), out);
  } else {
    d.set_split(out_of(node), out);
  }
}

void decompose_linear(Decomposer& d, const Node& node) {
  const auto family = d.siblings(node);
  if (family.empty()) {
    ValueId out = d.add(Op::MatMul, {d.flat(node.inputs[0]), d.matrix(node.inputs[1])});
    if (node.inputs.size() > 2) out = d.add(Op::Add, {d.weight(node.inputs[2]), out});
    d.set_flat(out_of(node), out);
    return;
  }
  // One matrix in the checkpoint (qkv_proj, gate_up_proj): exporters multiply by the whole and split the product.
  if (family.front() != &node) return;
  std::vector<ValueId> parts;
  std::vector<ValueId> biases;
  Decomposer::Numbers sizes;
  for (const Node* each : family) {
    parts.push_back(each->inputs[1]);
    if (each->inputs.size() > 2) biases.push_back(each->inputs[2]);
    sizes.push_back(d.source().value(each->inputs[1]).weight->shape[0]);
  }
  const auto whole = [&](ValueId part) {
    const std::string& name = d.source().value(part).name;
    return name.substr(0, name.rfind('['));
  };
  ValueId out = d.add(Op::MatMul, {d.flat(node.inputs[0]), d.matrix_rows(whole(parts.front()) + ".T", parts)});
  if (biases.size() == family.size()) out = d.add(Op::Add, {d.matrix_rows(whole(biases.front()), biases), out});
  const auto made = d.split(out, 2, std::move(sizes));
  for (std::size_t i = 0; i < made.size(); ++i) d.set_flat(out_of(*family[i]), made[i]);
}

// Exporters have both as parts of attention on a latent, which writes them otherwise (latent.cc).
void decompose_head_linear(Decomposer& d, const Node& node) {
  if (d.appends()) {
    CHECK(d.in_latent(node));
    return;
  }
  const Attrs& a = node.attrs;
  const std::int64_t heads = a.i(Attr::heads);
  const std::int64_t rows = a.i(Attr::rows);
  const bool transposed = a.i(Attr::transposed) != 0;
  const Value& value = d.source().value(node.inputs[1]);
  const Weight& w = *value.weight;
  // The rows of each head, one matrix each: [heads, rows, columns].
  auto parts = std::make_shared<Weight>(w);
  parts->name = fmt::format("{}[{}+{}*{}:{}]", w.name, a.i(Attr::row_offset), heads, a.i(Attr::head_rows), rows);
  parts->shape = {heads, rows, w.shape[1]};
  if (!w.slabs.empty()) {
    parts->slabs.clear();
    for (std::int64_t h = 0; h < heads; ++h)
      parts->slabs.push_back(w.slab(0) + (h * a.i(Attr::head_rows) + a.i(Attr::row_offset)) * w.row_size());
  }
  const std::string name = parts->name + (transposed ? "" : ".T");
  const ValueId matrices = d.constant(std::move(parts), {.transposed = !transposed, .as = d.floats(), .name = name});
  const ValueId x = d.columns(node.inputs[0], heads, a.i(Attr::in_offset), transposed ? rows : w.shape[1]);
  d.set_headed(out_of(node), d.add(Op::MatMul, {x, matrices}));
}

void decompose_head_concat(Decomposer& d, const Node& node) {
  if (d.appends()) {
    CHECK(d.in_latent(node));
    return;
  }
  const Attrs& a = node.attrs;
  const std::int64_t heads = a.i(Attr::heads);
  const ValueId first = d.headed(node.inputs[0], heads);
  const ValueId second = d.columns(node.inputs[1], heads, a.i(Attr::b_offset), a.i(Attr::b_cols));
  d.set_headed(out_of(node), d.concat({first, second}, 3));
}

void decompose_gather_cols(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node), d.add(Op::Gather, {d.flat(node.inputs[0]), d.index(node.inputs[1])}, axis(2)));
}

namespace {

// By cos and sin of [1, 1, tokens, rotary].
void rotate(Decomposer& d, const Node& node, std::pair<ValueId, ValueId> table) {
  const Attrs& a = node.attrs;
  const std::int64_t begin = a.i(Attr::begin);
  const std::int64_t rotary = a.i(Attr::rotary);
  ValueId x = d.columns(node.inputs[0], a.i(Attr::heads), begin, rotary);
  const auto [cos, sin] = table;
  const bool interleaved = a.i(Attr::interleaved) != 0;
  const Decomposer::Numbers dims = d.dims(x);
  if (interleaved) {
    const ValueId pairs = d.reshape(x, {dims[0], dims[1], dims[2], rotary / 2, 2});
    x = d.reshape(d.transpose(pairs, {0, 1, 2, 4, 3}), dims);
  }
  const ValueId straight = d.add(Op::Mul, {x, cos});
  const ValueId crossed = d.add(Op::Mul, {rotate_half(d, x), sin});
  ValueId out = d.add(Op::Add, {straight, crossed});
  // Exporters leave the columns so, of queries and keys alike.
  if (interleaved && !d.appends()) {
    const ValueId halves = d.reshape(out, {dims[0], dims[1], dims[2], 2, rotary / 2});
    out = d.reshape(d.transpose(halves, {0, 1, 2, 4, 3}), dims);
  }
  if (rotary == a.i(Attr::stride)) {
    d.set_headed(out_of(node), out);
  } else {
    d.set_part(out_of(node), out, begin, rotary, node.inputs[0]);
  }
}

}  // namespace

void decompose_rope(Decomposer& d, const Node& node) {
  rotate(d, node, d.rope_table(node.inputs[1], node.attrs.f(Attr::scale, 1)));
}

void decompose_rope_cached(Decomposer& d, const Node& node) {
  rotate(d, node, d.rope_rows(node.inputs[1], node.inputs[2]));
}

void decompose_kv_write(Decomposer& d, const Node& node) { d.write(node); }

void decompose_attention(Decomposer& d, const Node& node) {
  const Attrs& a = node.attrs;
  const std::int64_t heads = a.i(Attr::heads);
  const std::int64_t kv_heads = a.i(Attr::kv_heads);
  ValueId out = out_of(node);
  ValueId q = -1;
  ValueId keys = -1;
  ValueId values = -1;
  if (const auto latent = d.latent(node)) {
    q = latent->q;
    keys = latent->keys;
    values = latent->values;
    out = latent->out;
  } else {
    const std::int64_t head_dim = a.i(Attr::head_dim);
    q = d.headed(node.inputs[0], heads);
    keys = repeat_heads(d, first_columns(d, d.cache(node.inputs[1], kv_heads), head_dim), heads);
    values = repeat_heads(d, first_columns(d, d.cache(node.inputs[2], kv_heads), a.i(Attr::v_dim, head_dim)), heads);
  }
  ValueId scores = d.add(Op::MatMul, {q, d.transpose(keys, {0, 1, 3, 2})});
  scores = d.add(Op::Mul, {scores, d.number(a.f(Attr::scale), d.floats())});
  if (a.f(Attr::softcap) > 0) scores = capped(d, scores, a.f(Attr::softcap));
  scores = d.add(Op::Add, {scores, d.mask(a.i(Attr::window))});
  const ValueId shares = d.cast(d.add(Op::Softmax, {d.cast(scores, f32)}, axis(3)), d.floats());
  d.set_headed(out, d.add(Op::MatMul, {shares, values}));
}

void decompose_add(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node), d.add(Op::Add, {d.flat(node.inputs[0]), d.flat(node.inputs[1])}));
}

void decompose_scale(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node),
             d.add(Op::Mul, {d.flat(node.inputs[0]), d.number(node.attrs.f(Attr::scale, 1), d.floats())}));
}

void decompose_gated_act(Decomposer& d, const Node& node) {
  const ValueId gate = activate(d, d.flat(node.inputs[0]), node.attrs.i(Attr::act));
  d.set_flat(out_of(node), d.add(Op::Mul, {gate, d.flat(node.inputs[1])}));
}

void decompose_sigmoid_scale(Decomposer& d, const Node& node) {
  const ValueId gate = d.add(Op::Sigmoid, {d.flat(node.inputs[1])});
  d.set_flat(out_of(node), d.add(Op::Mul, {gate, d.flat(node.inputs[0])}));
}

void decompose_softcap(Decomposer& d, const Node& node) {
  d.set_flat(out_of(node), capped(d, d.flat(node.inputs[0]), node.attrs.f(Attr::softcap)));
}

void decompose_select_rows(Decomposer& d, const Node& node) {
  const ValueId x = d.flat(node.inputs[0]);
  d.set_flat(out_of(node), d.tokens() == 1 ? x : d.slice(x, 1, d.tokens() - 1, d.tokens()));
}

// Written already: the form that runs keeps positions and rows, and fused ops are taken apart before.
void decompose_fused_linear(Decomposer&, const Node&) { CHECK(false); }
void decompose_positions(Decomposer&, const Node&) { CHECK(false); }
void decompose_kv_read(Decomposer&, const Node&) { CHECK(false); }

}  // namespace knapsack
