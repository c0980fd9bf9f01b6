#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "bundle/footprint.h"
#include "cli/commands/command.h"
#include "cli/devices_text.h"
#include "cli/model.h"
#include "device/devices.h"
#include "graph/decompose/size.h"
#include "plan/inventory_text.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/terminal.h"
#include "runtime/engine.h"

namespace knapsack {
namespace {

struct TypeTotal {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
};

std::int64_t elements_of(const StoredTensor& tensor) {
  std::int64_t n = 1;
  for (const auto d : tensor.shape) n *= d;
  return n;
}

class InspectCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about("Reads headers only, so it is quick and needs little memory. --check reads every byte.");
    model_argument(arguments, model_);
    arguments.flag("--tensors", tensors_, "list every tensor");
    arguments.flag("--check", check_, "hash and check every byte: NaN or Inf in the weights is then an error");
    arguments.integer("-c,--ctx", ctx_, 1, std::numeric_limits<std::int32_t>::max(),
                      "say what memory a context of so many tokens takes (default: the one `run` takes)");
    kv_flag(arguments, kv_);
    arguments.group("What a device's NPU makes of it (docs/operators.md)");
    arguments.text(
        "--device", "ID", device_,
        "instead: each operator of prefill and decode, what the device's toolchain does with it, and why; MODEL may "
        "then be a config.json alone or a public model's name (qwen2.5-1.5b), too");
    arguments.text(
        "--toolchain", "NAME", toolchain_,
        "whose table counts (default: the first of the device's); NAME@VERSION: as of that version, qairt@2.45 "
        "(default: the newest its table covers)");
    arguments.number(
        "--link-latency-us", link_latency_us_, 0, 1e6,
        "microseconds that handing a tensor from one side to the other takes (default: the profile's; most "
        "say nothing, and then only a lower bound from bandwidth is known)");
    arguments.integer(
        "-p,--prompt", prompt_, 1, std::numeric_limits<std::int32_t>::max(),
        "tokens of the prefill graph (default: 512, or the context); decode is at --ctx (default: 4096, or "
        "what the model was trained for)");
    arguments.integer("--layer", layer_, 0, std::numeric_limits<std::int32_t>::max(),
                      "with --json: the nodes of this layer, and of none, only (default: all; experts are many)");
    arguments.example("knapsack inspect model.gguf", "what it is, what it needs, what is odd about it");
    arguments.example("knapsack inspect folder --check", "exit code 3 when a weight is damaged");
    arguments.example("knapsack inspect model.gguf --json | jq .kv_bytes_per_token", "for a script");
    arguments.example("knapsack inspect model.gguf --device rk3588", "which operators its NPU refuses");
  }

  Result<int> run(Context& context) override {
    if (device_) return operators(context);
    for (const auto& [given, name] : {std::pair{toolchain_.has_value(), "toolchain"},
                                      {prompt_.has_value(), "prompt"},
                                      {link_latency_us_.has_value(), "link-latency-us"},
                                      {layer_.has_value(), "layer"}})
      if (given) return usage_error("--{} goes with --device", name);
    Busy busy("reading", context.quiet);
    TRY(const Imported model, import_model(model_, {}));
    TRY(const auto bundle, make_bundle(model, {}));
    busy.finish();
    std::optional<CheckReport> checked;
    if (check_) {
      Progress progress("checking", "permille", context.quiet);
      TRY(checked,
          check_model(model_, [&](double done) { progress.update(static_cast<std::uint64_t>(done * 1000), 1000); }));
    }
    std::map<std::string, TypeTotal> types;
    TypeTotal all;
    for (const auto& tensor : model.tensors) {
      for (TypeTotal* total : {&types[std::string(name(tensor.dtype))], &all}) {
        ++total->tensors;
        total->elements += elements_of(tensor);
        total->bytes += tensor.bytes;
      }
    }
    const double bits =
        model.parameters > 0 ? static_cast<double>(all.bytes) * 8 / static_cast<double>(model.parameters) : 0;
    const std::int64_t ctx = ctx_.value_or(usual_ctx(*bundle));
    const Footprint memory = footprint(*bundle, ctx, kv_dtype(kv_));
    if (context.json) {
      TRY_VOID(print_json(context, json_of(model, *bundle, types, all, bits, ctx, memory, checked)));
    } else {
      TRY_VOID(context.out.write(text_of(model, *bundle, types, all, bits, ctx, memory)));
      if (checked) TRY_VOID(context.out.write(fmt::format("\nsha256        {}\n", checked->sha256)));
    }
    if (checked && !checked->faults.empty()) {
      TRY_VOID(context.out.flush());
      const Error error = bad_input("{}", fmt::join(checked->faults, "; "));
      if (!context.json) return error;
      print_error(error);
      return static_cast<int>(error.code);
    }
    if (checked && !context.json) TRY_VOID(context.out.write("every byte checked: no damage found\n"));
    return 0;
  }

