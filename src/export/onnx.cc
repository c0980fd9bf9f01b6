#include "export/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "base/check.h"
#include "export/onnx_builder.h"
#include "export/onnx_decoder_rows.h"
#include "files/onnx_writer.h"
#include "graph/decompose/decompose.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

std::string data_name(const std::string& folder) { return (fs::path(folder) / "weights.data").string(); }

// In primitives, but for what contrib ops can say. notes: what they could not, once each.
Graph static_graph(const Graph& graph, std::int64_t tokens, const OnnxExportOptions& options,
                   std::map<std::string, std::int64_t>& notes) {
  DecomposeOptions how{.tokens = tokens, .kv = KvForm::indexed, .ctx = options.ctx, .floats = options.floats};
  if (options.contrib) {
    for (const Node& node : graph.list()) {
      if (node.op != Op::rms_norm && node.op != Op::rope && node.op != Op::attention) continue;
      const auto why = contrib_refusal(graph, node);
      if (!why.empty()) ++notes[fmt::format("{} in primitive operators: {}", op_info(node.op).text, why)];
    }
    how.decomposes = [&graph](const Node& node) { return !contrib_refusal(graph, node).empty(); };
  }
  return decompose(graph, how);
}

std::vector<std::pair<std::string, std::int64_t>> counted(const OnnxGraph& graph) {
  std::map<std::string, std::int64_t> counts;
  for (const OnnxNode& node : graph.nodes) ++counts[node.op_type];
  std::vector<std::pair<std::string, std::int64_t>> out(counts.begin(), counts.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

std::string text(std::uint64_t bytes) {
  constexpr double mib = 1024.0 * 1024.0;
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / mib);
}

}  // namespace

std::vector<std::string> onnx_files(const std::string& folder) {
  return {(fs::path(folder) / "prefill.onnx").string(), (fs::path(folder) / "decode.onnx").string(), data_name(folder)};
}

Result<OnnxExport> export_onnx(const Graph& graph, const std::string& folder, const OnnxExportOptions& options,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  CHECK(options.ctx > 0 && options.chunk > 0 && options.ctx % options.chunk == 0);
  CHECK(options.opset == 17 || options.opset == 21);
  const OnnxForm form{.opset = options.opset, .floats = options.floats};
  const auto files = onnx_files(folder);
  OnnxExport out;
  out.data_path = files[2];
  std::map<std::string, std::int64_t> notes;
  std::vector<Graph> graphs;  // constants are theirs
  std::vector<OnnxDraft> drafts;
  for (const std::int64_t tokens : {options.chunk, std::int64_t{1}}) {
    notes.clear();  // the same for both
    graphs.push_back(static_graph(graph, tokens, options, notes));
    drafts.push_back(draft_onnx(graphs.back(), form));
    auto& metadata = drafts.back().model.metadata;
    metadata = options.metadata;
    metadata.emplace_back("knapsack.ctx", std::to_string(options.ctx));
    metadata.emplace_back("knapsack.tokens", std::to_string(tokens));
    OnnxExport::Model& made = out.models.emplace_back();
    made.path = files[out.models.size() - 1];
    made.tokens = tokens;
  }
  for (const auto& [note, count] : notes) out.notes.push_back(fmt::format("{} nodes of {}", count, note));

  std::set<std::string> seen;
  std::uint64_t total = 0;
  for (const OnnxDraft& draft : drafts)
    for (const OnnxConstant& each : draft.constants)
      if (each.size() >= onnx_inline_limit && seen.insert(each.name).second) total += each.size();
  std::error_code failed;
  const auto space = fs::space(folder, failed);
  if (!failed && space.available < total)
    return out_of_resource(
        "{}: the weights take {}, the disk has room for {}: free some, or export with fewer bytes a "
        "weight (--precision fp16)",
        folder, text(total), text(space.available));

  TRY(OnnxDataFile data, OnnxDataFile::create(files[2], {.existing = options.existing}));
  std::uint64_t before = 0;
  for (OnnxDraft& draft : drafts) {
    std::uint64_t now = 0;
    TRY(draft.model.graph.initializers, write_constants(draft.constants, data, [&](std::uint64_t done) {
          now = done;
          progress(before + done, total);
        }));
    before += now;
  }
  // All of it lies aside before the first file takes its name, and no model of before stands beside weights of now: a
  // process that is killed in between leaves no models, never two halves.
  std::vector<AtomicFile> staged;
  staged.reserve(options.beside.size() + drafts.size());
  const auto stage = [&](const std::string& path, const std::string& bytes) -> Result<void> {
    TRY(AtomicFile file, AtomicFile::create(path, options.existing));
    TRY_VOID(file.write(bytes));
    staged.push_back(std::move(file));
    return {};
  };
  for (const auto& [name, bytes] : options.beside) TRY_VOID(stage((fs::path(folder) / name).string(), bytes));
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    OnnxModel& model = drafts[i].model;
    OnnxExport::Model& made = out.models[i];
    TRY(const std::string encoded, encode_onnx(model, made.path));
    TRY_VOID(stage(made.path, encoded));
    made.bytes = encoded.size();
    made.nodes = counted(model.graph);
    made.inputs = model.graph.inputs;
    made.outputs = model.graph.outputs;
  }
  if (options.existing == Existing::replaced)
    for (const OnnxExport::Model& made : out.models)
      if (!fs::remove(made.path, failed) && failed)
        return usage_error("{}: cannot be replaced: {}", made.path, failed.message());
  TRY_VOID(data.commit());
  for (AtomicFile& file : staged) TRY_VOID(file.commit());
  out.data_bytes = fs::file_size(out.data_path, failed);
  out.disk_bytes = total;
  return out;
}

}  // namespace knapsack
