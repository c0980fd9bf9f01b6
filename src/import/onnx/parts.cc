#include "import/onnx/parts.h"

#include <algorithm>
#include <numeric>

namespace knapsack::onnx {

Ref reshaped(Call& call, std::string_view suffix, Ref x, Sizes dims) {
  if (x < 0 || call.value_of(x).dims == dims) return x;
  return call.part(suffix, Op::Reshape, {x}, Attrs().set(Attr::shape, std::move(dims)));
}

Ref transposed(Call& call, std::string_view suffix, Ref x, Sizes perm) {
  return call.part(suffix, Op::Transpose, {x}, Attrs().set(Attr::perm, std::move(perm)));
}

Ref expanded(Call& call, std::string_view suffix, Ref x, Sizes dims) {
  if (x < 0 || call.value_of(x).dims == dims) return x;
  return call.part(suffix, Op::Expand, {x}, Attrs().set(Attr::shape, std::move(dims)));
}

Ref sliced(Call& call, std::string_view suffix, Ref x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  if (x < 0) return x;
  if (begin == 0 && end == call.value_of(x).dims[static_cast<std::size_t>(axis)]) return x;
  return call.part(suffix, Op::Slice, {x},
                   Attrs()
                       .set(Attr::axes, Sizes{axis})
                       .set(Attr::starts, Sizes{begin})
                       .set(Attr::ends, Sizes{end})
                       .set(Attr::steps, Sizes{1}));
}

Ref concatenated(Call& call, std::string_view suffix, std::vector<Ref> parts, std::int64_t axis) {
  if (parts.size() == 1) return parts.front();
  return call.part(suffix, Op::Concat, std::move(parts), Attrs().set(Attr::axis, axis));
}

Ref counted(Call& call, Sizes dims, std::int64_t first) {
  const auto count = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
  if (count > most_tokens) call.refuse("{} tokens; at most {} are known", count, most_tokens);
  if (call.failed()) return -1;
  Sizes numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return call.constant(DType::I64, std::move(dims), bytes_of(numbers));
}

RmsNorm rms_norm(Call& call, Ref x, double eps, std::int64_t axis) {
  if (call.failed() || x < 0) return {};
  Sizes axes(call.value_of(x).dims.size() - static_cast<std::size_t>(axis));
  std::iota(axes.begin(), axes.end(), axis);
  const Ref in = call.cast("float", x, DType::F32);
  const Ref squares = call.part("squares", Op::Mul, {in, in});
  const Ref mean =
      call.part("mean", Op::ReduceMean, {squares}, Attrs().set(Attr::axes, std::move(axes)).set(Attr::keepdims, 1));
  const Ref shifted = call.part("shifted", Op::Add, {mean, call.scalar(DType::F32, eps)});
  RmsNorm made;
  made.inverse = call.part("inverse", Op::Reciprocal, {call.part("root", Op::Sqrt, {shifted})});
  made.y = call.part("normed", Op::Mul, {in, made.inverse});
  return made;
}

Ref weighed(Call& call, Ref y, Ref weight, DType to) {
  weight = call.cast("weight", weight, DType::F32);
  if (to == DType::F32) return call.output(0, Op::Mul, {y, weight});
  const Ref made = call.part("weighed", Op::Mul, {y, weight});
  return call.output(0, Op::Cast, {made}, Attrs().set(Attr::to, static_cast<std::int64_t>(to)));
}

Ref angles(Call& call, std::string_view suffix, Ref table, Ref positions) {
  return call.once(fmt::format("angles {} {}", table, positions), [&] {
    const Ref rows = call.part(suffix, Op::Gather, {table, positions}, Attrs().set(Attr::axis, 0));
    return call.part(suffix, Op::Unsqueeze, {rows}, Attrs().set(Attr::axes, Sizes{2}));
  });
}

Ref rotated(Call& call, std::string_view suffix, Ref x, Ref cos, Ref sin, std::int64_t rotary, bool interleaved) {
  if (call.failed() || x < 0) return -1;
  const Sizes dims = call.value_of(x).dims;
  const std::int64_t columns = dims.back();
  const Ref part = sliced(call, suffix, x, 3, 0, rotary);
  Ref a = -1;
  Ref b = -1;
  Sizes half{dims[0], dims[1], dims[2], rotary / 2};
  if (interleaved) {
    Sizes pairs = half;
    pairs.push_back(2);
    const Ref split = reshaped(call, suffix, part, pairs);
    a = reshaped(call, suffix, sliced(call, suffix, split, 4, 0, 1), half);
    b = reshaped(call, suffix, sliced(call, suffix, split, 4, 1, 2), half);
  } else {
    a = sliced(call, suffix, part, 3, 0, rotary / 2);
    b = sliced(call, suffix, part, 3, rotary / 2, rotary);
  }
  const auto times = [&](Ref value, Ref factor) { return call.part(suffix, Op::Mul, {value, factor}); };
  Ref first = call.part(suffix, Op::Sub, {times(a, cos), times(b, sin)});
  Ref second = call.part(suffix, Op::Add, {times(a, sin), times(b, cos)});
  if (interleaved) {
    Sizes single = half;
    single.push_back(1);
    const Ref pairs =
        concatenated(call, suffix, {reshaped(call, suffix, first, single), reshaped(call, suffix, second, single)}, 4);
    first = reshaped(call, suffix, pairs, {dims[0], dims[1], dims[2], rotary});
    if (rotary == columns) return first;
    return concatenated(call, suffix, {first, sliced(call, suffix, x, 3, rotary, columns)}, 3);
  }
  if (rotary == columns) return concatenated(call, suffix, {first, second}, 3);
  return concatenated(call, suffix, {first, second, sliced(call, suffix, x, 3, rotary, columns)}, 3);
}

}  // namespace knapsack::onnx
