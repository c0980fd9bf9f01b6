#include "pipeline/pipeline.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/json.h"

namespace knapsack {
namespace {

// generation_config.json only suggests: what is no number, or a number that sampling cannot use, is an oddity and no
// error.
template <class T>
void read_number(const json::object& config, const char* key, T SamplerOptions::*member, std::optional<T>& out,
                 std::vector<std::string>& oddities) {
  const auto* value = config.if_contains(key);
  if (value == nullptr || value->is_null()) return;
  const double number = value->is_number() ? value->to_number<double>() : std::numeric_limits<double>::quiet_NaN();
  SamplerOptions options;
  if (std::abs(number) <= 1e9) options.*member = static_cast<T>(number);
  if (std::abs(number) <= 1e9 && check(options)) {
    out = options.*member;
  } else {
    oddities.push_back(fmt::format("generation_config.json: {} is {}, which sampling cannot use; ignored", key,
                                   json::serialize(*value).substr(0, 40)));
  }
}

GenerationDefaults read_defaults(const std::string& text, std::vector<std::string>& oddities) {
  GenerationDefaults defaults;
  const auto parsed = parse_json(text, "generation_config.json");
  if (!parsed || !parsed->is_object()) {
    oddities.push_back(parsed ? "generation_config.json: expected an object; ignored"
                              : parsed.error().message + "; ignored");
    return defaults;
  }
  const auto& config = parsed->as_object();
  using Options = SamplerOptions;
  read_number(config, "temperature", &Options::temperature, defaults.temperature, oddities);
  read_number(config, "top_p", &Options::top_p, defaults.top_p, oddities);
  read_number(config, "min_p", &Options::min_p, defaults.min_p, oddities);
  read_number(config, "repetition_penalty", &Options::repetition_penalty, defaults.repetition_penalty, oddities);
  read_number(config, "top_k", &Options::top_k, defaults.top_k, oddities);
  if (const auto* sample = config.if_contains("do_sample"); sample != nullptr && sample->is_bool())
    defaults.do_sample = sample->as_bool();
  return defaults;
}

std::string last_name(const std::string& path) {
  auto full = std::filesystem::path(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  return full.filename().string();
}

}  // namespace

Result<std::shared_ptr<const Bundle>> make_bundle(const Imported& imported, const OpenOptions& options) {
  constexpr std::int64_t most_rows = 8192;  // activations of a chunk: beyond this they outgrow every cache
  if (options.chunk < 1 || options.chunk > most_rows)
    return usage_error("the prefill chunk must be 1 to {} tokens, found {}", most_rows, options.chunk);
  if (options.max_selected < 1 || options.max_selected > options.chunk)
    return usage_error("rows of logits a step must be 1 to the chunk's {}, found {}", options.chunk,
                       options.max_selected);
  constexpr std::int64_t most_decode_rows = 1024;
  if (options.decode_rows < 1 || options.decode_rows > most_decode_rows)
    return usage_error("rows of a decode step must be 1 to {}, found {}", most_decode_rows, options.decode_rows);
  TRY_VOID(verify(imported.graph));
  auto bundle = std::make_shared<Bundle>();
  TRY(bundle->prefill, lower(imported.graph, {.max_tokens = options.chunk, .max_selected = options.max_selected}));
  TRY(bundle->decode, lower(imported.graph, {.max_tokens = options.decode_rows, .max_selected = options.decode_rows}));
  bundle->name = last_name(imported.source);
  bundle->architecture = imported.config.architecture;
  bundle->model_hash = imported.model_hash;
  bundle->vocab = imported.graph.value(imported.graph.output()).cols();
  bundle->trained_ctx = imported.config.ctx;
  bundle->tokenizer_json = imported.tokenizer_json;
  bundle->tokenizer_bytes = imported.tokenizer_bytes;
  bundle->tokenizer_config_json = imported.tokenizer_config_json;
  bundle->chat_template = imported.chat_template;
  bundle->eos_ids = imported.eos_ids;
  bundle->oddities = imported.oddities;
  bundle->defaults = read_defaults(imported.generation_config_json, bundle->oddities);
  return std::shared_ptr<const Bundle>(std::move(bundle));
}

Result<std::shared_ptr<const Bundle>> open_bundle(const std::string& path, const OpenOptions& options) {
  TRY(const Imported imported, import_model(path, {.ctx = options.ctx}));
  return make_bundle(imported, options);
}

}  // namespace knapsack
