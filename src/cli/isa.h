// The option that names an instruction set. Not for which there are: kernels/kernel.h.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/arguments.h"
#include "kernels/kernel.h"

namespace knapsack {

void isa_flag(Arguments& arguments, std::optional<std::string>& name);
// By that name, where it was given; else choose_isa().
Result<Isa> chosen_isa(const std::optional<std::string>& name);

}  // namespace knapsack
