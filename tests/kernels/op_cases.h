// Cases of every op (ops.inc), by random operands: what the reference is compared on with formulas, and every faster
// kernel with the reference.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/op_case.h"

namespace knapsack::testing {

inline OpInput activation(std::int64_t rows, std::int64_t cols, unsigned seed, float deviation = 1.0F) {
  return {.cols = cols, .f32 = random_floats(rows * cols, seed, deviation)};
}
inline OpInput ids(std::int64_t rows, std::int64_t cols, std::int32_t below, unsigned seed) {
  OpInput input{.cols = cols};
  std::mt19937 random(seed);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(below));  // distinct within a row, as a router's
    for (std::int32_t i = 0; i < below; ++i) all[static_cast<std::size_t>(i)] = i;
    std::shuffle(all.begin(), all.end(), random);
    input.i32.insert(input.i32.end(), all.begin(), all.begin() + cols);
  }
  return input;
}
inline OpInput constant(std::shared_ptr<const Weight> weight) {
  const std::int64_t cols = weight->cols();
  return {.cols = cols, .weight = std::move(weight)};
}
inline OpInput vector_of(std::int64_t count, unsigned seed) {
  return constant(vector_weight(random_floats(count, seed)));
}

// shape [N, K], or [E, N, K] in one slab or one slab an expert.
inline OpInput matrix(DType dtype, std::vector<std::int64_t> shape, unsigned seed, bool slabs = false) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  const auto data = std::make_shared<const RandomMatrix>(dtype, rows, shape.back(), seed);
  auto weight = std::make_shared<Weight>();
  weight->dtype = dtype;
  weight->shape = std::move(shape);
  weight->slabs = {data->data()};
  if (slabs)
    for (std::int64_t e = 1; e < weight->shape[0]; ++e)
      weight->slabs.push_back(data->data() + e * weight->shape[1] * weight->row_size());
  weight->owners = {data};
  return constant(weight);
}
inline OpInput state(int index) { return {.state = index}; }

inline OpInput inverse_frequencies(std::int64_t count, float base = 10000) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::pow(base, -static_cast<float>(i) / static_cast<float>(count)));
  return constant(vector_weight(values));
}

inline OpCase attention_case(std::string name, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                             DType kv, Attrs more, std::int64_t rows, std::int64_t before) {
  const std::int64_t cols = kv_heads * head_dim;
  const std::int64_t ctx = before + rows;
  OpCase c{.name = std::move(name), .op = Op::attention, .attrs = std::move(more), .rows = rows, .kv = kv, .ctx = ctx};
  c.attrs.set(Attr::heads, heads).set(Attr::kv_heads, kv_heads).set(Attr::head_dim, head_dim);
  c.in = {activation(rows, heads * head_dim, 1), state(0), state(1)};
  c.out_cols = {heads * c.attrs.i(Attr::v_dim, head_dim)};
  const std::int64_t v_cols = kv_heads * c.attrs.i(Attr::v_stride, head_dim);
  c.states = {cols, v_cols};
  c.history = {random_floats(ctx * cols, 2), random_floats(ctx * v_cols, 3)};
  for (std::int64_t i = 0; i < rows; ++i) c.positions.push_back(static_cast<std::int32_t>(before + i));
  return c;
}

inline void add_attention_cases(std::vector<OpCase>& cases) {
  const auto scale = [] { return Attrs().set(Attr::scale, 0.3); };
  cases.push_back(attention_case("attention mha f32", 4, 4, 8, DType::F32, scale(), 9, 0));
  cases.push_back(attention_case("attention gqa f16", 6, 2, 16, DType::F16, scale(), 7, 5));
  cases.push_back(attention_case("attention gqa of 64", 9, 3, 64, DType::F16, scale(), 3, 30));
  cases.push_back(attention_case("attention gqa q8_0", 6, 2, 64, DType::Q8_0, scale(), 7, 5));
  cases.push_back(attention_case("attention narrow values q8_0", 4, 2, 32, DType::Q8_0,
                                 scale().set(Attr::v_dim, 21).set(Attr::v_stride, 32), 6, 4));
  cases.push_back(attention_case("attention mqa", 5, 1, 12, DType::F16, scale(), 9, 1));
  cases.push_back(attention_case("attention window", 4, 2, 8, DType::F32, scale().set(Attr::window, 5), 13, 2));
  cases.push_back(attention_case("attention window of one", 2, 2, 8, DType::F32, scale().set(Attr::window, 1), 5, 0));
  cases.push_back(attention_case("attention softcap", 4, 2, 8, DType::F32, scale().set(Attr::softcap, 0.7), 6, 3));
  cases.push_back(attention_case("attention odd head_dim", 3, 1, 7, DType::F32, scale(), 6, 0));
  // MLA: one latent row serves all heads as key (512 + 64 in the large models) and, its first part, as value.
  OpCase mla = attention_case("attention latent", 4, 1, 40, DType::F16, scale().set(Attr::v_dim, 32), 6, 4);
  mla.in[2] = state(0);
  mla.states.resize(1);
  mla.history.resize(1);
  cases.push_back(mla);
  cases.push_back(attention_case("attention narrow values", 4, 2, 24, DType::F16,
                                 scale().set(Attr::v_dim, 10).set(Attr::v_stride, 16), 6, 4));
}

