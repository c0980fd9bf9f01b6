// Operators that move data and change none.
#include <algorithm>
#include <numeric>

#include "graph/shape.h"
#include "import/onnx/call.h"

namespace knapsack::onnx {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 31;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Axes as an attribute before opset 13, as an input from then on.
std::vector<std::int64_t> given_axes(Call& call) {
  call.arity(1, call.opset() < 13 ? 1 : 2);
  if (call.opset() < 13) return call.ints("axes");
  return call.given(1) ? call.numbers(1, "axes") : std::vector<std::int64_t>{};
}

Attrs to_shape(std::vector<std::int64_t> shape) { return Attrs().set(Attr::shape, std::move(shape)); }

// Of constants alone, which may come to have no elements in shape arithmetic.
void make_empty(Call& call, std::vector<std::int64_t> dims) {
  if (!call.constant(0)) {
    call.refuse("makes {}, a value without elements", dims_text(dims));
    return;
  }
  call.make(call.constant(call.value(0).dtype, std::move(dims), {}));
}

}  // namespace

void concat(Call& call) {
  call.arity(1, 1 << 16);
  const std::int64_t axis = call.axis("axis", most);
  std::vector<Ref> inputs;
  inputs.reserve(call.count());
  for (std::size_t i = 0; i < call.count(); ++i) inputs.push_back(call.in(i));
  call.make(Op::Concat, std::move(inputs), Attrs().set(Attr::axis, axis));
}

void reshape(Call& call) {
  call.arity(2, 2);
  auto shape = call.numbers(1, "shape");
  const bool zero = call.flag("allowzero");
  if (call.failed()) return;
  const auto& dims = call.dims(0);
  const std::int64_t elements = call.value(0).elements();
  std::int64_t open = -1;
  std::int64_t rest = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (open >= 0) call.broken("leaves two dimensions open");
      open = static_cast<std::int64_t>(i);
      continue;
    }
    if (shape[i] == 0 && !zero) {
      if (i >= dims.size()) {
        call.broken("takes dimension {} of {}", i, dims_text(dims));
        return;
      }
      shape[i] = dims[i];
    }
    if (shape[i] < 0 || __builtin_mul_overflow(rest, shape[i], &rest)) {
      call.broken("cannot make {}", dims_text(shape));
      return;
    }
  }
  if (call.failed()) return;
  if (open >= 0) {
    if (rest == 0 || elements % rest != 0) {
      call.broken("cannot make a whole dimension of {} elements by {}", elements, rest);
      return;
    }
    shape[at(open)] = elements / rest;
  }
  if (elements == 0) {
    make_empty(call, std::move(shape));
    return;
  }
  call.make(Op::Reshape, {call.in(0)}, to_shape(std::move(shape)));
}

void flatten(Call& call) {
  call.arity(1, 1);
  std::int64_t axis = call.i("axis", 1);
  const std::int64_t rank = call.rank();
  if (axis < -rank || axis > rank) call.broken("has axis {} of {}", axis, rank);
  if (call.failed()) return;
  if (axis < 0) axis += rank;
  std::vector<std::int64_t> shape{1, 1};
  for (std::int64_t i = 0; i < rank; ++i) shape[i < axis ? 0 : 1] *= call.dims(0)[at(i)];
  call.make(Op::Reshape, {call.in(0)}, to_shape(std::move(shape)));
}

