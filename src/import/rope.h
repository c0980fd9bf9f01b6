// Rotary position embedding: what a config says about it -> the frequencies and the factor on cos and sin.
// Definitions: transformers' modeling_rope_utils (default, linear, llama3, yarn, longrope, dynamic).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/config.h"
#include "import/fields.h"

namespace knapsack {

// Reads rope_scaling (`type` or `rope_type`) or rope_parameters, and rope_theta where it stands. `oddities` gets
// what is unusual. Unknown kinds are `unsupported`, by name.
Result<RopeConfig> rope_from_hf(const Fields& config, double default_base, std::vector<std::string>& oddities);
// The same from one object (rope_parameters' entry of one layer type). base: where the object has none.
Result<RopeConfig> rope_from_object(const Fields& scaling, const Fields& config, double base,
                                    std::vector<std::string>& oddities);

struct RopeTable {
  std::vector<float> inv_freq;  // [rotary / 2]
  float scale = 1;              // on cos and sin
};
// ctx: the context that will be used; it decides between LongRoPE's short and long factors.
RopeTable rope_table(const RopeConfig& rope, std::int64_t rotary, std::int64_t ctx);

// DeepSeek's factor on the softmax scale is the square of this (1 without scaling).
double yarn_mscale(double factor, double mscale);

}  // namespace knapsack