 private:
  Result<int> operators(Context& context) {
    if (check_ || tensors_) return usage_error("--{} does not go with --device", check_ ? "check" : "tensors");
    TRY(const Devices devices, Devices::in_use());
    TRY(const Device device, devices.find(*device_));
    const DeviceProfile& profile = device.profile;
    TRY(const auto toolchain, devices.toolchain_of(profile, toolchain_));
    Busy busy("reading", context.quiet);
    TRY(const NamedModel named, read_shapes(model_));
    const Imported& model = named.imported;
    busy.finish();
    constexpr std::int64_t usual = 4096;
    constexpr std::int64_t usual_prompt = 512;
    const std::int64_t ctx = ctx_.value_or(std::min(usual, model.config.ctx));
    if (ctx > model.config.ctx)
      return usage_error("--ctx {} is more than the {} tokens the model was trained for", ctx, model.config.ctx);
    if (layer_ && (!context.json || *layer_ >= model.config.layers))
      return usage_error("--layer {}: {}", *layer_,
                         context.json ? fmt::format("expected at most {}, the last layer", model.config.layers - 1)
                                      : "goes with --json");
    const std::int64_t prompt = prompt_.value_or(std::min(usual_prompt, ctx));
    if (prompt > ctx) return usage_error("--prompt {} is more than the context of {} tokens (--ctx)", prompt, ctx);

    const Toolchain* table = toolchain ? &*toolchain : nullptr;
    json::object object{{"model", model.source}, {"device", profile.id}, {"ctx", ctx}, {"prompt", prompt}};
    object["toolchain"] = json::value(nullptr);
    std::string text = fmt::format("device        {}\n", profile.name);
    if (table != nullptr) {
      object["toolchain"] = toolchain_json(*table);
      text += fmt::format(
          "toolchain     {} {} ({})\n", table->name,
          table->at == table->version ? table->at : fmt::format("{}, as of {}", table->version, table->at), table->id);
    }
    if (!profile.npu)
      text += fmt::format("no NPU        everything runs on the {}; what follows is what an exporter writes\n",
                          profile.gpu ? "CPU or the GPU" : "CPU");
    const InventoryOptions options{.kv_bits = kv_ == "q8_0" ? 8 : 16, .link_latency_us = link_latency_us_};
    std::vector<std::string> unknown;
    std::set<std::string> not_listed;
    TRY_VOID(decomposable(model.graph));
    for (const bool decode : {false, true}) {
      const Graph graph = decompose(
          model.graph,
          {.tokens = decode ? 1 : prompt, .past = decode ? ctx - 1 : 0, .stored = model.format != "config.json"});
      const Inventory inventory = take_inventory(graph, profile, table, options);
      const std::string title =
          decode ? fmt::format("decode, one token at {}", ctx) : fmt::format("prefill, {} tokens", prompt);
      if (context.json) {
        object[decode ? "decode" : "prefill"] = inventory_json(graph, inventory, layer_);
      } else {
        text += fmt::format("\n{}", inventory_text(title, graph, inventory));
      }
      for (const std::string& each : inventory.unknown)
        if (std::find(unknown.begin(), unknown.end(), each) == unknown.end()) unknown.push_back(each);
      not_listed.insert(inventory.not_listed.begin(), inventory.not_listed.end());
    }
    if (!not_listed.empty())
      unknown.push_back(fmt::format("what becomes of operators that the toolchain's table does not list ({})",
                                    fmt::join(not_listed, ", ")));
    object["unknown"] = json::value_from(unknown);
    if (!unknown.empty()) text += fmt::format("\nnot known: {}\n", fmt::join(unknown, "; "));
    return print_result(context, text, object);
  }

