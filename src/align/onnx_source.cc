#include "align/onnx_source.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/leftovers.h"
#include "base/process.h"
#include "files/npz.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

constexpr const char* script =
#include "align/onnx_runner.inc"
    ;

// For the values of a step, which are handed over as a file.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (path_.empty()) return;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    for (const std::string& path : {path_, values()}) forget_path(path);
  }
  Result<void> make() {
    std::error_code failed;
    const fs::path base = fs::temp_directory_path(failed);
    if (failed) return usage_error("TMPDIR: expected a folder for passing values, found none: {}", failed.message());
    std::string name = (base / "knapsack-align-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      return usage_error("{}: cannot make a folder there, for passing values; set TMPDIR to another: {}", base.string(),
                         std::strerror(errno));
    path_ = std::move(name);
    for (const std::string& path : {path_, values()}) remember_path(path);
    return {};
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  // What onnx_runner.py writes there.
  [[nodiscard]] std::string values() const { return (fs::path(path_) / "step.npz").string(); }

  std::string path_;
};

class OnnxSource final : public Source {
 public:
  explicit OnnxSource(OnnxRun run) : run_(std::move(run)) {}

  Result<void> start() {
    TRY_VOID(scratch_.make());
    auto started = Process::start({run_.python, "-c", script, run_.folder, scratch_.path()},
                                  fmt::format("ONNX Runtime in {}", run_.python));
    if (!started)
      return Error{started.error().code,
                   fmt::format("{}; name another Python (--python, KNAPSACK_PYTHON)", started.error().message)};
    process_ = std::move(*started);
    TRY(const json::object about, ask({{"describe", true}}));
    const std::string& origin = run_.label;
    TRY(vocab_, json_int(about, "vocab", origin, 1, INT32_MAX));
    TRY(longest_, json_int(about, "ctx", origin, 1, INT32_MAX));
    TRY(rows_, json_int(about, "chunk", origin, 1, longest_));
    TRY(const std::string version, json_string(about, "version", origin));
    TRY(const json::array* listed, json_array(about, "nodes", origin));
    std::set<std::string, std::less<>> names;
    for (const json::value& each : *listed) {
      const json::object* node = each.if_object();
      if (node == nullptr) return bad_input("{}: expected nodes as objects, found {}", origin, json_kind(each));
      SourceNode made;
      TRY(made.name, json_string(*node, "name", origin));
      TRY(made.op, json_string(*node, "op", origin));
      TRY(made.cols, json_int(*node, "cols", origin, 1, INT32_MAX));
      TRY(const json::array* inputs, json_array(*node, "inputs", origin));
      for (const json::value& input : *inputs)
        if (const json::string* name = input.if_string()) made.inputs.emplace_back(*name);
      if (!names.insert(made.name).second) return bad_input("{}: two values are called '{}'", origin, made.name);
      nodes_.push_back(std::move(made));
    }
    run_.label = fmt::format("{} (ONNX Runtime {})", run_.label, version);
    return {};
  }

  [[nodiscard]] const std::string& label() const override { return run_.label; }
  [[nodiscard]] std::span<const SourceNode> nodes() const override { return nodes_; }
  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }
  [[nodiscard]] std::int64_t longest() const override { return longest_; }
  [[nodiscard]] std::int64_t rows() const override { return rows_; }
  [[nodiscard]] bool replays() const override { return false; }

  Result<void> prepare(std::span<const std::string> names) override {
    json::array outputs;
    outputs.reserve(names.size());
    for (const std::string& name : names) outputs.emplace_back(name);
    TRY(const json::object done, ask({{"outputs", std::move(outputs)}, {"threads", run_.threads}}));
    return {};
  }

  Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane, const Visit& visit) override {
    json::array listed;
    listed.reserve(ids.size());
    for (const std::int32_t id : ids) listed.emplace_back(id);
    TRY(const json::object made, ask({{"ids", std::move(listed)}, {"first", first}}));
    TRY(const std::string path, json_string(made, "npz", run_.label));
    TRY(const NpzFile file, open_npz(path));
    std::map<std::string_view, const NpyArray*> by_name;
    for (const NpyArray& array : file.arrays) by_name.emplace(array.name, &array);
    std::vector<float> values;
    for (const SourceNode& node : nodes_) {
      const auto at = by_name.find(node.name);
      if (at == by_name.end()) continue;
      const NpyArray& array = *at->second;
      const std::int64_t rows = array.shape.size() == 2 ? array.shape[0] : 0;
      if (!array.floats() || rows < 1 || rows > std::ssize(ids) || array.shape[1] != node.cols)
        return bad_input("{}: '{}': expected up to {} rows of {} floats, found [{}]", run_.label, node.name, ids.size(),
                         node.cols, fmt::join(array.shape, ", "));
      values.resize(static_cast<std::size_t>(rows * node.cols));
      array.floats_at(0, values);
      visit.values(node.name, rows, node.cols, values.data());
    }
    return {};
  }

 private:
  Result<json::object> ask(const json::object& request) {
    TRY(const std::string line, process_->ask(json::serialize(request), run_.limit, run_.stop));
    TRY(json::object answer, parse_json_object(line, fmt::format("{}: the answer of {}", run_.label, run_.python)));
    if (answer.contains("missing")) {
      TRY(const std::string what, json_string(answer, "missing", run_.label));
      return unsupported(
          "{}: {} cannot run ONNX models: {}; `{} -m pip install numpy onnx onnxruntime` adds what is missing, or name "
          "another Python (--python, KNAPSACK_PYTHON)",
          run_.label, run_.python, what, run_.python);
    }
    if (answer.contains("error")) {
      TRY(const std::string what, json_string(answer, "error", run_.label));
      return bad_input("{}: ONNX Runtime: {}", run_.label, what);
    }
    return answer;
  }

  OnnxRun run_;
  Scratch scratch_;  // goes after the process that writes there
  std::unique_ptr<Process> process_;
  std::vector<SourceNode> nodes_;
  std::int64_t vocab_ = 0, longest_ = 0, rows_ = 1;
};

}  // namespace

Result<std::unique_ptr<Source>> onnx_source(const OnnxRun& run) {
  auto source = std::make_unique<OnnxSource>(run);
  TRY_VOID(source->start());
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace knapsack
