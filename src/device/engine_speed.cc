#include "device/engine_speed.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tensor/dtype.h"

namespace knapsack {
namespace {

// Between two points on a line over the logarithm of the width; beyond them the nearer one.
template <class T>
double between(const std::vector<const T*>& points, std::int64_t hidden, double T::*value) {
  const T* below = nullptr;
  const T* above = nullptr;
  for (const T* point : points) {
    if (point->hidden <= hidden && (below == nullptr || point->hidden > below->hidden)) below = point;
    if (point->hidden >= hidden && (above == nullptr || point->hidden < above->hidden)) above = point;
  }
  if (below == nullptr || above == nullptr || below->hidden == above->hidden)
    return (below == nullptr ? above : below)->*value;
  const auto log = [](std::int64_t width) { return std::log(static_cast<double>(width)); };
  const double part = (log(hidden) - log(below->hidden)) / (log(above->hidden) - log(below->hidden));
  return below->*value + part * (above->*value - below->*value);
}

double bits_of(const FormatInfo& f) { return 8.0 * static_cast<double>(f.block_bytes) / static_cast<double>(f.block); }

// How unlike two formats are to an engine: integers to integers, then by bits.
double distance(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  const auto left = dtype_from_name(a);
  const auto right = dtype_from_name(b);
  constexpr double other_kind = 100;
  if (!left || !right) return 2 * other_kind;
  const FormatInfo& f = format(*left);
  const FormatInfo& g = format(*right);
  return ((f.level_bits > 0) == (g.level_bits > 0) ? 0 : other_kind) + 1 + std::fabs(bits_of(f) - bits_of(g));
}

}  // namespace

MatrixSpeed EngineSpeed::matrix(const std::string& format, std::int64_t hidden) const {
  CHECK(!matrices.empty());
  const auto nearest = std::min_element(matrices.begin(), matrices.end(), [&](const auto& a, const auto& b) {
    return distance(a.format, format) < distance(b.format, format);
  });
  std::vector<const MatrixSpeed*> points;
  for (const MatrixSpeed& each : matrices)
    if (each.format == nearest->format) points.push_back(&each);
  MatrixSpeed out{.format = nearest->format, .hidden = hidden};
  out.decode_gb_per_s = between(points, hidden, &MatrixSpeed::decode_gb_per_s);
  out.prefill_gop_per_s = between(points, hidden, &MatrixSpeed::prefill_gop_per_s);
  if (points.size() > 1) return out;
  // Rows of some formats are too long for narrow shapes: what width costs is then taken from a format that has both.
  const MatrixSpeed& only = *points.front();
  for (const MatrixSpeed& other : matrices) {
    std::vector<const MatrixSpeed*> of_other;
    for (const MatrixSpeed& each : matrices)
      if (each.format == other.format) of_other.push_back(&each);
    if (of_other.size() < 2) continue;
    for (const auto value : {&MatrixSpeed::decode_gb_per_s, &MatrixSpeed::prefill_gop_per_s})
      out.*value = only.*value * between(of_other, hidden, value) / between(of_other, only.hidden, value);
    break;
  }
  return out;
}

LayerSpeed EngineSpeed::layer(std::int64_t hidden) const {
  CHECK(!layers.empty());
  std::vector<const LayerSpeed*> points;
  points.reserve(layers.size());
  for (const LayerSpeed& each : layers) points.push_back(&each);
  return {.hidden = hidden,
          .decode_us = between(points, hidden, &LayerSpeed::decode_us),
          .prefill_ns = between(points, hidden, &LayerSpeed::prefill_ns)};
}

}  // namespace knapsack
