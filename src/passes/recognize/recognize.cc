#include "passes/recognize/recognize.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/rewrite.h"
#include "passes/recognize/apart.h"
#include "passes/recognize/names.h"
#include "passes/recognize/rules.h"

namespace knapsack {
namespace {

using recognition::Along;
using recognition::Builder;
using recognition::Form;
using recognition::Kind;
using recognition::Rules;

// The logits; the other outputs are caches.
Result<ValueId> logits_of(const Graph& graph, Rules& rules) {
  ValueId logits = -1;
  for (const ValueId id : graph.outputs()) {
    const Form& form = rules.form(id);
    const std::string& name = graph.value(id).name;
    if (form.kind == Kind::unknown)
      return unsupported("output '{}': {}", name, form.why.empty() ? "it is made of nothing" : form.why);
    const bool rows = form.kind == Kind::grid || form.kind == Kind::function;
    if (!rows) return unsupported("output '{}' is neither logits nor a cache", name);
    if (form.grid->along == Along::cache) continue;
    if (logits < 0) {
      rules.builder().at(name);
      auto made = rules.rows(form);
      if (!made) return unsupported("output '{}': {}", name, made.error().message);
      logits = *made;
      continue;
    }
    // What the step adds to a cache that has no past.
    const auto& caches = rules.builder().caches();
    const auto is_kept = [&](ValueId x) {
      return std::any_of(caches.begin(), caches.end(), [&](const auto& c) { return c.x == x; });
    };
    bool kept = form.grid->parts.size() != 1 || is_kept(form.grid->parts[0].columns[0].base);
    if (!kept) {  // some columns of a product
      const auto x = rules.rows(form);
      kept = x && is_kept(*x);
    }
    if (!kept) return unsupported("output '{}' is neither logits nor a cache", name);
  }
  if (logits < 0) return unsupported("no output has logits");
  return logits;
}

// What is row by row behind the last sum is done for selected rows alone: those nodes, from the logits back.
std::vector<const Node*> tail_of(const Graph& graph, ValueId logits) {
  const Uses uses(graph);
  std::vector<const Node*> tail;
  for (ValueId id = logits; uses.maker[static_cast<std::size_t>(id)] >= 0;) {
    const Node& node = graph.list()[static_cast<std::size_t>(uses.maker[static_cast<std::size_t>(id)])];
    const bool by_row = node.op == Op::linear || node.op == Op::rms_norm || node.op == Op::softcap ||
                        node.op == Op::scale || node.op == Op::gather_cols;
    if (!by_row || (id != logits && uses.readers[static_cast<std::size_t>(id)].size() > 1)) break;
    tail.push_back(&node);
    id = node.inputs[0];
  }
  return tail;
}

std::shared_ptr<const Weight> renamed(const std::shared_ptr<const Weight>& weight, const std::string& name) {
  Weight made = *weight;
  made.name = name;
  return std::make_shared<const Weight>(std::move(made));
}

class Finisher {
 public:
  Finisher(const Graph& from, ValueId logits) : from_(from), logits_(logits) {
    mark(logits);
    const auto& nodes = from.list();
    selected_ = std::any_of(nodes.begin(), nodes.end(),
                            [&](const Node& n) { return n.op == Op::select_rows && live(n.outputs[0]); });
    if (!selected_) tail_ = tail_of(from, logits);
  }

  Graph run() {
    Graph pruned = copy(recognition::Names{});
    // Names are told for the graph as it is used.
    const recognition::Names by_pruned = recognition::names_of(pruned);
    recognition::Names names;
    for (std::size_t i = 0; i < from_.values().size(); ++i) {
      const auto to = map_[i];
      if (to < 0) continue;
      const auto id = static_cast<ValueId>(i);
      if (const auto at = by_pruned.values.find(to); at != by_pruned.values.end()) names.values[id] = at->second;
      if (const auto at = by_pruned.constants.find(to); at != by_pruned.constants.end())
        names.constants[id] = at->second;
    }
    return copy(names);
  }

  [[nodiscard]] ValueId of(ValueId old) const { return map_[static_cast<std::size_t>(old)]; }
  // A node of the decoder's that reads it.
  [[nodiscard]] const Node* reader(ValueId id) const {
    for (const Node& node : from_.list())
      if (live(node.outputs[0]) && std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end())
        return &node;
    return nullptr;
  }

 private:
  void mark(ValueId id) {
    wanted_.resize(from_.values().size(), false);
    wanted_[static_cast<std::size_t>(id)] = true;
    for (std::size_t i = from_.list().size(); i-- > 0;) {
      const Node& node = from_.list()[i];
      const bool used = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId o) { return live(o); });
      if (!used) continue;
      for (const ValueId o : node.outputs) wanted_[static_cast<std::size_t>(o)] = true;
      for (const ValueId input : node.inputs) wanted_[static_cast<std::size_t>(input)] = true;
    }
  }
  [[nodiscard]] bool live(ValueId id) const { return wanted_[static_cast<std::size_t>(id)]; }

