#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "base/atomic_file.h"
#include "base/cpus.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "cli/commands/command.h"
#include "cli/devices_text.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/onnx_pins.h"
#include "cli/output_file.h"
#include "device/devices.h"
#include "graph/text.h"
#include "import/onnx.h"
#include "pipeline/device_target.h"
#include "pipeline/graph_stage.h"
#include "pipeline/graph_view.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/terminal.h"
#include "text/tokenizer.h"

namespace knapsack {
namespace {

// What the name of the output says that it is to be; empty: nothing.
std::string format_of(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".htm" || extension == ".html") return "html";
  if (extension == ".gv" || extension == ".dot") return "dot";
  if (extension == ".svg" || extension == ".json") return extension.substr(1);
  return "";
}

// A graph in our text form, in the place of a model.
bool begins_as_graph(const std::string& path) {
  constexpr std::size_t enough = 32;
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string start(enough, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  return begins_as_graph_text(start);
}

class GraphCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    std::string stages;
    for (const GraphStage& stage : graph_stages())
      stages += fmt::format("{}{} ({})", stages.empty() ? "" : ", ", stage.name, stage.what);
    arguments.about(
        "Reads headers only: no weight is read, and a config.json or a public model's name will do.\n\n"
        "text is the form that docs/graph.md describes, json has nodes and values, dot is for Graphviz, svg is one "
        "picture, and html one file that needs no network: layers that open and close, search, and for each node what "
        "it reads and makes, with shapes, formats, bytes and attributes.");
    arguments
        .positional(
            "MODEL", model_,
            "a GGUF file, a Hugging Face folder, a config.json, a public model's name (qwen2.5-1.5b), an ONNX file, or "
            "a graph that this command wrote as text")
        .complete = Complete::model;
    arguments.choice("--stage", stage_, graph_stage_names(), fmt::format("how far it has come: {}", stages));
    arguments.integer(
        "--tokens", tokens_, 1, 65536,
        "tokens of a step, from stage static on; default: what an ONNX decoder is pinned to, or 1: decode");
    arguments.integer(
        "--ctx", ctx_, 1, 1 << 24,
        "rows of the KV cache, from stage static on; default: what an ONNX decoder is pinned to, or 4096");
    arguments.texts("--no-pass", "NAME", without_,
                    fmt::format("leave this pass out; they are {}", fmt::join(pass_names(), ", ")));
    arguments.flag("--passes", passes_,
                   "what each pass did, in the place of the graph: nodes, bytes that a step moves, time");
    arguments.flag("--prove", prove_,
                   "run the graph before and after each pass on short prompts and random tokens, and compare; takes a "
                   "checkpoint");
    arguments.text("--device", "ID", device_,
                   "for this device: what its toolchain does not take is written otherwise, or runs on the CPU, and "
                   "each node says where");
    arguments.text("--toolchain", "NAME", toolchain_,
                   "whose table counts (default: the first of the device's); NAME@VERSION: as of that version");
    arguments.integer("--weight-line", weight_line_, 1, 65536,
                      "bytes that rows of weights are padded to (default: the device's, or none)");
    arguments.flag("--channel-first-keys", channel_first_keys_,
                   "keep the keys of the cache channel first: a product with them reads whole lines");
    arguments.integer("--channel-block", channel_block_, 2, 1024,
                      "convolutions on blocks of so many channels: 8 is NCHWc8 (default: none)");
    arguments.texts("--dim", "NAME=SIZE", dims_,
                    "an ONNX file: the size of a dimension that it leaves open; 0: a cache that is empty");
    arguments.texts("--input", "NAME=1,3,224,224", shapes_, "an ONNX file: all sizes of an input");
    arguments.text("--layers", "LIST", layers_,
                   "these layers, and what is of none, only: 0, 0-3 or 0,5 (default: all)");
    arguments.choice("--format", format_, {"auto", "text", "json", "dot", "svg", "html"},
                     "what to write; auto: by the name of -o FILE, or else text");
    arguments.text("-o,--output", "FILE", output_, "where to; - is standard output").complete = Complete::file;
    arguments.example("knapsack graph qwen2.5-1.5b -o graph.html", "then open it in a browser: / searches");
    arguments.example("knapsack graph model.gguf --layers 0", "one layer as text");
    arguments.example("knapsack graph model.gguf --stage fused --passes --prove",
                      "what every pass does, and that nothing changed");
    arguments.example("knapsack graph qwen2.5-1.5b --stage fused --device rk3588 -o graph.html",
                      "as its toolchain takes it, coloured by unit");
    arguments.example("knapsack graph resnet.onnx --dim batch=1 -o graph.html", "an ONNX file, its batch pinned");
    arguments.example("knapsack graph model.gguf --layers 0-1 --format dot | dot -Tpdf -o graph.pdf",
                      "two layers, laid out by Graphviz");
    arguments.example("knapsack graph model.gguf --json | jq '.nodes[] | select(.op == \"linear\") | .name'",
                      "for a script");
  }

