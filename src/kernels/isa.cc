// Which instruction sets there are, which of them this CPU runs, and which one to use.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace knapsack {
namespace {

std::vector<Isa> detect() {
  std::vector<Isa> isas{Isa::scalar};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    isas.push_back(Isa::avx2);
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
