// Schemes of whole models: sizes by hand, and the rules of llama.cpp's file types.
#include "tensor/mixes.h"

#include <gtest/gtest.h>

namespace knapsack {
namespace {

constexpr ModelPlace seven_b{.layers = 32, .heads_per_kv = 1};
constexpr ModelPlace grouped{.layers = 28, .heads_per_kv = 6};

Scheme scheme(std::string_view name) {
  const auto found = Scheme::named(name);
  EXPECT_TRUE(found.has_value()) << name;
  return *found;
}
DType type_of(std::string_view mix, TensorPart part, std::int64_t layer, std::int64_t cols = 4096,
              const ModelPlace& model = seven_b) {
  return scheme(mix).type(model, {part, layer, 4096, cols}).value();
}

// 1000 x 7M weights: 14 GB in FP16, 7 GB in 8 bits, 3.5 GB in 4, beside the scales of rows and groups.
TEST(Mixes, SevenBillionByHand) {
  const TensorPlace seven{TensorPart::other, 0, 1'000'000, 7000};
  EXPECT_EQ(scheme("f16").bytes(seven_b, seven), 14'000'000'000);
  EXPECT_EQ(scheme("w8a8").bytes(seven_b, seven), 7'000'000'000 + 4 * 1'000'000);
  EXPECT_EQ(scheme("w4a16").bytes(seven_b, seven), 3'500'000'000 + 4 * 1'000'000);
  EXPECT_EQ(scheme("w4a16-g128").bytes(seven_b, seven), 3'500'000'000 + 2 * 55 * std::int64_t{1'000'000});
}

TEST(Mixes, PartsByName) {
  EXPECT_EQ(part_of("model.embed_tokens.weight", 2, false), TensorPart::table);
  EXPECT_EQ(part_of("model.embed_tokens.weight", 2, true), TensorPart::head);
  EXPECT_EQ(part_of("lm_head.weight", 2, false), TensorPart::head);
  EXPECT_EQ(part_of("model.layers.3.self_attn.v_proj.weight", 2, true), TensorPart::v);
  EXPECT_EQ(part_of("model.layers.3.self_attn.qkv_proj.weight", 2, true), TensorPart::qkv);
  EXPECT_EQ(part_of("model.layers.3.mlp.gate_up_proj.weight", 2, true), TensorPart::up);
  EXPECT_EQ(part_of("model.layers.3.mlp.experts.*.down_proj.weight", 3, true), TensorPart::down);
  EXPECT_EQ(part_of("model.layers.3.mlp.gate.weight", 2, true), TensorPart::router);
  EXPECT_EQ(part_of("model.layers.3.mlp.gate_proj.weight", 2, true), TensorPart::gate);
  EXPECT_EQ(part_of("model.layers.3.self_attn.v_proj.bias", 1, true), TensorPart::vector);
  EXPECT_EQ(part_of("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", 2, true), TensorPart::other);
}

TEST(Mixes, FileTypesGiveSomePartsMoreBits) {
  EXPECT_EQ(type_of("q4_k_m", TensorPart::head, -1), DType::Q6_K);
  EXPECT_EQ(type_of("q4_k_m", TensorPart::q, 0), DType::Q4_K);
  // The first eighth, the last eighth, and every third layer between.
  for (const auto& [layer, more] :
       {std::pair{0, true}, {3, true}, {4, false}, {5, false}, {6, true}, {28, true}, {27, true}})
    EXPECT_EQ(type_of("q4_k_m", TensorPart::down, layer), more ? DType::Q6_K : DType::Q4_K) << layer;
  EXPECT_EQ(type_of("q4_k_s", TensorPart::v, 3), DType::Q5_K);
  EXPECT_EQ(type_of("q4_k_s", TensorPart::v, 4), DType::Q4_K);
  EXPECT_EQ(type_of("q2_k", TensorPart::v, 0, 4096, grouped), DType::Q4_K);
  EXPECT_EQ(type_of("q2_k", TensorPart::v, 0), DType::Q3_K);
  EXPECT_EQ(type_of("q8_0", TensorPart::head, -1), DType::Q8_0);
  EXPECT_EQ(type_of("f16", TensorPart::head, -1), DType::F16);
  EXPECT_EQ(type_of("q4_0", TensorPart::table, -1), DType::Q4_0);
  EXPECT_EQ(type_of("q4_0", TensorPart::vector, 1), DType::F32);
}

// 896 columns are no whole blocks of 256.
TEST(Mixes, ColumnsThatMakeNoWholeBlocks) {
  EXPECT_EQ(type_of("q4_k_m", TensorPart::q, 0, 896, grouped), DType::Q5_0);
  EXPECT_EQ(type_of("q4_k_m", TensorPart::v, 0, 896, grouped), DType::Q8_0);
  EXPECT_EQ(type_of("q4_k_m", TensorPart::head, -1, 896, grouped), DType::Q8_0);
  EXPECT_EQ(type_of("q3_k_s", TensorPart::q, 0, 896, grouped), DType::IQ4_NL);
  EXPECT_EQ(type_of("q4_0", TensorPart::q, 0, 100, grouped), DType::F16);
}

TEST(Mixes, NamesAreFoundWithoutRegardToCase) {
  EXPECT_EQ(scheme("Q4_K_M").name(), "q4_k_m");
  EXPECT_FALSE(Scheme::named("q4_k_x").has_value());
  for (const std::string& name : scheme_names()) EXPECT_TRUE(Scheme::named(name).has_value()) << name;
}

}  // namespace
}  // namespace knapsack
