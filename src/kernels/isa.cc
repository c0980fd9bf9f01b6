// Which instruction sets there are, which of them this CPU runs, and which one to use.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/native.h"

namespace knapsack {
namespace {

constexpr auto names = std::to_array<std::string_view>({
#define KNAP_ISA(id, text) text,
#include "kernels/isa.inc"
#undef KNAP_ISA
});

std::vector<Isa> detect() {
  std::vector<Isa> isas{Isa::scalar};
  for (const IsaKernels& native : native_isas())
    if (native.runs()) isas.push_back(native.isa);
  return isas;
}

}  // namespace

std::string_view isa_name(Isa isa) { return names[static_cast<std::size_t>(isa)]; }

std::optional<Isa> isa_from_name(std::string_view name) {
  const auto* const at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Isa>(at - names.begin());
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
