#include "pipeline/align_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "align/dump_source.h"
#include "align/graph_source.h"
#include "align/onnx_source.h"
#include "base/threads.h"
#include "files/npz.h"
#include "graph/decompose/decompose.h"
#include "import/import.h"
#include "pipeline/graph_stage.h"

namespace knapsack {
namespace {

constexpr std::int64_t most_tokens = 4096;

bool whole(std::string_view text, std::int64_t& number, std::int64_t least = 1) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least;
}

// Whether `word` is one, and what it asks for.
bool take_word(std::string_view word, AlignSpec& spec) {
  constexpr std::string_view isa = "isa=";
  constexpr std::string_view kv = "kv=";
  if (word == "reference") {
    spec.isa = Isa::scalar;
    spec.exact = true;
    spec.kv = DType::F32;
    return true;
  }
  if (word == "exact") return spec.exact = true;
  if (word == "ort") return spec.onnx = true;
  if (word.starts_with(isa)) {
    spec.isa = isa_from_name(word.substr(isa.size()));
    return spec.isa.has_value();
  }
  constexpr std::string_view stage = "stage=";
  if (word.starts_with(stage)) {
    spec.stage = word.substr(stage.size());
    return !spec.stage.empty();
  }
  constexpr std::string_view without = "without=";
  if (word.starts_with(without)) {
    spec.without.emplace_back(word.substr(without.size()));
    return !spec.without.back().empty();
  }
  constexpr std::string_view tokens = "tokens=";
  if (word.starts_with(tokens)) {
    return whole(word.substr(tokens.size()), spec.tokens) && spec.tokens <= most_tokens;
  }
  constexpr std::string_view dim = "dim=";
  if (word.starts_with(dim)) {
    const std::string_view rest = word.substr(dim.size());
    const auto equals = rest.rfind('=');
    std::int64_t size = 0;
    if (equals == std::string_view::npos || equals == 0 || !whole(rest.substr(equals + 1), size, 0)) return false;
    return spec.pins.dims.emplace(rest.substr(0, equals), size).second;  // once each
  }
  if (!word.starts_with(kv)) return false;
  for (const DType type : {DType::F16, DType::F32, DType::Q8_0}) {
    std::string lower(name(type));
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (word.substr(kv.size()) != lower) continue;
    spec.kv = type;
    return true;
  }
  return false;
}

bool is_onnx(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::path(path).extension() == ".onnx" && !std::filesystem::is_directory(path, ignored);
}

// An ONNX file as the decoder that it was made of.
Result<Graph> decoder_from_onnx(const AlignSpec& spec, ThreadPool& pool) {
  TRY(const ImportedOnnx imported, import_onnx(spec.path, spec.pins));
  TRY(StagedGraph staged, graph_at_stage(imported.graph, stage_name(Stage::canonical), {}, pool));
  if (staged.graph.tokens()) return std::move(staged.graph);
  std::string why = "not a decoder";
  for (const PassReport& pass : staged.passes)
    if (!pass.note.empty()) why = pass.note;
  return unsupported(
      "{}: align compares decoders, token by token, and this is not known as one: {}; `knapsack graph {} --stage fused "
      "--passes --prove` compares any ONNX model with what passes make of it",
      spec.path, why, spec.path);
}

// The graph that is run: as it is imported, or as passes make it.
Result<Graph> graph_of(const Graph& imported, const AlignSpec& spec, std::int64_t ctx, ThreadPool& pool) {
  if (spec.stage.empty()) return imported;
  // Of a padded step the end may lie behind the context that is asked for.
  const std::int64_t whole = ctx + spec.tokens - 1;
  // The primitive form that runs: what exporters write has the KV cache as inputs.
  if (spec.stage == "primitive")
    return decompose(imported, {.tokens = spec.tokens, .kv = KvForm::indexed, .ctx = whole, .floats = DType::F32});
  TRY(StagedGraph staged,
      graph_at_stage(imported, spec.stage,
                     {.context = {.step = {.tokens = spec.tokens, .ctx = whole}}, .without = spec.without}, pool));
  return std::move(staged.graph);
}

// What others say of a command's flags, in the words of this one.
Error in_words_of_align(Error error) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> flags{{{"--kv ", ":kv="},
                                                                                {"--exact", ":exact"},
                                                                                {"--isa ", ":isa="},
                                                                                {"--no-pass ", ":without="},
                                                                                {"--ctx", "--tokens"}}};
  for (const auto& [theirs, ours] : flags)
    for (std::size_t at = 0; (at = error.message.find(theirs, at)) != std::string::npos; at += ours.size())
      error.message.replace(at, theirs.size(), ours);
  return error;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

Result<AlignSpec> parse_align_spec(const std::string& text) {
  AlignSpec spec{.path = text};
  spec.pins.shape_flag = "--shape ";
  const auto colon = text.rfind(':');
  if (!exists(text) && colon != std::string::npos && colon > 0) {
    AlignSpec with = spec;
    with.path = text.substr(0, colon);
    std::string_view words = std::string_view(text).substr(colon + 1);
    while (!words.empty()) {
      const auto comma = words.find(',');
      const std::string_view word = words.substr(0, comma);
      if (!take_word(word, with)) {
        // Either the words are wrong, or the path is one with a colon that does not exist.
        if (!exists(with.path)) break;
        return usage_error(
            "{}: expected reference, exact, isa=NAME, kv=f16, kv=f32, kv=q8_0, stage=NAME, without=PASS, tokens=N "
            "(1 to {}), dim=NAME=SIZE or ort after the last colon, found '{}'; `knapsack version` lists instruction "
            "sets, `knapsack "
            "graph "
            "--help` stages and passes",
            text, most_tokens, word);
      }
      words.remove_prefix(comma == std::string_view::npos ? words.size() : comma + 1);
    }
    if (words.empty()) spec = std::move(with);
  }
  if (spec.stage.empty() && (!spec.without.empty() || spec.tokens > 1)) spec.stage = stage_name(Stage::fused);
  if (spec.stage == "primitive" && !spec.without.empty())
    return usage_error("{}: no pass leads to the stage primitive: expected no without={}", text, spec.without[0]);
  if (spec.onnx && text != fmt::format("{}:ort", spec.path))
    return usage_error("{}: ONNX Runtime runs an export as it is: expected no words beside ort", text);
  spec.onnx_file = !spec.onnx && is_onnx(spec.path);
  if (!spec.pins.dims.empty() && !spec.onnx_file)
    return usage_error("{}: dim={}= is for ONNX files", text, spec.pins.dims.begin()->first);
  spec.dump = spec.path.ends_with(".npz");
  if (spec.dump && spec.path != text) return usage_error("{}: a dump is not run: expected no words after it", text);
  return spec;
}

namespace {

Result<AlignSide> open_side(const AlignSpec& spec, const std::string& label, const AlignRun& run) {
  AlignSide side;
  if (spec.dump) {
    TRY(NpzFile file, open_npz(spec.path));
    TRY(Dump dump, dump_source(std::move(file), label));
    side.source = std::move(dump.source);
    side.ids = std::move(dump.ids);
    return side;
  }
  if (spec.onnx) {
    const std::filesystem::path path(spec.path);
    const std::string folder = is_onnx(spec.path) ? path.parent_path().string() : spec.path;
    const std::string decode = (std::filesystem::path(folder) / "decode.onnx").string();
    if (!exists(decode))
      return bad_input(
          "{}: expected a folder with decode.onnx, as knapsack export --to onnx writes it; {} is not there", spec.path,
          decode);
    TRY(side.source, onnx_source({.label = label,
                                  .folder = folder.empty() ? "." : folder,
                                  .python = run.python,
                                  .threads = run.threads,
                                  .limit = run.limit,
                                  .stop = run.stop}));
    return side;
  }
  TRY(const Isa isa, choose_isa(spec.isa));
  ThreadPool pool(1);
  Graph imported;
  if (is_onnx(spec.path)) {
    TRY(imported, decoder_from_onnx(spec, pool));
  } else {
    TRY(Imported model, import_model(spec.path, {.ctx = run.ctx}));
    imported = std::move(model.graph);
    side.tokenizer_json = std::move(model.tokenizer_json);
  }
  TRY_VOID(verify(imported));
  TRY(const Graph graph, graph_of(imported, spec, run.ctx, pool));
  TRY_VOID(verify(graph));
  TRY(side.source, graph_source(graph, {.label = label,
                                        .isa = isa,
                                        .exact = spec.exact,
                                        .kv = spec.kv,
                                        .ctx = run.ctx,
                                        .rows = run.rows,
                                        .threads = run.threads}));
  return side;
}

}  // namespace

Result<AlignSide> open_align_side(const AlignSpec& spec, const std::string& label, const AlignRun& run) {
  auto side = open_side(spec, label, run);
  if (!side) return in_words_of_align(side.error());
  return side;
}

}  // namespace knapsack
