// Any bytes as a config.json: read, checked, turned into a weight spec and a graph without weights. Whatever passes
// the checks must make a graph that verifies.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "import/arch/arch.h"
#include "import/quantized.h"

using namespace knapsack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = parse_json_object({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!parsed) return 0;
  const Fields fields(*parsed, "config.json");
  if (fields.has("quantization_config")) {
    if (const auto inner = fields.object("quantization_config")) (void)quant_config(*inner);
  }
  const auto row = architecture_of_hf(fields);
  if (!row) return 0;
  ModelConfig config;
  std::vector<std::string> oddities;
  const auto read = (*row)->arch->from_hf(fields, config, oddities);
  if (!read) {
    CHECK(!read.error().message.empty());
    return 0;
  }
  if (config.layers > 8) return 0;  // more layers are more of the same, and slow
  config.architecture = (*row)->id;
  WeightSpec spec;
  (*row)->arch->spec(config, spec);
  const Weights weights = Weights::blank(spec);
  Decoder decoder(config, weights, config.ctx);
  (*row)->arch->build(config, decoder);
  const Graph graph = decoder.take();
  CHECK(verify(graph).has_value());
  return 0;
}
