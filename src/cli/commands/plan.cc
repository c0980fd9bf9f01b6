#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "base/atomic_file.h"
#include "base/log.h"
#include "cli/commands/command.h"
#include "cli/measured_host.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "device/devices.h"
#include "graph/decompose/size.h"
#include "import/public_models.h"
#include "pipeline/plan_model.h"
#include "plan/bar.h"
#include "plan/plan.h"
#include "plan/plan_text.h"
#include "plan/sweep.h"
#include "plan/validate.h"
#include "report/progress.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

// The graph is asked about operators once it is known for which device.
struct ReadModel {
  NamedModel named;
  PlanModel plan;
};

Result<ReadModel> read_model(const std::string& model) {
  TRY(NamedModel named, read_shapes(model));
  TRY(PlanModel shapes, plan_model(named.imported, named.name));
  return ReadModel{std::move(named), std::move(shapes)};
}

class PlanCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Says before any weight is converted whether a model fits a device, how fast it will be, why, and what to "
        "change. Reckoned from the model's tensors, the device's profile and efficiencies fitted to published "
        "measurements (docs/plan.md); what follows from a figure that the profile does not have is unknown, and said.\n"
        "The verdict is one of fits, tight (it may be met and may not), does not fit; the exit code of the last is 1.");
    arguments
        .positional("MODEL", model_,
                    "a GGUF file, a Hugging Face folder, a config.json, or a public model's name (qwen2.5-1.5b)")
        .complete = Complete::model;
    arguments.text("--device", "ID", device_, "the device: an id or alias (`knapsack devices`), or a profile's file");
    arguments.integer("-c,--ctx", ctx_, std::numeric_limits<std::int32_t>::min(),
                      std::numeric_limits<std::int32_t>::max(),
                      "tokens of context (default: 4096, or what the model was made for where that is less)");
    arguments.integer("-p,--prompt", prompt_, std::numeric_limits<std::int32_t>::min(),
                      std::numeric_limits<std::int32_t>::max(),
                      "tokens of the prompt (default: 512, or the context where that is less)");
    arguments.text("--quant", "SCHEME", options_.quant,
                   "w4a16-g128, w8a8, q4_k_m, f16, ...; auto: the most exact of the usual ones that fits; all: a "
                   "table; stored: as the "
                   "checkpoint is");
    arguments.choice("--kv", options_.kv, {"f16", "i8", "i4"}, "how the KV cache is stored");
    arguments.choice("--unit", options_.unit, {"auto", "cpu", "gpu", "npu"}, "where it runs; auto: the fastest");
    arguments.text(
        "--toolchain", "NAME[@VERSION]", toolchain_,
        "the NPU's compiler: what its table says of this model's operators and types counts, too; implies --unit npu "
        "(`knapsack inspect --device` shows each)");
    arguments.text(
        "--framework", "NAME", options_.framework,
        "whose efficiency counts (llama.cpp, rkllm, genie, mlx, ...); without it the one most measured there");
    arguments.number("--memory", options_.memory_gib, 0.001, 1e6, "GiB of memory of the device at hand");
    arguments.number("--bandwidth", options_.gb_per_s, 0.001, 1e6, "GB/s of its memory, in place of the profile's");
    arguments.number("--storage", options_.storage_gb_per_s, 0.001, 1e6,
                     "GB/s that its storage is read at, for the time to load");
    arguments.number("--ambient", options_.ambient_c, -60, 100, "degrees Celsius around it");
    arguments
        .text("--bar", "FILE", bar_,
              "what is asked for, as JSON: load_s, ttft_s, decode_tokens_per_s, minutes, memory_mib")
        .complete = Complete::file;
    arguments.text("--sweep", "WHAT=VALUES", sweep_,
                   "many plans: ctx=1k..32k (doubling), prompt=..., quant=a,b, kv=a,b or device=a,b");
    arguments.text("--plot", "FILE", plot_, "write an SVG: the roofline with this plan, or what --sweep varies")
        .complete = Complete::file;
    arguments
        .text("--validate", "FILE", validate_,
              "compare with published measurements (CSV, docs/plan.md) in place of planning")
        .complete = Complete::file;
    arguments.example("knapsack plan qwen2.5-1.5b --device rk3588", "before anything is downloaded");
    arguments.example("knapsack plan model.gguf --device snapdragon-8-gen-3 --memory 12 --ctx 8192 --json",
                      "a checkpoint as it is stored, for a script");
    arguments.example("knapsack plan qwen3-4b --device apple-m4 --sweep ctx=1k..32k --plot sweep.svg",
                      "what context costs");
    arguments.example("knapsack plan llama-3.2-3b --device raspberry-pi-5 --quant all", "every scheme, a line each");
    arguments.example("knapsack plan qwen2.5-1.5b --device snapdragon-8-gen-3 --unit npu --toolchain qairt@2.45",
                      "with what leaves the NPU there");
  }

  Result<int> run(Context& context) override {
    if (bar_) {
      TRY(const std::string text, read_text_file(*bar_, std::size_t{1} << 20));
      TRY(options_.bar, read_bar(text, *bar_));
    }
    TRY(devices_, Devices::in_use());
    if (validate_) {
      if (model_ || device_ || sweep_ || plot_)
        return usage_error("{} does not go with --validate, which takes models and devices from the file",
                           model_    ? "MODEL"
                           : device_ ? "--device"
                           : sweep_  ? "--sweep"
                                     : "--plot");
      return validate(context);
    }
    if (sweep_ && options_.quant == "all")
      return usage_error("--quant all is a table of its own and does not go with --sweep (quant=a,b is a sweep)");
    if (plot_) TRY_VOID(file_or_nothing(*plot_, "--plot"));
    if (!model_) return usage_error("name a model (MODEL), or published measurements (--validate FILE)");
    std::optional<Sweep> sweep;
    if (sweep_) {
      TRY(sweep, read_sweep(*sweep_));
    } else if (options_.quant == "all") {
      sweep = Sweep{"quant", scheme_names()};
    }
    if (!device_ && !(sweep && sweep->what == "device")) return usage_error("name a device (--device ID)");
    Busy busy("reading", context.quiet);
    TRY(const ReadModel read, read_model(*model_));
    const PlanModel& model = read.plan;
    busy.finish();
    const std::int64_t trained = model.trained_ctx > 0 ? model.trained_ctx : options_.ctx;
    options_.ctx = ctx_.value_or(std::min(options_.ctx, trained));
    options_.prompt = prompt_.value_or(std::clamp<std::int64_t>(options_.ctx, 1, options_.prompt));
    if (sweep) return many(context, read, *sweep);
    TRY(const Device device, device_or_measured_host(context, *devices_, *device_));
    TRY_VOID(ask_toolchain(read, device.profile, options_));
    TRY(Plan result, plan(model, device.profile, Efficiency::fitted(), options_));
    if (result.verdict != Verdict::fits) add_smaller_model(model, device.profile, result);
    if (plot_)
      TRY_VOID(write_plot(roofline(fmt::format("{} on {}", model.name, device.profile.name), options_, result)));
    TRY_VOID(print_result(context, plan_text(model, device.profile, options_, result),
                          plan_json(model, device.profile, options_, result)));
    return exit_code(result);
  }

 private:
  [[nodiscard]] Result<void> ask_toolchain(const ReadModel& read, const DeviceProfile& device,
                                           PlanOptions& options) const {
    if (!toolchain_) return {};
    if (!device.npu) return usage_error("--toolchain {}: {} has no NPU", *toolchain_, device.name);
    if (options.unit != "auto" && options.unit != "npu")
      return usage_error("--toolchain {} is about the NPU and does not go with --unit {}", *toolchain_, options.unit);
    TRY(const Toolchain toolchain, devices_->toolchain(*toolchain_, device.toolchains));
    const auto& own = device.toolchains;
    if (!toolchain_->ends_with(".json") && !own.empty() && std::find(own.begin(), own.end(), toolchain.id) == own.end())
      return usage_error("--toolchain {}: {} is not for {}; of its own there are {}", *toolchain_, toolchain.id,
                         device.name, fmt::join(own, ", "));
    options.unit = "npu";
    const Imported& imported = read.named.imported;
    if (options.ctx < 1 || options.ctx > imported.config.ctx) return {};  // the plan refuses it, with its reason
    TRY_VOID(decomposable(imported.graph));
    options.operators =
        plan_operators(imported.graph, device, toolchain, options.ctx, imported.format != "config.json");
    return {};
  }

  // Of a public model: the largest of its family that comes nearer to fitting.
  void add_smaller_model(const PlanModel& model, const DeviceProfile& device, Plan& result) const {
    const auto named = find_public_model(*model_);
    if (!named) return;
    for (const PublicModel& smaller : smaller_public_models(*named)) {
      const auto other = read_model(smaller.id);
      PlanOptions options = options_;
      if (!other || !ask_toolchain(*other, device, options)) continue;
      const auto then = plan(other->plan, device, Efficiency::fitted(), options);
      if (!then || then->verdict >= result.verdict) continue;  // one of another context, say, is no way out
      result.changes.push_back(
          fmt::format("{} in place of {}: {}", other->plan.name, model.name, verdict_name(then->verdict)));
      return;
    }
  }

  static int exit_code(const Plan& plan) {
    return plan.verdict == Verdict::does_not_fit ? static_cast<int>(Code::gate) : 0;
  }

  [[nodiscard]] Result<void> write_plot(const Plot& plot) const {
    if (plot.series.empty() || plot.series.front().points.empty()) {
      warn("--plot: nothing to draw, for no speed is known; {} is not written", *plot_);
      return {};
    }
    TRY(auto file, AtomicFile::create(*plot_));
    TRY_VOID(file.write(svg(plot)));
    return file.commit();
  }

  // A row a value; a scheme or context that a model cannot have ends it, as it would alone.
  Result<int> many(Context& context, const ReadModel& read, const Sweep& sweep) {
    const PlanModel& model = read.plan;
    std::vector<PlanRow> rows;
    json::array plans;
    int code = static_cast<int>(Code::gate);
    for (const std::string& value : sweep.values) {
      PlanOptions options = options_;
      if (sweep.what == "ctx") options.ctx = *tokens_from(value);
      if (sweep.what == "ctx") options.prompt = std::min(options.prompt, options.ctx);
      if (sweep.what == "prompt") options.prompt = *tokens_from(value);
      if (sweep.what == "quant") options.quant = value;
      if (sweep.what == "kv") options.kv = value;
      TRY(const Device device, device_or_measured_host(context, *devices_, sweep.what == "device" ? value : *device_));
      TRY_VOID(ask_toolchain(read, device.profile, options));
      TRY(Plan result, plan(model, device.profile, Efficiency::fitted(), options));
      if (exit_code(result) == 0) code = 0;
      plans.push_back(plan_json(model, device.profile, options, result));
      rows.push_back({value, std::move(result)});
    }
    if (plot_)
      TRY_VOID(write_plot(sweep_plot(fmt::format("{}{}: {}", model.name, device_ ? " on " + *device_ : "", sweep.what),
                                     sweep, rows, options_.bar)));
    std::string text = one_line(model.name);
    if (device_ && sweep.what != "device") text += fmt::format(" on {}", one_line(*device_));
    if (sweep.what != "ctx") text += fmt::format(", ctx {}", options_.ctx);
    if (sweep.what != "prompt") text += fmt::format(", prompt {}", options_.prompt);
    text += fmt::format("\n{}", plan_table(sweep.what, rows));
    if (sweep_) text += fmt::format("\n{}", sweep_bars(sweep, rows));
    TRY_VOID(print_result(context, text, {{"model", model.name}, {"plans", std::move(plans)}}));
    return code;
  }

  Result<int> validate(Context& context) {
    TRY(const std::string csv, read_text_file(*validate_));
    std::map<std::string, std::optional<DeviceProfile>> devices;
    std::map<std::string, std::optional<RowShape>> models;
    RowSources sources;
    sources.device = [&](const std::string& name) -> const DeviceProfile* {
      const auto [it, fresh] = devices.try_emplace(name);
      if (fresh)
        if (auto found = devices_->find(name)) it->second = std::move(found->profile);
      return it->second ? &*it->second : nullptr;
    };
    sources.model = [&](const std::string& name) -> std::optional<RowShape> {
      const auto [it, fresh] = models.try_emplace(name);
      if (fresh && find_public_model(name))
        if (const auto model = read_model(name)) it->second = row_shape(model->plan);
      return it->second;
    };
    TRY(const auto rows, validate_rows(csv, *validate_, Efficiency::fitted(), sources));
    return print_result(context, validation_text(rows), validation_json(rows));
  }

  std::optional<std::string> model_, device_, toolchain_, bar_, sweep_, plot_, validate_;
  std::optional<std::int64_t> ctx_, prompt_;
  std::optional<Devices> devices_;
  PlanOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace knapsack
