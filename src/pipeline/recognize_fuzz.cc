// Any bytes as an ONNX decoder, as it is and with some of its operators exchanged for others of as many inputs, which
// the bytes decide: mutated bytes seldom parse, and of near-decoders there are more than they would find. What is
// recognised passes the verifier, and the proof ends.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "files/onnx_parse.h"
#include "graph/run.h"
#include "import/onnx.h"
#include "passes/prove.h"
#include "passes/recognize/recognize.h"

namespace knapsack {
namespace {

constexpr std::uint64_t memory_limit = std::uint64_t{64} << 20;
constexpr std::int64_t tokens = 2;
constexpr std::int64_t past = 5;
constexpr int variants = 40;  // of each input that parses
constexpr std::array<std::string_view, 10> of_one = {"Neg", "Abs",     "Sqrt", "Exp",     "Cos",
                                                     "Sin", "Sigmoid", "Tanh", "Softmax", "Identity"};
constexpr std::array<std::string_view, 8> of_two = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "MatMul"};

// Sizes as exporters order them: [batch, tokens], [batch, heads, past, head], masks over past and tokens.
OnnxPins pins_of(const OnnxModel& model) {
  OnnxPins pins;
  const auto is_cache = [](const OnnxValue& input) { return input.shape && input.shape->size() == 4; };
  const bool cached = std::any_of(model.graph.inputs.begin(), model.graph.inputs.end(), is_cache);
  for (const OnnxValue& input : model.graph.inputs) {
    if (!input.shape) continue;
    const std::size_t rank = input.shape->size();
    std::vector<std::int64_t> shape;
    shape.reserve(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      const OnnxDim& dim = (*input.shape)[i];
      const bool mask = input.name.find("mask") != std::string::npos;
      const std::int64_t rows = rank == 4 ? past : mask && cached ? past + tokens : tokens;
      shape.push_back(dim.number.value_or(i == 0 ? 1 : rows));
    }
    pins.shapes[input.name] = std::move(shape);
  }
  return pins;
}

void exchange(std::vector<OnnxNode>& nodes, std::mt19937& random) {
  if (nodes.empty()) return;
  OnnxNode& node = nodes[random() % nodes.size()];
  if (node.inputs.size() == 1) node.op_type = of_one[random() % of_one.size()];
  if (node.inputs.size() == 2) node.op_type = of_two[random() % of_two.size()];
}

std::uint32_t hash(const std::uint8_t* data, std::size_t size) {
  std::uint32_t sum = 2166136261U;
  for (std::size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 16777619U;
  return sum;
}

void check_model(const OnnxModel& model, ThreadPool& pool) {
  const auto made = graph_from_onnx(model, pins_of(model));
  if (!made || made->graph.list().size() > 3000) return;
  const auto recognised = recognize_decoder(made->graph, true);
  if (!recognised) {
    CHECK(recognised.error().code == Code::unsupported && !recognised.error().message.empty());
    return;
  }
  CHECK(verify(recognised->graph, Stage::canonical).has_value());
  const auto proof = prove_equal(made->graph, recognised->graph, {.most_products = 1e6}, pool);
  CHECK(proof || !proof.error().message.empty());
}

void check(const std::uint8_t* data, std::size_t size) {
  const auto model = parse_onnx(std::as_bytes(std::span(data, size)), "fuzz.onnx", nullptr, memory_limit);
  if (!model) return;
  ThreadPool pool(1);
  check_model(*model, pool);
  std::mt19937 random(hash(data, size));
  for (int i = 0; i < variants; ++i) {
    OnnxModel other = *model;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) exchange(other.graph.nodes, random);
    check_model(other, pool);
  }
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
