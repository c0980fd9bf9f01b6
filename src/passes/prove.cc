#include "passes/prove.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "base/limits.h"
#include "graph/run.h"
#include "passes/recognize/inputs.h"
#include "passes/recognize/recognize.h"
#include "program/executor.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

constexpr std::int64_t free_ctx = 64;  // of graphs whose context is not fixed
constexpr std::int64_t free_step = 4;  // and whose steps are not
constexpr std::int64_t random_steps = 3;

std::int64_t ctx_of(const Graph& graph) {
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::state && v.dims.size() == 2) return v.dims[0];
  return 0;
}

Result<Proof> compare(std::span<const float> a, std::span<const float> b, double tolerance, std::string_view of) {
  CHECK(a.size() == b.size());
  double error = 0;
  double norm = 0;
  std::int64_t finite = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      const bool counts = std::isfinite(a[i]);
      norm += counts ? static_cast<double>(a[i]) * a[i] : 0;
      finite += counts ? 1 : 0;
      continue;
    }
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return bad_input("number {} of {} is {}, and was {}", i, of, b[i], a[i]);
    const double distance = static_cast<double>(b[i]) - a[i];
    error += distance * distance;
    ++finite;
    norm += static_cast<double>(a[i]) * a[i];
  }
  Proof proof{.rel_l2 = norm > 0    ? std::sqrt(error / norm)
                        : error > 0 ? HUGE_VAL
                                    : 0,
              .values = static_cast<std::int64_t>(a.size()),
              .finite = finite};
  if (proof.rel_l2 > tolerance)
    return bad_input("{} differs by {:.3g} (relative L2; {:.3g} is allowed)", of, proof.rel_l2, tolerance);
  return proof;
}

void add(Proof& all, const Proof& one) {
  all.rel_l2 = std::max(all.rel_l2, one.rel_l2);
  all.values += one.values;
  all.finite += one.finite;
}

// Of one step of a graph whose shapes are fixed, or of one token. attended: positions of the cache that a token may
// see.
double products_of(const Graph& graph, std::int64_t attended) {
  const double tokens = static_cast<double>(std::max<std::int64_t>(graph.tokens().value_or(1), 1));
  double sum = 0;
  for (const Node& node : graph.list()) {
    if (node.op == Op::attention) {
      const Value& made = graph.value(node.outputs[0]);
      const double cols = static_cast<double>(graph.value(node.inputs[0]).cols() + made.cols());
      sum += (made.symbolic() ? 1 : tokens) * static_cast<double>(attended) * cols;
    }
    if (op_info(node.op).cls != OpClass::matrix) continue;
    const Value& w = graph.value(node.inputs[node.op == Op::moe ? 3 : 1]);
    const Value& made = graph.value(node.outputs[0]);
    if (op_info(node.op).primitive) {
      const auto each = node.op == Op::Conv            ? w.elements() / w.dims[0]
                        : node.op == Op::ConvTranspose ? w.elements() / w.dims[1]
                                                       : graph.value(node.inputs[0]).cols();
      sum += static_cast<double>(made.elements()) * static_cast<double>(each);
    } else {
      const double rows = made.symbolic() ? 1 : tokens;
      const double share = node.op == Op::moe ? 3.0 * static_cast<double>(node.attrs.i(Attr::top_k)) /
                                                    static_cast<double>(w.weight->shape[0])
                                              : 1;
      sum += rows * share * static_cast<double>(w.elements());
    }
  }
  return sum;
}

// A decoder's sequences, in steps of `step` tokens, and the context that holds them.
struct Sequences {
  std::int64_t step = 0, ctx = 0;
  std::vector<std::vector<std::int32_t>> ids{};  // the last one is random
};

