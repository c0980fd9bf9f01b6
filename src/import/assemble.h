// The steps every checkpoint goes through once its config and its weights can be read: weight spec, weights, graph,
// counts. Not for where they come from: import_gguf.cc and import_hf.cc know that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/arch/arch.h"
#include "import/checkpoint.h"
#include "import/import.h"

namespace knapsack {

// Fills graph, tensors and parameters of `out`, whose config is complete; adds oddities.
Result<void> assemble(const ArchitectureRow& row, const Checkpoint& checkpoint, const ImportOptions& options,
                      Imported& out);

Result<Imported> import_gguf(const std::string& path, const ImportOptions& options);
Result<Imported> import_hf(const std::string& folder, const ImportOptions& options);

}  // namespace knapsack
