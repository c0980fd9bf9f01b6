#include "export/onnx_decoder_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace knapsack {
namespace {

using Dims = OnnxBuilder::Dims;
using Names = OnnxBuilder::Names;
constexpr const char* microsoft = "com.microsoft";

// [1, heads, tokens, cols of a head]; before a Transpose that the decomposition has taken back, if there is one.
std::string headed(OnnxBuilder& b, ValueId id, std::int64_t heads) {
  id = b.source(id);
  const Node* node = b.maker(id);
  const std::int64_t width = b.value(id).elements() / b.tokens() / heads;
  const Dims wanted{1, heads, b.tokens(), width};
  const Dims perm{0, 2, 1, 3};
  if (node != nullptr && node->op == Op::Transpose && std::ranges::equal(node->attrs.list(Attr::perm), perm) &&
      b.value(node->inputs[0]).dims == wanted && b.type(node->inputs[0]) == b.floats())
    return b.in(node->inputs[0]);
  if (b.tokens() == 1 || heads == 1) return b.reshaped(id, wanted);  // a Transpose would move nothing
  const std::string split = b.reshaped(id, {1, b.tokens(), heads, width});
  return b.part(split + "/Transpose", "Transpose", {split}, {onnx_attribute("perm", perm)}, b.floats(), wanted);
}

// Where ScatterND puts the step's rows: [1, heads, tokens, 3], (0, head, position).
std::string kv_places(OnnxBuilder& b, std::int64_t heads) {
  const std::int64_t tokens = b.tokens();
  const std::string name = fmt::format("kv_places.{}", heads);
  if (std::string known = b.known(name); !known.empty()) return known;
  const Dims column{1, 1, tokens, 1};
  const Dims each{1, heads, tokens, 1};
  std::string at =
      b.part(name + "/Reshape", "Reshape", {b.position_ids(), b.integers(column)}, {}, OnnxType::i64, column);
  if (heads > 1) at = b.part(name + "/Expand", "Expand", {at, b.integers(each)}, {}, OnnxType::i64, each);
  std::vector<double> front;
  front.reserve(static_cast<std::size_t>(heads * tokens * 2));
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      front.push_back(0);
      front.push_back(static_cast<double>(h));
    }
  }
  const std::string heads_of = b.constant({.name = fmt::format("kv_heads[{}x{}]", heads, tokens),
                                           .type = OnnxType::i64,
                                           .dims = {1, heads, tokens, 2},
                                           .bytes = onnx_number_bytes(OnnxType::i64, front)});
  return b.part(name, "Concat", {heads_of, at}, {onnx_attribute("axis", 3)}, OnnxType::i64, {1, heads, tokens, 3});
}

// One row of the state for each of the step's tokens, put in its place.
void update(OnnxBuilder& b, OnnxBuilder::State& state) {
  if (state.updated) return;
  state.updated = true;
  std::sort(state.writes.begin(), state.writes.end());
  Names parts;
  std::int64_t cols = 0;
  for (const auto& [column, id] : state.writes) {
    CHECK(column == cols);
    cols += b.value(id).cols();
    parts.push_back(headed(b, id, state.heads));
  }
  CHECK(cols == state.cols && (parts.size() == 1 || state.heads == 1));
  const Dims dims{1, state.heads, b.tokens(), state.cols / state.heads};
  if (parts.size() > 1)
    parts = {b.part(state.node + "/Concat", "Concat", parts, {onnx_attribute("axis", 3)}, b.floats(), dims)};
  b.part_as(state.node, state.present, "ScatterND", {state.past, kv_places(b, state.heads), parts[0]}, b.floats(),
            state.dims());
}

// [tokens, columns] of our floats as [1, tokens, columns].
std::string flat(OnnxBuilder& b, ValueId id) {
  const ValueId source = b.source(id);
  return b.reshaped(source, {1, b.tokens(), b.value(id).cols()});
}

void hold_flat(OnnxBuilder& b, const Node& n, std::string name) {
  b.hold(n.outputs[0], std::move(name), b.floats(), {1, b.tokens(), b.value(n.outputs[0]).cols()});
}