void transpose(Call& call) {
  call.arity(1, 1);
  auto perm = call.ints("perm");
  if (perm.empty()) {
    perm.resize(at(call.rank()));
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  call.make(Op::Transpose, {call.in(0)}, Attrs().set(Attr::perm, std::move(perm)));
}

void expand(Call& call) {
  call.arity(2, 2);
  auto shape = call.numbers(1, "shape");
  if (call.failed()) return;
  // Both sides are broadcast: a 1 in the shape leaves the input's size.
  const auto& dims = call.dims(0);
  if (shape.size() < dims.size()) shape.insert(shape.begin(), dims.size() - shape.size(), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    std::int64_t& size = shape[shape.size() - dims.size() + i];
    if (size == 1) size = dims[i];
  }
  call.make(Op::Expand, {call.in(0)}, to_shape(std::move(shape)));
}

void tile(Call& call) {
  call.arity(2, 2);
  call.make(Op::Tile, {call.in(0)}, to_shape(call.numbers(1, "repeats")));
}

void squeeze(Call& call) {
  auto axes = call.axes_of(given_axes(call), call.rank());
  if (call.failed()) return;
  const auto& dims = call.dims(0);
  if (axes.empty() && !call.given(1))
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (dims[i] == 1) axes.push_back(static_cast<std::int64_t>(i));
  if (axes.empty()) {
    call.make(Op::Identity, {call.in(0)});
    return;
  }
  std::sort(axes.begin(), axes.end());
  if (call.value(0).elements() > 0) {
    call.make(Op::Squeeze, {call.in(0)}, Attrs().set(Attr::axes, std::move(axes)));
    return;
  }
  std::vector<std::int64_t> left;
  for (std::int64_t i = 0; i < std::ssize(dims); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) left.push_back(dims[at(i)]);
  make_empty(call, std::move(left));
}

void unsqueeze(Call& call) {
  auto axes = given_axes(call);
  const std::int64_t made_rank = call.rank() + std::ssize(axes);
  axes = call.axes_of(std::move(axes), made_rank);
  if (call.failed()) return;
  if (axes.empty()) {
    call.make(Op::Identity, {call.in(0)});
    return;
  }
  std::sort(axes.begin(), axes.end());
  if (call.value(0).elements() > 0) {
    call.make(Op::Unsqueeze, {call.in(0)}, Attrs().set(Attr::axes, std::move(axes)));
    return;
  }
  if (call.rank() + std::ssize(axes) > static_cast<std::int64_t>(max_rank)) call.broken("makes too many dimensions");
  std::vector<std::int64_t> dims = call.dims(0);
  for (const std::int64_t axis : axes) dims.insert(dims.begin() + std::min(axis, std::ssize(dims)), 1);
  make_empty(call, std::move(dims));
}

// data, starts, ends, axes, steps: Python's slices, with ends that may lie anywhere. Ours are exact.
void slice(Call& call) {
  call.arity(3, 5);
  auto starts = call.numbers(1, "starts");
  auto ends = call.numbers(2, "ends");
  std::vector<std::int64_t> axes;
  if (call.given(3)) {
    axes = call.numbers(3, "axes");
  } else {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  auto steps = call.given(4) ? call.numbers(4, "steps") : std::vector<std::int64_t>(starts.size(), 1);
  axes = call.axes_of(std::move(axes), call.rank());
  if (starts.size() != ends.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.broken("needs as many starts, ends, axes and steps");
  if (call.failed()) return;
  std::vector<std::int64_t> dims = call.dims(0);
  bool empty = call.value(0).elements() == 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t size = call.dims(0)[at(axes[i])];
    if (steps[i] == 0) {
      call.broken("has a step of 0");
      return;
    }
    const bool forward = steps[i] > 0;
    // A step past the whole axis takes one element, however large it is.
    steps[i] = std::clamp(steps[i], -std::max<std::int64_t>(size, 1), std::max<std::int64_t>(size, 1));
    const auto place = [&](std::int64_t x) {
      if (x < 0) x += size;
      return forward ? std::clamp<std::int64_t>(x, 0, size)
                     : std::clamp<std::int64_t>(x, -1, std::max<std::int64_t>(size - 1, -1));
    };
    starts[i] = place(starts[i]);
    ends[i] = place(ends[i]);
    const std::int64_t span = forward ? ends[i] - starts[i] : starts[i] - ends[i];
    const std::int64_t stride = forward ? steps[i] : -steps[i];
    dims[at(axes[i])] = std::max<std::int64_t>(span + stride - 1, 0) / stride;
    empty |= span <= 0;
  }
  if (empty) {
    make_empty(call, std::move(dims));
    return;
  }
  if (axes.empty()) {
    call.make(Op::Identity, {call.in(0)});
    return;
  }
  call.make(Op::Slice, {call.in(0)},
            Attrs()
                .set(Attr::axes, std::move(axes))
                .set(Attr::starts, std::move(starts))
                .set(Attr::ends, std::move(ends))
                .set(Attr::steps, std::move(steps)));
}

// Parts as an attribute before opset 13, an input from then on; without either equal ones.
void split(Call& call) {
  call.arity(1, call.opset() < 13 ? 1 : 2);
  const std::int64_t axis = call.axis("axis", 0);
  std::vector<std::int64_t> parts;
  if (call.opset() < 13) parts = call.ints("split");
  if (call.given(1)) parts = call.numbers(1, "parts");
  const std::int64_t count = call.opset() >= 18 && call.has("num_outputs") ? call.i("num_outputs", 0)
                                                                           : static_cast<std::int64_t>(call.outputs());
  if (call.failed()) return;
  const std::int64_t size = call.dims(0)[at(axis)];
  if (count != static_cast<std::int64_t>(call.outputs())) call.broken("says {} outputs, has {}", count, call.outputs());
  if (call.failed()) return;
  if (parts.empty()) {
    const std::int64_t part = (size + count - 1) / count;
    for (std::int64_t left = size; left > 0; left -= part) parts.push_back(std::min(part, left));
  }
  if (std::ssize(parts) != count) call.broken("cannot make {} parts of {}", count, size);
  if (std::find(parts.begin(), parts.end(), 0) != parts.end()) call.refuse("a part without elements");
  call.make(Op::Split, {call.in(0)}, Attrs().set(Attr::axis, axis).set(Attr::splits, std::move(parts)));
}

// data, pads, value?, axes? (opset 18)
void pad(Call& call) {
  call.arity(2, call.opset() < 18 ? 3 : 4);
  const std::int64_t mode = call.choice("mode", "constant", {"constant", "reflect", "edge"});
  const auto given = call.numbers(1, "pads");
  const std::int64_t rank = call.rank();
  std::vector<std::int64_t> axes;
  if (call.given(3)) {
    axes = call.axes_of(call.numbers(3, "axes"), rank);
  } else {
    axes.resize(at(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (given.size() != 2 * axes.size())
    call.broken("needs two pads for each of {} axes, has {}", axes.size(), given.size());
  double value = 0;
  if (call.given(2)) value = call.real(2, "value");
  if (call.failed()) return;
  std::vector<std::int64_t> pads(at(2 * rank), 0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    pads[at(axes[k])] = given[k];
    pads[at(rank + axes[k])] = given[axes.size() + k];
  }
  Attrs attrs;
  attrs.set(Attr::pads, std::move(pads)).set(Attr::mode, mode);
  if (value != 0) attrs.set(Attr::value, value);
  call.make(Op::Pad, {call.in(0)}, std::move(attrs));
}

void trilu(Call& call) {
  call.arity(1, 2);
  Attrs attrs;
  attrs.set(Attr::upper, call.flag("upper", true) ? 1 : 0);
  if (call.given(1)) {
    // A diagonal beyond both corners is as good as the nearest one.
    const std::int64_t k = std::clamp(call.number(1, "diagonal"), -most, most);
    attrs.set(Attr::starts, std::vector<std::int64_t>{k});
  }
  call.make(Op::Trilu, {call.in(0)}, std::move(attrs));
}

void depth_to_space(Call& call) {
  call.arity(1, 1);
  const std::int64_t k = call.i("blocksize", 0);
  call.make(Op::DepthToSpace, {call.in(0)},
            Attrs().set(Attr::k, k).set(Attr::mode, call.choice("mode", "DCR", {"DCR", "CRD"})));
}

}  // namespace knapsack::onnx
