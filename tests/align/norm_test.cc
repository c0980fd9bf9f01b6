// Epsilons that change less than any token shows: found where arithmetic allows, and nothing is found where it is
// right.
#include "align/norm_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "align/golden_graph.h"
#include "align/plant.h"

namespace knapsack::testing {
namespace {

std::unique_ptr<Source> run_by(const Graph& graph, const std::string& label, Isa isa) {
  return graph_source(graph, {.label = label, .isa = isa, .ctx = longest, .rows = longest}).value();
}

Graph with_epsilon(const Graph& graph, const std::string& name, double eps) {
  return edited(graph, [&](Node& node, Graph&) {
    if (node.name == name) node.attrs = with(node.attrs, Attr::eps, eps);
  });
}

// B's epsilon, as the hint has it.
double guessed(const std::string& hint) {
  const std::string before = "as an epsilon of about ";
  const auto at = hint.find(before);
  return at == std::string::npos ? -1 : std::stod(hint.substr(at + before.size()));
}

TEST(AlignNorms, RightOnesAreNoneOnAnyInstructions) {
  for (const std::string& model : golden_sample()) {
    const auto [graph, ids] = golden_graph(model);
    const auto scalar = run_by(graph, "scalar", Isa::scalar);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(fmt::format("{} {}", model, isa_name(isa)));
      const auto other = run_by(graph, "other", isa);
      for (const bool turned : {false, true}) {
        const auto found = align(turned ? *other : *scalar, turned ? *scalar : *other, {ids}, {}).value();
        for (const AlignedNode& each : found.nodes) {
          if (each.op != "rms_norm") continue;
          EXPECT_FALSE(each.born) << each.name << " " << each.born_rel_l2 << " " << each.hint;
        }
      }
    }
  }
}

TEST(AlignNorms, AnEpsilonBesideLargeActivationsIsNamed) {
  for (const auto& [model, name] :
       {std::pair{"qwen2-tied-gqa", "layers.1.mlp_norm"}, std::pair{"qwen2-tied-gqa", "norm"},
        std::pair{"gemma3-text", "layers.1.attn_norm"}, std::pair{"qwen3-tied", "layers.0.attn.q_norm"},
        std::pair{"deepseek-v2-lite", "layers.1.attn.kv_norm"}}) {
    SCOPED_TRACE(fmt::format("{} {}", model, name));
    const auto [graph, ids] = golden_graph(model);
    const Node* norm = nullptr;
    for (const Node& each : graph.list())
      if (each.name == name) norm = &each;
    ASSERT_NE(norm, nullptr);
    const double right = static_cast<double>(norm->attrs.f(Attr::eps));
    const Graph wrong = with_epsilon(graph, name, right * 10);
    const auto found = align(*source(graph, "A"), *source(wrong, "B"), {ids}, {}).value();
    EXPECT_EQ(born(found), Names{name});
    EXPECT_TRUE(found.passed);  // it is no matter
    EXPECT_LT(node(found, name).born_rel_l2, born_floor);
    EXPECT_NEAR(guessed(node(found, name).hint), right * 10, right) << node(found, name).hint;
    // The other way round it is a smaller one.
    const auto turned = align(*source(wrong, "A"), *source(graph, "B"), {ids}, {}).value();
    EXPECT_NEAR(guessed(node(turned, name).hint), right, 0.3 * right) << node(turned, name).hint;
  }
}

// Sides that round otherwise: found where it is more than rounding, and not where it is less.
TEST(AlignNorms, BetweenInstructionsAFactorMustBeLargerThanRounding) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const std::string name = "layers.0.attn_norm";
  const auto a = run_by(graph, "A", Isa::scalar);
  for (const Isa isa : supported_isas()) {
    if (isa == Isa::scalar) continue;
    SCOPED_TRACE(std::string(isa_name(isa)));
    const auto found = align(*a, *run_by(with_epsilon(graph, name, 1e-5), "B", isa), {ids}, {}).value();
    EXPECT_TRUE(node(found, name).born);
    EXPECT_NEAR(guessed(node(found, name).hint), 1e-5, 1e-6) << node(found, name).hint;
    const auto less = align(*a, *run_by(with_epsilon(graph, name, 1.01e-6), "B", isa), {ids}, {}).value();
    EXPECT_FALSE(node(less, name).born) << node(less, name).hint;
  }
  const auto bits = align(*a, *run_by(with_epsilon(graph, name, 1.5e-6), "B", Isa::scalar), {ids}, {}).value();
  EXPECT_TRUE(node(bits, name).born);
}

std::vector<float> normed(const std::vector<float>& x, double eps, double factor = 1) {
  double square = 0;
  for (const float value : x) square += static_cast<double>(value) * value;
  const double by = factor / std::sqrt(square / static_cast<double>(x.size()) + eps);
  std::vector<float> out;
  out.reserve(x.size());
  for (const float value : x) out.push_back(static_cast<float>(value * by));
  return out;
}

TEST(NormScale, AnEpsilonIsToldFromRounding) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  NormScale epsilon, rounded, same;
  for (int token = 0; token < 40; ++token) {
    std::vector<float> x(64);
    const float size = 1 + static_cast<float>(token % 4);
    for (float& value : x) value = size * normal(random);
    const auto a = normed(x, 1e-6);
    epsilon.add(x, a, normed(x, 1e-5), 64, 1e-6);
    rounded.add(x, a, normed(x, 1e-6, 1 + 3e-6 * normal(random)), 64, 1e-6);
    same.add(x, a, a, 64, 1e-6);
  }
  ASSERT_TRUE(epsilon.found(1e-6));
  EXPECT_TRUE(epsilon.found(1e-6)->of_epsilon);
  EXPECT_NEAR(epsilon.found(1e-6)->epsilon, 9e-6, 2e-7);
  EXPECT_FALSE(epsilon.found(1e-4));
  EXPECT_FALSE(rounded.found(1e-6));
  EXPECT_FALSE(same.found(0));
}

}  // namespace
}  // namespace knapsack::testing
