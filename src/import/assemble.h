// The steps every checkpoint goes through once its config and its weights can be read: weight spec, weights, graph,
// counts. Not for where they come from: import_gguf.cc and import_hf.cc know that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/gguf.h"
#include "import/arch/arch.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "import/model_text.h"

namespace knapsack {

// Fills graph, tensors and parameters of `out`, whose config is complete; adds oddities.
Result<void> assemble(const ArchitectureRow& row, const Checkpoint& checkpoint, const ImportOptions& options,
                      Imported& out);

// Moves what stands beside the weights into `out`.
void take_text(ModelText text, Imported& out);

// A checkpoint whose config is read and checked, before its weights are.
struct Opened {
  const ArchitectureRow* row = nullptr;
  std::unique_ptr<Checkpoint> checkpoint;
  std::shared_ptr<const GgufFile> gguf;  // null: a Hugging Face folder
  Imported out;                          // all but graph, tensors, parameters
};
Result<Opened> open_gguf(const std::string& path);
Result<Opened> open_hf(const std::string& folder);
Result<Opened> open_checkpoint(const std::string& path);  // either

}  // namespace knapsack