Result<Sequences> sequences_of(const Graph& before, const Graph& after, const ProveOptions& options) {
  const std::int64_t fixed = std::max(before.tokens().value_or(0), after.tokens().value_or(0));
  const std::int64_t wanted = options.tokens > 0 ? options.tokens : free_step;
  Sequences out{.step = fixed > 0 ? fixed : wanted};
  const std::int64_t known = std::max(ctx_of(before), ctx_of(after));
  const std::int64_t enough = std::max(free_ctx, random_steps * out.step);
  out.ctx = known > 0 ? known : options.ctx > 0 ? options.ctx : enough;
  double a_step = 0;
  for (const Graph* graph : {&before, &after})
    a_step = std::max(a_step, products_of(*graph, std::min(out.ctx, enough)) *
                                  static_cast<double>(graph->tokens().value_or(0) > 0 ? 1 : out.step));
  if (a_step > options.most_products)
    return out_of_resource(
        "one step of {} tokens takes {:.2g} multiply-adds, more than the {:.2g} of a proof; use a smaller --tokens",
        out.step, a_step, options.most_products);
  auto steps = static_cast<std::int64_t>(std::min(options.most_products / std::max(a_step, 1.0), 1e6));
  const std::int64_t vocab = after.value(after.output()).cols();
  const auto take = [&](std::int64_t most) {
    const std::int64_t count = std::min({most, steps, out.ctx / out.step});
    steps -= count;
    return count * out.step;
  };
  // Random ids first: they are always there.
  std::mt19937_64 random(options.seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(take(random_steps)));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  for (const auto& prompt : options.prompts) {
    if (prompt.empty()) continue;
    const std::int64_t length = take(std::max<std::int64_t>(std::ssize(prompt) / out.step, 1));
    std::vector<std::int32_t> repeated;
    repeated.reserve(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i) repeated.push_back(prompt[static_cast<std::size_t>(i) % prompt.size()]);
    if (length > 0) out.ids.push_back(std::move(repeated));
  }
  out.ids.push_back(std::move(ids));
  return out;
}

// Of the cache and of a step's values, before they are asked for.
Result<void> has_room(const Graph& graph, const Sequences& sequences) {
  TRY(const auto program, lower(graph, {.max_tokens = sequences.step}));
  double cache = 0;
  const auto ctx = static_cast<double>(std::max(program->fixed_ctx, std::ssize(sequences.ids.back())));
  for (const StateInfo& state : program->states) cache += static_cast<double>(state.cols) * ctx * sizeof(float);
  const auto values = static_cast<double>(program->arena_bytes);
  const auto room = static_cast<double>(memory_limit());
  constexpr double mib = 1024.0 * 1024.0;
  if (cache + values <= room) return {};
  return out_of_resource("a proof takes {:.0f} MiB for {} and there are {:.0f} MiB; use a smaller --{}",
                         (cache + values) / mib, cache > values ? "the KV cache in f32" : "the values of a step",
                         room / mib, cache > values ? "ctx" : "tokens");
}

Result<Proof> prove_decoder(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool,
                            Outcome& known) {
  TRY(const Sequences sequences, sequences_of(before, after, options));
  const auto run = [&](const Graph& graph) -> Result<std::vector<std::vector<float>>> {
    TRY_VOID(has_room(graph, sequences));
    std::vector<std::vector<float>> made;
    made.reserve(sequences.ids.size());
    for (const auto& ids : sequences.ids) {
      const std::int64_t fixed = ctx_of(graph);
      TRY(auto logits, run_decoder(graph, ids, sequences.step, fixed > 0 ? fixed : std::ssize(ids), pool));
      made.push_back(std::move(logits));
    }
    return made;
  };
  std::string inputs = fmt::format("{} {}", sequences.step, options.seed);
  for (const auto& ids : sequences.ids) inputs += fmt::format(" [{}]", fmt::join(ids, ","));
  if (known.inputs != inputs) {
    TRY(known.outputs, run(before));
    known.inputs = std::move(inputs);
  }
  TRY(auto made, run(after));
  Proof proof;
  for (std::size_t i = 0; i < made.size(); ++i) {
    TRY(const Proof one, compare(known.outputs[i], made[i], options.tolerance,
                                 i + 1 == made.size() ? "the logits of random ids" : "the logits of a prompt"));
    add(proof, one);
  }
  known.outputs = std::move(made);
  return proof;
}

