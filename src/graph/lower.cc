// lower(): the graph, flattened into a program with its arena planned. One slot a value; states keep one slot for
// all their versions, since kv_write works in place.
#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/arena.h"
#include "graph/graph.h"

namespace knapsack {
namespace {

// Far above any real chunk; keeps rows * columns * 4 within range (columns < 2^31).
constexpr std::int64_t max_rows = std::int64_t{1} << 20;
constexpr std::size_t max_arena = std::size_t{1} << 46;

std::size_t bytes_of(const Slot& slot, const Program& program) {
  const std::int64_t rows = slot.rows == Rows::tokens     ? program.max_tokens
                            : slot.rows == Rows::selected ? program.max_selected
                                                          : slot.fixed_rows();
  return static_cast<std::size_t>(rows * row_bytes(slot.dtype, slot.cols));
}

// The life of each activation slot. Inputs are written before the first op, outputs are read after the last.
Result<void> plan(Program& program, const LowerOptions& options) {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of(program.slots.size(), -1);
  const int end = static_cast<int>(program.ops.size());
  std::size_t total = 0;
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    if (program.slots[i].kind != SlotKind::activation) continue;
    buffer_of[i] = static_cast<int>(buffers.size());
    buffers.push_back(
        {.bytes = bytes_of(program.slots[i], program), .first = options.keep_values ? 0 : end, .last = 0});
    total += buffers.back().bytes;
    if (total > max_arena) return out_of_resource("the values of one step take more than {} TiB", max_arena >> 40);
    if (options.keep_values) buffers.back().last = end;
  }
  const auto live = [&](int slot, int at) {
    if (buffer_of[static_cast<std::size_t>(slot)] < 0) return;
    Buffer& b = buffers[static_cast<std::size_t>(buffer_of[static_cast<std::size_t>(slot)])];
    b.first = std::min(b.first, at);
    b.last = std::max(b.last, at);
  };
  for (const int slot : program.inputs) live(slot, 0);
  for (int at = 0; at < end; ++at) {
    for (const int slot : program.ops[static_cast<std::size_t>(at)].in) live(slot, at);
    for (const int slot : program.ops[static_cast<std::size_t>(at)].out) live(slot, at);
  }
  for (const int slot : program.outputs) live(slot, end);
  const ArenaPlan arena = plan_arena(buffers);
  for (std::size_t i = 0; i < program.slots.size(); ++i)
    if (buffer_of[i] >= 0) program.slots[i].offset = arena.offsets[static_cast<std::size_t>(buffer_of[i])];
  program.arena_bytes = arena.bytes;
  program.arena_lower_bound = arena.lower_bound;
  return {};
}

// Of a static graph the step is its own: as many tokens as its ids, one row of logits.
Result<void> fix_step(const Graph& graph, Program& program) {
  for (const Value& v : graph.values()) {
    if (v.dynamic) return unsupported("'{}' has a dimension that depends on data: there is no program for it", v.name);
    if (v.kind == ValueKind::state && v.dims.size() == 2) {
      if (program.fixed_ctx > 0 && program.fixed_ctx != v.dims[0])
        return bad_input("graph: state '{}' has a context of {}, another one {}", v.name, v.dims[0], program.fixed_ctx);
      program.fixed_ctx = v.dims[0];
    }
  }
  if (graph.tokens().value_or(0) > max_rows)
    return unsupported("a step of {} tokens; at most {} are run", *graph.tokens(), max_rows);
  if (graph.tokens().value_or(tokens_dim) > 0) {
    program.max_tokens = *graph.tokens();
    program.max_selected = 1;
  }
  return {};
}

void cut_runs(StateInfo& state, std::int64_t at) { state.run = std::gcd(state.run, at); }

}  // namespace

Result<std::shared_ptr<const Program>> lower(const Graph& graph, const LowerOptions& options) {
  CHECK(options.max_tokens > 0 && options.max_tokens <= max_rows);
  CHECK(options.max_selected > 0 && options.max_selected <= options.max_tokens);
  TRY_VOID(verify(graph));
  auto program = std::make_shared<Program>();
  program->max_tokens = options.max_tokens;
  program->max_selected = options.max_selected;

  TRY_VOID(fix_step(graph, *program));

  std::vector<int> slot_of(graph.values().size(), -1);
  std::vector<int> state_slot;
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    const Value& v = graph.values()[id];
    if (v.kind == ValueKind::computed && v.state >= 0) continue;
    const int number = static_cast<int>(program->slots.size());
    Slot slot{.name = v.name,
              .rows = !v.symbolic()               ? Rows::fixed
                      : v.dims[0] == selected_dim ? Rows::selected
                                                  : Rows::tokens,
              .dtype = v.dtype,
              .dims = v.dims,
              .cols = v.cols(),
              .transposed = v.transposed};
    if (v.kind == ValueKind::constant) {
      slot.kind = SlotKind::weight;
      slot.index = static_cast<int>(program->weights.size());
      program->weights.push_back(v.weight);
    } else if (v.kind == ValueKind::state) {
      slot.kind = SlotKind::state;
      slot.index = v.state;
      program->states.push_back({.name = v.name, .cols = v.cols(), .run = v.cols(), .channel_first = v.channel_first});
      state_slot.push_back(number);
    } else if (v.kind == ValueKind::input) {
      program->inputs.push_back(number);
    }
    slot_of[id] = number;
    program->slots.push_back(std::move(slot));
  }
  for (std::size_t id = 0; id < slot_of.size(); ++id)
    if (slot_of[id] < 0) slot_of[id] = state_slot[static_cast<std::size_t>(graph.values()[id].state)];

  const auto state_of = [&](const Node& node, std::size_t input) -> StateInfo& {
    return program->states[static_cast<std::size_t>(graph.value(node.inputs[input]).state)];
  };
  for (const Node& node : graph.list()) {
    if (node.op == Op::rope_cached) {
      const Value& table = graph.value(node.inputs[1]);
      if (program->fixed_ctx == 0 || table.dims[0] < program->fixed_ctx)
        return bad_input("graph: node '{}' has a table of {} positions for a context of {}", node.name, table.dims[0],
                         program->fixed_ctx);
    }
    if (node.op == Op::attention) {
      const std::int64_t head_dim = node.attrs.i(Attr::head_dim);
      for (const std::size_t i : {1U, 2U}) state_of(node, i).heads = node.attrs.i(Attr::kv_heads);
      cut_runs(state_of(node, 1), head_dim);
      cut_runs(state_of(node, 2), node.attrs.i(Attr::v_stride, node.attrs.i(Attr::v_dim, head_dim)));
    } else if (node.op == Op::kv_write) {
      cut_runs(state_of(node, 1), node.attrs.i(Attr::col));
      cut_runs(state_of(node, 1), graph.value(node.inputs[0]).cols());
    }
    ProgramOp op{.op = node.op, .name = node.name, .attrs = node.attrs};
    for (const ValueId id : node.inputs) op.in.push_back(slot_of[static_cast<std::size_t>(id)]);
    for (const ValueId id : node.outputs) op.out.push_back(slot_of[static_cast<std::size_t>(id)]);
    program->ops.push_back(std::move(op));
  }
  for (const ValueId id : graph.outputs()) program->outputs.push_back(slot_of[static_cast<std::size_t>(id)]);
  program->logits = program->outputs.front();
  if (graph.tokens()) program->ids = program->inputs.front();
  TRY_VOID(plan(*program, options));
  return std::shared_ptr<const Program>(std::move(program));
}

}  // namespace knapsack
