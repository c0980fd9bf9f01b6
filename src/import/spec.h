// The weight spec: every tensor an architecture reads, declared from its config alone (names, shapes, which are
// optional), so that all missing, surplus and misshapen tensors of a checkpoint are listed at once.
// Names are Hugging Face's; "*" stands for each expert of a stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "import/config.h"

namespace knapsack {

enum class WeightKind : std::uint8_t {
  matrix,   // any storage format; may come with a column order (act-order GPTQ)
  plain,    // a matrix whose columns must be in their own order
  vector,   // norm weights and biases: F32 in the graph
  experts,  // [experts, rows, cols]
};

struct WeightEntry {
  std::string name;
  std::vector<std::int64_t> shape;  // row-major, outermost first
  WeightKind kind = WeightKind::matrix;
  bool optional = false;
};

class WeightSpec {
 public:
  void matrix(std::string name, std::int64_t rows, std::int64_t cols) {
    add(std::move(name), {rows, cols}, WeightKind::matrix);
  }
  void plain(std::string name, std::int64_t rows, std::int64_t cols) {
    add(std::move(name), {rows, cols}, WeightKind::plain);
  }
  void stack(std::string name, std::int64_t n, std::int64_t rows, std::int64_t cols) {
    add(std::move(name), {n, rows, cols}, WeightKind::experts);
  }
  void vector(std::string name, std::int64_t size) { add(std::move(name), {size}, WeightKind::vector); }
  void vector_if(bool present, std::string name, std::int64_t size) {
    if (present) vector(std::move(name), size);
  }
  [[nodiscard]] const std::vector<WeightEntry>& entries() const { return entries_; }

 private:
  void add(std::string name, std::vector<std::int64_t> shape, WeightKind kind) {
    entries_.push_back({std::move(name), std::move(shape), kind, false});
  }
  std::vector<WeightEntry> entries_;
};

// Parts that architectures share. `layer` prefixes are "model.layers.N.".
std::string layer_prefix(std::int64_t layer);
void spec_ends(const ModelConfig& config, WeightSpec& spec);  // embeddings, final norm, head unless tied
void spec_attention(const ModelConfig& config, std::int64_t layer, WeightSpec& spec);
void spec_mla(const ModelConfig& config, std::int64_t layer, WeightSpec& spec);
void spec_mlp(const ModelConfig& config, const std::string& prefix, std::int64_t ffn, WeightSpec& spec);
// router, experts, shared expert; shared: its name in the checkpoint ("shared_expert", "shared_experts").
void spec_moe(const ModelConfig& config, std::int64_t layer, const std::string& shared, WeightSpec& spec);

}  // namespace knapsack
