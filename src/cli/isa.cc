#include "cli/isa.h"

#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace knapsack {

void isa_flag(Arguments& arguments, std::optional<std::string>& name) {
  arguments.text("--isa", "NAME", name, "instruction set (default: KNAPSACK_ISA, else the fastest)");
}

Result<Isa> chosen_isa(const std::optional<std::string>& name) {
  if (!name) return choose_isa();
  if (const auto isa = isa_from_name(*name)) return choose_isa(*isa);
  std::vector<std::string_view> names;
  for (const Isa isa : supported_isas()) names.push_back(isa_name(isa));
  return usage_error("--isa: expected one of {}, found {}", fmt::join(names, ", "), in_quotes(*name));
}

}  // namespace knapsack
