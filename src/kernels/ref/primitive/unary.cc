// Element by element, of one operand.
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {
namespace {

template <class F>
void floats(const OpCall& call, F&& f) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.f(i, f(x.f(i))); });
}

template <class F, class G>
void numbers(const OpCall& call, F&& f, G&& g) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) {
    if (x.integer()) {
      out.i(i, g(x.i(i)));
    } else {
      out.f(i, f(x.f(i)));
    }
  });
}

std::int64_t negated(std::int64_t x) { return static_cast<std::int64_t>(-static_cast<std::uint64_t>(x)); }
std::int64_t itself(std::int64_t x) { return x; }

void copy(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.copy(i, x, i); });
}

}  // namespace

void Sqrt(const OpCall& call) {
  floats(call, [](float x) { return std::sqrt(x); });
}
void Exp(const OpCall& call) {
  floats(call, [](float x) { return std::exp(x); });
}
void Log(const OpCall& call) {
  floats(call, [](float x) { return std::log(x); });
}
void Reciprocal(const OpCall& call) {
  floats(call, [](float x) { return 1.0F / x; });
}
void Sigmoid(const OpCall& call) {
  floats(call, [](float x) { return 1.0F / (1.0F + std::exp(-x)); });
}
void Tanh(const OpCall& call) {
  floats(call, [](float x) { return std::tanh(x); });
}
void Erf(const OpCall& call) {
  floats(call, [](float x) { return std::erf(x); });
}
void Gelu(const OpCall& call) {
  const std::int64_t act = call.attrs->i(Attr::mode) == 0 ? 1 : 2;
  floats(call, [act](float x) { return activate(act, x); });
}
void Sin(const OpCall& call) {
  floats(call, [](float x) { return std::sin(x); });
}
void Cos(const OpCall& call) {
  floats(call, [](float x) { return std::cos(x); });
}
void Softplus(const OpCall& call) {
  floats(call, [](float x) { return x > 20 ? x : std::log1p(std::exp(x)); });
}
void LeakyRelu(const OpCall& call) {
  const float alpha = call.attrs->f(Attr::alpha);
  floats(call, [alpha](float x) { return x < 0 ? alpha * x : x; });
}
void Elu(const OpCall& call) {
  const float alpha = call.attrs->f(Attr::alpha);
  floats(call, [alpha](float x) { return x < 0 ? alpha * (std::exp(x) - 1) : x; });
}
void HardSigmoid(const OpCall& call) {
  const float alpha = call.attrs->f(Attr::alpha);
  const float beta = call.attrs->f(Attr::beta);
  floats(call, [=](float x) { return std::max(0.0F, std::min(1.0F, alpha * x + beta)); });
}
void HardSwish(const OpCall& call) {
  floats(call, [](float x) { return x * std::max(0.0F, std::min(1.0F, x / 6 + 0.5F)); });
}
void Neg(const OpCall& call) {
  numbers(
      call, [](float x) { return -x; }, negated);
}
void Abs(const OpCall& call) {
  numbers(
      call, [](float x) { return std::fabs(x); }, [](std::int64_t x) { return x < 0 ? negated(x) : x; });
}
void Sign(const OpCall& call) {
  numbers(
      call, [](float x) { return x > 0   ? 1.0F
                                 : x < 0 ? -1.0F
                                         : x; },
      [](std::int64_t x) { return std::int64_t{x > 0} - std::int64_t{x < 0}; });
}
void Floor(const OpCall& call) {
  numbers(
      call, [](float x) { return std::floor(x); }, itself);
}
void Ceil(const OpCall& call) {
  numbers(
      call, [](float x) { return std::ceil(x); }, itself);
}
// Halves go to the even neighbour.
void Round(const OpCall& call) {
  numbers(
      call, [](float x) { return std::nearbyint(x); }, itself);
}
void Relu(const OpCall& call) {
  numbers(
      call, [](float x) { return x < 0 ? 0.0F : x; }, [](std::int64_t x) { return std::max<std::int64_t>(x, 0); });
}
void Clip(const OpCall& call) {
  const float low = call.attrs->f(Attr::low, -std::numeric_limits<float>::infinity());
  const float high = call.attrs->f(Attr::high, std::numeric_limits<float>::infinity());
  numbers(call, Clamp(*call.attrs), [low = Tensor::whole(low), high = Tensor::whole(high)](std::int64_t x) {
    return std::min(std::max(x, low), high);
  });
}
void Not(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.i(i, x.i(i) == 0 ? 1 : 0); });
}
void IsNaN(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.i(i, !x.integer() && std::isnan(x.f(i)) ? 1 : 0); });
}
void Cast(const OpCall& call) { copy(call); }
void Identity(const OpCall& call) { copy(call); }
void Dropout(const OpCall& call) { copy(call); }

}  // namespace knapsack::ref
