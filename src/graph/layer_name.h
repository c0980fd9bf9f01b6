// Which layer a name says that it belongs to. Names are ours: those of values and states begin with "layers.12.", those
// of weights with "model.layers.12.". Not for names as files have them: import/ turns those into ours.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace knapsack {

// "layers.12.attn.q_proj", "model.layers.12.mlp.up_proj.weight" -> 12; -1 where the name is of no layer.
inline std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view model = "model.";
  constexpr std::string_view prefix = "layers.";
  if (name.starts_with(model)) name.remove_prefix(model.size());
  std::int64_t layer = -1;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return layer;
}

}  // namespace knapsack
