// Schemes that store a whole model: llama.cpp's file types (which part of a model gets which storage format) and
// vendors' schemes (bits and scales). Data: mixes.inc, schemes.inc. Not for rounding anything: formats do that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace knapsack {

// What a tensor is to its model, as far as schemes tell them apart. head: also the table of a model whose head is tied.
enum class TensorPart : std::uint8_t { table, head, q, k, v, qkv, out, gate, up, down, router, vector, other };

// "model.layers.3.self_attn.v_proj.weight" -> v. tied: there is no head of its own. Names are Hugging Face's;
// dimensions decide what is a vector.
TensorPart part_of(std::string_view name, std::size_t dimensions, bool tied);

struct TensorPlace {
  TensorPart part = TensorPart::other;
  std::int64_t layer = -1;  // -1: of no layer
  std::int64_t rows = 0;    // of all experts together
  std::int64_t cols = 0;
};
struct ModelPlace {
  std::int64_t layers = 0;
  std::int64_t heads_per_kv = 1;  // query heads that share one KV head
};

class Scheme {
 public:
  // Nothing: no such scheme (scheme_names lists them). Without regard to case.
  static std::optional<Scheme> named(std::string_view name);

  [[nodiscard]] const std::string& name() const { return name_; }
  // "float", "a16", "a8": what activations are rounded to by those who run it.
  [[nodiscard]] std::string_view activations() const { return activations_; }
  [[nodiscard]] std::int64_t bytes(const ModelPlace& model, const TensorPlace& tensor) const;
  // The storage format of a tensor; nothing for a vendor's scheme, whose storage is its own.
  [[nodiscard]] std::optional<DType> type(const ModelPlace& model, const TensorPlace& tensor) const;

 private:
  std::string name_;
  std::string_view activations_;
  int mix_ = -1;     // row of mixes.inc
  int vendor_ = -1;  // row of schemes.inc
};

std::vector<std::string> scheme_names();

}  // namespace knapsack
