// A function of one number, known by its values at fixed points: whatever operators an exporter wrote it in, SiLU is
// what has SiLU's values. Not for the functions' kernels.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "ops/ops.h"

namespace knapsack::recognition {

inline constexpr std::size_t sample_count = 48;
using Samples = std::array<double, sample_count>;

// Where activations are sampled: on both sides of 0, near and far.
const Samples& activation_points();
// Where mean squares are: above 0, from 1e-4 to 1e4.
const Samples& square_points();

Samples through(const Samples& values, const std::function<double(double)>& f);
// a op b; nothing: the op is not one of two numbers.
std::optional<Samples> combine(Op op, const Samples& a, const Samples& b);
// Nothing: the op is not one of a number. Gelu's form, Clip's bounds and the like are in the attributes.
std::optional<Samples> map(Op op, const Attrs& attrs, const Samples& values);

// A number that came out of float32, as people write it: 1e-06, not 9.99999997e-07.
double neat(double x);

// The functions a decoder has, of x at activation_points():
std::optional<double> as_factor(const Samples& f);   // f = factor * x
bool is_square(const Samples& f);                    // x * x
bool is_sigmoid(const Samples& f);                   // 1 / (1 + exp(-x))
std::optional<int> as_activation(const Samples& f);  // gated_act's `act`
struct Softcap {
  double scale, cap;  // cap * tanh(scale * x / cap)
};
std::optional<Softcap> as_softcap(const Samples& f);
// And of m at square_points(): f = factor / sqrt(m + eps).
struct InverseRoot {
  double factor, eps;
};
std::optional<InverseRoot> as_inverse_root(const Samples& f);

}  // namespace knapsack::recognition