// cos and sin of each position's angles, times scale: [ctx, rotary / 2]
Names rope_caches(OnnxBuilder& b, const Node& n) {
  const Value& frequencies = b.value(n.inputs[1]);
  const float* inv_freq = frequencies.weight->f32();
  const std::int64_t columns = frequencies.weight->elements();
  const double scale = n.attrs.f(Attr::scale, 1);
  const std::int64_t ctx = b.ctx();
  Names names;
  for (const bool sine : {false, true}) {
    const std::string name = fmt::format("{}.{}[{}]{}", frequencies.name, sine ? "sin" : "cos", ctx,
                                         scale == 1 ? std::string() : fmt::format("*{:g}", scale));
    std::vector<double> values;
    if (!b.has_constant(name)) {
      values.reserve(static_cast<std::size_t>(ctx * columns));
      for (std::int64_t p = 0; p < ctx; ++p) {
        for (std::int64_t i = 0; i < columns; ++i) {
          const double angle = static_cast<double>(static_cast<float>(p) * inv_freq[i]);
          values.push_back((sine ? std::sin(angle) : std::cos(angle)) * scale);
        }
      }
    }
    names.push_back(b.constant(
        {.name = name, .type = b.floats(), .dims = {ctx, columns}, .bytes = onnx_number_bytes(b.floats(), values)}));
  }
  return names;
}

}  // namespace

void write_positions(OnnxBuilder& b, const Node& n) {
  const Dims dims{1, b.tokens()};
  const auto to = static_cast<std::int64_t>(OnnxType::i32);
  const std::string cast = b.part(n.name, "Cast", {b.position_ids()}, {onnx_attribute("to", to)}, OnnxType::i32, dims);
  b.hold(n.outputs[0], cast, OnnxType::i32, dims);
}

void write_kv_write(OnnxBuilder& b, const Node& n) {
  OnnxBuilder::State& state = b.state(n.inputs[1]);
  CHECK(!state.updated);
  if (state.writes.empty()) state.node = n.name;
  state.writes.emplace_back(n.attrs.i(Attr::col), n.inputs[0]);
}

void write_kv_read(OnnxBuilder& b, const Node& n) {
  OnnxBuilder::State& state = b.state(n.inputs[0]);
  CHECK(state.heads == n.attrs.i(Attr::heads));
  update(b, state);
  b.hold(n.outputs[0], state.present, b.floats(), state.dims());
}

// ONNX Runtime has it among the standard's operators. A factor of 1 + w and its product stay in F32, as everywhere.
void write_rms_norm(OnnxBuilder& b, const Node& n) {
  const float offset = n.attrs.f(Attr::offset);
  const bool shifted = offset != 0;
  const std::int64_t cols = b.value(n.outputs[0]).cols();
  const std::int64_t width = n.attrs.i(Attr::width, cols);
  const OnnxType type = shifted ? OnnxType::f32 : b.floats();
  const std::int64_t rows = b.value(n.outputs[0]).elements() / cols;
  Dims dims{1, rows, cols};
  if (width != cols) dims = {1, rows, cols / width, width};
  const std::string x = b.reshaped(shifted ? n.inputs[0] : b.source(n.inputs[0]), dims);
  std::string factor;
  if (shifted) {
    const Value& w = b.value(n.inputs[1]);
    std::vector<double> sums;
    sums.reserve(static_cast<std::size_t>(w.elements()));
    for (std::int64_t i = 0; i < w.elements(); ++i) sums.push_back(static_cast<double>(w.weight->f32()[i] + offset));
    factor = b.constant({.name = fmt::format("{}+{:g}", w.name, offset),
                         .type = type,
                         .dims = w.dims,
                         .bytes = onnx_number_bytes(type, sums)});
  } else {
    factor = b.weight(n.inputs[1], type, false);
  }
  const std::string y = b.part(
      b.value(n.outputs[0]).name, "SimplifiedLayerNormalization", {x, factor},
      {onnx_attribute("axis", -1), onnx_attribute("epsilon", n.attrs.f(Attr::eps)), onnx_attribute("stash_type", 1)},
      type, dims);
  b.hold(n.outputs[0], y, type, dims);
}

void write_rope(OnnxBuilder& b, const Node& n) {
  const Attrs& a = n.attrs;
  const Names caches = rope_caches(b, n);
  const std::int64_t cols = b.value(n.outputs[0]).cols();
  const bool part = a.i(Attr::rotary) != a.i(Attr::stride);
  b.uses(microsoft);
  hold_flat(
      b, n,
      b.part(b.value(n.outputs[0]).name, "RotaryEmbedding",
             {flat(b, n.inputs[0]), b.position_ids(), caches[0], caches[1]},
             {onnx_attribute("interleaved", a.i(Attr::interleaved)), onnx_attribute("num_heads", a.i(Attr::heads)),
              onnx_attribute("rotary_embedding_dim", part ? a.i(Attr::rotary) : 0)},
             b.floats(), {1, b.tokens(), cols}, microsoft));
}

