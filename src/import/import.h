// A checkpoint (GGUF, or a Hugging Face folder: float, FP8, GPTQ, AWQ) -> the graph, and all that travels beside it.
// arch/ has one file an architecture; checkpoint.h the view of weights that hides where they come from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "import/config.h"

namespace knapsack {

// One tensor of the checkpoint as stored, for `inspect`.
struct StoredTensor {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

// One weight of the model as its architecture means it, under Hugging Face's name, whatever it is called where it is
// stored; "*" stands for the experts of a stack, whose shape is [experts, rows, cols].
struct ModelWeight {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;  // as it is read; 0: a model without weights (import_config)
  DType dtype{};           // of these
};

struct ImportOptions {
  std::int64_t ctx = 0;  // 0: what the model was trained for; decides e.g. LongRoPE's factors
};

struct Imported {
  Graph graph;
  ModelConfig config;
  std::string source;  // path as given
  std::string format;  // "GGUF v3", "safetensors", "safetensors (GPTQ 4-bit g128)"
  std::string model_hash;
  std::vector<StoredTensor> tensors;
  std::vector<ModelWeight> weights;
  std::int64_t parameters = 0;
  std::function<Result<std::string>()> tokenizer_json;  // null: no tokenizer
  std::string tokenizer_kind;                           // "BPE (qwen2)", "Unigram" ... for inspect
  std::int64_t tokenizer_bytes = 0;                     // ModelText's
  std::string tokenizer_config_json = "{}";
  std::string chat_template;
  std::string generation_config_json = "{}";
  std::vector<std::int32_t> eos_ids;
  std::vector<std::string> oddities;
};

Result<Imported> import_model(const std::string& path, const ImportOptions& options);

// A config.json alone: the graph has constants without data, so that it can be planned with and never run; with
// `made_up` they are numbers of no meaning in that format, so that its speed can be measured. text: of the file; origin
// names it in messages.
Result<Imported> import_config(std::string_view text, const std::string& origin,
                               const std::optional<DType>& made_up = {});

// Reads every byte: NaN, Inf, scales out of range. Errors are the first few found; also returns sha256 over all files.
struct CheckReport {
  std::string sha256;
  std::vector<std::string> faults;
};
Result<CheckReport> check_model(const std::string& path, const std::function<void(double)>& progress);

}  // namespace knapsack