  Result<int> run(Context& context) override {
    const bool to_file = output_ != "-" && !is_standard_output(output_);
    const std::string by_name = to_file ? format_of(output_) : "";
    const bool json = !to_file && context.json && format_ == "auto";
    const std::string form = format_ != "auto" ? format_ : json ? "json" : by_name.empty() ? "text" : by_name;
    if (!to_file && context.json && form != "json")
      return usage_error("--format {} and --json both want standard output; name a file (-o FILE)", form);
    if (to_file) TRY_VOID(not_over_another());
    if (to_file && form == "text" && format_ == "auto") TRY_VOID(no_other_ending());
    if (passes_ && (to_file || format_ != "auto"))
      return usage_error("--passes writes a table to standard output, or --json; -o and --format are for the graph");
    if (passes_ && layers_) return usage_error("--passes tells of the whole graph; --layers is for the graph itself");
    if ((prove_ || !without_.empty()) && (stage_ == "imported" || stage_ == "primitive"))
      return usage_error("{}: no pass leads to stage {}; try --stage fused", prove_ ? "--prove" : "--no-pass", stage_);
    TRY_VOID(something_to_do());
    TRY(const Target target, this->target());
    std::optional<Busy> busy(std::in_place, "reading", context.quiet);
    TRY(const Read read, read_graph());
    if (read.as_text && stage_ != "imported")
      return usage_error(
          "--stage {}: a graph as text has no weights, so that no pass runs on it; name the model it is of", stage_);
    ThreadPool pool(context.threads > 0 ? context.threads : available_cores());
    PassOptions options;
    const StepSize own = step_of(read.graph);
    options.context.step = {.tokens = tokens_.value_or(own.tokens),
                            .ctx = ctx_.value_or(std::max(own.ctx, tokens_.value_or(1)))};
    options.context.data = prove_;
    options.without = without_;
    options.context.target = target;
    options.prove = prove_;
    if (prove_) {
      TRY(options.proof.prompts, prompts(read));
    }
    options.dump = free_name();
    options.progress = [&](std::string_view pass) {
      busy.emplace(fmt::format("{}{}", prove_ ? "proving " : "", pass), context.quiet);
    };
    auto made = graph_at_stage(read.graph, stage_, options, pool);
    busy.reset();
    TRY(const StagedGraph staged, std::move(made));
    const Graph& graph = staged.graph;
    std::vector<std::string> notes = target_notes_;
    notes.insert(notes.end(), read.notes.begin(), read.notes.end());
    const Reasons reasons = reasons_of(staged, notes);
    if (prove_) notes.push_back(proof_of(staged));
    if (!without_.empty()) notes.push_back(fmt::format("without the passes {}", fmt::join(without_, ", ")));
    if (passes_) return print_passes(context, staged, notes);
    GraphLayers layers;
    if (layers_) {
      TRY(layers, graph_layers(graph, *layers_));
    }
    const GraphView view =
        graph_view(graph, read.as_text ? one_line(read.name) : fmt::format("{}, {}", one_line(read.name), stage_),
                   layers, notes, reasons);
    const std::string text = form == "text"   ? graph_text(graph, layers, notes)
                             : form == "dot"  ? graph_dot(view)
                             : form == "svg"  ? graph_svg(view)
                             : form == "html" ? graph_html(view)
                                              : fmt::format("{}\n", json_text(json_of(read, view, layers)));
    if (!to_file) {
      TRY_VOID(context.out.write(text));
      return 0;
    }
    TRY(auto file, AtomicFile::create(output_));
    TRY_VOID(file.write(text));
    TRY_VOID(file.commit());
    const auto nodes = std::count_if(view.nodes.begin(), view.nodes.end(), [](const auto& n) { return !n.source; });
    if (context.json) {
      TRY_VOID(print_json(context, {{"path", output_},
                                    {"format", form},
                                    {"model", read.source},
                                    {"stage", stage_of(read)},
                                    {"nodes", nodes},
                                    {"bytes", text.size()}}));
    } else if (!context.quiet) {
      fmt::print(stderr, "{}: {}, {} nodes, {}\n", one_line(output_), form, format_count(static_cast<long long>(nodes)),
                 format_bytes(static_cast<double>(text.size())));
    }
    return 0;
  }

