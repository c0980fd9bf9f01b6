#include "passes/recognize/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace knapsack::recognition {
namespace {

// Constants in files are float32.
constexpr double tolerance = 2e-6;

bool same(double a, double b, double scale) { return std::abs(a - b) <= tolerance * (scale + std::abs(b)); }

bool matches(const Samples& f, const std::function<double(double)>& wanted) {
  const Samples& x = activation_points();
  for (std::size_t i = 0; i < sample_count; ++i)
    if (!std::isfinite(f[i]) || !same(f[i], wanted(x[i]), std::abs(x[i]))) return false;
  return true;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

}  // namespace

const Samples& activation_points() {
  static const Samples points = [] {
    Samples made{};
    for (std::size_t i = 0; i < sample_count; ++i) {
      const std::size_t pair = i / 2;
      const double step = (static_cast<double>(pair) + 0.37) * 0.31;
      made[i] = i % 2 == 0 ? step : -step;
    }
    return made;
  }();
  return points;
}

const Samples& square_points() {
  static const Samples points = [] {
    Samples made{};
    for (std::size_t i = 0; i < sample_count; ++i)
      made[i] = std::pow(10.0, 8 * static_cast<double>(i) / (sample_count - 1) - 4);
    return made;
  }();
  return points;
}

Samples through(const Samples& values, const std::function<double(double)>& f) {
  Samples made{};
  std::transform(values.begin(), values.end(), made.begin(), f);
  return made;
}

std::optional<Samples> combine(Op op, const Samples& a, const Samples& b) {
  Samples made{};
  for (std::size_t i = 0; i < sample_count; ++i) {
    switch (op) {
      case Op::Add:
        made[i] = a[i] + b[i];
        break;
      case Op::Sub:
        made[i] = a[i] - b[i];
        break;
      case Op::Mul:
        made[i] = a[i] * b[i];
        break;
      case Op::Div:
        made[i] = a[i] / b[i];
        break;
      case Op::Pow:
        made[i] = std::pow(a[i], b[i]);
        break;
      case Op::Max:
        made[i] = std::max(a[i], b[i]);
        break;
      case Op::Min:
        made[i] = std::min(a[i], b[i]);
        break;
      default:
        return std::nullopt;
    }
  }
  return made;
}

std::optional<Samples> map(Op op, const Attrs& attrs, const Samples& values) {
  switch (op) {
    case Op::Sqrt:
      return through(values, [](double x) { return std::sqrt(x); });
    case Op::Exp:
      return through(values, [](double x) { return std::exp(x); });
    case Op::Log:
      return through(values, [](double x) { return std::log(x); });
    case Op::Reciprocal:
      return through(values, [](double x) { return 1 / x; });
    case Op::Sigmoid:
      return through(values, sigmoid);
    case Op::Tanh:
      return through(values, [](double x) { return std::tanh(x); });
    case Op::Erf:
      return through(values, [](double x) { return std::erf(x); });
    case Op::Gelu:
      return through(values, attrs.i(Attr::mode) == 0 ? gelu : gelu_tanh);
    case Op::Neg:
      return through(values, [](double x) { return -x; });
    case Op::Abs:
      return through(values, [](double x) { return std::abs(x); });
    case Op::Softplus:
      return through(values, [](double x) { return std::log1p(std::exp(x)); });
    case Op::Relu:
      return through(values, [](double x) { return std::max(0.0, x); });
    default:
      return std::nullopt;
  }
}

double neat(double x) {
  const std::string text = fmt::format("{}", static_cast<float>(x));
  double made = x;
  std::from_chars(text.data(), text.data() + text.size(), made);
  return made;
}

std::optional<double> as_factor(const Samples& f) {
  const Samples& x = activation_points();
  const double factor = f[sample_count - 1] / x[sample_count - 1];
  if (!std::isfinite(factor)) return std::nullopt;
  for (std::size_t i = 0; i < sample_count; ++i)
    if (std::abs(f[i] - factor * x[i]) > tolerance * std::abs(factor * x[i])) return std::nullopt;
  return factor;
}

bool is_square(const Samples& f) {
  return matches(f, [](double x) { return x * x; });
}

bool is_sigmoid(const Samples& f) { return matches(f, sigmoid); }

std::optional<int> as_activation(const Samples& f) {
  if (matches(f, silu)) return 0;
  if (matches(f, gelu)) return 1;
  if (matches(f, gelu_tanh)) return 2;
  return std::nullopt;
}

// f = cap * tanh(scale * x / cap): with t = atanh(f / cap) two points give the cap, the others confirm it.
std::optional<Softcap> as_softcap(const Samples& f) {
  const Samples& x = activation_points();
  // f(2x) = 2 f(x) / (1 + f(x)^2 / cap^2) needs points in that ratio; a search over cap needs none.
  const double far = f[sample_count - 2];  // the largest x
  if (!std::isfinite(far) || far == 0) return std::nullopt;
  const auto error = [&](double cap) {
    const double scale = cap * std::atanh(far / cap) / x[sample_count - 2];
    double worst = 0;
    for (std::size_t i = 0; i < sample_count; ++i)
      worst = std::max(worst, std::abs(f[i] - cap * std::tanh(scale * x[i] / cap)));
    return worst;
  };
  // The signed error at a middle point falls as the cap grows: bisect on it.
  constexpr std::size_t middle = sample_count / 2;
  const auto off = [&](double cap) {
    const double scale = cap * std::atanh(far / cap) / x[sample_count - 2];
    return f[middle] - cap * std::tanh(scale * x[middle] / cap);
  };
  double low = std::abs(far) * (1 + 1e-12);
  double high = std::abs(far) * 1e6;
  if ((off(low) > 0) == (off(high) > 0)) return std::nullopt;
  const bool rising = off(low) < 0;
  for (int i = 0; i < 200; ++i) {
    const double half = std::sqrt(low * high);
    ((off(half) < 0) == rising ? low : high) = half;
  }
  const double cap = std::sqrt(low * high);
  if (error(cap) > 1e-5 * std::abs(far)) return std::nullopt;
  return Softcap{.scale = cap * std::atanh(far / cap) / x[sample_count - 2], .cap = cap};
}

std::optional<InverseRoot> as_inverse_root(const Samples& f) {
  const Samples& m = square_points();
  // 1 / f^2 = (m + eps) / factor^2 is a line in m.
  const Samples line = through(f, [](double v) { return 1 / (v * v); });
  const double slope = (line[sample_count - 1] - line[0]) / (m[sample_count - 1] - m[0]);
  if (!(slope > 0) || !std::isfinite(slope)) return std::nullopt;
  const double eps = line[0] / slope - m[0];
  for (std::size_t i = 0; i < sample_count; ++i) {
    if (f[i] <= 0 || std::abs(line[i] - slope * (m[i] + eps)) > tolerance * line[i]) return std::nullopt;
  }
  if (eps < -1e-12 || eps > 1) return std::nullopt;
  return InverseRoot{.factor = 1 / std::sqrt(slope), .eps = std::max(0.0, eps)};
}

}  // namespace knapsack::recognition
