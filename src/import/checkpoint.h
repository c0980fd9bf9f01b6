// A view of a checkpoint's weights that hides where they come from: GGUF, safetensors, block-scaled FP8, GPTQ, AWQ.
// load_weights() checks a weight spec against it and reads every entry. Nothing here knows an architecture.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/import.h"
#include "import/spec.h"
#include "tensor/weight.h"

namespace knapsack {

// One tensor as stored. `owner` keeps `data` mapped.
struct TensorView {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
};

// order: I32 [cols], where the weight's columns were sorted: column j of it meets column order[j] of the input.
struct LoadedWeight {
  std::shared_ptr<const Weight> weight;
  std::shared_ptr<const Weight> order;
};

// A tensor as the model means it: one float matrix, whatever it is stored as. parts: the stored tensors it takes.
struct LogicalTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<const TensorView*> parts;
  std::string fault;  // why its parts do not make a tensor; empty: they do
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  [[nodiscard]] virtual const std::string& path() const = 0;
  [[nodiscard]] virtual std::span<const TensorView> tensors() const = 0;
  // The stored names of an entry: one, or one an expert.
  [[nodiscard]] virtual std::vector<std::string> stored_names(const WeightEntry& entry) const = 0;
  [[nodiscard]] virtual std::optional<LogicalTensor> find(const std::string& stored) const = 0;
  // keep_order: the columns must come in their own order.
  [[nodiscard]] virtual Result<LoadedWeight> read(const LogicalTensor& tensor, bool keep_order) const = 0;
  // The configuration has taken its numbers from it, so that no weight of the graph is made of it.
  [[nodiscard]] virtual bool read_with_config(const TensorView& /*tensor*/) const { return false; }
  // Why an unused tensor does no harm; empty: it is surplus.
  [[nodiscard]] virtual std::string harmless(const TensorView& tensor, const ModelConfig& config) const = 0;
};

// What a spec's entries became. Null where an optional one is absent.
class Weights {
 public:
  [[nodiscard]] const LoadedWeight& at(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return loaded_.contains(name); }
  void put(std::string name, LoadedWeight weight) { loaded_[std::move(name)] = std::move(weight); }
  // Shapes only, without data: for checks of a graph before there is a checkpoint.
  static Weights blank(const WeightSpec& spec);
  // Matrices in `dtype` (in F16 where a row is no whole number of its blocks), vectors of ones in F32: what the numbers
  // are does not matter to how fast they are multiplied; they are finite, and none is subnormal.
  static Weights made_up(const WeightSpec& spec, DType dtype);

 private:
  std::map<std::string, LoadedWeight> loaded_;
};

// All problems at once: `bad_input` listing every missing, surplus and misshapen tensor. Oddities: what was left
// unused though harmless, NaN or Inf in norms and biases, what had to be converted.
Result<Weights> load_weights(const Checkpoint& checkpoint, const WeightSpec& spec, const ModelConfig& config,
                             std::vector<std::string>& oddities);

// The stored tensor as a weight over the file's own bytes (copied only where they are not aligned for the type).
std::shared_ptr<const Weight> mapped_weight(const TensorView& view, const std::vector<std::int64_t>& shape);
// Every element as float, whatever it is stored as.
std::vector<float> decoded(const Weight& weight);
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace knapsack