  [[nodiscard]] std::string text_of(const Imported& model, const Bundle& bundle,
                                    const std::map<std::string, TypeTotal>& types, const TypeTotal& all, double bits,
                                    std::int64_t ctx, const Footprint& memory) const {
    const ModelConfig& c = model.config;
    std::string out;
    const auto line = [&](std::string_view label, const std::string& value) {
      out += fmt::format("{:<14}{}\n", label, one_line(value));
    };
    line("model", bundle.name);
    line("format", model.format);
    line("architecture", c.architecture);
    line("parameters",
         fmt::format("{} ({})", format_scaled(static_cast<double>(model.parameters)), format_count(model.parameters)));
    line("layers",
         fmt::format("{}, hidden {}, vocabulary {}, trained context {}", c.layers, c.hidden, bundle.vocab, c.ctx));
    std::string attention = fmt::format("{} heads", c.heads);
    if (c.kv_lora > 0) {
      attention +=
          fmt::format(", MLA (KV rank {}{})", c.kv_lora, c.q_lora > 0 ? fmt::format(", Q rank {}", c.q_lora) : "");
    } else {
      attention += fmt::format(", {} KV heads of {}", c.kv_heads, c.head_dim);
    }
    line("attention", attention);
    if (c.experts > 0) line("experts", fmt::format("{} of {} a token", c.top_k, c.experts));
    line("size", fmt::format("{}, {:.2f} bits per weight", format_bytes(static_cast<double>(all.bytes)), bits));
    const auto bytes = [](std::int64_t n) { return format_bytes(static_cast<double>(n)); };
    line("KV cache", fmt::format("{} a token in {}", bytes(memory.kv_per_token), kv_));
    line("memory",
         fmt::format("{} at a context of {}: weights {}, KV {}, activations {}, tokenizer {}", bytes(memory.total()),
                     ctx, bytes(memory.weights), bytes(memory.kv), bytes(memory.arena), bytes(memory.tokenizer)));
    line("tokenizer", model.tokenizer_json ? model.tokenizer_kind : "none");
    line("chat template", model.chat_template.empty() ? "none" : fmt::format("{} bytes", model.chat_template.size()));
    line("end tokens", model.eos_ids.empty() ? "none" : fmt::format("{}", fmt::join(model.eos_ids, ", ")));
    line("model hash", model.model_hash);

    Table table({{"type"},
                 {"tensors", Table::Align::right},
                 {"elements", Table::Align::right},
                 {"size", Table::Align::right},
                 {"share", Table::Align::right}});
    for (const auto& [type, total] : types)
      table.row({type, std::to_string(total.tensors), format_count(total.elements),
                 format_bytes(static_cast<double>(total.bytes)),
                 fmt::format("{:.1f} %", 100 * static_cast<double>(total.bytes) /
                                             static_cast<double>(std::max<std::uint64_t>(1, all.bytes)))});
    out += fmt::format("\n{}", table.text());
    if (tensors_) {
      Table list({{"tensor"}, {"type"}, {"shape"}, {"bytes", Table::Align::right}});
      for (const auto& tensor : model.tensors)
        list.row({tensor.name, std::string(name(tensor.dtype)), fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                  format_count(static_cast<long long>(tensor.bytes))});
      out += fmt::format("\n{}", list.text());
    }
    if (!bundle.oddities.empty()) {
      out += "\noddities\n";
      for (const auto& oddity : bundle.oddities) out += fmt::format("  - {}\n", one_line(oddity));
    }
    return out;
  }

  [[nodiscard]] json::object json_of(const Imported& model, const Bundle& bundle,
                                     const std::map<std::string, TypeTotal>& types, const TypeTotal& all, double bits,
                                     std::int64_t ctx, const Footprint& memory,
                                     const std::optional<CheckReport>& checked) const {
    const ModelConfig& c = model.config;
    json::object object{{"model", bundle.name}, {"format", model.format}, {"architecture", c.architecture}};
    object["parameters"] = model.parameters;
    object["layers"] = c.layers;
    object["hidden"] = c.hidden;
    object["heads"] = c.heads;
    object["kv_heads"] = c.kv_heads;
    object["head_dim"] = c.head_dim;
    object["vocab"] = bundle.vocab;
    object["trained_ctx"] = c.ctx;
    object["experts"] = c.experts;
    object["bytes"] = all.bytes;
    object["bits_per_weight"] = bits;
    object["kv_bytes_per_token"] = memory.kv_per_token;
    object["kv_type"] = kv_;
    object["memory"] = json::object{{"ctx", ctx},
                                    {"weights", memory.weights},
                                    {"kv", memory.kv},
                                    {"activations", memory.arena},
                                    {"tokenizer", memory.tokenizer},
                                    {"total", memory.total()}};
    object["model_hash"] = model.model_hash;
    object["tokenizer"] = model.tokenizer_json ? json::value(model.tokenizer_kind) : json::value(nullptr);
    object["chat_template"] = model.chat_template.empty() ? json::value(nullptr) : json::value(model.chat_template);
    object["eos_ids"] = json::value_from(model.eos_ids);
    json::array by_type;
    for (const auto& [type, total] : types)
      by_type.push_back(json::object{
          {"type", type}, {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}});
    object["types"] = std::move(by_type);
    object["tensor_count"] = model.tensors.size();
    json::array list;
    for (const auto& tensor : model.tensors)
      list.push_back(json::object{{"name", tensor.name},
                                  {"type", name(tensor.dtype)},
                                  {"shape", json::value_from(tensor.shape)},
                                  {"bytes", tensor.bytes}});
    object["tensors"] = std::move(list);
    object["oddities"] = json::value_from(bundle.oddities);
    if (checked) {
      object["sha256"] = checked->sha256;
      object["faults"] = json::value_from(checked->faults);
      if (!checked->faults.empty())
        object["error"] = json::object{{"code", static_cast<int>(Code::bad_input)},
                                       {"message", fmt::format("{}", fmt::join(checked->faults, "; "))}};
    }
    return object;
  }

  std::string model_, kv_ = "f16";
  std::optional<std::int64_t> ctx_, prompt_, layer_;
  std::optional<std::string> device_, toolchain_;
  std::optional<double> link_latency_us_;
  bool tensors_ = false, check_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace knapsack