std::vector<float> floats_of(std::span<const std::byte> bytes, DType dtype) {
  const FormatInfo& f = format(dtype);
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(f.block_bytes));
  f.decode(bytes.data(), values.data(), static_cast<std::int64_t>(values.size()));
  return values;
}

// Inputs of any graph: floats around 0, whole numbers that are small indices, truth.
std::vector<std::byte> random_input(const Value& value, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(static_cast<std::size_t>(value.elements() * format(value.dtype).block_bytes));
  for (std::int64_t i = 0; i < value.elements(); ++i) {
    const auto put = [&](auto number) {
      std::memcpy(bytes.data() + i * std::int64_t{sizeof number}, &number, sizeof number);
    };
    const float x = normal(random);
    if (value.dtype == DType::F32) put(x);
    if (value.dtype == DType::F16) put(float_to_half(x));
    if (value.dtype == DType::F64) put(static_cast<double>(x));
    if (value.dtype == DType::I64) put(static_cast<std::int64_t>(random() % 8));
    if (value.dtype == DType::I32) put(static_cast<std::int32_t>(random() % 8));
    if (value.dtype == DType::BOOL) put(static_cast<std::uint8_t>(random() % 2));
  }
  return bytes;
}

Result<std::vector<std::vector<float>>> floats_made(const Graph& graph,
                                                    const std::vector<std::vector<std::byte>>& inputs,
                                                    ThreadPool& pool) {
  TRY(const auto made, run_tensors(graph, std::vector<std::span<const std::byte>>(inputs.begin(), inputs.end()), pool));
  std::vector<std::vector<float>> outputs;
  outputs.reserve(made.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    outputs.push_back(floats_of(made[i], graph.value(graph.outputs()[i]).dtype));
  return outputs;
}

// Of what a run takes and makes, before it is asked for.
Result<void> has_room(const Graph& graph) {
  TRY(const auto program, lower(graph, {}));
  auto bytes = static_cast<double>(program->arena_bytes);
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::input)
      bytes += static_cast<double>(v.elements()) * static_cast<double>(format(v.dtype).block_bytes);
  constexpr double copies = 3;  // bytes, and the floats of before and after
  for (const ValueId id : graph.outputs())
    bytes += copies * static_cast<double>(graph.value(id).elements()) * sizeof(float);
  const auto room = static_cast<double>(memory_limit());
  constexpr double mib = 1024.0 * 1024.0;
  if (bytes <= room) return {};
  return out_of_resource(
      "a proof takes {:.0f} MiB for values and there are {:.0f} MiB; pin smaller sizes (--dim, --input)", bytes / mib,
      room / mib);
}

Result<Proof> prove_tensors(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool,
                            Outcome& known) {
  for (const Graph* graph : {&before, &after})
    if (const double products = products_of(*graph, 0); products > options.most_products)
      return out_of_resource(
          "a run takes {:.2g} multiply-adds, more than the {:.2g} of a proof; pin smaller sizes (--dim, --input)",
          products, options.most_products);
  for (const Graph* graph : {&before, &after}) TRY_VOID(has_room(*graph));
  std::mt19937_64 random(options.seed);
  Proof proof;
  std::vector<std::vector<std::byte>> inputs;
  for (const Value& v : before.values())
    if (v.kind == ValueKind::input) inputs.push_back(random_input(v, random));
  std::string named = fmt::format("tensors {}", options.seed);
  if (known.inputs != named) {
    TRY(known.outputs, floats_made(before, inputs, pool));
    known.inputs = std::move(named);
  }
  TRY(auto made, floats_made(after, inputs, pool));
  const auto& a = known.outputs;
  if (a.size() != made.size()) return bad_input("there are {} outputs, and were {}", made.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string& name = before.value(before.outputs()[i]).name;
    if (a[i].size() != made[i].size()) return bad_input("output '{}' has another size", name);
    TRY(const Proof one, compare(a[i], made[i], options.tolerance, fmt::format("output '{}'", name)));
    add(proof, one);
  }
  known.outputs = std::move(made);
  return proof;
}

