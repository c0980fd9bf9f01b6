#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/cpus.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "cli/commands/command.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "import/onnx.h"
#include "pipeline/graph_stage.h"
#include "pipeline/graph_view.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/terminal.h"

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
  constexpr std::string_view first = "knapsack-graph ";
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string start(first.size(), '\0');
  return file.read(start.data(), static_cast<std::streamsize>(start.size())) && start == first;
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
    arguments.integer("--tokens", tokens_, 1, 65536, "tokens of a step, from stage static on: 1 is decode");
    arguments.integer("--ctx", ctx_, 1, 1 << 24, "rows of the KV cache, from stage static on");
    arguments.texts("--no-pass", "NAME", without_,
                    fmt::format("leave this pass out; they are {}", fmt::join(pass_names(), ", ")));
    arguments.flag("--passes", passes_,
                   "what each pass did, in the place of the graph: nodes, bytes that a step moves, time");
    arguments.flag("--prove", prove_,
                   "run the graph before and after each pass on random tokens, and compare; takes a checkpoint");
    arguments.texts("--dim", "NAME=SIZE", dims_, "an ONNX file: the size of a dimension that it leaves open");
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
    arguments.example("knapsack graph resnet.onnx --dim batch=1 -o graph.html", "an ONNX file, its batch pinned");
    arguments.example("knapsack graph model.gguf --layers 0-1 --format dot | dot -Tpdf -o graph.pdf",
                      "two layers, laid out by Graphviz");
    arguments.example("knapsack graph model.gguf --json | jq '.nodes[] | select(.op == \"linear\") | .name'",
                      "for a script");
  }

  Result<int> run(Context& context) override {
    const bool to_file = output_ != "-";
    const std::string by_name = to_file ? format_of(output_) : "";
    const bool json = !to_file && context.json && format_ == "auto";
    const std::string form = format_ != "auto" ? format_ : json ? "json" : by_name.empty() ? "text" : by_name;
    if (!to_file && context.json && form != "json")
      return usage_error("--format {} and --json both want standard output; name a file (-o FILE)", form);
    if (to_file) TRY_VOID(not_over_another());
    if (passes_ && (to_file || format_ != "auto"))
      return usage_error("--passes writes a table to standard output, or --json; -o and --format are for the graph");
    if (prove_ && (stage_ == "imported" || stage_ == "primitive"))
      return usage_error("--prove: no pass leads to stage {}; try --stage fused", stage_);
    Busy busy("reading", context.quiet);
    TRY(const Read read, read_graph());
    if (read.as_text && stage_ != "imported")
      return usage_error("--stage {}: a graph as text is as it was written; name a model", stage_);
    ThreadPool pool(context.threads > 0 ? context.threads : available_cores());
    PassOptions options;
    options.context.tokens = tokens_;
    options.context.ctx = ctx_;
    options.context.data = prove_;
    options.without = without_;
    options.prove = prove_;
    options.dump = prove_ ? "knapsack-before-pass.graph.txt" : "";
    TRY(const StagedGraph staged, graph_at_stage(read.graph, stage_, options, pool));
    const Graph& graph = staged.graph;
    std::vector<std::string> notes = read.notes;
    if (!without_.empty()) notes.push_back(fmt::format("without the passes {}", fmt::join(without_, ", ")));
    if (passes_) {
      busy.finish();
      return print_passes(context, staged);
    }
    GraphLayers layers;
    if (layers_) {
      TRY(layers, graph_layers(graph, *layers_));
    }
    busy.finish();
    const GraphView view = graph_view(
        graph, read.as_text ? one_line(read.name) : fmt::format("{}, {}", one_line(read.name), stage_), layers, notes);
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
  };

  [[nodiscard]] Result<Read> read_graph() const {
    if (begins_as_graph(model_)) {
      TRY(const std::string text, read_text_file(model_));
      auto graph = graph_from_text(text);
      if (!graph) return bad_input("{}: {}", model_, graph.error().message);
      return Read{std::move(*graph), std::filesystem::path(model_).filename().string(), model_, {}, true};
    }
    if (std::filesystem::path(model_).extension() == ".onnx") {
      TRY(const OnnxPins pins, this->pins());
      TRY(ImportedOnnx imported, import_onnx(model_, pins));
      return Read{std::move(imported.graph), std::filesystem::path(model_).filename().string(), model_};
    }
    if (!dims_.empty() || !shapes_.empty()) return usage_error("--dim and --input are for ONNX files");
    TRY(NamedModel named, read_shapes(model_));
    std::vector<std::string> notes;
    if (named.imported.format == "config.json")
      notes.emplace_back("from a config.json alone: formats and bytes are F32's, not those of a checkpoint");
    return Read{std::move(named.imported.graph), std::move(named.name), named.imported.source, std::move(notes)};
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

  static Result<std::int64_t> size_of(std::string_view text, std::string_view whole) {
    std::int64_t size = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (failed != std::errc{} || end != text.data() + text.size() || size < 1)
      return usage_error("{}: expected NAME=SIZE with sizes of 1 or more", printable(whole));
    return size;
  }

  [[nodiscard]] Result<OnnxPins> pins() const {
    OnnxPins pins;
    for (const std::string& each : dims_) {
      const auto equals = each.rfind('=');
      TRY(pins.dims[each.substr(0, equals)], size_of(equals == std::string::npos ? "" : each.substr(equals + 1), each));
    }
    for (const std::string& each : shapes_) {
      const auto equals = each.rfind('=');
      std::vector<std::int64_t>& sizes = pins.shapes[each.substr(0, equals)];
      std::string_view rest =
          equals == std::string::npos ? std::string_view{} : std::string_view(each).substr(equals + 1);
      while (true) {
        const auto comma = rest.find(',');
        TRY(const std::int64_t size, size_of(rest.substr(0, comma), each));
        sizes.push_back(size);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
    }
    return pins;
  }

  [[nodiscard]] Result<int> print_passes(Context& context, const StagedGraph& staged) const {
    if (context.json) {
      json::array passes;
      for (const PassReport& each : staged.passes)
        passes.push_back(json::object{{"pass", each.name},
                                      {"what", each.what},
                                      {"skipped", each.skipped},
                                      {"nodes", json::array{each.nodes_before, each.nodes_after}},
                                      {"bytes_moved", json::array{each.bytes_before, each.bytes_after}},
                                      {"ms", each.ms},
                                      {"rel_l2", each.rel_l2 >= 0 ? json::value(each.rel_l2) : json::value(nullptr)},
                                      {"note", each.note.empty() ? json::value(nullptr) : json::value(each.note)}});
      TRY_VOID(print_json(context, {{"model", model_}, {"stage", stage_}, {"passes", std::move(passes)}}));
      return 0;
    }
    if (staged.passes.empty()) {
      TRY_VOID(context.out.write(fmt::format("No pass leads to stage {}.\n", stage_)));
      return 0;
    }
    Table table({{"pass"},
                 {"nodes", Table::Align::right},
                 {"", Table::Align::right},
                 {"moved", Table::Align::right},
                 {"", Table::Align::right},
                 {"ms", Table::Align::right},
                 {"proved", Table::Align::right},
                 {"what it does"}});
    for (const PassReport& each : staged.passes)
      table.row({std::string(each.name), std::to_string(each.nodes_before), std::to_string(each.nodes_after),
                 format_bytes(each.bytes_before), format_bytes(each.bytes_after),
                 each.skipped ? "left out" : fmt::format("{:.1f}", each.ms),
                 each.rel_l2 < 0 ? "-" : fmt::format("{:.1e}", each.rel_l2), std::string(each.what)});
    TRY_VOID(context.out.write(table.text()));
    for (const PassReport& each : staged.passes)
      if (!each.note.empty()) TRY_VOID(context.out.write(fmt::format("{}: {}\n", each.name, one_line(each.note))));
    return 0;
  }

  // Null: of a text nobody says.
  [[nodiscard]] json::value stage_of(const Read& read) const {
    return read.as_text ? json::value(nullptr) : json::value(stage_);
  }

  [[nodiscard]] json::object json_of(const Read& read, const GraphView& view, const GraphLayers& layers) const {
    json::object object{{"model", read.source}};
    object["stage"] = stage_of(read);
    object["layers"] = layers ? json::value_from(*layers) : json::value(nullptr);
    for (auto& member : graph_json(view)) object[member.key()] = std::move(member.value());
    return object;
  }

  std::string model_, stage_ = "imported", format_ = "auto", output_ = "-";
  std::optional<std::string> layers_;
  std::int64_t tokens_ = 1, ctx_ = 4096;
  std::vector<std::string> without_, dims_, shapes_;
  bool passes_ = false, prove_ = false;
};

}  // namespace

std::unique_ptr<Command> make_graph_command() { return std::make_unique<GraphCommand>(); }

}  // namespace knapsack