 private:
  struct Read {
    Graph graph;
    std::string name, source;
    std::vector<std::string> notes{};
    bool as_text = false;
    // Of a checkpoint that has one: its tokenizer.json.
    std::function<Result<std::string>()> tokenizer_json = nullptr;
  };

  // What the passes may count on: of a device, and what is asked for besides.
  [[nodiscard]] Result<Target> target() {
    Target target;
    if (toolchain_ && !device_) return usage_error("--toolchain goes with --device");
    if (device_) {
      TRY(const Devices devices, Devices::in_use());
      TRY(const Device device, devices.find(*device_));
      const DeviceProfile& profile = device.profile;
      TRY(const auto toolchain, devices.toolchain_of(profile, toolchain_));
      target = device_target(profile, toolchain ? &*toolchain : nullptr);
      target_notes_.push_back(target_text(profile, toolchain));
      if (toolchain && profile.npu && !profile.toolchains.empty() &&
          std::find(profile.toolchains.begin(), profile.toolchains.end(), toolchain->id) == profile.toolchains.end())
        target_notes_.push_back(fmt::format("{} is no toolchain of {}, whose are {}", toolchain->id, profile.id,
                                            fmt::join(profile.toolchains, ", ")));
      if (toolchain && profile.npu)
        target_notes_.emplace_back("types are not chosen yet: nodes are placed by what the table says of any type");
      if (toolchain) toolchain_json_ = toolchain_json(*toolchain);
    }
    if (weight_line_) target.weight_line = *weight_line_;
    if (channel_block_) target.channel_block = *channel_block_;
    target.channel_first_keys = channel_first_keys_;
    const bool asked = device_ || weight_line_ || channel_block_ || channel_first_keys_;
    if (asked && stage_ != stage_name(Stage::fused))
      return usage_error("what a target asks for is met at stage {}; add --stage {}", stage_name(Stage::fused),
                         stage_name(Stage::fused));
    return target;
  }

  static std::string target_text(const DeviceProfile& profile, const std::optional<Toolchain>& toolchain) {
    if (!profile.npu)
      return fmt::format("for {}, which has no NPU{}", profile.name,
                         profile.gpu ? ": the CPU or the GPU runs all" : "");
    if (!toolchain)
      return fmt::format("for {}: no table of a toolchain of it is here, so nothing says what its NPU takes",
                         profile.name);
    return fmt::format("for {}, as the table of {} {} says", profile.name, toolchain->name, toolchain->at);
  }

