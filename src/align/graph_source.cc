#include "align/graph_source.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/threads.h"
#include "program/executor.h"
#include "program/pack.h"

namespace knapsack {
namespace {

// How the elements of a value are those of tokens.
struct Layout {
  std::int64_t cols = 0;
  bool selected = false;  // of the row whose logits are wanted alone
};

// Nothing: its rows are not tokens, or it cannot be told which of its dimensions are.
std::optional<Layout> layout_of(const Value& value, std::int64_t tokens) {
  if (value.symbolic()) return Layout{.cols = value.cols(), .selected = value.dims[0] == selected_dim};
  if (tokens <= 0) return {};
  if (tokens == 1) return Layout{.cols = value.elements()};
  std::span<const std::int64_t> dims = value.dims;
  while (dims.size() > 2 && dims[0] == 1) dims = dims.subspan(1);
  if (dims.size() != 2 || (dims[0] != tokens && dims[0] != 1)) return {};
  return Layout{.cols = dims[1], .selected = dims[0] == 1};
}

class GraphSource final : public Source {
 public:
  GraphSource(const Graph& graph, GraphRun run, KvCache kv)
      : run_(std::move(run)), vocab_(graph.value(graph.output()).cols()), kv_(std::move(kv)) {
    const std::int64_t tokens = std::max<std::int64_t>(graph.tokens().value_or(0), 0);
    if (tokens > 0) run_.rows = tokens;
    padded_ = tokens > 1;
    for (const Node& node : graph.list()) {
      if (node.op == Op::router) {
        choices_.push_back({.name = graph.value(node.outputs[0]).name,
                            .weights = graph.value(node.outputs[1]).name,
                            .scores = graph.value(node.inputs[0]).name});
        if (node.inputs.size() > 1) {
          const Weight& correction = *graph.value(node.inputs[1]).weight;
          choices_.back().correction.assign(correction.f32(), correction.f32() + correction.shape[0]);
        }
      }
      for (const ValueId output : node.outputs) {
        const Value& value = graph.value(output);
        if (value.state >= 0 || value.type() != DType::F32) continue;
        const auto layout = layout_of(value, tokens);
        if (!layout) continue;
        SourceNode made{.name = value.name, .op = std::string(op_info(node.op).text), .attrs = node.attrs};
        made.inputs.reserve(node.inputs.size());
        for (const ValueId input : node.inputs) made.inputs.push_back(graph.value(input).name);
        made.cols = layout->cols;
        if (node.op == Op::linear || node.op == Op::head_linear || node.op == Op::moe) remember_weights(graph, node);
        layouts_.emplace(made.name, *layout);
        nodes_.push_back(std::move(made));
      }
    }
  }

  Result<void> start(std::shared_ptr<const Program> program) {
    try {
      pool_ = std::make_unique<ThreadPool>(run_.threads);
    } catch (const std::system_error& error) {
      return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", run_.threads, error.what());
    }
    if (!run_.exact) {
      TRY(packed_, pack_weights(*program, run_.isa, *pool_, memory_for_weights(kv_)));
    }
    for (const auto& [number, weight] : products_)
      if (packed_ != nullptr && packed_->find(weight) != nullptr) nodes_[number].rounds = rounds_ = true;
    TRY(executor_, Executor::create(std::move(program), kv_, *pool_, run_.isa, packed_.get()));
    const auto rows = static_cast<std::size_t>(run_.rows);
    ids_.resize(rows);
    positions_.resize(rows);
    selected_.resize(rows);
    return {};
  }

  [[nodiscard]] const std::string& label() const override { return run_.label; }
  [[nodiscard]] std::span<const SourceNode> nodes() const override { return nodes_; }
  [[nodiscard]] std::span<const SourceChoice> choices() const override { return choices_; }
  [[nodiscard]] std::string_view arithmetic() const override { return isa_name(run_.isa); }
  [[nodiscard]] std::string how() const override {
    return fmt::format("{} instructions, {}, KV cache in {}", isa_name(run_.isa),
                       rounds_ ? "integer products of activations in 8 bits" : "float products", name(run_.kv));
  }
  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }
  [[nodiscard]] std::int64_t longest() const override { return run_.ctx; }
  [[nodiscard]] std::int64_t rows() const override { return run_.rows; }
  [[nodiscard]] bool replays() const override { return true; }

  Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane lane, const Visit& visit) override {
    const auto most = static_cast<std::size_t>(run_.rows);
    const auto count = static_cast<std::int64_t>(ids.size());
    CHECK(ids.size() <= most);
    // What stands behind the tokens is written over before it is read.
    const std::size_t tokens = padded_ ? most : ids.size();
    std::fill(std::copy(ids.begin(), ids.end(), ids_.begin()), ids_.end(), 0);
    std::iota(positions_.begin(), positions_.end(), static_cast<std::int32_t>(first));
    slots_.assign(most, lane == Lane::free ? 0 : 1);
    std::iota(selected_.begin(), selected_.end(), 0);
    if (padded_) selected_[0] = static_cast<std::int32_t>(count - 1);
    Tap values = [&](std::string_view name, std::int64_t, std::int64_t, float* data) {
      const auto at = layouts_.find(name);
      if (at == layouts_.end()) return;
      visit.values(name, padded_ && at->second.selected ? 1 : count, at->second.cols, data);
    };
    ChoiceTap choices;
    if (visit.choices)
      choices = [&](std::string_view name, std::int64_t, std::int64_t cols, std::int32_t* data) {
        visit.choices(name, count, cols, data);
      };
    executor_->set_tap(std::move(values), std::move(choices));
    executor_->run({.ids = std::span(ids_).first(tokens),
                    .positions = std::span(positions_).first(tokens),
                    .slots = std::span(slots_).first(tokens),
                    .selected = std::span(selected_).first(padded_ ? 1 : tokens)});
    executor_->set_tap({});
    return {};
  }

 private:
  // For start(): before that nothing is packed.
  void remember_weights(const Graph& graph, const Node& node) {
    for (const ValueId input : node.inputs)
      if (const auto& weight = graph.value(input).weight) products_.emplace_back(nodes_.size(), weight.get());
  }

  GraphRun run_;
  std::vector<SourceNode> nodes_;
  std::vector<SourceChoice> choices_;
  std::map<std::string, Layout, std::less<>> layouts_;           // by name
  std::vector<std::pair<std::size_t, const Weight*>> products_;  // numbers of nodes, and what they multiply with
  bool rounds_ = false;                                          // some of them are of integers
  std::int64_t vocab_;
  bool padded_ = false;  // steps are of run_.rows tokens, no less
  KvCache kv_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<PackedWeights> packed_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::int32_t> ids_, positions_, slots_, selected_;
};

}  // namespace

Result<std::unique_ptr<Source>> graph_source(const Graph& graph, const GraphRun& run) {
  CHECK(run.rows > 0 && run.ctx > 0);
  TRY(auto program, lower(graph, {.max_tokens = run.rows, .max_selected = run.rows}));
  const std::int64_t fixed = program->fixed_ctx;
  CHECK(fixed == 0 || fixed >= run.ctx + program->max_tokens - 1);
  TRY(auto kv, KvCache::create(program->states, 2, fixed > 0 ? fixed : run.ctx, run.kv));
  auto source = std::make_unique<GraphSource>(graph, run, std::move(kv));
  TRY_VOID(source->start(std::move(program)));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace knapsack
