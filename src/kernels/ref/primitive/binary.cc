// Element by element, of two operands that are broadcast.
#include <cmath>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {
namespace {

template <class F>
void for_pairs(const OpCall& call, F&& f) {
  const Tensor a(call.in[0]);
  const Tensor b(call.in[1]);
  const Sink out(call.out[0]);
  const auto dims = out.dims();
  const Index a_strides = broadcast_strides(a.dims(), dims.size());
  const Index b_strides = broadcast_strides(b.dims(), dims.size());
  for_elements(call, out.elements(),
               [&](std::int64_t i) { f(a, place(i, dims, a_strides), b, place(i, dims, b_strides), out, i); });
}

template <class F, class G>
void arithmetic(const OpCall& call, F&& floats, G&& integers) {
  for_pairs(call,
            [&](const Tensor& a, std::int64_t x, const Tensor& b, std::int64_t y, const Sink& out, std::int64_t i) {
              if (out.integer()) {
                out.i(i, integers(a.i(x), b.i(y)));
              } else {
                out.f(i, floats(a.f(x), b.f(y)));
              }
            });
}

template <class F>
void compare(const OpCall& call, F&& f) {
  for_pairs(call,
            [&](const Tensor& a, std::int64_t x, const Tensor& b, std::int64_t y, const Sink& out, std::int64_t i) {
              const bool both = a.integer() && b.integer();
              out.i(i, (both ? f(a.i(x), b.i(y)) : f(a.f(x), b.f(y))) ? 1 : 0);
            });
}

// Whole numbers wrap around, as in C with unsigned ones.
std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// Towards zero; by 0 it is 0, where ONNX says nothing.
std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped(-bits(a)) : a / b;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1;
  for (std::uint64_t square = bits(base); exponent > 0; exponent /= 2, square *= square)
    if (exponent % 2 == 1) result *= square;
  return wrapped(result);
}

// The sign is the divisor's.
std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

void Add(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return a + b; },
      [](std::int64_t a, std::int64_t b) { return wrapped(bits(a) + bits(b)); });
}
void Sub(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return a - b; },
      [](std::int64_t a, std::int64_t b) { return wrapped(bits(a) - bits(b)); });
}
void Mul(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return a * b; },
      [](std::int64_t a, std::int64_t b) { return wrapped(bits(a) * bits(b)); });
}
void Div(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return a / b; }, quotient);
}
void Pow(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return b == 2 ? a * a : std::pow(a, b); }, power);
}
void Mod(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return std::fmod(a, b); }, modulo);
}
// A NaN of either comes through.
void Max(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return a != a || a > b ? a : b; },
      [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}
void Min(const OpCall& call) {
  arithmetic(
      call, [](float a, float b) { return a != a || a < b ? a : b; },
      [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
}
void PRelu(const OpCall& call) {
  arithmetic(
      call, [](float x, float slope) { return x < 0 ? slope * x : x; },
      [](std::int64_t x, std::int64_t slope) { return x < 0 ? wrapped(bits(slope) * bits(x)) : x; });
}
void Equal(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a == b; });
}
void Greater(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a > b; });
}
void GreaterOrEqual(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a >= b; });
}
void Less(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a < b; });
}
void LessOrEqual(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a <= b; });
}
void And(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a != 0 && b != 0; });
}
void Or(const OpCall& call) {
  compare(call, [](auto a, auto b) { return a != 0 || b != 0; });
}
void Xor(const OpCall& call) {
  compare(call, [](auto a, auto b) { return (a != 0) != (b != 0); });
}

void Where(const OpCall& call) {
  const Tensor condition(call.in[0]);
  const Tensor a(call.in[1]);
  const Tensor b(call.in[2]);
  const Sink out(call.out[0]);
  const auto dims = out.dims();
  const Index c_strides = broadcast_strides(condition.dims(), dims.size());
  const Index a_strides = broadcast_strides(a.dims(), dims.size());
  const Index b_strides = broadcast_strides(b.dims(), dims.size());
  for_elements(call, out.elements(), [&](std::int64_t i) {
    if (condition.i(place(i, dims, c_strides)) != 0) {
      out.copy(i, a, place(i, dims, a_strides));
    } else {
      out.copy(i, b, place(i, dims, b_strides));
    }
  });
}

}  // namespace knapsack::ref
