// What operators that stand for several ops are made of: shapes moved, angles, norms. Not for any one operator.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "import/onnx/call.h"

namespace knapsack::onnx {

using Sizes = std::vector<std::int64_t>;

inline constexpr std::int64_t most_tokens = 1 << 24;  // of a step, a cache or both of all heads

Ref reshaped(Call& call, std::string_view suffix, Ref x, Sizes dims);
Ref transposed(Call& call, std::string_view suffix, Ref x, Sizes perm);
Ref expanded(Call& call, std::string_view suffix, Ref x, Sizes dims);
// Elements [begin, end) along the axis; x itself where these are all.
Ref sliced(Call& call, std::string_view suffix, Ref x, std::int64_t axis, std::int64_t begin, std::int64_t end);
Ref concatenated(Call& call, std::string_view suffix, std::vector<Ref> parts, std::int64_t axis);
// first, first + 1, ... as I64
Ref counted(Call& call, Sizes dims, std::int64_t first);

// x / sqrt(mean(x^2) + eps) along the dimensions from `axis` on, and 1 / that root, in F32.
struct RmsNorm {
  Ref y = -1, inverse = -1;
};
RmsNorm rms_norm(Call& call, Ref x, double eps, std::int64_t axis);
// The node's first output: y * weight, of type `to`.
Ref weighed(Call& call, Ref y, Ref weight, DType to);

// Rows of a table [positions, columns] for positions [batch, tokens], as [batch, tokens, 1, columns].
Ref angles(Call& call, std::string_view suffix, Ref table, Ref positions);
// The first `rotary` columns of x [batch, tokens, heads, columns] turned by cos and sin [batch, tokens, 1, rotary / 2].
Ref rotated(Call& call, std::string_view suffix, Ref x, Ref cos, Ref sin, std::int64_t rotary, bool interleaved);

}  // namespace knapsack::onnx
