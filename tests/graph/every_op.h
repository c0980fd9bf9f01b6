// A graph in which every op of ops.inc occurs: a decoder with latent attention, groups of experts and odd names.
#pragma once

#include <utility>

#include "graph/tiny.h"

namespace knapsack::testing {

inline std::shared_ptr<const Weight> index_constant(const std::string& name, std::int64_t count) {
  auto data = std::make_shared<std::vector<std::int32_t>>();
  for (std::int64_t i = 0; i < count; ++i) data->push_back(static_cast<std::int32_t>((i * 5 + 3) % count));
  auto weight = std::make_shared<Weight>();
  weight->name = name;
  weight->dtype = DType::I32;
  weight->shape = {count};
  weight->slabs = {reinterpret_cast<const std::byte*>(data->data())};
  weight->owners = {data};
  return weight;
}

inline Graph every_op_graph() {
  constexpr std::int64_t vocab = 29, hidden = 16, heads = 2, nope = 6, rotary = 4, latent = 8, v_dim = 5, experts = 6,
                         ffn = 7;
  Graph g;
  const auto weight = [&](const std::string& name, std::vector<std::int64_t> shape) {
    return g.constant(random_weight(name, std::move(shape)));
  };
  const auto linear = [&](const std::string& name, ValueId x, std::int64_t n, std::int64_t k) {
    return g.node(Op::linear, name, {x, weight(name + ".weight", {n, k}), weight(name + ".bias", {n})});
  };
  const auto norm = [&](const std::string& name, ValueId x, std::int64_t width) {
    return g.node(Op::rms_norm, name, {x, weight(name + ".weight", {width})},
                  Attrs().set(Attr::eps, 1e-6).set(Attr::offset, 1.0).set(Attr::width, width));
  };
  const ValueId ids = g.input("ids", DType::I32, {tokens_dim, 1});
  const ValueId table = weight("embed.weight", {vocab, hidden});
  const ValueId inv_freq = weight("inv_freq", {rotary / 2});
  ValueId x = g.node(Op::embed, "embed", {ids, table}, Attrs().set(Attr::scale, 4.0));
  x = g.node(Op::gather_cols, "act order", {x, g.constant(index_constant("g_idx", hidden))});

  const auto rope = [&](const std::string& name, ValueId in, std::int64_t n, std::int64_t stride, std::int64_t begin) {
    return g.node(Op::rope, name, {in, inv_freq},
                  Attrs()
                      .set(Attr::heads, n)
                      .set(Attr::stride, stride)
                      .set(Attr::begin, begin)
                      .set(Attr::rotary, rotary)
                      .set(Attr::interleaved, 1)
                      .set(Attr::scale, 1.1));
  };
  const ValueId h = norm("attn \"norm\" \\ \n\x7f", x, hidden);
  const ValueId q = rope("q_rope", linear("q", h, heads * (nope + rotary), hidden), heads, nope + rotary, nope);
  const ValueId kv_b = weight("kv_b.weight", {heads * (nope + v_dim), latent});
  const ValueId q_latent = g.node(Op::head_linear, "q_latent", {q, kv_b},
                                  Attrs()
                                      .set(Attr::heads, heads)
                                      .set(Attr::in_stride, nope + rotary)
                                      .set(Attr::head_rows, nope + v_dim)
                                      .set(Attr::rows, nope)
                                      .set(Attr::transposed, 1));
  const ValueId q_all = g.node(Op::head_concat, "q_all", {q_latent, q},
                               Attrs()
                                   .set(Attr::heads, heads)
                                   .set(Attr::a_cols, latent)
                                   .set(Attr::b_stride, nope + rotary)
                                   .set(Attr::b_offset, nope)
                                   .set(Attr::b_cols, rotary));
  ValueId cache = g.state("kv", latent + rotary);
  cache = g.node(Op::kv_write, "kv.latent", {norm("kv_norm", linear("kv_a", h, latent, hidden), latent), cache});
  cache = g.node(Op::kv_write, "kv.rope", {rope("k_rope", linear("k_pe", h, rotary, hidden), 1, rotary, 0), cache},
                 Attrs().set(Attr::col, latent));
  const ValueId mix = g.node(Op::attention, "mix", {q_all, cache, cache},
                             Attrs()
                                 .set(Attr::heads, heads)
                                 .set(Attr::kv_heads, 1)
                                 .set(Attr::head_dim, latent + rotary)
                                 .set(Attr::v_dim, latent)
                                 .set(Attr::scale, 0.1234567890123)
                                 .set(Attr::window, 9)
                                 .set(Attr::softcap, 50.0));
  const ValueId values = g.node(Op::head_linear, "values", {mix, kv_b},
                                Attrs()
                                    .set(Attr::heads, heads)
                                    .set(Attr::in_stride, latent)
                                    .set(Attr::head_rows, nope + v_dim)
                                    .set(Attr::row_offset, nope)
                                    .set(Attr::rows, v_dim));
  x = g.node(Op::add, "attn.out", {x, linear("o", values, hidden, heads * v_dim)});

  const ValueId m = norm("mlp_norm", x, hidden);
  const auto routed =
      g.nodes(Op::router, "router", {linear("gate", m, experts, hidden), weight("correction", {experts})},
              Attrs()
                  .set(Attr::experts, experts)
                  .set(Attr::top_k, 2)
                  .set(Attr::score, 1)
                  .set(Attr::norm_topk, 1)
                  .set(Attr::scale, 2.5)
                  .set(Attr::groups, 3)
                  .set(Attr::top_groups, 2)
                  .set(Attr::group_score, 1));
  const ValueId moe = g.node(Op::moe, "moe",
                             {m, routed[0], routed[1], weight("e.gate", {experts, ffn, hidden}),
                              weight("e.up", {experts, ffn, hidden}), weight("e.down", {experts, hidden, ffn})},
                             Attrs().set(Attr::top_k, 2).set(Attr::act, 1));
  const ValueId act =
      g.node(Op::gated_act, "shared.act", {linear("s.gate", m, ffn, hidden), linear("s.up", m, ffn, hidden)},
             Attrs().set(Attr::act, 2));
  const ValueId shared =
      g.node(Op::sigmoid_scale, "shared", {linear("s.down", act, hidden, ffn), linear("s.g", m, 1, hidden)});
  x = g.node(
      Op::add, "out",
      {g.node(Op::add, "both", {moe, shared}), g.node(Op::scale, "residual", {x}, Attrs().set(Attr::scale, 0.5))});
  x = g.node(Op::select_rows, "last", {norm("norm", x, hidden)});
  x = g.node(Op::linear, "head", {x, table});
  g.set_output(g.node(Op::softcap, "logits", {x}, Attrs().set(Attr::softcap, 30.0)));
  return g;
}

}  // namespace knapsack::testing
