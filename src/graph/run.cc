#include "graph/run.h"

#include "program/executor.h"

namespace knapsack {

Result<std::vector<std::vector<std::byte>>> run_tensors(const Graph& graph,
                                                        std::span<const std::span<const std::byte>> inputs,
                                                        ThreadPool& pool) {
  if (graph.tokens()) return bad_input("this graph is a decoder, which takes steps of tokens");
  std::size_t index = 0;
  for (const Value& v : graph.values()) {
    if (v.kind != ValueKind::input) continue;
    const auto bytes = static_cast<std::size_t>(v.elements() * format(v.dtype).block_bytes);
    if (index >= inputs.size() || inputs[index].size() != bytes)
      return bad_input("input '{}' takes {} bytes, is given {}", v.name, bytes,
                       index < inputs.size() ? inputs[index].size() : 0);
    ++index;
  }
  if (index != inputs.size()) return bad_input("the graph has {} inputs, {} are given", index, inputs.size());
  TRY(auto program, lower(graph, {}));
  TRY(auto kv, KvCache::create(program->states, 1, 1, DType::F32));
  TRY(auto executor, Executor::create(program, kv, pool, Isa::scalar));
  executor->run(inputs);
  std::vector<std::vector<std::byte>> outputs;
  outputs.reserve(graph.outputs().size());
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const auto made = executor->output(i);
    outputs.emplace_back(made.begin(), made.end());
  }
  return outputs;
}

}  // namespace knapsack