// The first output of `before` that has the decoder's logits for all of the step's tokens, or for the last alone.
Result<std::vector<float>> logits_of(const Graph& before, const std::vector<std::vector<std::byte>>& outputs,
                                     std::int64_t tokens, std::int64_t vocab) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Value& v = before.value(before.outputs()[i]);
    if (v.cols() == vocab && (v.elements() == tokens * vocab || v.elements() == vocab))
      return floats_of(outputs[i], v.dtype);
  }
  return bad_input("no output has {} logits", vocab);
}

// What a cache keeps of `past` tokens, one row each.
std::vector<float> rows_of(const Recognised::Cache& cache,
                           const std::map<std::string, std::vector<float>, std::less<>>& kept, std::int64_t past) {
  std::vector<float> rows;
  for (std::int64_t t = 0; t < past; ++t)
    for (const std::string& write : cache.writes) {
      const std::vector<float>& part = kept.at(write);
      const auto cols = static_cast<std::ptrdiff_t>(part.size()) / past;
      rows.insert(rows.end(), part.begin() + t * cols, part.begin() + (t + 1) * cols);
    }
  return rows;
}

// What is imported rounds to its type behind each node, the decoder does not: of a graph that computes in halves more
// is allowed.
double allowed(const Graph& before, double tolerance) {
  constexpr double halves = 5e-3;
  const auto& values = before.values();
  const bool rounds = std::any_of(values.begin(), values.end(), [](const Value& v) {
    return v.kind == ValueKind::computed && (v.dtype == DType::F16 || v.dtype == DType::BF16);
  });
  return rounds ? std::max(tolerance, halves) : tolerance;
}

