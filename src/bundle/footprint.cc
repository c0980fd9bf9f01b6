#include "bundle/footprint.h"

#include <algorithm>
#include <limits>
#include <set>

#include "program/pack.h"

namespace knapsack {

std::int64_t kv_bytes_per_token(const Program& program, DType kv) {
  std::int64_t bytes = 0;
  for (const auto& state : program.states) bytes += row_bytes(kv, state.cols);
  return bytes;
}

Footprint footprint(const Bundle& bundle, std::int64_t ctx, DType kv, bool exact) {
  Footprint result;
  std::set<const Weight*> seen;
  if (!exact)
    for (const Packable& each : packable(*bundle.prefill)) {
      result.weights += each.bytes();
      // Rows that are not packed are read from the file.
      if (each.stride > each.rows)
        result.weights += each.weight->bytes() - each.count * each.rows * each.weight->row_size();
      seen.insert(each.weight);
    }
  for (const auto* program : {bundle.prefill.get(), bundle.decode.get()})
    for (const auto& weight : program->weights)
      if (seen.insert(weight.get()).second) result.weights += weight->bytes();
  result.kv_per_token = kv_bytes_per_token(*bundle.decode, kv);
  // A context is 31 bits at most in a session; a larger number asked for here must not wrap.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4;
  result.kv = ctx > 0 && result.kv_per_token > most / ctx ? most : result.kv_per_token * std::max<std::int64_t>(ctx, 0);
  result.arena = static_cast<std::int64_t>(bundle.prefill->arena_bytes + bundle.decode->arena_bytes);
  result.tokenizer = bundle.tokenizer_bytes;
  return result;
}

}  // namespace knapsack