inline void add_router_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::int64_t experts, std::int64_t top_k, bool correction, Attrs more) {
    OpCase c{.name = "router " + std::move(name), .op = Op::router, .attrs = std::move(more), .rows = 19};
    c.attrs.set(Attr::experts, experts).set(Attr::top_k, top_k);
    c.in = {activation(c.rows, experts, 4)};
    if (correction) c.in.push_back(vector_of(experts, 5));
    c.out_cols = {top_k, top_k};
    cases.push_back(std::move(c));
  };
  add("softmax", 8, 3, false, Attrs());
  add("softmax normalised", 128, 8, false, Attrs().set(Attr::norm_topk, 1));
  add("softmax groups", 12, 3, false, Attrs().set(Attr::groups, 4).set(Attr::top_groups, 2).set(Attr::scale, 16.0));
  add("sigmoid", 8, 2, true, Attrs().set(Attr::score, 1).set(Attr::norm_topk, 1).set(Attr::scale, 2.5));
  add("sigmoid groups", 32, 4, true,
      Attrs()
          .set(Attr::score, 1)
          .set(Attr::norm_topk, 1)
          .set(Attr::scale, 2.5)
          .set(Attr::groups, 8)
          .set(Attr::top_groups, 4)
          .set(Attr::group_score, 1));
  add("all experts", 4, 4, false, Attrs().set(Attr::norm_topk, 1));
}

inline void add_moe_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType gate, DType down, std::int64_t experts, std::int64_t top_k,
                       std::int64_t hidden, std::int64_t ffn, bool slabs, Attrs more) {
    OpCase c{.name = "moe " + std::move(name), .op = Op::moe, .attrs = std::move(more), .rows = 9};
    c.attrs.set(Attr::top_k, top_k);
    c.in = {activation(c.rows, hidden, 6),
            ids(c.rows, top_k, static_cast<std::int32_t>(experts), 7),
            activation(c.rows, top_k, 8),
            matrix(gate, {experts, ffn, hidden}, 9, slabs),
            matrix(gate, {experts, ffn, hidden}, 10, slabs),
            matrix(down, {experts, hidden, ffn}, 11, slabs)};
    c.out_cols = {hidden};
    cases.push_back(std::move(c));
  };
  add("f32", DType::F32, DType::F32, 5, 2, 12, 20, false, Attrs());
  add("slabs", DType::BF16, DType::F16, 4, 3, 9, 7, true, Attrs().set(Attr::act, 2));
  add("quantized", DType::Q4_0, DType::Q8_0, 8, 4, 64, 96, false, Attrs());
  add("every expert", DType::F32, DType::F32, 3, 3, 8, 8, false, Attrs().set(Attr::act, 1));
}

inline void add_linear_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::Q4_1, DType::Q6_K}) {
    const std::int64_t k = format(dtype).block == 1 ? 37 : 2 * format(dtype).block;
    OpCase c{.name = "linear " + std::string(name(dtype)), .op = Op::linear, .rows = 7, .out_cols = {21}};
    c.in = {activation(c.rows, k, 12), matrix(dtype, {21, k}, 13)};
    cases.push_back(c);
    c.name += " bias";
    c.in.push_back(vector_of(21, 14));
    cases.push_back(c);
  }
  for (const bool transposed : {false, true}) {
    // As MLA uses it: per head `nope` rows that map the latent, then rows of the values.
    const std::int64_t heads = 3, stride = 20, rows = 8, cols = 32;
    OpCase c{.name = transposed ? "head_linear transposed" : "head_linear", .op = Op::head_linear, .rows = 6};
    const std::int64_t in = transposed ? stride : 40;
    c.attrs.set(Attr::heads, heads).set(Attr::in_stride, in).set(Attr::in_offset, 4).set(Attr::head_rows, 14);
    c.attrs.set(Attr::row_offset, 5).set(Attr::rows, rows).set(Attr::transposed, transposed ? 1 : 0);
    c.in = {activation(c.rows, heads * in, 15), matrix(DType::Q8_0, {heads * 14, cols}, 16)};
    c.out_cols = {heads * (transposed ? cols : rows)};
    cases.push_back(std::move(c));
  }
}

inline void add_rope_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::int64_t heads, std::int64_t stride, std::int64_t begin,
                       std::int64_t rotary, bool interleaved, double scale, std::vector<std::int32_t> positions) {
    OpCase c{.name = "rope " + std::move(name), .op = Op::rope, .rows = static_cast<std::int64_t>(positions.size())};
    c.attrs.set(Attr::heads, heads).set(Attr::stride, stride).set(Attr::begin, begin).set(Attr::rotary, rotary);
    c.attrs.set(Attr::interleaved, interleaved ? 1 : 0).set(Attr::scale, scale);
    c.positions = std::move(positions);
    c.in = {activation(c.rows, heads * stride, 17), inverse_frequencies(rotary / 2)};
    c.out_cols = {heads * stride};
    cases.push_back(std::move(c));
  };
  add("halves", 3, 16, 0, 16, false, 1, {0, 1, 2, 3, 100, 4095});
  add("halves of 64", 9, 64, 0, 64, false, 1, {0, 1, 2, 511});
  add("interleaved", 2, 16, 0, 16, true, 1, {5, 6, 7, 1000});
  add("partial, scaled", 2, 24, 8, 12, false, 1.3, {0, 9, 31});
  add("interleaved tail", 4, 24, 16, 8, true, 0.8, {0, 9, 31});
  add("one pair", 1, 2, 0, 2, false, 1, {3});
}

