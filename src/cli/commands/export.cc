#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/output_folder.h"
#include "cli/build_info.h"
#include "cli/commands/command.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "export/onnx.h"
#include "report/progress.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

std::int64_t node_count(const OnnxExport::Model& model) {
  return std::accumulate(model.nodes.begin(), model.nodes.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& each) { return sum + each.second; });
}

std::string shape_text(const OnnxValue& value) {
  std::vector<std::int64_t> dims;
  for (const OnnxDim& d : value.shape.value_or(std::vector<OnnxDim>{})) dims.push_back(d.number.value_or(-1));
  return fmt::format("{} {} [{}]", value.name, onnx_type_name(value.type), fmt::join(dims, ", "));
}

// The first few, and how many there are besides.
std::string values_text(const std::vector<OnnxValue>& values) {
  constexpr std::size_t shown = 4;
  std::vector<std::string> texts;
  for (const OnnxValue& value : values)
    if (texts.size() < shown) texts.push_back(shape_text(value));
  std::string text = fmt::format("{}", fmt::join(texts, ", "));
  if (values.size() > shown) text += fmt::format(", and {} more", values.size() - shown);
  return text;
}

// Of a step's KV cache, which is its inputs of four dimensions.
std::uint64_t cache_bytes(const OnnxExport::Model& model) {
  std::uint64_t bytes = 0;
  for (const OnnxValue& value : model.inputs) {
    if (!value.shape || value.shape->size() != 4) continue;
    std::uint64_t elements = 1;
    for (const OnnxDim& dim : *value.shape) elements *= static_cast<std::uint64_t>(dim.number.value_or(0));
    bytes += elements * (value.type == OnnxType::f16 ? 2 : 4);
  }
  return bytes;
}

json::array values_json(const std::vector<OnnxValue>& values) {
  json::array out;
  for (const OnnxValue& value : values) {
    json::array dims;
    for (const OnnxDim& d : value.shape.value_or(std::vector<OnnxDim>{})) dims.push_back(d.number.value_or(-1));
    out.push_back(json::object{{"name", value.name}, {"type", onnx_type_name(value.type)}, {"shape", dims}});
  }
  return out;
}

class ExportCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Static shapes: a model that takes a chunk of the prompt and one that takes a token, over one file of weights. "
        "The KV cache is in inputs and outputs (docs/export.md). Each file appears whole or not at all.");
    model_argument(arguments, model_);
    arguments.choice("--to", to_, {"onnx"}, "the format");
    Argument& out = arguments.text("-o,--output", "FOLDER", output_, "where the files go; made if it is not there");
    out.required = true;
    out.complete = Complete::folder;
    arguments.integer("-c,--ctx", ctx_, 1, std::numeric_limits<std::int32_t>::max(),
                      "rows of the KV cache (default: 4096, or what the model was trained for)");
    arguments.integer("--chunk", chunk_, 1, std::numeric_limits<std::int32_t>::max(),
                      "tokens of a prefill step, a divisor of the context (default: the largest up to 128)");
    arguments.choice("--precision", precision_, {"fp32", "fp16"},
                     "of weights, activations and the KV cache; norms, tables of positions and softmax stay fp32");
    arguments.choice("--opset", opset_, {"17", "21"}, "version of ONNX's operators");
    arguments.choice("--ops", ops_, {"primitive", "contrib"},
                     "contrib: RMS norm, RoPE and attention as ONNX Runtime's own operators, where these can say it");
    arguments.flag("--force", force_, "replace files that are there (never the model itself)");
    arguments.example("knapsack export model.gguf -o onnx", "for ONNX Runtime, or a vendor's compiler");
    arguments.example("knapsack export folder -o onnx --precision fp16 --ctx 2048 --chunk 64",
                      "half of the size, and a small KV cache");
  }

  Result<int> run(Context& context) override {
    TRY_VOID(check_output());
    const Stopwatch clock;
    Busy busy("reading", context.quiet);
    TRY(Imported model, import_model(model_, {.ctx = ctx_.value_or(0)}));
    OnnxExportOptions options;
    TRY_VOID(set_sizes(model, options));
    if (!ctx_ && options.ctx != model.config.ctx) {
      TRY(model, import_model(model_, {.ctx = options.ctx}));
    }
    busy.finish();
    options.floats = precision_ == "fp16" ? DType::F16 : DType::F32;
    options.opset = opset_ == "21" ? 21 : 17;
    options.contrib = ops_ == "contrib";
    options.existing = force_ ? Existing::replaced : Existing::kept;
    options.metadata = {{"knapsack.version", KNAPSACK_VERSION},
                        {"knapsack.model_hash", model.model_hash},
                        {"knapsack.eos_ids", fmt::format("{}", fmt::join(model.eos_ids, ","))}};
    const bool tokenizer = model.tokenizer_json != nullptr;
    if (tokenizer) {
      TRY(std::string text, model.tokenizer_json());
      options.beside.emplace_back("tokenizer.json", std::move(text));
    }
    TRY(const OutputFolder folder, OutputFolder::create(output_));
    TRY_VOID(check_output());  // again: nobody else writes there now
    Progress progress("exporting", "B", context.quiet);
    const auto show = [&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); };
    TRY(const OnnxExport done, export_onnx(model.graph, output_, options, show));
    progress.finish();
    for (const std::string& note : done.notes) warn("{}", note);
    return report(context, done, options, tokenizer, clock.ms() / 1000);
  }

 private:
  [[nodiscard]] std::string tokenizer_path() const { return (fs::path(output_) / "tokenizer.json").string(); }

  [[nodiscard]] Result<void> check_output() const {
    std::error_code ignored;
    if (fs::exists(output_, ignored) && !fs::is_directory(output_, ignored))
      return usage_error("{}: expected a folder, found something else", output_);
    auto files = onnx_files(output_);
    files.push_back(tokenizer_path());
    for (const std::string& file : files) {
      TRY_VOID(not_the_model(file, model_));
      if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored))
        return usage_error("{}: expected a file, found something else", file);
      if (fs::exists(file, ignored) && !force_)
        return usage_error("{}: there is such a file already; --force replaces it", file);
    }
    return {};
  }

  Result<void> set_sizes(const Imported& model, OnnxExportOptions& options) const {
    constexpr std::int64_t usual_ctx = 4096;
    constexpr std::int64_t usual_chunk = 128;
    const std::int64_t trained = model.config.ctx;
    options.ctx = ctx_.value_or(std::min(usual_ctx, trained));
    if (options.ctx > trained)
      return usage_error("--ctx {} is more than the {} tokens the model was trained for", options.ctx, trained);
    std::int64_t fits = std::min(usual_chunk, options.ctx);
    while (options.ctx % fits != 0) --fits;
    options.chunk = chunk_.value_or(fits);
    if (options.ctx % options.chunk != 0)
      return usage_error("--chunk {} does not divide the context of {} (--ctx): a padded last chunk would pass its end",
                         options.chunk, options.ctx);
    return {};
  }

  Result<int> report(Context& context, const OnnxExport& done, const OnnxExportOptions& options, bool tokenizer,
                     double seconds) const {
    const auto size = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    std::string text;
    json::array models;
    for (const OnnxExport::Model& each : done.models) {
      text += fmt::format("{}: {} token{} a step, {} nodes, {}\n  inputs   {}\n  outputs  {}\n", one_line(each.path),
                          each.tokens, each.tokens == 1 ? "" : "s", node_count(each), size(each.bytes),
                          values_text(each.inputs), values_text(each.outputs));
      json::object ops;
      for (const auto& [op, count] : each.nodes) ops[op] = count;
      models.push_back(json::object{{"path", each.path},
                                    {"tokens", each.tokens},
                                    {"bytes", each.bytes},
                                    {"nodes", node_count(each)},
                                    {"ops", std::move(ops)},
                                    {"inputs", values_json(each.inputs)},
                                    {"outputs", values_json(each.outputs)}});
    }
    text += fmt::format("{}: weights of both, {}\n", one_line(done.data_path), size(done.data_bytes));
    if (tokenizer) text += fmt::format("{}\n", one_line(tokenizer_path()));
    const std::uint64_t cache = cache_bytes(done.models.front());
    text += fmt::format("opset {}, {}, context of {} with a KV cache of {}, in {:.1f} s\n", options.opset, precision_,
                        options.ctx, size(cache), seconds);
    json::object object{{"models", std::move(models)},
                        {"data", {{"path", done.data_path}, {"bytes", done.data_bytes}}},
                        {"tokenizer", tokenizer ? json::value(tokenizer_path()) : json::value(nullptr)},
                        {"ctx", options.ctx},
                        {"chunk", options.chunk},
                        {"kv_bytes", cache},
                        {"opset", options.opset},
                        {"precision", precision_},
                        {"ops", ops_},
                        {"notes", json::value_from(done.notes)},
                        {"seconds", seconds}};
    return print_result(context, text, object);
  }

  std::string model_, output_, to_ = "onnx", precision_ = "fp32", opset_ = "17", ops_ = "primitive";
  std::optional<std::int64_t> ctx_, chunk_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace knapsack
