// A hand-written decoder of two layers with every part a small Llama has, its weights drawn from a fixed sequence.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace knapsack::testing {

struct Tiny {
  std::int64_t vocab = 37, hidden = 24, heads = 4, kv_heads = 2, head_dim = 6, ffn = 40, layers = 2;
};

// Numbers in (-1, 1), the same on every machine.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  float next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<float>(static_cast<double>(state_ >> 11) * 0x1p-53 * 2 - 1);
  }

 private:
  std::uint64_t state_;
};

inline std::shared_ptr<const Weight> f32_weight(std::string name, std::vector<std::int64_t> shape,
                                                std::vector<float> values) {
  auto data = std::make_shared<const std::vector<float>>(std::move(values));
  auto weight = std::make_shared<Weight>();
  weight->name = std::move(name);
  weight->shape = std::move(shape);
  weight->slabs = {reinterpret_cast<const std::byte*>(data->data())};
  weight->owners = {data};
  return weight;
}

inline std::shared_ptr<const Weight> random_weight(const std::string& name, std::vector<std::int64_t> shape,
                                                   float size = 0.5F) {
  std::int64_t count = 1;
  for (const auto d : shape) count *= d;
  std::uint64_t seed = 7;
  for (const char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
  Noise noise(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = noise.next() * size;
  return f32_weight(name, std::move(shape), std::move(values));
}

inline std::shared_ptr<const Weight> tiny_inv_freq(const Tiny& t) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < t.head_dim / 2; ++i)
    values.push_back(
        static_cast<float>(std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(t.head_dim))));
  return f32_weight("inv_freq", {t.head_dim / 2}, values);
}

inline Graph tiny_graph(const Tiny& t) {
  Graph g;
  const auto matrix = [&](const std::string& name, std::int64_t n, std::int64_t k) {
    return g.constant(random_weight(name, {n, k}, 0.4F));
  };
  const auto norm = [&](const std::string& name, ValueId x) {
    return g.node(Op::rms_norm, name, {x, g.constant(random_weight(name + ".weight", {t.hidden}, 1.5F))},
                  Attrs().set(Attr::eps, 1e-5));
  };
  const ValueId ids = g.input("ids", DType::I32, {tokens_dim, 1});
  const ValueId inv_freq = g.constant(tiny_inv_freq(t));
  ValueId x = g.node(Op::embed, "embed", {ids, matrix("embed.weight", t.vocab, t.hidden)});
  for (std::int64_t layer = 0; layer < t.layers; ++layer) {
    const std::string at = "layers." + std::to_string(layer) + ".";
    const auto linear = [&](const std::string& name, ValueId in, std::int64_t n, std::int64_t k) {
      return g.node(Op::linear, at + name, {in, matrix(at + name + ".weight", n, k)});
    };
    const auto rope = [&](const std::string& name, ValueId in, std::int64_t heads) {
      return g.node(Op::rope, at + name, {in, inv_freq},
                    Attrs().set(Attr::heads, heads).set(Attr::stride, t.head_dim).set(Attr::rotary, t.head_dim));
    };
    const std::int64_t kv_cols = t.kv_heads * t.head_dim;
    const ValueId h = norm(at + "attn_norm", x);
    const ValueId q = rope("attn.q_rope", linear("attn.q", h, t.heads * t.head_dim, t.hidden), t.heads);
    const ValueId k = rope("attn.k_rope", linear("attn.k", h, kv_cols, t.hidden), t.kv_heads);
    const ValueId v = linear("attn.v", h, kv_cols, t.hidden);
    const ValueId ks = g.node(Op::kv_write, at + "kv.k.write", {k, g.state(at + "kv.k", kv_cols)});
    const ValueId vs = g.node(Op::kv_write, at + "kv.v.write", {v, g.state(at + "kv.v", kv_cols)});
    const ValueId a = g.node(Op::attention, at + "attn.mix", {q, ks, vs},
                             Attrs()
                                 .set(Attr::heads, t.heads)
                                 .set(Attr::kv_heads, t.kv_heads)
                                 .set(Attr::head_dim, t.head_dim)
                                 .set(Attr::scale, 1 / std::sqrt(static_cast<double>(t.head_dim))));
    x = g.node(Op::add, at + "attn.out", {x, linear("attn.o", a, t.hidden, t.heads * t.head_dim)});
    const ValueId m = norm(at + "mlp_norm", x);
    const ValueId act = g.node(Op::gated_act, at + "mlp.act",
                               {linear("mlp.gate", m, t.ffn, t.hidden), linear("mlp.up", m, t.ffn, t.hidden)});
    x = g.node(Op::add, at + "out", {x, linear("mlp.down", act, t.hidden, t.ffn)});
  }
  x = norm("norm", x);
  x = g.node(Op::select_rows, "last", {x});
  g.set_output(g.node(Op::linear, "logits", {x, matrix("head.weight", t.vocab, t.hidden)}));
  return g;
}

}  // namespace knapsack::testing
