#include "passes/recognize/names.h"

#include <fmt/format.h>

#include "graph/rewrite.h"

namespace knapsack::recognition {
namespace {

class Namer {
 public:
  explicit Namer(const Graph& graph) : graph_(graph), uses_(graph) {}

  Names run() {
    for (const Node& node : graph_.list()) {
      if (node.op == Op::attention) {
        attention(node, fmt::format("layers.{}", layer_));
        ++layer_;
      }
    }
    layer_ = -1;
    for (const Node& node : graph_.list()) {
      if (node.op == Op::attention) ++layer_;
      const std::string layer = fmt::format("layers.{}", layer_);
      if (node.op == Op::moe) experts(node, layer);
      if (node.op == Op::gated_act && layer_ >= 0) mlp(node, layer);
      if (node.op == Op::embed) put(node, "embed", "model.embed_tokens");
      if (node.op == Op::select_rows) put(node, "selected", "");
    }
    head();
    return std::move(names_);
  }

 private:
  [[nodiscard]] const Node* maker(ValueId id) const {
    const int at = uses_.maker[static_cast<std::size_t>(id)];
    return at < 0 ? nullptr : &graph_.list()[static_cast<std::size_t>(at)];
  }
  // The first node that reads it with this op; its columns in another order, perhaps (act-order GPTQ).
  [[nodiscard]] const Node* reader(ValueId id, Op op) const {
    for (const int at : uses_.readers[static_cast<std::size_t>(id)]) {
      const Node& node = graph_.list()[static_cast<std::size_t>(at)];
      if (node.op == op) return &node;
      if (node.op != Op::gather_cols) continue;
      if (const Node* behind = reader(node.outputs[0], op)) return behind;
    }
    return nullptr;
  }
  // What a product reads, before its columns were put in its weight's order.
  const Node* source(const Node& product) {
    const Node* node = maker(product.inputs[0]);
    if (node == nullptr || node->op != Op::gather_cols) return node;
    const auto name = names_.values.find(product.outputs[0]);
    if (name != names_.values.end()) put(*node, name->second + ".order", "");
    return maker(node->inputs[0]);
  }
  // weight: its module's name; empty: it has none.
  void put(const Node& node, const std::string& name, const std::string& weight) {
    names_.values.try_emplace(node.outputs[0], name);
    if (weight.empty() || node.inputs.size() < 2) return;
    names_.constants.try_emplace(node.inputs[1], weight + ".weight");
    if (node.op == Op::linear && node.inputs.size() > 2) names_.constants.try_emplace(node.inputs[2], weight + ".bias");
  }

  // From a query, a key or a value back to what the layer's norm made.
  void projection(ValueId id, const std::string& layer, const std::string& which) {
    const std::string name = layer + ".attn." + which;
    const std::string weight = "model." + layer + ".self_attn.";
    const Node* node = maker(id);
    if (node == nullptr) return;
    if (node->op == Op::rope) put(*node, name + "_rope", "");
    if (node->op == Op::rms_norm) put(*node, name + "_norm", weight + which + "_norm");
    if (node->op == Op::gather_cols) put(*node, name, "");
    if (node->op == Op::head_concat) {
      put(*node, name + "_parts", "");
      for (const ValueId input : node->inputs) projection(input, layer, which);
      return;
    }
    if (node->op == Op::rope || node->op == Op::rms_norm || node->op == Op::gather_cols)
      return projection(node->inputs[0], layer, which);
    if (node->op != Op::linear) return;
    names_.values.try_emplace(node->outputs[0], name + "_proj");
    const Node* norm = source(*node);
    names_.values.erase(node->outputs[0]);
    if (norm == nullptr || norm->op != Op::rms_norm) return put(*node, name + "_proj", weight + which + "_proj");
    const Node* latent = maker(norm->inputs[0]);
    const std::string input_norm = "model." + layer + ".input_layernorm";
    if (latent == nullptr || latent->op != Op::linear) {
      // Straight from the layer's norm: of a latent key that is the part with positions.
      put(*node, name + (latent_ && which == "k" ? "_pos" : "_proj"),
          latent_ && which == "k" ? "" : weight + which + "_proj");
      return put(*norm, layer + ".attn_norm", input_norm);
    }
    latent_ = true;
    const bool query = which == "q";
    put(*node, name + (query ? "_b_proj" : "_up"), query ? weight + "q_b_proj" : "");
    put(*norm, layer + (query ? ".attn.q_a_norm" : ".attn.kv_norm"),
        weight + (query ? "q_a_layernorm" : "kv_a_layernorm"));
    put(*latent, layer + (query ? ".attn.q_a_proj" : ".attn.kv_latent"), query ? weight + "q_a_proj" : "");
    if (const Node* before = source(*latent); before != nullptr && before->op == Op::rms_norm)
      put(*before, layer + ".attn_norm", input_norm);
  }

