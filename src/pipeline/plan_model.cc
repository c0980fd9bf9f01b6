#include "pipeline/plan_model.h"

#include <algorithm>
#include <map>

#include "bundle/footprint.h"
#include "graph/layer_name.h"
#include "kernels/packed.h"
#include "pipeline/pipeline.h"

namespace knapsack {
namespace {

// The storage format that most bytes are in, and whether there are others.
std::string stored_as(const Imported& imported) {
  std::map<DType, std::uint64_t> bytes;
  for (const StoredTensor& tensor : imported.tensors) bytes[tensor.dtype] += tensor.bytes;
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : std::string(name(most->first));
}

}  // namespace

Result<PlanModel> plan_model(const Imported& imported, const std::string& name, std::int64_t chunk) {
  const ModelConfig& c = imported.config;
  PlanModel model;
  model.name = name;
  model.parameters = imported.parameters;
  model.hidden = c.hidden;
  model.layers = c.layers;
  model.vocab = c.vocab;
  model.trained_ctx = c.ctx;
  // Of MLA queries and values differ in width: half of what both take together.
  model.attention = c.kv_lora > 0 ? c.heads * (c.qk_nope + c.qk_rope + c.v_head) / 2 : c.heads * c.head_dim;
  model.heads_per_kv = c.kv_heads > 0 ? c.heads / c.kv_heads : 1;
  model.experts = c.experts;
  model.top_k = c.top_k;
  model.tied = c.tied;
  model.windows = c.windows;
  model.stored = stored_as(imported);
  for (const ModelWeight& weight : imported.weights) {
    PlanTensor tensor;
    tensor.place = {part_of(weight.name, weight.shape.size(), c.tied), layer_of(weight.name), 1, weight.shape.back()};
    for (std::size_t i = 0; i + 1 < weight.shape.size(); ++i) tensor.place.rows *= weight.shape[i];
    if (weight.name.find("experts.*") != std::string::npos) tensor.experts = weight.shape.front();
    if (!model.stored.empty()) {
      tensor.bytes = weight.bytes;
      tensor.dtype = weight.dtype;
    }
    model.tensors.push_back(tensor);
  }
  TRY(const auto bundle, make_bundle(imported, {.chunk = chunk, .decode_rows = 1}));
  model.arena_bytes = static_cast<std::int64_t>(bundle->prefill->arena_bytes + bundle->decode->arena_bytes);
  if (!model.stored.empty()) {
    TRY(const auto own, make_bundle(imported, {}));
    const Footprint memory = footprint(*own, 0, DType::F16);
    model.engine =
        EngineMemory{.weights_bytes = memory.weights, .arena_bytes = memory.arena, .tokenizer_bytes = memory.tokenizer};
    // A tied table is held twice: packed as the head, and as rows that are read from the file.
    for (const PlanTensor& tensor : model.tensors)
      if (c.tied && tensor.place.part == TensorPart::head && packed_kind(*tensor.dtype))
        model.engine->weights_bytes += *tensor.bytes;
  }
  model.kv_cols.assign(static_cast<std::size_t>(c.layers), 0);
  for (const StateInfo& state : bundle->decode->states) {
    const std::int64_t layer = std::max<std::int64_t>(0, layer_of(state.name));
    if (layer < c.layers) model.kv_cols[static_cast<std::size_t>(layer)] += state.cols;
  }
  return model;
}

}  // namespace knapsack
