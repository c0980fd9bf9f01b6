#include "import/decoder.h"

#include "import/rope.h"

namespace knapsack {
namespace {

Attrs attrs() { return {}; }

std::shared_ptr<const Weight> slice(const Weight& whole, std::int64_t begin, std::int64_t count) {
  Weight part = whole.rows(begin, count);
  part.name = fmt::format("{}[{}:{}]", whole.name, begin, begin + count);
  return std::make_shared<const Weight>(std::move(part));
}

// Heads of a stack [heads, rows, cols] one below the other.
std::shared_ptr<const Weight> flattened(const Weight& stack) {
  Weight flat = stack;
  flat.shape = {stack.shape[0] * stack.shape[1], stack.shape[2]};
  return std::make_shared<const Weight>(std::move(flat));
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const Weights& weights, std::int64_t ctx)
    : config_(config), weights_(weights) {
  const auto table = [&](const RopeConfig& rope, const char* name, Rope& out) {
    const RopeTable values = rope_table(rope, config.rotary(), ctx);
    const auto size = static_cast<std::int64_t>(values.inv_freq.size());
    out = {constant(f32_weight(name, {size}, values.inv_freq)), values.scale};
  };
  table(config.rope, "rope.inv_freq", ropes_[0]);
  if (config.local_rope) table(*config.local_rope, "rope.local.inv_freq", ropes_[1]);
}

std::string Decoder::layer_name(std::int64_t layer) { return fmt::format("layers.{}", layer); }

ValueId Decoder::constant(const std::shared_ptr<const Weight>& weight) {
  const auto [it, fresh] = constants_.try_emplace(weight.get(), -1);
  if (fresh) it->second = graph_.constant(weight);
  return it->second;
}

const LoadedWeight* Decoder::bias_of(const std::string& weight) const {
  const std::string bias = weight.substr(0, weight.rfind('.')) + ".bias";
  return weights_.has(bias) ? &weights_.at(bias) : nullptr;
}

ValueId Decoder::ordered(const std::string& name, ValueId x, const LoadedWeight& weight) {
  if (weight.order == nullptr) return x;
  return graph_.node(Op::gather_cols, name + ".order", {x, constant(weight.order)});
}

ValueId Decoder::linear(const std::string& name, ValueId x, const std::string& weight) {
  const LoadedWeight& w = weights_.at(weight);
  std::vector<ValueId> inputs{ordered(name, x, w), constant(w.weight)};
  if (const LoadedWeight* bias = bias_of(weight)) inputs.push_back(constant(bias->weight));
  return graph_.node(Op::linear, name, std::move(inputs));
}

ValueId Decoder::linear_rows(const std::string& name, ValueId x, const std::string& weight, std::int64_t begin,
                             std::int64_t count) {
  const LoadedWeight& w = weights_.at(weight);
  std::vector<ValueId> inputs{ordered(name, x, w), constant(slice(*w.weight, begin, count))};
  if (const LoadedWeight* bias = bias_of(weight)) inputs.push_back(constant(slice(*bias->weight, begin, count)));
  return graph_.node(Op::linear, name, std::move(inputs));
}

ValueId Decoder::head_norm(const std::string& name, ValueId x, const std::string& weight, double eps,
                           std::int64_t width) {
  return graph_.node(Op::rms_norm, name, {x, constant(weights_.at(weight).weight)},
                     attrs().set(Attr::eps, eps).set(Attr::offset, config_.norm_offset).set(Attr::width, width));
}

ValueId Decoder::norm(const std::string& name, ValueId x, const std::string& weight) {
  return head_norm(name, x, weight, config_.norm_eps, config_.hidden);
}

ValueId Decoder::add(const std::string& name, ValueId a, ValueId b) { return graph_.node(Op::add, name, {a, b}); }

ValueId Decoder::embed() {
  const ValueId ids = graph_.input("ids", DType::I32, {tokens_dim, 1});
  return graph_.node(Op::embed, "embed", {ids, constant(weights_.at("model.embed_tokens.weight").weight)},
                     attrs().set(Attr::scale, config_.embedding_scale));
}

ValueId Decoder::rope(const std::string& name, ValueId x, std::int64_t layer, std::int64_t heads, std::int64_t stride,
                      std::int64_t begin) {
  const bool local = config_.local_rope.has_value() && config_.window(layer) > 0;
  const Rope& table = ropes_[local ? 1 : 0];
  return graph_.node(Op::rope, name, {x, table.inv_freq},
                     attrs()
                         .set(Attr::heads, heads)
                         .set(Attr::stride, stride)
                         .set(Attr::begin, begin)
                         .set(Attr::rotary, config_.rotary())
                         .set(Attr::interleaved, config_.rope.interleaved ? 1 : 0)
                         .set(Attr::scale, table.scale));
}

ValueId Decoder::attention(std::int64_t layer, ValueId x) {
  const ModelConfig& c = config_;
  const std::string n = layer_name(layer) + ".attn.";
  const std::string p = layer_prefix(layer) + "self_attn.";
  const std::int64_t q_cols = c.heads * c.head_dim;
  const std::int64_t kv_cols = c.kv_heads * c.head_dim;
  ValueId q = 0;
  ValueId k = 0;
  ValueId v = 0;
  if (c.fused) {
    q = linear_rows(n + "q_proj", x, p + "qkv_proj.weight", 0, q_cols);
    k = linear_rows(n + "k_proj", x, p + "qkv_proj.weight", q_cols, kv_cols);
    v = linear_rows(n + "v_proj", x, p + "qkv_proj.weight", q_cols + kv_cols, kv_cols);
  } else {
    q = linear(n + "q_proj", x, p + "q_proj.weight");
    k = linear(n + "k_proj", x, p + "k_proj.weight");
    v = linear(n + "v_proj", x, p + "v_proj.weight");
  }
  if (c.qk_norm) {
    q = head_norm(n + "q_norm", q, p + "q_norm.weight", c.norm_eps, c.head_dim);
    k = head_norm(n + "k_norm", k, p + "k_norm.weight", c.norm_eps, c.head_dim);
  }
  q = rope(n + "q_rope", q, layer, c.heads, c.head_dim, 0);
  k = rope(n + "k_rope", k, layer, c.kv_heads, c.head_dim, 0);
  const std::string kv = layer_name(layer) + ".kv.";
  const ValueId keys =
      graph_.node(Op::kv_write, n + "k_write", {k, graph_.state(kv + "k", kv_cols)}, attrs().set(Attr::col, 0));
  const ValueId values =
      graph_.node(Op::kv_write, n + "v_write", {v, graph_.state(kv + "v", kv_cols)}, attrs().set(Attr::col, 0));
  const ValueId context = graph_.node(Op::attention, n + "context", {q, keys, values},
                                      attrs()
                                          .set(Attr::heads, c.heads)
                                          .set(Attr::kv_heads, c.kv_heads)
                                          .set(Attr::head_dim, c.head_dim)
                                          .set(Attr::v_dim, c.head_dim)
                                          .set(Attr::v_stride, c.head_dim)
                                          .set(Attr::scale, c.attention_scale)
                                          .set(Attr::window, c.window(layer))
                                          .set(Attr::softcap, c.attention_softcap));
  return linear(n + "o_proj", context, p + "o_proj.weight");
}

// Multi-head latent attention in absorbed form: keys and values stay the latent the cache holds,
// [normed c_kv | rotated k_rope]; W_UK moves to the query's side, W_UV behind the attention.
ValueId Decoder::mla(std::int64_t layer, ValueId x) {
  const ModelConfig& c = config_;
  const std::string n = layer_name(layer) + ".attn.";
  const std::string p = layer_prefix(layer) + "self_attn.";
  const std::int64_t q_head = c.qk_nope + c.qk_rope;
  ValueId q = 0;
  if (c.q_lora > 0) {
    q = linear(n + "q_a_proj", x, p + "q_a_proj.weight");
    q = head_norm(n + "q_a_norm", q, p + "q_a_layernorm.weight", c.latent_eps, c.q_lora);
    q = linear(n + "q_b_proj", q, p + "q_b_proj.weight");
  } else {
    q = linear(n + "q_proj", x, p + "q_proj.weight");
  }
  ValueId latent = linear_rows(n + "kv_latent", x, p + "kv_a_proj_with_mqa.weight", 0, c.kv_lora);
  latent = head_norm(n + "kv_norm", latent, p + "kv_a_layernorm.weight", c.latent_eps, c.kv_lora);
  ValueId k_rope = linear_rows(n + "k_pos", x, p + "kv_a_proj_with_mqa.weight", c.kv_lora, c.qk_rope);
  k_rope = rope(n + "k_rope", k_rope, layer, 1, c.qk_rope, 0);

  ValueId up_k = 0;
  ValueId up_v = 0;
  Attrs absorb = attrs().set(Attr::heads, c.heads).set(Attr::in_stride, q_head).set(Attr::in_offset, 0);
  Attrs expand = attrs().set(Attr::heads, c.heads).set(Attr::in_stride, c.kv_lora).set(Attr::in_offset, 0);
  if (c.split_kv_b) {
    up_k = constant(flattened(*weights_.at(p + "k_b_proj.weight").weight));
    up_v = constant(flattened(*weights_.at(p + "v_b_proj.weight").weight));
    absorb.set(Attr::head_rows, c.kv_lora).set(Attr::row_offset, 0).set(Attr::rows, c.kv_lora).set(Attr::transposed, 0);
    expand.set(Attr::head_rows, c.v_head).set(Attr::row_offset, 0).set(Attr::rows, c.v_head).set(Attr::transposed, 0);
  } else {
    up_k = up_v = constant(weights_.at(p + "kv_b_proj.weight").weight);
    absorb.set(Attr::head_rows, c.qk_nope + c.v_head)
        .set(Attr::row_offset, 0)
        .set(Attr::rows, c.qk_nope)
        .set(Attr::transposed, 1);
    expand.set(Attr::head_rows, c.qk_nope + c.v_head)
        .set(Attr::row_offset, c.qk_nope)
        .set(Attr::rows, c.v_head)
        .set(Attr::transposed, 0);
  }
  const ValueId q_latent = graph_.node(Op::head_linear, n + "q_latent", {q, up_k}, absorb);
  const ValueId q_rope = rope(n + "q_rope", q, layer, c.heads, q_head, c.qk_nope);
  const ValueId query = graph_.node(Op::head_concat, n + "q", {q_latent, q_rope},
                                    attrs()
                                        .set(Attr::heads, c.heads)
                                        .set(Attr::a_cols, c.kv_lora)
                                        .set(Attr::b_stride, q_head)
                                        .set(Attr::b_offset, c.qk_nope)
                                        .set(Attr::b_cols, c.qk_rope));
  const std::int64_t cols = c.kv_lora + c.qk_rope;
  const ValueId state = graph_.state(layer_name(layer) + ".kv.latent", cols);
  const ValueId first = graph_.node(Op::kv_write, n + "kv_write", {latent, state}, attrs().set(Attr::col, 0));
  const ValueId both = graph_.node(Op::kv_write, n + "k_write", {k_rope, first}, attrs().set(Attr::col, c.kv_lora));
  const ValueId context = graph_.node(Op::attention, n + "latent", {query, both, both},
                                      attrs()
                                          .set(Attr::heads, c.heads)
                                          .set(Attr::kv_heads, 1)
                                          .set(Attr::head_dim, cols)
                                          .set(Attr::v_dim, c.kv_lora)
                                          .set(Attr::v_stride, c.kv_lora)
                                          .set(Attr::scale, c.attention_scale)
                                          .set(Attr::window, 0)
                                          .set(Attr::softcap, 0.0));
  const ValueId heads = graph_.node(Op::head_linear, n + "context", {context, up_v}, expand);
  return linear(n + "o_proj", heads, p + "o_proj.weight");
}

ValueId Decoder::mlp(const std::string& name, const std::string& weights, ValueId x, std::int64_t ffn) {
  ValueId gate = 0;
  ValueId up = 0;
  if (config_.fused) {
    gate = linear_rows(name + "gate_proj", x, weights + "gate_up_proj.weight", 0, ffn);
    up = linear_rows(name + "up_proj", x, weights + "gate_up_proj.weight", ffn, ffn);
  } else {
    gate = linear(name + "gate_proj", x, weights + "gate_proj.weight");
    up = linear(name + "up_proj", x, weights + "up_proj.weight");
  }
  const ValueId act = graph_.node(Op::gated_act, name + "act", {gate, up}, attrs().set(Attr::act, config_.act));
  return linear(name + "down_proj", act, weights + "down_proj.weight");
}

ValueId Decoder::moe(std::int64_t layer, ValueId x, const std::string& shared) {
  const ModelConfig& c = config_;
  const std::string n = layer_name(layer) + ".mlp.";
  const std::string p = layer_prefix(layer) + "mlp.";
  std::vector<ValueId> inputs{linear(n + "router", x, p + "gate.weight")};
  if (c.router_correction) inputs.push_back(constant(weights_.at(p + "gate.e_score_correction_bias").weight));
  const auto chosen = graph_.nodes(Op::router, n + "experts", std::move(inputs),
                                   attrs()
                                       .set(Attr::experts, c.experts)
                                       .set(Attr::top_k, c.top_k)
                                       .set(Attr::score, c.sigmoid_router ? 1 : 0)
                                       .set(Attr::norm_topk, c.norm_topk ? 1 : 0)
                                       .set(Attr::scale, c.routed_scale)
                                       .set(Attr::groups, c.groups)
                                       .set(Attr::top_groups, c.top_groups)
                                       .set(Attr::group_score, c.groups > 1 ? c.group_score : 0));
  const auto stack = [&](const char* which) {
    return constant(weights_.at(p + "experts.*." + which + ".weight").weight);
  };
  ValueId out = graph_.node(Op::moe, n + "routed",
                            {x, chosen[0], chosen[1], stack("gate_proj"), stack("up_proj"), stack("down_proj")},
                            attrs().set(Attr::act, c.act).set(Attr::top_k, c.top_k));
  if (c.shared_ffn == 0) return out;
  ValueId always = mlp(n + "shared.", p + shared + ".", x, c.shared_ffn);
  if (c.shared_gate) {
    const ValueId gate = linear(n + "shared.gate", x, p + "shared_expert_gate.weight");
    always = graph_.node(Op::sigmoid_scale, n + "shared.gated", {always, gate});
  }
  return add(n + "sum", out, always);
}

ValueId Decoder::pre_norm_layer(std::int64_t layer, ValueId x, const std::string& shared) {
  const std::string n = layer_name(layer);
  const std::string p = layer_prefix(layer);
  const ValueId before = norm(n + ".attn_norm", x, p + "input_layernorm.weight");
  x = add(n + ".attn.out", x, config_.kv_lora > 0 ? mla(layer, before) : attention(layer, before));
  const ValueId middle = norm(n + ".mlp_norm", x, p + "post_attention_layernorm.weight");
  return add(n + ".out", x,
             config_.moe(layer) ? moe(layer, middle, shared) : mlp(n + ".mlp.", p + "mlp.", middle, config_.ffn));
}

void Decoder::finish(ValueId x) {
  const ValueId last = graph_.node(Op::select_rows, "selected", {x});
  const ValueId normed = norm("norm", last, "model.norm.weight");
  const std::string head = config_.tied ? "model.embed_tokens.weight" : "lm_head.weight";
  const bool capped = config_.final_softcap > 0;
  ValueId logits = linear(capped ? "lm_head" : "logits", normed, head);
  if (capped) logits = graph_.node(Op::softcap, "logits", {logits}, attrs().set(Attr::softcap, config_.final_softcap));
  graph_.set_output(logits);
}

}  // namespace knapsack
