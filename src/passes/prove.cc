#include "passes/prove.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "graph/run.h"
#include "passes/recognize/recognize.h"
#include "passes/recognize/rules.h"
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
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      norm += std::isfinite(a[i]) ? static_cast<double>(a[i]) * a[i] : 0;
      continue;
    }
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return bad_input("number {} of {} is {}, and was {}", i, of, b[i], a[i]);
    const double distance = static_cast<double>(b[i]) - a[i];
    error += distance * distance;
    norm += static_cast<double>(a[i]) * a[i];
  }
  Proof proof{.rel_l2 = norm > 0    ? std::sqrt(error / norm)
                        : error > 0 ? HUGE_VAL
                                    : 0,
              .values = static_cast<std::int64_t>(a.size())};
  if (proof.rel_l2 > tolerance)
    return bad_input("{} differs by {:.3g} (relative L2; {:.3g} is allowed)", of, proof.rel_l2, tolerance);
  return proof;
}

void add(Proof& all, const Proof& one) {
  all.rel_l2 = std::max(all.rel_l2, one.rel_l2);
  all.values += one.values;
}

Result<Proof> prove_decoder(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool) {
  const std::int64_t fixed = std::max(before.tokens().value_or(0), after.tokens().value_or(0));
  const std::int64_t step = fixed > 0 ? fixed : free_step;
  const std::int64_t known = std::max(ctx_of(before), ctx_of(after));
  const std::int64_t ctx = known > 0 ? known : std::max(free_ctx, random_steps * step);
  const std::int64_t vocab = after.value(after.output()).cols();
  std::vector<std::vector<std::int32_t>> sequences = options.prompts;
  std::mt19937_64 random(options.seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(random_steps, ctx / step) * step));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  sequences.push_back(std::move(ids));
  Proof proof;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    auto& sequence = sequences[i];
    const std::int64_t most = std::min<std::int64_t>(ctx, std::ssize(sequence)) / step * step;
    if (most == 0) continue;  // shorter than a step
    sequence.resize(static_cast<std::size_t>(most));
    TRY(const auto a, run_decoder(before, sequence, step, ctx, pool));
    TRY(const auto b, run_decoder(after, sequence, step, ctx, pool));
    TRY(const Proof one, compare(a, b, options.tolerance,
                                 i + 1 == sequences.size() ? "the logits of random ids" : "the logits of a prompt"));
    add(proof, one);
  }
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

Result<Proof> prove_tensors(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool) {
  std::mt19937_64 random(options.seed);
  Proof proof;
  std::vector<std::vector<std::byte>> inputs;
  for (const Value& v : before.values())
    if (v.kind == ValueKind::input) inputs.push_back(random_input(v, random));
  TRY(const auto a, floats_made(before, inputs, pool));
  TRY(const auto b, floats_made(after, inputs, pool));
  if (a.size() != b.size()) return bad_input("there are {} outputs, and were {}", b.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string& name = before.value(before.outputs()[i]).name;
    if (a[i].size() != b[i].size()) return bad_input("output '{}' has another size", name);
    TRY(const Proof one, compare(a[i], b[i], options.tolerance, fmt::format("output '{}'", name)));
    add(proof, one);
  }
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
  for (const Recognised::Cache& cache : recognised.caches) kept[cache.write];
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
      const std::vector<float>& rows = past_rows.at(cache->write);
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
  return compare(wanted, made.last(wanted.size()), options.tolerance, "the logits of random ids");
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

Result<Proof> prove_equal(const Graph& before, const Graph& after, const ProveOptions& options, ThreadPool& pool) {
  if (!before.tokens() && after.tokens()) return prove_recognised(before, after, options, pool);
  if (before.tokens().has_value() != after.tokens().has_value())
    return bad_input("one of them is a decoder, the other is not");
  return before.tokens() ? prove_decoder(before, after, options, pool) : prove_tensors(before, after, options, pool);
}

}  // namespace knapsack
