#include "pipeline/measure_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "device/host.h"
#include "evaluate/speed.h"
#include "import/import.h"
#include "import/public_models.h"
#include "pipeline/pipeline.h"
#include "runtime/engine.h"

namespace knapsack {
namespace {

constexpr std::int64_t vocab = 4096;
constexpr std::int64_t prompt = 128;
constexpr std::int64_t gen = 24;
constexpr std::int64_t depth = 512;  // where attention is measured

Result<Imported> made_up(const EngineShape& shape, DType dtype) {
  TRY(PublicModel model, find_public_model(shape.model));
  model.config["num_hidden_layers"] = shape.layers;
  model.config["vocab_size"] = vocab;
  return import_config(json::serialize(model.config), shape.model, dtype);
}

// Milliseconds, bytes and operations of one pass by what they are of, as an undisturbed pass takes them: the pass that
// is timed kernel by kernel is slower.
struct Parts {
  double matrices_ms = 0, attention_ms = 0, rest_ms = 0;
  double products = 0;  // of matrices
  double attention_bytes = 0, attention_products = 0;
};

Parts parts_of(const Speed& speed) {
  Parts out;
  for (const KernelTime& kernel : speed.kernels) {
    const double seconds = kernel.ms / 1000;
    if (kernel.name.starts_with("attention")) {
      out.attention_ms += kernel.ms;
      out.attention_bytes += kernel.bytes * seconds;
      out.attention_products += kernel.products * seconds;
    } else if (kernel.weights && kernel.products > 0) {
      out.matrices_ms += kernel.ms;
      out.products += kernel.products * seconds;
    } else {
      out.rest_ms += kernel.ms;
    }
  }
  const auto tokens = static_cast<double>(speed.prefill ? speed.prompt : speed.gen);
  const double undisturbed = 1000 * tokens / median(speed.tokens_per_s);
  const double factor = undisturbed / (out.matrices_ms + out.attention_ms + out.rest_ms);
  for (double* ms : {&out.matrices_ms, &out.attention_ms, &out.rest_ms}) *ms *= factor;
  return out;
}

double gigabytes_of_matrices(const Imported& imported, DType dtype) {
  double elements = 0;
  for (const ModelWeight& weight : imported.weights) {
    if (weight.shape.size() < 2) continue;
    double each = 1;
    for (const auto d : weight.shape) each *= static_cast<double>(d);
    if (imported.config.tied || weight.name.find("embed_tokens") == std::string::npos) elements += each;
  }
  return elements / static_cast<double>(format(dtype).block) * static_cast<double>(format(dtype).block_bytes) / 1e9;
}

// The last shape's stands: of small models other things take the time.
Result<double> load_rate(const std::shared_ptr<const Bundle>& bundle, double gigabytes, int threads) {
  const Stopwatch clock;
  TRY(const auto engine, Engine::create(bundle, {.ctx = prompt, .threads = threads, .load_tokenizer = false}));
  return std::max(gigabytes / (clock.ms() / 1000), 1e-6);
}

double at_least(double value) { return std::max(value, 1e-6); }

}  // namespace

std::span<const EngineShape> usual_engine_shapes() {
  static const std::vector<EngineShape> shapes{
      {"smollm2-135m", 30, {DType::Q4_0, DType::Q8_0, DType::Q5_0, DType::F16}},
      {"deepseek-r1-distill-qwen-1.5b",
       8,
       {DType::Q4_0, DType::Q8_0, DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::F16}}};
  return shapes;
}

std::span<const EngineShape> brief_engine_shapes() {
  static const std::vector<EngineShape> shapes{{"smollm2-135m", 2, {DType::Q4_0}}};
  return shapes;
}

Result<EngineSpeed> measure_engine(int threads, std::span<const EngineShape> shapes,
                                   const std::function<void(double)>& progress, const std::stop_token& stop) {
  EngineSpeed out{.threads = threads};
  const Host host = read_host();
  const auto memory = static_cast<double>(
      host.memory_limit_bytes > 0 ? std::min(host.memory_limit_bytes, host.memory_bytes) : host.memory_bytes);
  double done = 0;
  for (const EngineShape& shape : shapes) {
    const auto& formats = shape.formats;
    for (const DType dtype : formats) {
      TRY(const Imported imported, made_up(shape, dtype));
      const double gigabytes = gigabytes_of_matrices(imported, dtype);
      constexpr double share = 0.2;  // as stored, and once more as products read it
      if (memory > 0 && gigabytes * 1e9 > share * memory && !out.matrices.empty()) continue;
      TRY(const auto bundle, make_bundle(imported, {}));
      const bool first = dtype == formats.front();
      SpeedOptions options{.prompts = {prompt}, .gens = {gen}, .threads = {threads}, .repeats = 3};
      // Attention: of the first shape, the smaller one, whose time it is a larger part of.
      const bool attention = out.matrices.empty();
      if (attention) options.depths = {0, depth};
      if (attention) options.prompts = {prompt, depth};
      options.progress = [&](double part) {
        if (progress)
          progress((done + part / static_cast<double>(formats.size())) / static_cast<double>(shapes.size()));
      };
      TRY(const auto speeds, measure_speed(*bundle, options, stop));
      done += 1 / static_cast<double>(formats.size());
      MatrixSpeed matrix{.format = std::string(name(dtype)), .hidden = imported.config.hidden};
      LayerSpeed layer{.hidden = imported.config.hidden};
      const auto layers = static_cast<double>(shape.layers);
      for (const Speed& speed : speeds) {
        const Parts parts = parts_of(speed);
        if (speed.prefill && speed.prompt == prompt && speed.depth == 0) {
          matrix.prefill_gop_per_s = at_least(parts.products / parts.matrices_ms / 1e6);
          layer.prefill_ns = at_least(1e6 * parts.rest_ms / (layers * static_cast<double>(prompt * layer.hidden)));
        } else if (!speed.prefill && speed.depth == 0) {
          matrix.decode_gb_per_s = at_least(1e3 * gigabytes * static_cast<double>(gen) / parts.matrices_ms);
          layer.decode_us = at_least(1e3 * parts.rest_ms / (layers * static_cast<double>(gen)));
        } else if (speed.prefill && speed.prompt == depth && speed.depth == 0) {
          out.attention_gop_per_s = at_least(parts.attention_products / parts.attention_ms / 1e6);
        } else if (!speed.prefill) {
          out.attention_gb_per_s = at_least(parts.attention_bytes / parts.attention_ms / 1e6);
        }
      }
      out.matrices.push_back(matrix);
      if (first) {
        out.layers.push_back(layer);
        TRY(out.load_gb_per_s, load_rate(bundle, gigabytes, threads));
      }
    }
  }
  return out;
}

}  // namespace knapsack
