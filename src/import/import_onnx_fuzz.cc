// Any bytes as an ONNX model: read, imported with every named dimension pinned, lowered; small ones run.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "files/onnx_parse.h"
#include "graph/run.h"
#include "import/onnx.h"

namespace knapsack {
namespace {

constexpr std::uint64_t memory_limit = std::uint64_t{64} << 20;
constexpr std::size_t small_arena = std::size_t{1} << 16;

void check(const std::uint8_t* data, std::size_t size) {
  const auto model = parse_onnx(std::as_bytes(std::span(data, size)), "fuzz.onnx", nullptr, memory_limit);
  if (!model) return;
  OnnxPins pins;
  for (const OnnxValue& input : model->graph.inputs) {
    if (!input.shape) continue;
    for (const OnnxDim& dim : *input.shape)
      if (!dim.number && !dim.symbol.empty()) pins.dims[dim.symbol] = 2;
  }
  const auto made = graph_from_onnx(*model, pins);
  if (!made) {
    CHECK(!made.error().message.empty());
    return;
  }
  const auto again = graph_from_text(to_text(made->graph));
  CHECK(again.has_value() && to_text(*again) == to_text(made->graph));
  const auto program = lower(made->graph, {});
  if (!program || (*program)->arena_bytes > small_arena || made->graph.list().size() > 1000) return;
  std::vector<std::vector<std::byte>> inputs;
  for (const Value& v : made->graph.values())
    if (v.kind == ValueKind::input)
      inputs.emplace_back(static_cast<std::size_t>(v.elements() * format(v.dtype).block_bytes), std::byte{1});
  ThreadPool pool(1);
  CHECK(run_tensors(made->graph, std::vector<std::span<const std::byte>>(inputs.begin(), inputs.end()), pool)
            .has_value());
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
