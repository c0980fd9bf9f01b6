// Shapes of public models by name, as models/*.json has them: config.json without any weights. Built in when the
// program is built. Not for reading them: config.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace knapsack {

struct PublicModel {
  std::string id{};    // "qwen2.5-1.5b"
  std::string name{};  // "Qwen2.5-1.5B"
  std::vector<std::string> aliases{};
  std::int64_t parameters = 0;  // as published
  std::string shape_only{};     // why weights of it are not read here; empty: they are
  json::object config{};        // in the form of Hugging Face's config.json
};

// Sorted ids.
std::vector<std::string> public_model_ids();
// By id, name or alias, without regard to case. An unknown one is a usage error with the three nearest ids.
Result<PublicModel> find_public_model(const std::string& which);
// The same family in smaller sizes, the largest first: of qwen2.5-7b 3b, 1.5b, 0.5b. Ids say what a family is: what
// stands before their last dash.
std::vector<PublicModel> smaller_public_models(const PublicModel& model);

}  // namespace knapsack
