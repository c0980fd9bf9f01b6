// Normalizations; means and variances in double.
#include <cmath>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {
namespace {

// Elements [first, first + count) to mean 0 and variance 1, then f(i within, normalized).
template <class F>
void normalize(const Tensor& x, std::int64_t first, std::int64_t count, float eps, F&& f) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x.f(first + i);
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double distance = x.f(first + i) - mean;
    squares += distance * distance;
  }
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(eps));
  for (std::int64_t i = 0; i < count; ++i) f(i, static_cast<float>((x.f(first + i) - mean) * inverse));
}

}  // namespace

void LayerNormalization(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Tensor weight(call.in[1]);
  const Sink out(call.out[0]);
  const std::int64_t count = product(x.dims().subspan(static_cast<std::size_t>(call.attrs->i(Attr::axis))));
  for_rows(call, x.elements() / count, [&](std::int64_t row, int) {
    normalize(x, row * count, count, call.attrs->f(Attr::eps), [&](std::int64_t i, float value) {
      const float bias = call.in.size() > 2 ? Tensor(call.in[2]).f(i) : 0.0F;
      out.f(row * count + i, value * weight.f(i) + bias);
    });
  });
}

// x, scale, bias, mean, variance
void BatchNormalization(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const std::int64_t channels = x.dims()[1];
  const std::int64_t inner = product(x.dims().subspan(2));
  const float eps = call.attrs->f(Attr::eps);
  for_rows(call, x.elements() / inner, [&](std::int64_t row, int) {
    const std::int64_t c = row % channels;
    const float scale = Tensor(call.in[1]).f(c) / std::sqrt(Tensor(call.in[4]).f(c) + eps);
    const float bias = Tensor(call.in[2]).f(c);
    const float mean = Tensor(call.in[3]).f(c);
    for (std::int64_t i = row * inner; i < (row + 1) * inner; ++i) out.f(i, (x.f(i) - mean) * scale + bias);
  });
}

void InstanceNormalization(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const std::int64_t channels = x.dims()[1];
  const std::int64_t inner = product(x.dims().subspan(2));
  for_rows(call, x.elements() / inner, [&](std::int64_t row, int) {
    const float scale = Tensor(call.in[1]).f(row % channels);
    const float bias = Tensor(call.in[2]).f(row % channels);
    normalize(x, row * inner, inner, call.attrs->f(Attr::eps),
              [&](std::int64_t i, float value) { out.f(row * inner + i, value * scale + bias); });
  });
}

}  // namespace knapsack::ref