  static std::string proof_of(const StagedGraph& staged) {
    double worst = 0;
    int proved = 0;
    for (const PassReport& each : staged.passes) {
      worst = std::max(worst, each.rel_l2);
      proved += each.rel_l2 >= 0 ? 1 : 0;
    }
    return fmt::format(
        "proved: behind {} of {} passes the outputs are those before, on random tokens and prompts: at most {:.1e} "
        "apart (relative L2)",
        proved, staged.passes.size(), worst);
  }

  static std::string on(const std::string& unit) {
    return unit == "ahead" ? " made ahead" : fmt::format(" on the {}", unit);
  }

  // Of each node that is not simply taken; to the notes the same by kind, with how often.
  static Reasons reasons_of(const StagedGraph& staged, std::vector<std::string>& notes) {
    Reasons reasons;
    std::map<std::string_view, const Node*> nodes;
    for (const Node& node : staged.graph.list()) nodes[node.name] = &node;
    // What left the target's unit first.
    std::map<std::pair<int, std::string>, long long> kinds;
    for (const PassReport& pass : staged.passes)
      for (const PlacedNode& each : pass.placed) {
        using Kind = Placement::Kind;
        const Placement& p = each.placement;
        if (p.kind == Kind::replace) {
          ++kinds[{1, fmt::format("written as {}: {}", p.by, p.why)}];
          continue;
        }
        const std::string why = p.by.empty() ? p.why : fmt::format("a part of {}: {}", p.by, p.why);
        reasons[each.name] = why;
        const int rank = p.kind == Kind::cpu ? 0 : p.kind == Kind::taken ? 2 : 3;
        if (const auto node = nodes.find(each.name); node != nodes.end())
          ++kinds[{rank, fmt::format("{}{}: {}", op_info(node->second->op).text, on(node->second->unit), why)}];
      }
    for (const auto& [kind, count] : kinds) notes.push_back(fmt::format("{} {}", format_count(count), kind.second));
    return reasons;
  }

  // No option that would change nothing.
  [[nodiscard]] Result<void> something_to_do() const {
    const bool open = stage_ == "imported" || stage_ == "canonical";
    if (open && (tokens_ || ctx_))
      return usage_error("{}: stage {} fixes no sizes; add --stage static, or a later one",
                         tokens_ ? "--tokens" : "--ctx", stage_);
    return {};
  }

  // Where the graph before a pass that breaks it is kept: beside those of other times.
  static std::string free_name() {
    constexpr int most = 100;
    std::string name = "knapsack-before-pass.graph.txt";
    std::error_code ignored;
    for (int i = 2; i < most && std::filesystem::exists(std::filesystem::symlink_status(name, ignored)); ++i)
      name = fmt::format("knapsack-before-pass.{}.graph.txt", i);
    return name;
  }

  // A few words in each of what models read; none without a tokenizer.
  static Result<std::vector<std::vector<std::int32_t>>> prompts(const Read& read) {
    std::vector<std::vector<std::int32_t>> prompts;
    if (read.tokenizer_json == nullptr) return prompts;
    constexpr std::size_t most = 8;  // ids of each: a scalar step takes long
    TRY(const std::string text, read.tokenizer_json());
    TRY(const auto tokenizer, Tokenizer::from_json(text, read.source));
    for (const std::string_view words :
         {"The capital of France is", "for (int i = 0; i < n; ++i) {", "1, 2, 3, 5, 8,"}) {
      TRY(auto ids, tokenizer->encode(words, true));
      ids.resize(std::min(ids.size(), most));
      prompts.push_back(std::move(ids));
    }
    return prompts;
  }

