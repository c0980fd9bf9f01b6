// Products of matrices, by the one routine (kernels/matmul.h): a constant is read as it is stored, transposed or not.
#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/ref/primitive/tensor.h"
#include "kernels/ref/scratch.h"

namespace knapsack::ref {
namespace {

// a [M, K] times b [K, N], as many pairs as the result has beside its last two dimensions.
struct Shape {
  std::int64_t m, k, n;
  std::int64_t pairs;
};

Shape shape_of(const OpCall& call) {
  const auto a = call.in[0].dims;
  const auto b = call.in[1].dims;
  Shape s{.m = a.size() == 1 ? 1 : a[a.size() - 2], .k = a.back(), .n = b.size() == 1 ? 1 : b.back(), .pairs = 1};
  s.pairs = product(call.out[0].dims) / (s.m * s.n);
  return s;
}

bool plain_floats(const Operand& operand) { return operand.weight == nullptr && operand.dtype == DType::F32; }

struct Copies {
  float *a, *b, *y;
  std::span<std::byte> rest;
};

// What is not in floats yet, and where the product goes that is to be of another type.
Copies take_copies(Scratch& scratch, const OpCall& call) {
  Copies copies{};
  if (!plain_floats(call.in[0])) copies.a = scratch.take<float>(product(call.in[0].dims));
  if (call.in[1].weight == nullptr && call.in[1].dtype != DType::F32)
    copies.b = scratch.take<float>(product(call.in[1].dims));
  if (call.out[0].dtype != DType::F32) copies.y = scratch.take<float>(product(call.out[0].dims));
  return copies;
}

const float* floats(const OpCall& call, const Operand& operand, float* copy) {
  if (copy == nullptr) return operand.f32();
  const Tensor tensor(operand);
  for_elements(call, tensor.elements(), [&](std::int64_t i) { copy[i] = tensor.f(i); });
  return copy;
}

// b as the right side of a product: its rows are the sums' elements (plain, [N, K]) or what is summed (transposed,
// [K, N]).
MatmulJob job_of(const OpCall& call, const Shape& s, const float* b, bool b_transposed) {
  MatmulJob job{.x_stride = s.k, .y_stride = s.n, .tokens = s.m};
  const Operand& right = call.in[1];
  if (right.weight != nullptr) {
    job.dtype = right.weight->dtype;
    job.w = right.weight->slab(0);
  } else {
    job.w = reinterpret_cast<const std::byte*>(b);
  }
  const bool plain = right.transposed != b_transposed;
  job.transposed = !plain;
  job.rows = plain ? s.n : s.k;
  job.cols = plain ? s.k : s.n;
  return job;
}

void finish(const OpCall& call, const float* y) {
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.f(i, y[i]); });
}

}  // namespace

std::size_t matmul_primitive_scratch(const OpCall& shape, std::int64_t, int threads) {
  Scratch scratch;
  take_copies(scratch, shape);
  const std::int64_t tokens = std::max<std::int64_t>(product(shape.in[0].dims), 1);
  const std::int64_t widest = *std::max_element(shape.in[1].dims.begin(), shape.in[1].dims.end());
  return scratch.used() + matmul_scratch_bytes(tokens, widest, threads);
}

void MatMul(const OpCall& call) {
  Scratch scratch(call.scratch);
  const Copies copies = take_copies(scratch, call);
  Shape s = shape_of(call);
  const float* a = floats(call, call.in[0], copies.a);
  const float* b = call.in[1].weight == nullptr ? floats(call, call.in[1], copies.b) : nullptr;
  float* y = copies.y != nullptr ? copies.y : call.out[0].f32();
  const auto out = call.out[0].dims;
  const auto outer = [&](const Operand& operand) {
    const auto dims = operand.dims;
    return dims.size() > 2 ? dims.first(dims.size() - 2) : std::span<const std::int64_t>{};
  };
  // One matrix on the right serves all rows on the left.
  if (product(outer(call.in[1])) == 1) {
    s.m *= product(outer(call.in[0]));
    s.pairs = 1;
  }
  MatmulJob job = job_of(call, s, b, false);
  const std::size_t rank = std::max(outer(call.in[0]).size(), outer(call.in[1]).size());
  const std::span<const std::int64_t> pair_dims = s.pairs == 1 ? std::span<const std::int64_t>{} : out.first(rank);
  const Index a_strides = broadcast_strides(outer(call.in[0]), rank);
  const Index b_strides = broadcast_strides(outer(call.in[1]), rank);
  const std::byte* w = job.w;
  const Weight* weight = call.in[1].weight;
  const std::int64_t matrix_bytes = s.k * s.n / format(job.dtype).block * format(job.dtype).block_bytes;
  for (std::int64_t pair = 0; pair < s.pairs; ++pair) {
    job.x = a + place(pair, pair_dims, a_strides) * s.m * s.k;
    const std::int64_t matrix = place(pair, pair_dims, b_strides);
    job.w = weight != nullptr && weight->slabs.size() > 1 ? weight->slab(matrix) : w + matrix * matrix_bytes;
    job.y = y + pair * s.m * s.n;
    matmul(scalar_matmul(), {&job, 1}, *call.pool, scratch.rest());
  }
  if (const float alpha = call.attrs->f(Attr::alpha, 1); alpha != 1)
    for_elements(call, product(out), [&](std::int64_t i) { y[i] *= alpha; });
  if (copies.y != nullptr) finish(call, y);
}

void Gemm(const OpCall& call) {
  const bool ta = call.attrs->i(Attr::trans_a) != 0;
  const bool tb = call.attrs->i(Attr::trans_b) != 0;
  const float alpha = call.attrs->f(Attr::alpha, 1);
  const float beta = call.attrs->f(Attr::beta, 1);
  const Clamp clamp(*call.attrs);
  const Tensor a(call.in[0]);
  const Tensor b(call.in[1]);
  const Sink out(call.out[0]);
  const std::int64_t m = out.dims()[0];
  const std::int64_t n = out.dims()[1];
  const std::int64_t k = a.dims()[ta ? 0 : 1];
  for_rows(call, m * n, [&](std::int64_t i, int) {
    float sum = 0;
    for (std::int64_t c = 0; c < k; ++c)
      sum += a.f(ta ? c * m + i / n : i / n * k + c) * b.f(tb ? i % n * k + c : c * n + i % n);
    sum *= alpha;
    if (call.in.size() > 2) {
      const Tensor c(call.in[2]);
      sum += beta * c.f(place(i, out.dims(), broadcast_strides(c.dims(), 2)));
    }
    out.f(i, clamp(sum));
  });
}

}  // namespace knapsack::ref
