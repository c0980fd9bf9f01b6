// A bare config.json -> Imported: the graph of a model whose weights are not there.
#include "base/json.h"
#include "import/assemble.h"

namespace knapsack {

Result<Imported> import_config(std::string_view text, const std::string& origin, const std::optional<DType>& made_up) {
  TRY(const json::object whole, parse_json_object(text, origin));
  Fields config(whole, origin);
  Imported out;
  out.source = origin;
  out.format = "config.json";
  if (config.has("text_config")) {  // a larger model around a language model
    TRY(config, config.object("text_config"));
    out.oddities.emplace_back("only the language model (text_config) is read");
  }
  TRY(const ArchitectureRow* const row, architecture_of_hf(config));
  out.config.architecture = row->id;
  TRY_VOID(row->arch->from_hf(config, out.config, out.oddities));
  WeightSpec spec;
  row->arch->spec(out.config, spec);
  const Weights weights = made_up ? Weights::made_up(spec, *made_up) : Weights::blank(spec);
  Decoder decoder(out.config, weights, out.config.ctx);
  row->arch->build(out.config, decoder);
  out.graph = decoder.take();
  for (const WeightEntry& entry : spec.entries()) {
    std::int64_t elements = 1;
    for (const auto d : entry.shape) elements *= d;
    out.parameters += elements;
    out.weights.push_back({.name = entry.name, .shape = entry.shape});
  }
  return out;
}

}  // namespace knapsack
