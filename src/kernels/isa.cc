// Which instruction sets there are, which of them this CPU runs, and which one to use.
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

Result<Isa> choose_isa() {
  const char* wanted = std::getenv("KNAPSACK_ISA");
  if (wanted == nullptr || *wanted == '\0') return supported_isas().back();
  std::string valid;
  for (const Isa isa : supported_isas()) {
    if (isa_name(isa) == wanted) return isa;
    valid += (valid.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  const std::string_view problem =
      isa_from_name(wanted) ? "is not supported by this CPU" : "is no instruction set known here";
  return usage_error("KNAPSACK_ISA={} {}; use one of: {}", wanted, problem, valid);
}

}  // namespace knapsack
