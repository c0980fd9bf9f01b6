// Which instruction sets there are, which of them this CPU runs, and which one to use.
#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace knapsack {
namespace {

#if defined(__x86_64__)
// CPUID leaf 1; clang 14's __builtin_cpu_supports does not know its name.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<Isa> detect() {
  std::vector<Isa> isas{Isa::scalar};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) isas.push_back(Isa::avx2);
#endif
  return isas;
}

}  // namespace

std::string_view isa_name(Isa isa) { return isa == Isa::scalar ? "scalar" : "avx2"; }

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Isa isa : {Isa::scalar, Isa::avx2})
    if (isa_name(isa) == name) return isa;
  return std::nullopt;
}

std::span<const Isa> supported_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Result<Isa> choose_isa(std::optional<Isa> wanted) {
  const auto supported = supported_isas();
  std::string asked(wanted ? isa_name(*wanted) : "");
  if (!wanted) {
    const char* variable = std::getenv("KNAPSACK_ISA");
    if (variable == nullptr || *variable == '\0') return supported.back();
    wanted = isa_from_name(variable);
    asked = fmt::format("KNAPSACK_ISA={}", variable);
  }
  if (wanted && std::find(supported.begin(), supported.end(), *wanted) != supported.end()) return *wanted;
  std::string valid;
  for (const Isa isa : supported) valid += (valid.empty() ? "" : ", ") + std::string(isa_name(isa));
  return usage_error("{} {}; use one of: {}", asked,
                     wanted ? "is not supported by this CPU" : "is no instruction set known here", valid);
}

}  // namespace knapsack
