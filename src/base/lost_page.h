// For the SIGBUS of a mapped file (mmap.h) that others cut, or whose disk failed: the process cannot read on, but can
// say why. Not for handlers themselves: it locks and allocates. cli/interrupt.h has the handler.
#pragma once

#include <optional>

#include "base/result.h"

namespace knapsack {

// What happened to the file that is mapped at `address`; none where no file is.
std::optional<Error> lost_page(const void* address);

}  // namespace knapsack