inline std::vector<OpCase> all_op_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](OpCase c) { cases.push_back(std::move(c)); };
  constexpr std::int64_t rows = 11;
  for (const DType dtype : {DType::F32, DType::F16, DType::Q5_K}) {
    const std::int64_t cols = format(dtype).block == 1 ? 19 : format(dtype).block;
    add({.name = "embed " + std::string(name(dtype)),
         .op = Op::embed,
         .attrs = dtype == DType::F16 ? Attrs().set(Attr::scale, 3.5) : Attrs(),
         .rows = rows,
         .in = {ids(rows, 1, 23, 18), matrix(dtype, {23, cols}, 19)},
         .out_cols = {cols}});
  }
  add({.name = "rms_norm",
       .op = Op::rms_norm,
       .attrs = Attrs().set(Attr::eps, 1e-5),
       .rows = rows,
       .in = {activation(rows, 45, 20), vector_of(45, 21)},
       .out_cols = {45}});
  add({.name = "rms_norm by heads, offset",
       .op = Op::rms_norm,
       .attrs = Attrs().set(Attr::eps, 1e-2).set(Attr::offset, 1.0).set(Attr::width, 16),
       .rows = rows,
       .in = {activation(rows, 48, 22, 0.1F), vector_of(16, 23)},
       .out_cols = {48}});
  add({.name = "rms_norm without weight",
       .op = Op::rms_norm,
       .attrs = Attrs().set(Attr::eps, 1e-6),
       .rows = rows,
       .in = {activation(rows, 8, 24, 100.0F)},
       .out_cols = {8}});
  add_linear_cases(cases);
  add({.name = "head_concat",
       .op = Op::head_concat,
       .attrs = Attrs()
                    .set(Attr::heads, 3)
                    .set(Attr::a_cols, 5)
                    .set(Attr::b_stride, 7)
                    .set(Attr::b_offset, 2)
                    .set(Attr::b_cols, 4),
       .rows = rows,
       .in = {activation(rows, 15, 25), activation(rows, 21, 26)},
       .out_cols = {27}});
  add({.name = "gather_cols",
       .op = Op::gather_cols,
       .rows = rows,
       .in = {activation(rows, 6, 27), constant(index_weight({5, 0, 3, 2, 1, 4}))},
       .out_cols = {6}});
  add_rope_cases(cases);
  for (const DType kv : {DType::F32, DType::F16, DType::Q8_0}) {
    const std::int64_t unit = kv == DType::Q8_0 ? 32 : 1;
    OpCase c{.name = "kv_write " + std::string(name(kv)), .op = Op::kv_write, .rows = rows, .kv = kv, .ctx = rows + 3};
    c.attrs.set(Attr::col, 3 * unit);
    c.in = {activation(rows, 10 * unit, 28), state(0)};
    c.states = {16 * unit};
    c.history = {random_floats(c.ctx * 16 * unit, 29)};
    for (std::int32_t i = 0; i < rows; ++i) c.positions.push_back(i + 2);
    add(c);
  }
  add_attention_cases(cases);
  add({.name = "add",
       .op = Op::add,
       .rows = rows,
       .in = {activation(rows, 500, 30), activation(rows, 500, 31)},
       .out_cols = {500}});
  add({.name = "scale",
       .op = Op::scale,
       .attrs = Attrs().set(Attr::scale, -0.7),
       .rows = rows,
       .in = {activation(rows, 13, 32)},
       .out_cols = {13}});
  for (const int act : {0, 1, 2})
    add({.name = "gated_act " + std::to_string(act),
         .op = Op::gated_act,
         .attrs = Attrs().set(Attr::act, act),
         .rows = rows,
         .in = {activation(rows, 613, 33, 3.0F), activation(rows, 613, 34)},
         .out_cols = {613}});
  add({.name = "sigmoid_scale",
       .op = Op::sigmoid_scale,
       .rows = rows,
       .in = {activation(rows, 9, 35), activation(rows, 1, 36, 4.0F)},
       .out_cols = {9}});
  add({.name = "softcap",
       .op = Op::softcap,
       .attrs = Attrs().set(Attr::softcap, 2.0),
       .rows = rows,
       .in = {activation(rows, 31, 37, 3.0F)},
       .out_cols = {31}});
  add_router_cases(cases);
  add_moe_cases(cases);
  add({.name = "select_rows",
       .op = Op::select_rows,
       .rows = rows,
       .in = {activation(rows, 6, 38)},
       .out_cols = {6},
       .selected = {10, 0, 3}});
  return cases;
}

}  // namespace knapsack::testing
