// Which instruction sets there are, which of them this CPU runs, and which one to use.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "kernels/kernel.h"
#include "kernels/native.h"
#include "kernels/self_check.h"

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

IsaChooser::IsaChooser(std::span<const Isa> supported, Differs differs)
    : supported_(supported), differs_(std::move(differs)) {}

const std::string& IsaChooser::difference(Isa isa) {
  const auto [at, fresh] = known_.try_emplace(isa);
  if (fresh && isa != Isa::scalar) at->second = differs_(isa);
  return at->second;
}

Result<Isa> IsaChooser::choose(std::optional<Isa> wanted, const char* variable) {
  const std::lock_guard lock(mutex_);
  if (!wanted && (variable == nullptr || *variable == '\0')) return fastest();
  std::string asked(wanted ? isa_name(*wanted) : "");
  if (!wanted) {
    wanted = isa_from_name(variable);
    asked = fmt::format("KNAPSACK_ISA={}", variable);
  }
  std::string valid;
  for (const Isa isa : supported_) valid += (valid.empty() ? "" : ", ") + std::string(isa_name(isa));
  if (!wanted || std::find(supported_.begin(), supported_.end(), *wanted) == supported_.end())
    return usage_error("{} {}; use one of: {}", asked,
                       wanted ? "is not supported by this CPU" : "is no instruction set known here", valid);
  if (const std::string& what = difference(*wanted); !what.empty())
    return unsupported("{}: on this CPU {} come out wrong, not as defined; use another of: {}", asked, what, valid);
  return *wanted;
}

Isa IsaChooser::fastest() {
  for (std::size_t i = supported_.size(); i-- > 1;) {
    const Isa isa = supported_[i];
    const bool told = known_.contains(isa);
    const std::string& what = difference(isa);
    if (what.empty()) return isa;
    if (!told)
      warn(
          "instruction set {}: on this CPU {} come out wrong, not as defined; {} is tried instead, which is slower. "
          "KNAPSACK_ISA (bench: --isa) pins one; please report this CPU",
          isa_name(isa), what, isa_name(supported_[i - 1]));
  }
  return supported_.front();
}

Result<Isa> choose_isa(std::optional<Isa> wanted) {
  static IsaChooser chooser(supported_isas(), [](Isa isa) {
    return first_difference(packed_table(isa), matmul_table(isa), KernelTable::get(isa)[Op::attention]);
  });
  return chooser.choose(wanted, std::getenv("KNAPSACK_ISA"));
}

}  // namespace knapsack
