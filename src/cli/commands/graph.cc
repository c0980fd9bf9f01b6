#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "cli/commands/command.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "pipeline/graph_stage.h"
#include "pipeline/graph_view.h"
#include "report/progress.h"
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
            "a GGUF file, a Hugging Face folder, a config.json, a public model's name (qwen2.5-1.5b), or a graph "
            "that this command wrote as text")
        .complete = Complete::model;
    arguments.choice("--stage", stage_, graph_stage_names(), fmt::format("how far it has come: {}", stages));
    arguments.text("--layers", "LIST", layers_,
                   "these layers, and what is of none, only: 0, 0-3 or 0,5 (default: all)");
    arguments.choice("--format", format_, {"auto", "text", "json", "dot", "svg", "html"},
                     "what to write; auto: by the name of -o FILE, or else text");
    arguments.text("-o,--output", "FILE", output_, "where to; - is standard output").complete = Complete::file;
    arguments.example("knapsack graph qwen2.5-1.5b -o graph.html", "then open it in a browser: / searches");
    arguments.example("knapsack graph model.gguf --layers 0", "one layer as text");
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
    if (to_file) TRY_VOID(not_the_model(output_, model_));
    Busy busy("reading", context.quiet);
    TRY(const Read read, read_graph());
    if (read.as_text && stage_ != "imported")
      return usage_error("--stage {}: a graph as text is as it was written; name a model", stage_);
    TRY(const Graph graph, graph_at_stage(read.graph, stage_));
    GraphLayers layers;
    if (layers_) {
      TRY(layers, graph_layers(graph, *layers_));
    }
    busy.finish();
    const GraphView view =
        graph_view(graph, read.as_text ? one_line(read.name) : fmt::format("{}, {}", one_line(read.name), stage_),
                   layers, read.notes);
    const std::string text = form == "text"   ? graph_text(graph, layers, read.notes)
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
    TRY(NamedModel named, read_shapes(model_));
    std::vector<std::string> notes;
    if (named.imported.format == "config.json")
      notes.emplace_back("from a config.json alone: formats and bytes are F32's, not those of a checkpoint");
    return Read{std::move(named.imported.graph), std::move(named.name), named.imported.source, std::move(notes)};
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
};

}  // namespace

std::unique_ptr<Command> make_graph_command() { return std::make_unique<GraphCommand>(); }

}  // namespace knapsack
