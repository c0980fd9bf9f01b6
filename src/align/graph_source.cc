#include "align/graph_source.h"

#include <algorithm>
#include <numeric>
#include <system_error>

#include "base/threads.h"
#include "program/executor.h"
#include "program/pack.h"

namespace knapsack {
namespace {

std::vector<SourceNode> float_values(const Graph& graph) {
  std::vector<SourceNode> nodes;
  for (const Node& node : graph.list())
    for (const ValueId output : node.outputs) {
      const Value& value = graph.value(output);
      if (value.state >= 0 || value.dtype != DType::F32) continue;
      SourceNode made{.name = value.name, .op = std::string(op_info(node.op).text), .attrs = node.attrs};
      for (const ValueId input : node.inputs) made.inputs.push_back(graph.value(input).name);
      made.cols = value.cols();
      nodes.push_back(std::move(made));
    }
  return nodes;
}

class GraphSource final : public Source {
 public:
  GraphSource(const Graph& graph, GraphRun run, KvCache kv)
      : run_(std::move(run)),
        nodes_(float_values(graph)),
        vocab_(graph.value(graph.output()).cols()),
        kv_(std::move(kv)) {}

  Result<void> start(std::shared_ptr<const Program> program) {
    try {
      pool_ = std::make_unique<ThreadPool>(run_.threads);
    } catch (const std::system_error& error) {
      return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", run_.threads, error.what());
    }
    if (!run_.exact) {
      TRY(packed_, pack_weights(*program, run_.isa, *pool_, memory_for_weights(kv_)));
    }
    TRY(executor_, Executor::create(std::move(program), kv_, *pool_, run_.isa, packed_.get()));
    const auto rows = static_cast<std::size_t>(run_.rows);
    positions_.resize(rows);
    selected_.resize(rows);
    std::iota(selected_.begin(), selected_.end(), 0);
    return {};
  }

  [[nodiscard]] const std::string& label() const override { return run_.label; }
  [[nodiscard]] std::span<const SourceNode> nodes() const override { return nodes_; }
  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }
  [[nodiscard]] std::int64_t longest() const override { return run_.ctx; }
  [[nodiscard]] bool replays() const override { return true; }

  Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane lane, const Visit& visit) override {
    const auto most = static_cast<std::size_t>(run_.rows);
    CHECK(ids.size() <= most);
    std::iota(positions_.begin(), positions_.end(), static_cast<std::int32_t>(first));
    slots_.assign(most, lane == Lane::free ? 0 : 1);
    executor_->set_tap(visit);
    executor_->run({.ids = ids,
                    .positions = std::span(positions_).first(ids.size()),
                    .slots = std::span(slots_).first(ids.size()),
                    .selected = std::span(selected_).first(ids.size())});
    executor_->set_tap({});
    return {};
  }

 private:
  GraphRun run_;
  std::vector<SourceNode> nodes_;
  std::int64_t vocab_;
  KvCache kv_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<PackedWeights> packed_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::int32_t> positions_, slots_, selected_;
};

}  // namespace

Result<std::unique_ptr<Source>> graph_source(const Graph& graph, const GraphRun& run) {
  CHECK(run.rows > 0 && run.ctx > 0);
  TRY(auto program, lower(graph, {.max_tokens = run.rows, .max_selected = run.rows}));
  TRY(auto kv, KvCache::create(program->states, 2, run.ctx, run.kv));
  auto source = std::make_unique<GraphSource>(graph, run, std::move(kv));
  TRY_VOID(source->start(std::move(program)));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace knapsack