// A graph of one step behind a given past, and the decoder that it was recognised as: the decoder runs over the past,
// what it keeps of that goes into the graph's caches, then both make the logits of the step.
Result<Proof> prove_recognised(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool) {
  TRY(const Recognised recognised, recognize_decoder(before, false));
  TRY(const recognition::Inputs inputs, recognition::inputs_of(before));
  const std::int64_t past = recognised.past;
  const std::int64_t tokens = recognised.tokens;
  const std::int64_t vocab = after.value(after.output()).cols();
  std::mt19937_64 random(options.seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(past + tokens));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));

  TRY(auto program, lower(after, {.max_tokens = std::max(past, tokens), .max_selected = tokens}));
  TRY(auto kv, KvCache::create(program->states, 1, past + tokens, DType::F32));
  TRY(auto executor, Executor::create(program, kv, pool, Isa::scalar));
  std::map<std::string, std::vector<float>, std::less<>> kept;
  for (const Recognised::Cache& cache : recognised.caches)
    for (const std::string& write : cache.writes) kept[write];
  executor->set_tap([&](std::string_view name, std::int64_t rows, std::int64_t cols, float* data) {
    if (const auto at = kept.find(name); at != kept.end()) at->second.assign(data, data + rows * cols);
  });
  const std::vector<std::int32_t> slots(ids.size(), 0);
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(tokens));
  std::iota(selected.begin(), selected.end(), 0);
  const auto step = [&](std::int64_t first, std::int64_t count, std::span<const std::int32_t> rows) {
    const auto from = static_cast<std::size_t>(first);
    const auto size = static_cast<std::size_t>(count);
    return executor->run({.ids = std::span(ids).subspan(from, size),
                          .positions = std::span(positions).subspan(from, size),
                          .slots = std::span(slots).first(size),
                          .selected = rows});
  };
  if (past > 0) step(0, past, {});
  const auto past_rows = kept;
  const auto made = step(past, tokens, selected);

  std::vector<std::vector<std::byte>> operands;
  for (std::size_t i = 0; i < before.values().size(); ++i) {
    const Value& v = before.values()[i];
    if (v.kind != ValueKind::input) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(v.elements() * format(v.dtype).block_bytes));
    const auto cache = std::find_if(recognised.caches.begin(), recognised.caches.end(),
                                    [&](const Recognised::Cache& each) { return each.input == v.name; });
    if (const auto known = inputs.known.find(static_cast<ValueId>(i)); known != inputs.known.end()) {
      std::memcpy(bytes.data(), known->second->weight->slabs[0], bytes.size());
    } else if (cache != recognised.caches.end()) {
      const std::vector<float> rows = rows_of(*cache, past_rows, past);
      // [.., past, ..]: what is before and behind the axis are the columns. Behind the past there may be room.
      const auto axis = static_cast<std::size_t>(cache->axis);
      const std::int64_t length = v.dims[axis];
      const std::int64_t cols = v.elements() / length;
      CHECK(std::ssize(rows) == past * cols && length >= past);
      std::int64_t behind = 1;
      for (std::size_t d = axis + 1; d < v.dims.size(); ++d) behind *= v.dims[d];
      std::vector<float> turned(static_cast<std::size_t>(v.elements()));
      for (std::int64_t t = 0; t < past; ++t)
        for (std::int64_t c = 0; c < cols; ++c)
          turned[static_cast<std::size_t>((c / behind * length + t) * behind + c % behind)] =
              rows[static_cast<std::size_t>(t * cols + c)];
      format(v.dtype).encode(turned.data(), bytes.data(), v.elements());
    } else {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t id = ids[static_cast<std::size_t>(past + t)];
        const auto small = static_cast<std::int32_t>(id);
        if (v.dtype == DType::I64) std::memcpy(bytes.data() + t * std::int64_t{sizeof id}, &id, sizeof id);
        if (v.dtype == DType::I32) std::memcpy(bytes.data() + t * std::int64_t{sizeof small}, &small, sizeof small);
      }
    }
    operands.push_back(std::move(bytes));
  }
  TRY(const auto outputs,
      run_tensors(before, std::vector<std::span<const std::byte>>(operands.begin(), operands.end()), pool));
  TRY(const auto wanted, logits_of(before, outputs, tokens, vocab));
  return compare(wanted, made.last(wanted.size()), allowed(before, options.tolerance), "the logits of random ids");
}

}  // namespace

Result<std::vector<float>> run_decoder(const Graph& graph, std::span<const std::int32_t> ids, std::int64_t step,
                                       std::int64_t ctx, ThreadPool& pool) {
  CHECK(step > 0 && std::ssize(ids) % step == 0 && std::ssize(ids) <= ctx);
  TRY(auto program, lower(graph, {.max_tokens = step}));
  CHECK(program->ids >= 0 && program->max_tokens == step);
  TRY(auto kv, KvCache::create(program->states, 1, ctx, DType::F32));
  TRY(auto executor, Executor::create(program, kv, pool, Isa::scalar));
  std::vector<float> logits;
  const std::vector<std::int32_t> slots(static_cast<std::size_t>(step), 0);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(step));
  const auto last = static_cast<std::int32_t>(step - 1);
  for (std::int64_t first = 0; first < std::ssize(ids); first += step) {
    std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));
    const auto made =
        executor->run({.ids = ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(step)),
                       .positions = positions,
                       .slots = slots,
                       .selected = {&last, 1}});
    logits.insert(logits.end(), made.begin(), made.end());
  }
  return logits;
}

Result<Proof> prove_equal(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool,
                          Outcome* known) {
  if (!before.tokens() && after.tokens()) return prove_recognised(before, after, options, pool);
  if (before.tokens().has_value() != after.tokens().has_value())
    return bad_input("one of them is a decoder, the other is not");
  Outcome fresh;
  Outcome& outcome = known != nullptr ? *known : fresh;
  return before.tokens() ? prove_decoder(before, after, options, pool, outcome)
                         : prove_tensors(before, after, options, pool, outcome);
}

}  // namespace knapsack
