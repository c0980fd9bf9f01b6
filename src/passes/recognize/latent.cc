// Multi-head latent attention. Exporters multiply the latent into keys and values of every head; a checkpoint's graph
// keeps the latent alone: queries are taken into it, the context out of it, by the same matrix. Which one is made is
// told by what the model keeps: without a cache, or with one of latents, the checkpoint's; a cache of whole keys and
// values stays.
#include <algorithm>
#include <array>
#include <cstring>

#include "passes/recognize/rules.h"

namespace knapsack::recognition {
namespace {

using Dims = std::vector<std::int64_t>;

// Its column, or that of what RoPE lets through.
Column behind_rope(const Builder& builder, Column column) {
  const Node* rope = builder.maker(column.base);
  if (rope == nullptr || rope->op != Op::rope) return column;
  const std::int64_t place = column.col % rope->attrs.i(Attr::stride) - rope->attrs.i(Attr::begin);
  if (place < 0 || place >= rope->attrs.i(Attr::rotary)) column.base = rope->inputs[0];
  return column;
}

// The columns [heads, places.size()] of one base, where head h has those from h * stride + offset on.
struct Regular {
  ValueId base = -1;
  std::int64_t stride = 0, offset = 0;
};
std::optional<Regular> regular(const Builder& builder, const std::vector<Column>& all, std::int64_t heads) {
  const std::int64_t width = std::ssize(all) / heads;
  const ValueId base = all[0].base;
  if (base < 0 || width < 1) return std::nullopt;
  Regular made{.base = base, .stride = builder.columns(base) / heads, .offset = all[0].col};
  for (std::int64_t i = 0; i < std::ssize(all); ++i) {
    const Column& c = all[static_cast<std::size_t>(i)];
    if (c.base != base || c.col != i / width * made.stride + made.offset + i % width) return std::nullopt;
  }
  if (made.stride * heads != builder.columns(base) || made.offset + width > made.stride) return std::nullopt;
  return made;
}

// Of each head's columns those at `places`.
std::vector<Column> at(const std::vector<Column>& all, std::int64_t heads, const std::vector<std::int64_t>& places) {
  const std::int64_t width = std::ssize(all) / heads;
  std::vector<Column> made;
  made.reserve(static_cast<std::size_t>(heads) * places.size());
  for (std::int64_t h = 0; h < heads; ++h)
    for (const std::int64_t place : places) made.push_back(all[static_cast<std::size_t>(h * width + place)]);
  return made;
}

}  // namespace

// keys: [heads, columns], settled.
std::optional<Latent> Rules::latent_keys(const std::vector<Column>& keys, std::int64_t heads) const {
  if (heads < 2 || keys.empty() || std::ssize(keys) % heads != 0) return std::nullopt;
  const std::int64_t width = std::ssize(keys) / heads;
  std::vector<Column> all;
  all.reserve(keys.size());
  for (const Column& key : keys) all.push_back(behind_rope(builder_, key));
  Latent made{.heads = heads};
  for (std::int64_t i = 0; i < width; ++i) {
    const Node* maker = builder_.maker(all[static_cast<std::size_t>(i)].base);
    if (maker == nullptr) return std::nullopt;
    (maker->op == Op::rope ? made.rotated : made.plain).push_back(i);
  }
  for (auto* places : {&made.plain, &made.rotated})
    std::sort(places->begin(), places->end(), [&](std::int64_t a, std::int64_t b) {
      return all[static_cast<std::size_t>(a)].col < all[static_cast<std::size_t>(b)].col;
    });
  if (made.plain.empty() || made.rotated.empty()) return std::nullopt;
  // All heads have the one rotated part.
  made.k_rope = all[static_cast<std::size_t>(made.rotated[0])].base;
  if (builder_.columns(made.k_rope) != std::ssize(made.rotated)) return std::nullopt;
  const auto rotated = at(all, heads, made.rotated);
  for (std::size_t i = 0; i < rotated.size(); ++i)
    if (rotated[i].base != made.k_rope || rotated[i].col != static_cast<std::int32_t>(i % made.rotated.size()))
      return std::nullopt;
  const auto up = regular(builder_, at(all, heads, made.plain), heads);
  const Node* product = up ? builder_.maker(up->base) : nullptr;
  if (product == nullptr || product->op != Op::linear || product->inputs.size() != 2) return std::nullopt;
  made.product = up->base;
  made.latent = product->inputs[0];
  made.up = product->inputs[1];
  made.head_rows = up->stride;
  made.k_row = up->offset;
  return made;
}

// queries: [heads, columns], settled, in the order of the keys' columns.
bool Rules::latent_queries(const std::vector<Column>& queries, Latent& latent) const {
  std::vector<Column> all;
  all.reserve(queries.size());
  for (const Column& query : queries) all.push_back(behind_rope(builder_, query));
  const auto plain = regular(builder_, at(all, latent.heads, latent.plain), latent.heads);
  const auto rotated = regular(builder_, at(all, latent.heads, latent.rotated), latent.heads);
  if (!plain || !rotated) return false;
  latent.q = plain->base;
  latent.q_stride = plain->stride;
  latent.q_offset = plain->offset;
  latent.q_rope = rotated->base;
  latent.rope_stride = rotated->stride;
  latent.rope_offset = rotated->offset;
  return true;
}

// values: [heads, columns], settled: where they are a part of the same product, which.
bool Rules::latent_values(const std::vector<Column>& values, Latent& latent) const {
  if (std::ssize(values) % latent.heads != 0) return false;
  const auto found = regular(builder_, values, latent.heads);
  if (!found || found->base != latent.product || found->stride != latent.head_rows) return false;
  latent.v_row = found->offset;
  latent.v_dim = std::ssize(values) / latent.heads;
  return true;
}

// The context of each head, [T, heads * v_dim].
ValueId Rules::latent_context(const Latent& latent, ValueId write, const Scores& scores) {
  const std::int64_t width = builder_.graph().value(latent.up).cols();
  const std::int64_t rope = builder_.columns(write) - width;
  const auto product = [&](std::int64_t stride, std::int64_t offset, std::int64_t row, std::int64_t rows, bool turned) {
    return Attrs{}
        .set(Attr::heads, latent.heads)
        .set(Attr::in_stride, stride)
        .set(Attr::in_offset, offset)
        .set(Attr::head_rows, latent.head_rows)
        .set(Attr::row_offset, row)
        .set(Attr::rows, rows)
        .set(Attr::transposed, turned ? 1 : 0);
  };
  const ValueId into =
      builder_.node(Op::head_linear, {latent.q, latent.up},
                    product(latent.q_stride, latent.q_offset, latent.k_row, std::ssize(latent.plain), true));
  const ValueId query = builder_.node(Op::head_concat, {into, latent.q_rope},
                                      Attrs{}
                                          .set(Attr::heads, latent.heads)
                                          .set(Attr::a_cols, width)
                                          .set(Attr::b_stride, latent.rope_stride)
                                          .set(Attr::b_offset, latent.rope_offset)
                                          .set(Attr::b_cols, rope));
  const ValueId context = builder_.node(Op::attention, {query, write, write},
                                        Attrs{}
                                            .set(Attr::heads, latent.heads)
                                            .set(Attr::kv_heads, 1)
                                            .set(Attr::head_dim, width + rope)
                                            .set(Attr::v_dim, width)
                                            .set(Attr::v_stride, width)
                                            .set(Attr::scale, scores.scale)
                                            .set(Attr::window, scores.window)
                                            .set(Attr::softcap, scores.softcap));
  return builder_.node(Op::head_linear, {context, latent.up}, product(width, 0, latent.v_row, latent.v_dim, false));
}

// An attention over latents whose context is taken out by `weight`, [heads, latent, v] as it is seen: with the one
// matrix that a checkpoint has for both ways. Nothing: it is no such attention, or the matrices are no parts of one.
std::optional<ValueId> Rules::latent_joined(ValueId context, const Value& weight) {
  const Node* attention = builder_.maker(context);
  if (attention == nullptr || attention->op != Op::attention || attention->inputs[1] != attention->inputs[2])
    return std::nullopt;
  const Node* concat = builder_.maker(attention->inputs[0]);
  const Node* into = concat != nullptr && concat->op == Op::head_concat ? builder_.maker(concat->inputs[0]) : nullptr;
  if (into == nullptr || into->op != Op::head_linear || into->attrs.i(Attr::transposed) != 1) return std::nullopt;
  const auto k = builder_.graph().value(into->inputs[1]).weight;
  Latent made{.heads = weight.dims[0]};
  const std::int64_t nope = into->attrs.i(Attr::rows);
  const std::int64_t width = weight.dims[1];
  // Parts of one matrix are named after it.
  const auto whole = k->name.substr(0, k->name.find('['));
  const bool parts = whole.size() < k->name.size() && weight.weight->name.rfind(whole + "[", 0) == 0;
  const auto same = [&](const Node& node, Attr attr, std::int64_t value) { return node.attrs.i(attr) == value; };
  if (!parts || !same(*into, Attr::heads, made.heads) || !same(*concat, Attr::heads, made.heads) ||
      !same(*attention, Attr::heads, made.heads) || !same(*attention, Attr::kv_heads, 1) ||
      !same(*into, Attr::head_rows, nope) || !same(*into, Attr::row_offset, 0) || k->cols() != width ||
      k->shape[0] != made.heads * nope || !same(*concat, Attr::a_cols, width) ||
      !same(*attention, Attr::v_dim, width) || k->dtype != weight.dtype ||
      builder_.columns(attention->inputs[1]) != width + concat->attrs.i(Attr::b_cols))
    return std::nullopt;
  made.q = into->inputs[0];
  made.q_stride = into->attrs.i(Attr::in_stride);
  made.q_offset = into->attrs.i(Attr::in_offset);
  made.q_rope = concat->inputs[1];
  made.rope_stride = concat->attrs.i(Attr::b_stride);
  made.rope_offset = concat->attrs.i(Attr::b_offset);
  made.plain.resize(static_cast<std::size_t>(nope));
  made.v_dim = weight.dims[2];
  made.head_rows = nope + made.v_dim;
  made.v_row = nope;
  made.up = builder_.constant(builder_.interleaved(*k, *builder_.flat(weight), made.heads));
  const Attrs& a = attention->attrs;
  Scores scores;
  scores.scale = a.f(Attr::scale);
  scores.softcap = a.f(Attr::softcap, 0);
  scores.window = a.i(Attr::window, 0);
  return latent_context(made, attention->inputs[1], scores);
}

}  // namespace knapsack::recognition
