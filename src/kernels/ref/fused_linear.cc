// By the parts it is made of: rms_norm, the products, gated_act, add.
#include <array>

#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/scratch.h"

namespace knapsack::ref {
namespace {

struct Fused {
  bool norm, bias, act, residual;
  std::size_t norm_at = 2, bias_at = 2, residual_at = 2;
};

Fused fused_of(const Attrs& attrs) {
  Fused f{.norm = attrs.i(Attr::norm) != 0,
          .bias = attrs.i(Attr::bias) != 0,
          .act = attrs.has(Attr::act),
          .residual = attrs.i(Attr::residual) != 0};
  f.bias_at = f.norm_at + (f.norm ? 1 : 0);
  f.residual_at = f.bias_at + (f.bias ? 1 : 0);
  return f;
}

struct Parts {
  float *normed, *products;
};

Parts take_parts(Scratch& scratch, const OpCall& call, const Fused& f) {
  const std::int64_t rows = call.in[0].rows;
  return {.normed = f.norm ? scratch.take<float>(rows * call.in[0].cols) : nullptr,
          .products = f.act ? scratch.take<float>(rows * call.in[1].weight->shape[0]) : nullptr};
}

}  // namespace

std::size_t fused_linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  Scratch scratch;
  take_parts(scratch, shape, fused_of(*shape.attrs));
  return scratch.used() + matmul_scratch_bytes(shape.in[0].rows, shape.in[0].cols, threads);
}

void fused_linear(const OpCall& call) {
  const Fused f = fused_of(*call.attrs);
  Scratch scratch(call.scratch);
  const Parts parts = take_parts(scratch, call, f);
  const Operand& x = call.in[0];
  const Operand& out = call.out[0];
  const Weight& w = *call.in[1].weight;
  if (f.norm) {
    const std::array in{x, call.in[f.norm_at]};
    Operand normed{.data = reinterpret_cast<std::byte*>(parts.normed), .rows = x.rows, .cols = x.cols};
    rms_norm({.in = in, .out = {&normed, 1}, .attrs = call.attrs, .pool = call.pool});
  }
  const float* residual = f.residual ? call.in[f.residual_at].f32() : nullptr;
  const MatmulJob job{.x = f.norm ? parts.normed : x.f32(),
                      .x_stride = x.cols,
                      .y = f.act ? parts.products : out.f32(),
                      .y_stride = w.shape[0],
                      .tokens = x.rows,
                      .dtype = w.dtype,
                      .w = w.slab(0),
                      .rows = w.shape[0],
                      .cols = w.shape[1],
                      .bias = f.bias ? call.in[f.bias_at].weight->f32() : nullptr,
                      .residual = f.act ? nullptr : residual};
  matmul(scalar_matmul(), {&job, 1}, *call.pool, scratch.rest());
  if (!f.act) return;
  const std::int64_t act = call.attrs->i(Attr::act);
  for_elements(call, out.rows * out.cols, [&](std::int64_t i) {
    const float* gate = parts.products + i / out.cols * w.shape[0] + i % out.cols;
    const float gated = activate(act, gate[0]) * gate[out.cols];
    out.f32()[i] = residual != nullptr ? gated + residual[i] : gated;
  });
}

}  // namespace knapsack::ref