  static std::string free_name(const Graph& graph, const std::string& name) {
    if (graph.find(name) < 0) return name;
    for (int i = 2;; ++i)
      if (std::string next = fmt::format("{}.{}", name, i); graph.find(next) < 0) return next;
  }

  Graph copy(const recognition::Names& names) {
    Graph to;
    map_.assign(from_.values().size(), -1);
    const auto name_of = [&](ValueId id, const std::string& own) {
      const auto at = names.values.find(id);
      // What stands behind '#' told nodes of one origin apart.
      return free_name(to, at != names.values.end() ? at->second : own.substr(0, own.rfind('#')));
    };
    const auto is_ours = [](const std::string& own) { return own.rfind("rope.", 0) == 0; };
    for (std::size_t i = 0; i < from_.values().size(); ++i) {
      const Value& v = from_.values()[i];
      if (!wanted_[i]) continue;
      if (v.kind == ValueKind::input) map_[i] = to.input(v.name, v.dtype, v.dims);
    }
    const auto input = [&](ValueId id) {
      ValueId& made = map_[static_cast<std::size_t>(id)];
      if (made >= 0) return made;
      const Value& v = from_.value(id);
      if (v.kind == ValueKind::state) {
        made = to.state(name_of(id, v.name), v.cols());
        return made;
      }
      CHECK(v.kind == ValueKind::constant);
      const auto at = names.constants.find(id);
      const std::string& own = v.weight->name;
      const bool keeps =
          is_ours(own) || own.rfind("model.", 0) == 0 || own.rfind("lm_head.", 0) == 0 || at == names.constants.end();
      made = to.constant(renamed(v.weight, free_name(to, keeps ? own.substr(0, own.rfind('#')) : at->second)));
      return made;
    };
    for (const Node& node : from_.list()) {
      if (!live(node.outputs[0])) continue;
      std::vector<ValueId> inputs;
      inputs.reserve(node.inputs.size());
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        ValueId id = input(node.inputs[i]);
        if (i == 0 && !tail_.empty() && tail_.back() == &node) id = select(to, id);
        inputs.push_back(id);
      }
      std::vector<std::string> outputs;
      outputs.reserve(node.outputs.size());
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const std::string first = outputs.empty() ? std::string{} : outputs[0];
        outputs.push_back(i == 0 ? name_of(node.outputs[0], node.name) : fmt::format("{}.{}", first, i));
      }
      const auto made = to.nodes(node.op, std::move(outputs), std::move(inputs), node.attrs);
      for (std::size_t i = 0; i < made.size(); ++i) map_[static_cast<std::size_t>(node.outputs[i])] = made[i];
    }
    ValueId logits = map_[static_cast<std::size_t>(logits_)];
    if (!selected_ && tail_.empty()) logits = select(to, logits);  // no product behind: the rows themselves
    to.set_output(logits);
    return to;
  }

  static ValueId select(Graph& to, ValueId id) { return to.node(Op::select_rows, free_name(to, "selected"), {id}); }

  const Graph& from_;
  ValueId logits_;
  bool selected_ = false;            // the imported graph takes the last row itself
  std::vector<const Node*> tail_{};  // otherwise: what is done for selected rows alone
  std::vector<bool> wanted_;
  std::vector<ValueId> map_;
};

}  // namespace

Result<Recognised> recognize_decoder(const Graph& imported, bool data) {
  TRY(const recognition::Inputs given, recognition::inputs_of(imported));
  const Graph graph = recognition::with_heads_apart(imported, given.tokens);
  TRY(const recognition::Inputs inputs, recognition::inputs_of(graph));
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < inputs.tokens; ++i) positions.push_back(inputs.past + i);
  recognition::Angles angles(positions);
  Builder builder(data, angles);
  Rules rules(graph, inputs, builder, angles);
  rules.run();
  TRY(const ValueId logits, logits_of(graph, rules));
  Finisher finisher(builder.graph(), logits);
  for (const auto& [constant, experts] : builder.stand_ins())
    if (const Node* reader = finisher.reader(constant))
      return unsupported("output 'logits': node '{}': matrices of chosen experts for something else than a sum of them",
                         reader->name.substr(0, reader->name.rfind('#')));
  Recognised made{.graph = finisher.run(), .tokens = inputs.tokens, .past = inputs.past, .caches = {}, .note = {}};
  for (const Builder::CacheInfo& info : builder.caches()) {
    if (info.past.empty() || finisher.of(info.write) < 0) continue;
    Recognised::Cache& cache =
        made.caches.emplace_back(Recognised::Cache{info.past, inputs.axes.at(graph.find(info.past)), {}});
    for (const ValueId part : info.parts) cache.writes.push_back(made.graph.value(finisher.of(part)).name);
  }
  if (rules.keeps_whole_keys())
    made.note =
        "latent attention stays with whole keys and values, which are what its cache inputs hold; exported without a "
        "cache it becomes the latent one";
  TRY_VOID(verify(made.graph));
  return made;
}

}  // namespace knapsack
