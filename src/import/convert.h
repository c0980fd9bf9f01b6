// Writes any float checkpoint (a Hugging Face folder: float, FP8, GPTQ, AWQ; or a GGUF) as a GGUF that llama.cpp loads:
// its keys, tensor names and row orders, the tokenizer and chat template inside. Norms and biases stay F32.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace knapsack {

struct Conversion {
  std::vector<std::string> warnings;  // what GGUF cannot say, and what was done about it
};

// type: F32, F16 or BF16, of the matrices. progress: share done. What GGUF has no words for (an activation, a bias, a
// RoPE the architecture's files never have) is `unsupported`, by name; nothing is written then.
Result<Conversion> convert_to_gguf(const std::string& path, const std::string& out, DType type,
                                   const std::function<void(double)>& progress, Existing existing = Existing::replaced);

}  // namespace knapsack