  [[nodiscard]] Result<Read> read_graph() const {
    if (begins_as_graph(model_)) {
      if (!dims_.empty() || !shapes_.empty()) return usage_error("--dim and --input are for ONNX files");
      TRY(const std::string text, read_text_file(model_));
      auto graph = graph_from_text(text);
      if (!graph) return bad_input("{}: {}", model_, graph.error().message);
      return Read{std::move(*graph), std::filesystem::path(model_).filename().string(), model_, {}, true};
    }
    if (std::filesystem::path(model_).extension() == ".onnx") {
      TRY(const OnnxPins pins, read_pins(dims_, shapes_, "--input"));
      TRY(ImportedOnnx imported, import_onnx(model_, pins));
      return Read{std::move(imported.graph), std::filesystem::path(model_).filename().string(), model_,
                  std::move(imported.notes)};
    }
    if (!dims_.empty() || !shapes_.empty()) return usage_error("--dim and --input are for ONNX files");
    TRY(NamedModel named, read_shapes(model_));
    std::vector<std::string> notes;
    if (named.imported.format == "config.json")
      notes.emplace_back("from a config.json alone: formats and bytes are F32's, not those of a checkpoint");
    return Read{
        std::move(named.imported.graph),         std::move(named.name), named.imported.source, std::move(notes), false,
        std::move(named.imported.tokenizer_json)};
  }

  // Text is not written under the name of what this command does not write.
  [[nodiscard]] Result<void> no_other_ending() const {
    const std::string ending = std::filesystem::path(output_).extension().string();
    if (ending.empty() || ending == ".txt" || ending == ".graph") return {};
    return usage_error("-o {}: no graph is written as {}; name it .txt, .html, .svg, .dot or .json, or say --format",
                       output_, ending);
  }

  // No weights are written over: those of the model, or any file that no graph was written to.
  [[nodiscard]] Result<void> not_over_another() const {
    TRY_VOID(not_the_model(output_, model_));
    const std::filesystem::path model(model_);
    if (model.filename() == "config.json") TRY_VOID(not_the_model(output_, model.parent_path().string()));
    std::error_code failed;
    if (!std::filesystem::is_regular_file(output_, failed)) return {};
    const std::string extension = std::filesystem::path(output_).extension().string();
    if (!format_of(output_).empty() || extension == ".txt" || begins_as_graph(output_)) return {};
    return usage_error(
        "{} is there already, and is not named as a graph is (.txt, .html, .svg, .dot, .json); remove it or "
        "name another file",
        output_);
  }