  // What a product reads of a matrix that more than one does: its rows.
  void part(const Node& product, const std::string& name, const std::string& weight, std::int64_t first) {
    put(product, name, "");
    if (product.op != Op::linear) return;
    const std::int64_t rows = graph_.value(product.inputs[1]).dims[0];
    const char* const parts[] = {"weight", "bias"};
    for (std::size_t i = 1; i < product.inputs.size(); ++i)
      names_.constants.try_emplace(product.inputs[i],
                                   fmt::format("{}.{}[{}:{}]", weight, parts[i - 1], first, first + rows));
  }

  // Attention over latents: queries are taken into them, the context out of them. False: it is none.
  bool latent(const Node& node, const std::string& layer) {
    const Node* query = maker(node.inputs[0]);
    const Node* into = query != nullptr && query->op == Op::head_concat ? maker(query->inputs[0]) : nullptr;
    const Node* out = reader(node.outputs[0], Op::head_linear);
    const Node* second = maker(node.inputs[1]);
    const Node* first = second != nullptr && second->op == Op::kv_write ? maker(second->inputs[1]) : nullptr;
    if (into == nullptr || into->op != Op::head_linear || out == nullptr || first == nullptr) return false;
    const std::string weight = "model." + layer + ".self_attn.";
    const std::string name = layer + ".attn.";
    put(node, name + "latent", "");
    put(*query, name + "q", "");
    put(*into, name + "q_latent", weight + "kv_b_proj");
    put(*out, name + "context", "");
    put(*first, name + "kv_write", "");
    put(*second, name + "k_write", "");
    names_.values.try_emplace(first->inputs[1], layer + ".kv.latent");
    if (const Node* rope = maker(query->inputs[1]); rope != nullptr && rope->op == Op::rope)
      put(*rope, name + "q_rope", "");
    projection(into->inputs[0], layer, "q");
    const Node* norm = maker(first->inputs[0]);
    const Node* rope = maker(second->inputs[0]);
    std::int64_t width = 0;
    if (norm != nullptr && norm->op == Op::rms_norm) {
      put(*norm, name + "kv_norm", weight + "kv_a_layernorm");
      if (const Node* product = maker(norm->inputs[0])) {
        width = graph_.value(product->outputs[0]).cols();
        part(*product, name + "kv_latent", weight + "kv_a_proj_with_mqa", 0);
        if (const Node* before = source(*product); before != nullptr && before->op == Op::rms_norm)
          put(*before, layer + ".attn_norm", "model." + layer + ".input_layernorm");
      }
    }
    if (rope != nullptr && rope->op == Op::rope) {
      put(*rope, name + "k_rope", "");
      if (const Node* product = maker(rope->inputs[0]))
        part(*product, name + "k_pos", weight + "kv_a_proj_with_mqa", width);
    }
    if (const Node* o = reader(out->outputs[0], Op::linear)) output(*o, layer);
    return true;
  }

  void output(const Node& o, const std::string& layer) {
    put(o, layer + ".attn.o_proj", "model." + layer + ".self_attn.o_proj");
    source(o);
    sum(o, layer + ".attn.out", layer + ".attn.post_norm", "model." + layer + ".post_attention_layernorm");
  }

  void attention(const Node& node, const std::string& layer) {
    latent_ = false;
    if (latent(node, layer)) return;
    put(node, layer + ".attn.context", "");
    projection(node.inputs[0], layer, "q");
    for (const auto& [input, which] : {std::pair<std::size_t, std::string>{2, "v"}, {1, "k"}}) {
      const Node* write = maker(node.inputs[input]);
      if (write == nullptr || write->op != Op::kv_write) continue;
      put(*write, fmt::format("{}.attn.{}_write", layer, which), "");
      names_.values.try_emplace(write->inputs[1], fmt::format("{}.kv.{}", layer, which));
      projection(write->inputs[0], layer, which);
    }
    const Node* o = reader(node.outputs[0], Op::linear);
    if (o != nullptr) output(*o, layer);
  }

