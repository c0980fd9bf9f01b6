// Memory that the bridge hands out, as C++ strings and vectors. Only for the .cc files of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/bridge/bridge.h"

namespace knapsack {

inline std::string take(knap_bytes bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data), bytes.len);
  knap_free(bytes);
  return text;
}

inline std::vector<std::int32_t> take(knap_ids ids) {
  std::vector<std::int32_t> out(ids.data, ids.data + ids.len);  // all of them fit: tokenizer.rs refuses larger ids
  knap_free_ids(ids);
  return out;
}

}  // namespace knapsack
