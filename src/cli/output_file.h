// Where a command may write its result. The writing itself: base/atomic_file.h; standard output: cli/output.h.
#pragma once

#include <string>

#include "base/result.h"

namespace knapsack {

// Refuses a file that `model` is made of: the GGUF itself, under whatever name, another part of it, and in a folder
// what import/ reads there. Other files of the folder, such as an earlier result, are not the model.
Result<void> not_the_model(const std::string& output, const std::string& model);

}  // namespace knapsack