  // What is added to the residual, behind a norm perhaps.
  void sum(const Node& made, const std::string& name, const std::string& norm, const std::string& weight) {
    ValueId id = made.outputs[0];
    if (const Node* post = reader(id, Op::rms_norm); post != nullptr && uses_.only(id)) {
      put(*post, norm, weight);
      id = post->outputs[0];
      normed_ = true;
    }
    if (const Node* add = reader(id, Op::add)) put(*add, name, "");
  }

  void before(const Node* norm, const std::string& layer) {
    if (norm != nullptr && norm->op == Op::rms_norm)
      put(*norm, layer + ".mlp_norm",
          "model." + layer + (normed_ ? ".pre_feedforward_layernorm" : ".post_attention_layernorm"));
  }

  void mlp(const Node& act, const std::string& layer) {
    const Node* down = reader(act.outputs[0], Op::linear);
    const Node* gate = maker(act.inputs[0]);
    const Node* up = maker(act.inputs[1]);
    if (down == nullptr || gate == nullptr || up == nullptr || gate->op != Op::linear) return;
    const Node* scaled = reader(down->outputs[0], Op::sigmoid_scale);
    const Node* add = reader(scaled != nullptr ? scaled->outputs[0] : down->outputs[0], Op::add);
    const bool shared = add != nullptr && (is_moe(add->inputs[0]) || is_moe(add->inputs[1]));
    const std::string name = layer + (shared ? ".mlp.shared." : ".mlp.");
    const std::string weight = "model." + layer +
                               (!shared             ? ".mlp."
                                : scaled != nullptr ? ".mlp.shared_expert."
                                                    : ".mlp.shared_experts.");
    put(*gate, name + "gate_proj", weight + "gate_proj");
    put(*up, name + "up_proj", weight + "up_proj");
    put(act, name + "act", "");
    put(*down, name + "down_proj", weight + "down_proj");
    source(*down);
    source(*up);
    before(source(*gate), layer);
    if (!shared) {
      sum(*down, layer + ".out", layer + ".mlp.post_norm", "model." + layer + ".post_feedforward_layernorm");
      return;
    }
    if (scaled != nullptr) {
      put(*scaled, name + "gated", "");
      if (const Node* of = maker(scaled->inputs[1]))
        put(*of, name + "gate", weight.substr(0, weight.size() - 1) + "_gate");
    }
    put(*add, layer + ".mlp.sum", "");
    if (const Node* out = reader(add->outputs[0], Op::add)) put(*out, layer + ".out", "");
  }

  [[nodiscard]] bool is_moe(ValueId id) const {
    const Node* node = maker(id);
    return node != nullptr && node->op == Op::moe;
  }

  void experts(const Node& moe, const std::string& layer) {
    const std::string weight = "model." + layer + ".mlp.";
    put(moe, layer + ".mlp.routed", "");
    const char* const parts[] = {"gate_proj", "up_proj", "down_proj"};
    for (std::size_t i = 0; i < 3; ++i)
      names_.constants.try_emplace(moe.inputs[i + 3], fmt::format("{}experts.*.{}.weight", weight, parts[i]));
    before(maker(moe.inputs[0]), layer);
    const Node* router = maker(moe.inputs[1]);
    if (router == nullptr) return;
    put(*router, layer + ".mlp.experts", "");
    if (router->inputs.size() > 1)
      names_.constants.try_emplace(router->inputs[1], weight + "gate.e_score_correction_bias");
    if (const Node* logits = maker(router->inputs[0])) put(*logits, layer + ".mlp.router", weight + "gate");
    if (const Node* out = reader(moe.outputs[0], Op::add)) {
      const Node* next = reader(out->outputs[0], Op::add);
      if (next == nullptr || names_.values.count(out->outputs[0]) > 0) put(*out, layer + ".out", "");
    }
  }

  void head() {
    ValueId id = graph_.output();
    const Node* last = maker(id);
    if (last == nullptr) return;
    const bool capped = last->op == Op::softcap;
    put(*last, "logits", capped ? "" : "lm_head");
    if (capped) last = maker(last->inputs[0]);
    if (last == nullptr) return;
    if (capped) put(*last, "lm_head", "lm_head");
    if (const Node* norm = source(*last); norm != nullptr && norm->op == Op::rms_norm) put(*norm, "norm", "model.norm");
  }

  const Graph& graph_;
  Uses uses_;
  Names names_;
  int layer_ = 0;
  bool latent_ = false;  // keys and values of this attention come of a latent
  bool normed_ = false;  // layers have norms behind their parts
};

}  // namespace

Names names_of(const Graph& graph) { return Namer(graph).run(); }

}  // namespace knapsack::recognition
