#include "base/mmap.h"
#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/rounded.h"

namespace knapsack::ref {
namespace {

// The work of a step, regrouped: a visit is one token at one expert; visits of one expert lie side by side, so that
// its weights are read once for all of them.
struct Visits {
  std::int64_t* begin;  // [experts + 1]
  std::int64_t* place;  // [tokens * top_k]: where that choice's visit lies
  float* x;             // [visits, hidden], for float products
  float* gate;          // [visits, ffn]
  float* up;            // [visits, ffn]
  float* y;             // [visits, hidden]
  MatmulJob* jobs;      // [2 * experts]
  PackedJob* packed;    // [2 * experts]
  // For integer products, rounded as each matrix wants it.
  PackedInput gate_x, up_x, down_x;
};

// gate and up multiply the same activations: both as integers, or both as floats.
bool integers(const Operand& gate, const Operand& up) { return gate.packed != nullptr && up.packed != nullptr; }

Visits cut(Scratch& scratch, const OpCall& call) {
  const Operand& gate = call.in[3];
  const Operand& up = call.in[4];
  const Operand& down = call.in[5];
  const std::int64_t visits = call.in[1].rows * call.in[1].cols;
  const std::int64_t experts = gate.weight->shape[0];
  const std::int64_t ffn = gate.weight->shape[1];
  const std::int64_t hidden = gate.weight->shape[2];
  Visits v{.begin = scratch.take<std::int64_t>(experts + 1),
           .place = scratch.take<std::int64_t>(visits),
           .x = scratch.take<float>(integers(gate, up) ? 0 : visits * hidden),
           .gate = scratch.take<float>(visits * ffn),
           .up = scratch.take<float>(visits * ffn),
           .y = scratch.take<float>(visits * hidden),
           .jobs = scratch.take<MatmulJob>(2 * experts),
           .packed = scratch.take<PackedJob>(2 * experts),
           .gate_x = {},
           .up_x = {},
           .down_x = {}};
  if (integers(gate, up)) {
    v.gate_x = take_rounded(scratch, *gate.packed, visits);
    v.up_x = same_input(*gate.packed, *up.packed) ? v.gate_x : take_rounded(scratch, *up.packed, visits);
  }
  if (down.packed != nullptr) v.down_x = take_rounded(scratch, *down.packed, visits);
  return v;
}

// Counting sort of the choices by expert, tokens in order within each.
void arrange(const Visits& v, const std::int32_t* ids, std::int64_t visits, std::int64_t experts) {
  std::fill_n(v.begin, experts + 1, 0);
  for (std::int64_t i = 0; i < visits; ++i) ++v.begin[ids[i] + 1];
  for (std::int64_t e = 0; e < experts; ++e) v.begin[e + 1] += v.begin[e];
  for (std::int64_t i = 0; i < visits; ++i) v.place[i] = v.begin[ids[i]]++;
  for (std::int64_t e = experts; e > 0; --e) v.begin[e] = v.begin[e - 1];
  v.begin[0] = 0;
}

MatmulJob job_of(const Visits& v, std::int64_t expert, const Weight& w, const float* x, float* y) {
  return {.x = x + v.begin[expert] * w.shape[2],
          .x_stride = w.shape[2],
          .y = y + v.begin[expert] * w.shape[1],
          .y_stride = w.shape[1],
          .tokens = v.begin[expert + 1] - v.begin[expert],
          .dtype = w.dtype,
          .w = w.slab(expert),
          .rows = w.shape[1],
          .cols = w.shape[2]};
}

PackedJob job_of(const Visits& v, std::int64_t expert, const PackedMatrix& w, const PackedInput& x, float* y) {
  return {.w = &w,
          .x = from_row(x, w, v.begin[expert]),
          .y = y + v.begin[expert] * w.rows,
          .y_stride = w.rows,
          .tokens = v.begin[expert + 1] - v.begin[expert]};
}

// f(e) for every expert that has visits.
template <class F>
void for_visited(const Visits& v, std::int64_t experts, const F& f) {
  for (std::int64_t e = 0; e < experts; ++e)
    if (v.begin[e] != v.begin[e + 1]) f(e);
}

void gate_elements(std::int64_t act, const float* gate, const float* up, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = activate(act, gate[i]) * up[i];
}

}  // namespace

std::size_t moe_scratch(const OpCall& shape, std::int64_t, int threads) {
  const Weight& gate = *shape.in[3].weight;
  Scratch scratch;
  cut(scratch, shape);
  return scratch.used() + matmul_scratch_bytes(shape.in[1].rows, std::max(gate.shape[1], gate.shape[2]), threads);
}

void moe(const OpCall& call, const MatmulTable& table, const PackedTable& packed, GateFn act_and_multiply) {
  const Operand& gate = call.in[3];
  const Operand& up = call.in[4];
  const Operand& down = call.in[5];
  const std::int64_t experts = gate.weight->shape[0];
  const std::int64_t ffn = gate.weight->shape[1];
  const std::int64_t hidden = gate.weight->shape[2];
  const std::int64_t top_k = call.in[1].cols;
  const std::int64_t visits = call.in[1].rows * top_k;
  Scratch scratch(call.scratch);
  const Visits v = cut(scratch, call);

  arrange(v, call.in[1].i32(), visits, experts);
  for (const Operand* weight : {&gate, &up, &down})
    if (weight->cold) {
      const auto bytes = static_cast<std::size_t>(weight->weight->bytes() / experts);
      for_visited(v, experts, [&](std::int64_t e) { prefetch_pages({weight->weight->slab(e), bytes}); });
    }
  std::size_t jobs = 0;
  if (integers(gate, up)) {
    for_rows(call, visits, [&](std::int64_t i, int) {
      const float* x = call.in[0].f32() + i / top_k * hidden;
      packed.round(x, hidden, gate.packed->kind, from_row(v.gate_x, *gate.packed, v.place[i]));
      if (v.up_x.q != v.gate_x.q) packed.round(x, hidden, up.packed->kind, from_row(v.up_x, *up.packed, v.place[i]));
    });
    for_visited(v, experts, [&](std::int64_t e) {
      v.packed[jobs++] = job_of(v, e, gate.packed[e], v.gate_x, v.gate);
      v.packed[jobs++] = job_of(v, e, up.packed[e], v.up_x, v.up);
    });
    packed_matmul(packed, {v.packed, jobs}, *call.pool);
  } else {
    for_rows(call, visits, [&](std::int64_t i, int) {
      std::copy_n(call.in[0].f32() + i / top_k * hidden, hidden, v.x + v.place[i] * hidden);
    });
    for_visited(v, experts, [&](std::int64_t e) {
      v.jobs[jobs++] = job_of(v, e, *gate.weight, v.x, v.gate);
      v.jobs[jobs++] = job_of(v, e, *up.weight, v.x, v.up);
    });
    matmul(table, {v.jobs, jobs}, *call.pool, scratch.rest());
  }

  const std::int64_t act = call.attrs->i(Attr::act);
  call.pool->parallel_for(visits * ffn, 4096, [&](std::int64_t begin, std::int64_t end, int) {
    act_and_multiply(act, v.gate + begin, v.up + begin, v.gate + begin, end - begin);
  });
  jobs = 0;
  if (down.packed != nullptr) {
    for_rows(call, visits, [&](std::int64_t i, int) {
      packed.round(v.gate + i * ffn, ffn, down.packed->kind, from_row(v.down_x, *down.packed, i));
    });
    for_visited(v, experts, [&](std::int64_t e) { v.packed[jobs++] = job_of(v, e, down.packed[e], v.down_x, v.y); });
    packed_matmul(packed, {v.packed, jobs}, *call.pool);
  } else {
    for_visited(v, experts, [&](std::int64_t e) { v.jobs[jobs++] = job_of(v, e, *down.weight, v.gate, v.y); });
    matmul(table, {v.jobs, jobs}, *call.pool, scratch.rest());
  }

  for_rows(call, call.out[0].rows, [&](std::int64_t row, int) {
    float* y = call.out[0].f32() + row * hidden;
    std::fill_n(y, hidden, 0.0F);
    for (std::int64_t k = 0; k < top_k; ++k) {
      const float weight = call.in[2].f32()[row * top_k + k];
      const float* part = v.y + v.place[row * top_k + k] * hidden;
      for (std::int64_t i = 0; i < hidden; ++i) y[i] += weight * part[i];
    }
  });
}

void moe(const OpCall& call) { moe(call, scalar_matmul(), scalar_packed(), gate_elements); }

}  // namespace knapsack::ref
