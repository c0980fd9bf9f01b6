#include "runtime/logit_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "runtime/exact_math.h"

namespace knapsack {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Integers in the order of the floats (NaN aside), as the compiler makes vectors of integer maxima only.
[[gnu::always_inline]] inline std::int32_t order(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
[[gnu::always_inline]] inline float from_order(std::int32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}

[[gnu::always_inline]] inline bool any_broken_body(const float* x, std::size_t n) {
  constexpr std::int32_t exponent = 0x7f800000;
  std::int32_t broken = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(x[i]);
    broken |= static_cast<std::int32_t>((bits & 0x7fffffff) > exponent) | static_cast<std::int32_t>(bits == exponent);
  }
  return broken != 0;
}

[[gnu::always_inline]] inline std::int32_t highest_body(const float* x, std::size_t n) {
  std::int32_t best = order(-infinity);
  for (std::size_t i = 0; i < n; ++i) best = std::max(best, order(x[i]));
  return best;
}

// exact_exp() without branches, for x <= 0: the same operations in the same order. Comparisons are of the bits, since
// those of floats may trap, and the compiler would keep them as branches.
[[gnu::always_inline]] inline void weigh_body(const float* logits, std::size_t n, double best, double temperature,
                                              double* p) {
  constexpr double hi = 6.93147180369123816490e-01;
  constexpr double lo = 1.90821492927058770002e-10;
  constexpr auto least = std::bit_cast<std::int64_t>(708.0);
  for (std::size_t i = 0; i < n; ++i) {
    const double whole = (static_cast<double>(logits[i]) - best) / temperature;
    const auto size = std::bit_cast<std::int64_t>(whole) & std::numeric_limits<std::int64_t>::max();
    const std::int64_t within = static_cast<std::int64_t>(size > least) - 1;  // all bits, or none
    const double x = -std::bit_cast<double>((size & within) | (least & ~within));
    const auto k = static_cast<std::int32_t>(x / ln2 - 0.5);
    const double r = (x - static_cast<double>(k) * hi) - static_cast<double>(k) * lo;
    double sum = exp_series[13];
    sum = sum * r + exp_series[12];
    sum = sum * r + exp_series[11];
    sum = sum * r + exp_series[10];
    sum = sum * r + exp_series[9];
    sum = sum * r + exp_series[8];
    sum = sum * r + exp_series[7];
    sum = sum * r + exp_series[6];
    sum = sum * r + exp_series[5];
    sum = sum * r + exp_series[4];
    sum = sum * r + exp_series[3];
    sum = sum * r + exp_series[2];
    sum = sum * r + exp_series[1];
    sum = sum * r + exp_series[0];
    const double value = sum * std::bit_cast<double>(static_cast<std::uint64_t>(std::int64_t{k} + 1023) << 52);
    p[i] = std::bit_cast<double>(std::bit_cast<std::int64_t>(value) & within);
  }
}

// Most blocks hold none: one test passes them over.
constexpr std::size_t block = 64;

[[gnu::always_inline]] inline bool any_between(const float* x, std::size_t n, std::int32_t low, std::int32_t below) {
  std::int32_t any = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t key = order(x[i]);
    any |= static_cast<std::int32_t>(key >= low) & static_cast<std::int32_t>(key < below);
  }
  return any != 0;
}

struct Passes {
  bool (*any_broken)(const float* x, std::size_t n);
  std::int32_t (*highest)(const float* x, std::size_t n);
  void (*weigh)(const float* logits, std::size_t n, double best, double temperature, double* p);
  bool (*any_between)(const float* x, std::size_t n, std::int32_t low, std::int32_t below);
};

constexpr Passes plain{.any_broken = [](const float* x, std::size_t n) { return any_broken_body(x, n); },
                       .highest = [](const float* x, std::size_t n) { return highest_body(x, n); },
                       .weigh = [](const float* x, std::size_t n, double best, double temperature,
                                   double* p) { weigh_body(x, n, best, temperature, p); },
                       .any_between = [](const float* x, std::size_t n, std::int32_t low,
                                         std::int32_t below) { return any_between(x, n, low, below); }};

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool any_broken_avx2(const float* x, std::size_t n) { return any_broken_body(x, n); }
[[gnu::target("avx2")]] std::int32_t highest_avx2(const float* x, std::size_t n) { return highest_body(x, n); }
[[gnu::target("avx2")]] void weigh_avx2(const float* x, std::size_t n, double best, double temperature, double* p) {
  weigh_body(x, n, best, temperature, p);
}
[[gnu::target("avx2")]] bool any_between_avx2(const float* x, std::size_t n, std::int32_t low, std::int32_t below) {
  return any_between(x, n, low, below);
}
const Passes& passes() {
  static constexpr Passes wide{
      .any_broken = any_broken_avx2, .highest = highest_avx2, .weigh = weigh_avx2, .any_between = any_between_avx2};
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  return avx2 ? wide : plain;
}
#else
const Passes& passes() { return plain; }
#endif

}  // namespace

bool any_broken(std::span<const float> logits) { return passes().any_broken(logits.data(), logits.size()); }

float highest(std::span<const float> logits) { return from_order(passes().highest(logits.data(), logits.size())); }

void weigh_all(std::span<const float> logits, float best, double temperature, std::span<double> p) {
  passes().weigh(logits.data(), logits.size(), static_cast<double>(best), temperature, p.data());
}

void find_between(std::span<const float> logits, float low, float below, std::vector<std::int32_t>& out) {
  const auto any = passes().any_between;
  // -0 counts as 0.
  const std::int32_t from = order(low == 0 ? -0.0F : low);
  const std::int32_t to = order(below == 0 ? -0.0F : below);
  for (std::size_t begin = 0; begin < logits.size(); begin += block) {
    const std::size_t count = std::min(block, logits.size() - begin);
    if (!any(logits.data() + begin, count, from, to)) continue;
    for (std::size_t i = begin; i < begin + count; ++i)
      if (logits[i] >= low && logits[i] < below) out.push_back(static_cast<std::int32_t>(i));
  }
}

}  // namespace knapsack