  [[nodiscard]] Result<int> print_passes(Context& context, const StagedGraph& staged,
                                         const std::vector<std::string>& notes) const {
    if (context.json) {
      json::array passes;
      for (const PassReport& each : staged.passes)
        passes.push_back(json::object{{"pass", each.name},
                                      {"what", each.what},
                                      {"skipped", each.skipped},
                                      {"nodes", json::array{each.nodes_before, each.nodes_after}},
                                      {"bytes_moved", json::array{each.bytes_before, each.bytes_after}},
                                      {"tokens", each.step.tokens},
                                      {"ctx", each.step.ctx},
                                      {"ms", each.ms},
                                      {"rel_l2", each.rel_l2 >= 0 ? json::value(each.rel_l2) : json::value(nullptr)},
                                      {"note", each.note.empty() ? json::value(nullptr) : json::value(each.note)}});
      json::object object{{"model", model_}, {"stage", stage_}, {"passes", std::move(passes)}};
      object["device"] = device_ ? json::value(*device_) : json::value(nullptr);
      object["toolchain"] = toolchain_json_;
      object["units"] = json::value_from(units_of(staged.graph));
      object["notes"] = json::value_from(notes);
      TRY_VOID(print_json(context, object));
      return 0;
    }
    if (staged.passes.empty()) {
      TRY_VOID(context.out.write(fmt::format("No pass leads to stage {}.\n", stage_)));
      return 0;
    }
    Table table({{"pass"},
                 {"nodes before", Table::Align::right},
                 {"behind", Table::Align::right},
                 {"moved before", Table::Align::right},
                 {"behind", Table::Align::right},
                 {"ms", Table::Align::right},
                 {"proved", Table::Align::right},
                 {"what it does"}});
    for (const PassReport& each : staged.passes)
      table.row({std::string(each.name), std::to_string(each.nodes_before), std::to_string(each.nodes_after),
                 format_bytes(each.bytes_before), format_bytes(each.bytes_after),
                 each.skipped ? "left out" : fmt::format("{:.1f}", each.ms),
                 each.rel_l2 < 0 ? "-" : fmt::format("{:.1e}", each.rel_l2), std::string(each.what)});
    const PassReport& last = staged.passes.back();
    // Bytes can be compared from where on they are of one step.
    const auto same = std::find_if(staged.passes.begin(), staged.passes.end(),
                                   [&](const PassReport& each) { return each.step == last.step; });
    std::string text = table.text();
    for (const PassReport& each : staged.passes)
      if (!each.note.empty()) text += fmt::format("{}: {}\n", each.name, one_line(each.note));
    for (auto each = staged.passes.begin(); each != same; ++each)
      text += fmt::format("{}: bytes are of the step that the file is pinned to: tokens {}, context {}\n", each->name,
                          each->step.tokens, format_count(each->step.ctx));
    text += fmt::format("\n{} nodes became {}; a step (tokens {}, context {}) moves {}, before {}{}",
                        format_count(to_long(staged.passes.front().nodes_before)),
                        format_count(to_long(last.nodes_after)), last.step.tokens, format_count(last.step.ctx),
                        format_bytes(last.bytes_after), format_bytes(same->bytes_before),
                        same == staged.passes.begin() ? "" : fmt::format(" (after {})", std::prev(same)->name));
    std::vector<std::string> units;
    for (const auto& [unit, count] : units_of(staged.graph))
      units.push_back(fmt::format("{}{}", format_count(to_long(count)), on(unit)));
    text += units.empty() ? "\n" : fmt::format("; {}\n", fmt::join(units, ", "));
    for (const std::string& note : notes) text += fmt::format("{}\n", one_line(note));
    TRY_VOID(context.out.write(text));
    return 0;
  }

  static long long to_long(std::size_t count) { return static_cast<long long>(count); }

  // How many nodes run where; empty: nothing says.
  static std::map<std::string, std::size_t> units_of(const Graph& graph) {
    std::map<std::string, std::size_t> units;
    for (const Node& node : graph.list())
      if (!node.unit.empty()) ++units[node.unit];
    return units;
  }

  // Null: of a text nobody says.
  [[nodiscard]] json::value stage_of(const Read& read) const {
    return read.as_text ? json::value(nullptr) : json::value(stage_);
  }

  [[nodiscard]] json::object json_of(const Read& read, const GraphView& view, const GraphLayers& layers) const {
    json::object object{{"model", read.source}};
    object["stage"] = stage_of(read);
    object["layers"] = layers ? json::value_from(*layers) : json::value(nullptr);
    object["device"] = device_ ? json::value(*device_) : json::value(nullptr);
    object["toolchain"] = toolchain_json_;
    for (auto& member : graph_json(view)) object[member.key()] = std::move(member.value());
    return object;
  }

  std::string model_, stage_ = "imported", format_ = "auto", output_ = "-";
  std::optional<std::string> layers_;
  std::optional<std::int64_t> tokens_, ctx_;
  std::optional<std::string> device_, toolchain_;
  std::optional<std::int64_t> weight_line_, channel_block_;
  std::vector<std::string> without_, dims_, shapes_;
  std::vector<std::string> target_notes_;
  json::value toolchain_json_ = nullptr;
  bool passes_ = false, prove_ = false, channel_first_keys_ = false;
};

}  // namespace

std::unique_ptr<Command> make_graph_command() { return std::make_unique<GraphCommand>(); }

}  // namespace knapsack