void write_attention(OnnxBuilder& b, const Node& n) {
  const Attrs& a = n.attrs;
  OnnxBuilder::State& keys = b.state(n.inputs[1]);
  OnnxBuilder::State& values = b.state(n.inputs[2]);
  CHECK(!keys.updated && !values.updated && keys.writes.size() == 1 && values.writes.size() == 1);
  keys.updated = values.updated = true;
  // The step's last position, and how many tokens there are with it.
  std::string last = b.known("seqlens_k");
  std::string total = b.known("total_sequence_length");
  if (last.empty()) {
    const Dims one{1};
    const auto to = onnx_attribute("to", static_cast<std::int64_t>(OnnxType::i32));
    const std::string end = b.part("last_position", "Gather", {b.position_ids(), b.integers({b.tokens() - 1})},
                                   {onnx_attribute("axis", 1)}, OnnxType::i64, {1, 1});
    const std::string whole = b.part("last_position/Cast", "Cast", {end}, {to}, OnnxType::i32, {1, 1});
    last = b.part("seqlens_k", "Reshape", {whole, b.integers(one)}, {}, OnnxType::i32, one);
    const std::string sum =
        b.part("total_sequence_length/Add", "Add", {last, b.number(OnnxType::i32, 1)}, {}, OnnxType::i32, one);
    total = b.part("total_sequence_length", "Squeeze", {sum, b.integers({0})}, {}, OnnxType::i32, {});
  }
  b.uses(microsoft);
  const std::int64_t cols = b.value(n.outputs[0]).cols();
  OnnxBuilder::Attributes attributes{onnx_attribute("num_heads", a.i(Attr::heads)),
                                     onnx_attribute("kv_num_heads", a.i(Attr::kv_heads)),
                                     onnx_attribute("scale", a.f(Attr::scale)), onnx_attribute("do_rotary", 0)};
  if (a.f(Attr::softcap) > 0) attributes.push_back(onnx_attribute("softcap", a.f(Attr::softcap)));
  if (a.i(Attr::window) > 0) attributes.push_back(onnx_attribute("local_window_size", a.i(Attr::window)));
  const std::string out = b.part(b.value(n.outputs[0]).name, "GroupQueryAttention",
                                 {flat(b, n.inputs[0]), flat(b, keys.writes[0].second),
                                  flat(b, values.writes[0].second), keys.past, values.past, last, total},
                                 std::move(attributes), b.floats(), {1, b.tokens(), cols}, microsoft);
  b.more_outputs({keys.present, values.present});
  hold_flat(b, n, out);
}

std::string_view contrib_refusal(const Graph& graph, const Node& node) {
  const Attrs& a = node.attrs;
  switch (node.op) {
    case Op::rms_norm:
      return node.inputs.size() < 2 ? "SimplifiedLayerNormalization needs a weight, and the norm has none" : "";
    case Op::rope: {
      // All that share a table, so that it is there in one form.
      const bool later = std::any_of(graph.list().begin(), graph.list().end(), [&](const Node& each) {
        return each.op == Op::rope && each.inputs[1] == node.inputs[1] && each.attrs.i(Attr::begin) != 0;
      });
      return later ? "RotaryEmbedding rotates the first columns of a head, not later ones" : "";
    }
    case Op::attention: {
      const auto state = [&](std::size_t input) { return graph.value(node.inputs[input]).state; };
      const std::int64_t head_dim = a.i(Attr::head_dim);
      if (state(1) == state(2) || a.i(Attr::v_dim, head_dim) != head_dim ||
          a.i(Attr::v_stride, a.i(Attr::v_dim, head_dim)) != head_dim)
        return "GroupQueryAttention keeps keys and values of one width, not a latent";
      constexpr std::int64_t multiple = 8;
      return head_dim % multiple != 0 ? "GroupQueryAttention takes heads of a multiple of 8 columns" : "";
    }
    default:
      return "there is no such contrib op";
  }
}

}  // namespace knapsack
