// Multi-head latent attention (DeepSeek). Our graphs have it absorbed: queries are taken into the latent, which is all
// that is kept, and the context out of it. Hugging Face's code, and so what exporters write, multiplies the latent by
// kv_b_proj, cuts the product into K and V of every head, hands the one rotated part of K to all heads and keeps both.
#include <fmt/format.h>

#include "graph/decompose/decomposer.h"

namespace knapsack {
namespace {

// K's and V's part of kv_b_proj where newer GGUF files keep them apart, as the one matrix: of each head the rows of K,
// then those of V. Its shape and V's format, without data: K's part is stored the other way round.
std::shared_ptr<const Weight> latent_up(const Weight& k, const Weight& v, std::int64_t rows) {
  auto up = std::make_shared<Weight>();
  up->name = fmt::format("{}+{}", k.name, v.name);
  up->dtype = v.dtype;
  up->shape = {rows, v.cols()};
  return up;
}

}  // namespace

const Node* Decomposer::maker(ValueId value) const {
  const int at = uses_.maker[static_cast<std::size_t>(value)];
  return at < 0 ? nullptr : &source_.list()[static_cast<std::size_t>(at)];
}

const Node* Decomposer::reader(ValueId value) const {
  const auto& readers = uses_.readers[static_cast<std::size_t>(value)];
  return readers.empty() ? nullptr : &source_.list()[static_cast<std::size_t>(readers.front())];
}

void Decomposer::find_latents() {
  for (const Node& node : source_.list()) {
    if (node.op != Op::attention) continue;
    Absorbed found{};
    found.concat = maker(node.inputs[0]);
    if (found.concat == nullptr || found.concat->op != Op::head_concat) continue;
    found.into = maker(found.concat->inputs[0]);
    found.out_of = reader(node.outputs[0]);
    found.rope_write = maker(node.inputs[1]);
    CHECK(found.into != nullptr && found.into->op == Op::head_linear && found.out_of != nullptr &&
          found.out_of->op == Op::head_linear && found.rope_write->op == Op::kv_write);
    found.latent_write = maker(found.rope_write->inputs[1]);
    CHECK(found.latent_write->op == Op::kv_write);
    for (const Node* part : {found.into, found.concat, found.out_of}) in_latent_.insert(part);
    latents_.emplace(&node, found);
  }
}

std::optional<Decomposer::Latent> Decomposer::latent(const Node& attention) {
  const auto found = latents_.find(&attention);
  if (found == latents_.end()) return std::nullopt;
  const Absorbed& a = found->second;
  const std::int64_t heads = a.into->attrs.i(Attr::heads);
  const std::int64_t nope = a.concat->attrs.i(Attr::b_offset);
  const std::int64_t rope = a.concat->attrs.i(Attr::b_cols);
  const Node& up_v = *a.out_of;
  const std::int64_t v_dim = up_v.attrs.i(Attr::rows);
  const ValueId latent = a.latent_write->inputs[0];
  const std::string prefix = attention.name.substr(0, attention.name.rfind('.') + 1);

  ValueId both = -1;  // of the latent: K without its rotated part, V
  {
    const Scope scope(*this, Op::linear, prefix + "kv_b_proj", Purpose::latent_up);
    ValueId up = -1;
    if (a.into->inputs[1] == up_v.inputs[1]) {
      up = matrix(up_v.inputs[1]);
    } else {  // kept apart in newer GGUF files
      const Value& k = source_.value(a.into->inputs[1]);
      const Value& v = source_.value(up_v.inputs[1]);
      up = constant(latent_up(*k.weight, *v.weight, heads * (nope + v_dim)),
                    {.transposed = true, .as = floats(), .name = fmt::format("{}+{}.T", k.name, v.name)});
    }
    both = add(Op::MatMul, {flat(latent), up});
    purpose_ = Purpose::plain;
    both = reshape(both, {1, tokens(), heads, nope + v_dim});
    both = transpose(both, {0, 2, 1, 3});
  }
  const auto parts = [&] {
    const Scope scope(*this, Op::linear, prefix + "kv_b_proj", Purpose::plain);
    return split(both, 3, {nope, v_dim});
  }();
  Latent out{.q = -1, .keys = -1, .values = -1, .out = up_v.outputs[0]};
  {
    const Scope scope(*this, Op::head_concat, a.concat->name, Purpose::plain);
    out.q = headed(a.concat->inputs[1], heads);
  }
  ValueId keys = -1;
  {
    const Scope scope(*this, Op::head_concat, prefix + "k", Purpose::repeat_heads);
    const ValueId rotated = expand(headed(a.rope_write->inputs[0], 1), {1, heads, tokens(), rope});
    purpose_ = Purpose::plain;
    keys = concat({parts[0], rotated}, 3);
  }
  const Value& state = source_.value(a.latent_write->inputs[1]);
  const std::string layer = state.name.substr(0, state.name.rfind('.') + 1);
  {
    const Scope scope(*this, Op::kv_write, prefix + "k_write", Purpose::plain);
    out.keys = append(layer + "k", keys);
  }
  {
    const Scope scope(*this, Op::kv_write, prefix + "v_write", Purpose::plain);
    out.values = append(layer + "v", parts[1]);
  }
  return out;
}

}  // namespace knapsack
