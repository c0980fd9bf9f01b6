// RoPE frequencies beside those of transformers, which computes them in float32 (tools/golden/rope.py).
#include "import/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/json.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

TEST(RopeTest, FrequenciesAreThoseOfTransformers) {
  const Result<json::value> rows = parse_json(read_file(data_path("data/rope.json")), "rope.json");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  std::size_t cases = 0;
  for (const json::value& row : rows->as_array()) {
    const json::object& object = row.as_object();
    json::object config = object.at("config").as_object();
    if (config.at("rope_scaling").is_null()) config.erase("rope_scaling");
    SCOPED_TRACE(json::serialize(config));
    std::vector<std::string> oddities;
    const Result<RopeConfig> rope = rope_from_hf(Fields(config, "config.json"), 10000, oddities);
    ASSERT_TRUE(rope.has_value()) << rope.error().message;
    const std::int64_t rotary = object.at("rotary").to_number<std::int64_t>();
    const RopeTable table = rope_table(*rope, rotary, config.at("max_position_embeddings").to_number<std::int64_t>());
    const json::array& bits = object.at("inv_freq").as_array();
    ASSERT_EQ(table.inv_freq.size(), bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const auto expected = std::bit_cast<float>(bits[i].to_number<std::int32_t>());
      // torch's vectorised pow may be off by its last bit; each further step rounds once.
      EXPECT_NEAR(table.inv_freq[i], expected, 2 * (std::nextafter(expected, 2.0F) - expected)) << i;
    }
    EXPECT_FLOAT_EQ(table.scale, object.at("scale").to_number<float>());
    ++cases;
  }
  EXPECT_EQ(cases, 11U);
}

}  // namespace
}  // namespace knapsack::testing
