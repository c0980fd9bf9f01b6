// Shape rules of primitives.inc, for fixed dimensions. Attributes in brackets beside each rule; axes and sizes that
// ONNX has as constant inputs are among them, and axes are counted from the front.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/inspector.h"

namespace knapsack {
namespace {

using Dims = std::vector<std::int64_t>;

std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

bool is_integer(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 || dtype == DType::I8;
}
bool is_float(DType dtype) { return !is_integer(dtype) && dtype != DType::BOOL; }

// One operator's inputs as tensors.
class Tensors {
 public:
  Tensors(Op op, const Attrs& attrs, std::span<const Value* const> inputs)
      : in_(op, attrs, inputs), attrs_(attrs), inputs_(inputs) {
    for (const Value* v : inputs) {
      if (v->state >= 0) in_.fail("takes no state, found {}", v->name);
      if (v->symbolic()) in_.fail("needs fixed dimensions, '{}' has {}", v->name, dims_text(v->dims));
      if (v->kind != ValueKind::constant && format(v->dtype).block != 1)
        in_.fail("takes no {} ('{}')", name(v->dtype), v->name);
    }
  }

  Inspector& rule() { return in_; }
  [[nodiscard]] bool failed() const { return in_.failed(); }
  [[nodiscard]] std::size_t count() const { return inputs_.size(); }
  [[nodiscard]] const Value& value(std::size_t i) const { return *inputs_[i]; }
  [[nodiscard]] const Dims& dims(std::size_t i) const { return inputs_[i]->dims; }
  [[nodiscard]] std::int64_t rank(std::size_t i = 0) const { return std::ssize(inputs_[i]->dims); }
  [[nodiscard]] std::span<const std::int64_t> list(Attr key) const { return attrs_.list(key); }
  [[nodiscard]] std::int64_t i(Attr key, std::int64_t otherwise = 0) const { return attrs_.i(key, otherwise); }
  [[nodiscard]] bool has(Attr key) const { return attrs_.has(key); }

  void attributes(std::initializer_list<Attr> needed, std::initializer_list<Attr> optional = {}) {
    in_.attributes(needed, optional);
  }
  void require(bool condition, std::string_view what) { in_.require(condition, what); }

  // A float constant takes the type of what it meets: that is how it is stored, not what it is.
  [[nodiscard]] bool adapts(std::size_t i) const {
    return value(i).kind == ValueKind::constant && !value(i).as && is_float(value(i).dtype);
  }
  // The one type of inputs [begin, end).
  DType common(std::size_t begin, std::size_t end) {
    const Value* first = nullptr;
    for (std::size_t i = begin; i < end; ++i) {
      if (adapts(i)) continue;
      if (first != nullptr && first->type() != value(i).type())
        in_.fail("needs inputs of one type, found {} and {} ('{}', '{}')", name(first->type()), name(value(i).type()),
                 first->name, value(i).name);
      if (first == nullptr) first = &value(i);
    }
    for (std::size_t i = begin; i < end; ++i)
      if (adapts(i) && first != nullptr && !is_float(first->type()))
        in_.fail("needs inputs of one type, found {} and {} ('{}', '{}')", name(first->type()), name(value(i).dtype),
                 first->name, value(i).name);
    if (first != nullptr) return first->type();
    return begin < end ? alone(value(begin).dtype) : DType::F32;
  }
  DType common() { return common(0, count()); }
  DType type(std::size_t i = 0) { return common(i, i + 1); }
  DType floats(std::size_t i = 0) {
    const DType dtype = type(i);
    if (!is_float(dtype)) in_.fail("takes floats, found {} ('{}')", name(dtype), value(i).name);
    return dtype;
  }
  void indices(std::size_t i) {
    const DType dtype = value(i).dtype;
    if (dtype != DType::I64 && dtype != DType::I32)
      in_.fail("takes indices of I64 or I32, found {} ('{}')", name(dtype), value(i).name);
  }
  void has_rank(std::size_t i, std::int64_t least, std::int64_t most) {
    if (rank(i) < least || rank(i) > most)
      in_.fail("takes {} to {} dimensions, '{}' has {}", least, most, value(i).name, dims_text(dims(i)));
  }
  // Attribute `axis`, in range; 0 after a failure.
  std::int64_t axis(std::size_t input = 0) {
    const std::int64_t axis = i(Attr::axis);
    require(axis >= 0 && axis < rank(input), "needs an axis of its input");
    return failed() ? 0 : axis;
  }
  // Attribute `axes`, each once and in range, ascending.
  std::vector<std::int64_t> axes(std::int64_t rank_of) {
    const auto given = list(Attr::axes);
    std::vector<std::int64_t> out(given.begin(), given.end());
    std::sort(out.begin(), out.end());
    require(!out.empty() && out.front() >= 0 && out.back() < rank_of &&
                std::adjacent_find(out.begin(), out.end()) == out.end(),
            "needs axes of its input, each once");
    return failed() ? std::vector<std::int64_t>{} : out;
  }
  Dims broadcast(const Dims& a, const Dims& b) {
    Dims out(std::max(a.size(), b.size()), 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
      const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) in_.fail("cannot broadcast {} and {}", dims_text(a), dims_text(b));
      out[out.size() - 1 - i] = std::max(x, y);
    }
    return out;
  }
  // Dynamic, where an input is.
  [[nodiscard]] Value make(DType dtype, Dims dims) const {
    Value v{.kind = ValueKind::computed, .dtype = dtype, .dims = std::move(dims)};
    v.dynamic = std::any_of(inputs_.begin(), inputs_.end(), [](const Value* each) { return each->dynamic; });
    return v;
  }

 private:
  // What a constant alone is computed as.
  static DType alone(DType dtype) { return format(dtype).block == 1 && dtype != DType::F8_E4M3 ? dtype : DType::F32; }

  Inspector in_;
  const Attrs& attrs_;
  std::span<const Value* const> inputs_;
};

using Outputs = std::vector<Value>;

// a [.., M, K], b [.., K, N] -> alpha * [.., M, N]   [alpha=1]
Outputs mat_mul(Tensors& t) {
  t.attributes({}, {Attr::alpha});
  const DType dtype = t.common();
  t.has_rank(0, 1, max_rank);
  t.has_rank(1, 1, max_rank);
  if (t.failed()) return {};
  Dims a = t.dims(0);
  Dims b = t.dims(1);
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2])
    t.rule().fail("needs equal inner dimensions, found {} and {}", dims_text(t.dims(0)), dims_text(t.dims(1)));
  Dims out = t.broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!row) out.push_back(a[a.size() - 2]);
  if (!column) out.push_back(b.back());
  return {t.make(dtype, std::move(out))};
}

// alpha * a' * b' + beta * c, between low and high   [alpha=1, beta=1, trans_a=0, trans_b=0, low, high]
Outputs gemm(Tensors& t) {
  t.attributes({}, {Attr::alpha, Attr::beta, Attr::trans_a, Attr::trans_b, Attr::low, Attr::high});
  const DType dtype = t.common();
  t.has_rank(0, 2, 2);
  t.has_rank(1, 2, 2);
  if (t.failed()) return {};
  const bool ta = t.i(Attr::trans_a) != 0;
  const bool tb = t.i(Attr::trans_b) != 0;
  t.require(t.dims(0)[ta ? 0 : 1] == t.dims(1)[tb ? 1 : 0], "needs equal inner dimensions");
  Dims out{t.dims(0)[ta ? 1 : 0], t.dims(1)[tb ? 0 : 1]};
  if (t.count() > 2) t.require(t.broadcast(out, t.dims(2)) == out, "needs a c that broadcasts to the product");
  return {t.make(dtype, std::move(out))};
}

// Sliding windows over the last dimensions: what comes out along each.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;  // pads: all begins, then all ends
};

Window window(Tensors& t, std::span<const std::int64_t> kernel) {
  const std::size_t n = kernel.size();
  const auto get = [&](Attr key, std::size_t count, std::int64_t otherwise) {
    const auto given = t.list(key);
    if (given.empty()) return std::vector<std::int64_t>(count, otherwise);
    if (given.size() != count) t.rule().fail("needs {} numbers in {}, found {}", count, attr_text(key), given.size());
    for (const std::int64_t each : given)
      if (each < otherwise || each >= max_extent) t.rule().fail("has {} in {}", each, attr_text(key));
    return std::vector<std::int64_t>(given.begin(), given.end());
  };
  Window w{.kernel = {kernel.begin(), kernel.end()},
           .strides = get(Attr::strides, n, 1),
           .dilations = get(Attr::dilations, n, 1),
           .pads = get(Attr::pads, 2 * n, 0)};
  for (const std::int64_t each : kernel) t.require(each >= 1 && each < max_extent, "needs a kernel of 1 or more");
  return w;
}

// Dimensions behind the channels; blocks of channels stand last.
std::int64_t places(Tensors& t) { return t.rank() - 2 - (t.has(Attr::block) ? 1 : 0); }

// [N, channels / block, .., block]
void has_blocks(Tensors& t) {
  if (!t.has(Attr::block)) return;
  t.require(t.i(Attr::block) >= 2 && t.rank() >= 4 && t.dims(0).back() == t.i(Attr::block),
            "needs whole blocks of channels as its last dimension");
}

Dims slide(Tensors& t, const Window& w, bool up) {
  Dims out{t.dims(0)[0], t.dims(0)[1]};
  const std::size_t n = w.kernel.size();
  for (std::size_t k = 0; k < n && !t.failed(); ++k) {
    const std::int64_t reach = (w.kernel[k] - 1) * w.dilations[k] + 1;
    const std::int64_t room = t.dims(0)[2 + k] + w.pads[k] + w.pads[n + k] - reach;
    t.require(room >= 0, "has a kernel larger than its padded input");
    std::int64_t count = std::max<std::int64_t>(room, 0) / w.strides[k] + 1;
    // The last window may reach past the end, but begins within the input or the padding before it.
    if (up && room % w.strides[k] != 0 && count * w.strides[k] < t.dims(0)[2 + k] + w.pads[k]) ++count;
    out.push_back(count);
  }
  if (t.has(Attr::block)) out.push_back(t.i(Attr::block));
  return out;
}

// x [N, C, ..], a weight of two channel dimensions and the kernel, b [channels made]?
// [group=1, strides=1, dilations=1, pads=0]; Conv also [low, high, block]
struct Convolution {
  DType dtype;
  std::int64_t channels;  // that it makes
  Window window;
};

// Nothing after a failure.
std::optional<Convolution> convolution(Tensors& t, bool transposed) {
  if (transposed) {
    t.attributes({}, {Attr::group, Attr::strides, Attr::dilations, Attr::pads});
  } else {
    t.attributes({}, {Attr::group, Attr::strides, Attr::dilations, Attr::pads, Attr::low, Attr::high, Attr::block});
  }
  const DType dtype = t.common();
  const std::int64_t blocked = t.has(Attr::block) ? 1 : 0;
  t.has_rank(0, 3 + blocked, 5 + blocked);
  if (t.failed()) return {};
  has_blocks(t);
  t.has_rank(1, t.rank(0) - blocked, t.rank(0) - blocked);
  if (t.failed()) return {};
  const auto& w = t.dims(1);
  const std::int64_t group = t.rule().count(Attr::group, 1);
  const std::int64_t taken = transposed ? w[0] : w[1] * group;
  const std::int64_t channels = transposed ? w[1] * group : w[0];
  const std::int64_t block = t.i(Attr::block, 1);
  t.require(w[0] % group == 0 && t.dims(0)[1] * block == taken, "needs as many channels as its weight has, by groups");
  t.require(channels % block == 0, "makes whole blocks of channels");
  if (t.count() > 2) t.require(t.dims(2) == Dims{channels}, "needs a bias for each channel that it makes");
  Window win = window(t, std::span(w).subspan(2));
  if (t.failed()) return {};
  return Convolution{dtype, channels, std::move(win)};
}

// w [M, C/group, ..]
Outputs conv(Tensors& t) {
  const auto c = convolution(t, false);
  if (!c) return {};
  Dims out = slide(t, c->window, false);
  out[1] = c->channels / t.i(Attr::block, 1);
  return {t.make(c->dtype, std::move(out))};
}

// w [C, M/group, ..]
Outputs conv_transpose(Tensors& t) {
  const auto c = convolution(t, true);
  if (!c) return {};
  const Window& win = c->window;
  Dims out{t.dims(0)[0], c->channels};
  const std::size_t n = win.kernel.size();
  for (std::size_t k = 0; k < n; ++k) {
    out.push_back((t.dims(0)[2 + k] - 1) * win.strides[k] + (win.kernel[k] - 1) * win.dilations[k] + 1 - win.pads[k] -
                  win.pads[n + k]);
    t.require(out.back() >= 1, "has pads that leave nothing");
  }
  return {t.make(c->dtype, std::move(out))};
}

// [kernel, strides=1, dilations=1, pads=0, ceil=0, count_pads=0, block]
Outputs pool(Tensors& t) {
  t.attributes({Attr::kernel}, {Attr::strides, Attr::dilations, Attr::pads, Attr::ceil, Attr::count_pads, Attr::block});
  const DType dtype = t.floats();
  const std::int64_t blocked = t.has(Attr::block) ? 1 : 0;
  t.has_rank(0, 3 + blocked, 5 + blocked);
  if (t.failed()) return {};
  has_blocks(t);
  t.require(std::ssize(t.list(Attr::kernel)) == places(t), "needs a kernel for each dimension behind the channels");
  if (t.failed()) return {};
  const Window win = window(t, t.list(Attr::kernel));
  for (std::size_t k = 0; k < win.kernel.size() && !t.failed(); ++k)
    t.require(win.pads[k] < win.kernel[k] && win.pads[win.kernel.size() + k] < win.kernel[k],
              "has pads as wide as its kernel");
  if (t.failed()) return {};
  return {t.make(dtype, slide(t, win, t.i(Attr::ceil) != 0))};
}

Outputs binary(Tensors& t, bool compares, bool logical) {
  t.attributes({});
  const DType dtype = t.common();
  if (logical) t.require(dtype == DType::BOOL, "takes truth values");
  return {t.make(compares ? DType::BOOL : dtype, t.broadcast(t.dims(0), t.dims(1)))};
}

Outputs where(Tensors& t) {
  t.attributes({});
  t.require(t.value(0).dtype == DType::BOOL, "needs a condition of truth values");
  const DType dtype = t.common(1, 3);
  return {t.make(dtype, t.broadcast(t.dims(0), t.broadcast(t.dims(1), t.dims(2))))};
}

Outputs same(Tensors& t, std::initializer_list<Attr> needed = {}, std::initializer_list<Attr> optional = {}) {
  t.attributes(needed, optional);
  return {t.make(t.type(), t.dims(0))};
}

Outputs same_floats(Tensors& t, std::initializer_list<Attr> needed = {}, std::initializer_list<Attr> optional = {}) {
  t.attributes(needed, optional);
  return {t.make(t.floats(), t.dims(0))};
}

Outputs without(Tensors& t, DType dtype, const std::vector<std::int64_t>& axes) {
  Dims out;
  for (std::int64_t i = 0; i < t.rank(); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!gone) out.push_back(t.dims(0)[at(i)]);
    if (gone && t.i(Attr::keepdims) != 0) out.push_back(1);
  }
  return {t.make(dtype, std::move(out))};
}

// [axes, keepdims=0]
Outputs reduce(Tensors& t) {
  t.attributes({Attr::axes}, {Attr::keepdims});
  return without(t, t.type(), t.axes(t.rank()));
}

// [axis, keepdims=0] -> I64
Outputs arg_max(Tensors& t) {
  t.attributes({Attr::axis}, {Attr::keepdims});
  return without(t, DType::I64, {t.axis()});
}

Outputs along(Tensors& t, std::initializer_list<Attr> optional) {
  t.attributes({Attr::axis}, optional);
  t.axis();
  return {t.make(t.type(), t.dims(0))};
}

// x, weight, bias?, over the last dimensions from `axis` on   [axis, eps]
Outputs layer_norm(Tensors& t) {
  t.attributes({Attr::axis, Attr::eps});
  const std::int64_t axis = t.axis();
  if (t.failed()) return {};
  const Dims inner(t.dims(0).begin() + axis, t.dims(0).end());
  for (std::size_t i = 1; i < t.count(); ++i) t.require(t.dims(i) == inner, "needs a weight and bias as its last axes");
  return {t.make(t.floats(), t.dims(0))};
}

// x [N, C, ..], and vectors [C]   [eps]
Outputs channel_norm(Tensors& t) {
  t.attributes({Attr::eps});
  t.has_rank(0, 2, 5);
  if (t.failed()) return {};
  for (std::size_t i = 1; i < t.count(); ++i)
    t.require(t.dims(i) == Dims{t.dims(0)[1]}, "needs vectors of as many as there are channels");
  return {t.make(t.floats(), t.dims(0))};
}

// [block]
Outputs global_pool(Tensors& t) {
  t.attributes({}, {Attr::block});
  const std::int64_t blocked = t.has(Attr::block) ? 1 : 0;
  t.has_rank(0, 3 + blocked, 5 + blocked);
  if (t.failed()) return {};
  has_blocks(t);
  Dims out(t.dims(0).size(), 1);
  std::copy_n(t.dims(0).begin(), 2, out.begin());
  if (t.has(Attr::block)) out.back() = t.i(Attr::block);
  return {t.make(t.floats(), std::move(out))};
}

// [shape]
Outputs reshape(Tensors& t) {
  t.attributes({Attr::shape});
  const auto shape = t.list(Attr::shape);
  Value out = t.make(t.type(), {shape.begin(), shape.end()});
  if (const auto fine = check_dims(out.dims); !fine || out.symbolic()) {
    t.rule().fail("cannot make {}", dims_text(shape));
    return {};
  }
  if (out.elements() != t.value(0).elements())
    t.rule().fail("cannot make {} of {}", dims_text(out.dims), dims_text(t.dims(0)));
  return {std::move(out)};
}

// [perm]
Outputs transpose(Tensors& t) {
  t.attributes({Attr::perm});
  const auto perm = t.list(Attr::perm);
  std::vector<bool> seen(t.dims(0).size(), false);
  t.require(perm.size() == seen.size(), "needs an axis for each dimension");
  Dims out;
  for (const std::int64_t axis : perm) {
    t.require(axis >= 0 && axis < t.rank() && !seen[at(axis)], "needs each axis once");
    if (t.failed()) return {};
    seen[at(axis)] = true;
    out.push_back(t.dims(0)[at(axis)]);
  }
  return {t.make(t.type(), std::move(out))};
}

// [axis]
Outputs concat(Tensors& t) {
  t.attributes({Attr::axis});
  const std::size_t axis = at(t.axis());
  const DType dtype = t.common();
  if (t.failed()) return {};
  Dims out = t.dims(0);
  for (std::size_t i = 1; i < t.count(); ++i) {
    Dims rest = t.dims(i);
    if (rest.size() != out.size()) {
      t.rule().fail("needs inputs of one rank");
      return {};
    }
    out[axis] += rest[axis];
    rest[axis] = out[axis];
    t.require(rest == out, "needs inputs that are alike beside the axis");
  }
  return {t.make(dtype, std::move(out))};
}

// [axes, starts, ends, steps=1]: as Python's x[start:end:step], with ends that are exact: the first element not taken
// lies at or past it. A step may be below 0; -1 is then the end that takes the first element.
Outputs slice(Tensors& t) {
  t.attributes({Attr::axes, Attr::starts, Attr::ends}, {Attr::steps});
  const auto axes = t.list(Attr::axes);
  const auto starts = t.list(Attr::starts);
  const auto ends = t.list(Attr::ends);
  const auto steps = t.list(Attr::steps);
  t.axes(t.rank());
  t.require(
      starts.size() == axes.size() && ends.size() == axes.size() && (steps.empty() || steps.size() == axes.size()),
      "needs a start, an end and a step for each axis");
  if (t.failed()) return {};
  Dims out = t.dims(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t size = t.dims(0)[at(axes[i])];
    const std::int64_t step = steps.empty() ? 1 : steps[i];
    const bool forward = step > 0 && starts[i] >= 0 && starts[i] < ends[i] && ends[i] <= size;
    const bool backward = step < 0 && step > -max_extent && starts[i] < size && ends[i] >= -1 && starts[i] > ends[i];
    if (!forward && !backward) {
      t.rule().fail("takes [{}:{}:{}] of {} elements", starts[i], ends[i], step, size);
      return {};
    }
    const std::int64_t span = forward ? ends[i] - starts[i] : starts[i] - ends[i];
    const std::int64_t stride = std::abs(step);
    out[at(axes[i])] = (span + stride - 1) / stride;
  }
  return {t.make(t.type(), std::move(out))};
}

// [axis, splits]
Outputs split(Tensors& t) {
  t.attributes({Attr::axis, Attr::splits});
  const std::size_t axis = at(t.axis());
  const auto sizes = t.list(Attr::splits);
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    t.require(size >= 1 && size < max_extent, "needs parts of 1 or more");
    if (t.failed()) return {};
    sum += size;
  }
  if (t.failed()) return {};
  t.require(!sizes.empty() && sum == t.dims(0)[axis], "needs parts that add up to the axis");
  Outputs out;
  for (const std::int64_t size : sizes) {
    out.push_back(t.make(t.type(), t.dims(0)));
    out.back().dims[axis] = size;
  }
  return out;
}

// [axes]: of the result
Outputs unsqueeze(Tensors& t) {
  t.attributes({Attr::axes});
  const auto axes = t.axes(t.rank() + std::ssize(t.list(Attr::axes)));
  Dims out = t.dims(0);
  for (const std::int64_t axis : axes) out.insert(out.begin() + axis, 1);
  return {t.make(t.type(), std::move(out))};
}

// [axes]
Outputs squeeze(Tensors& t) {
  t.attributes({Attr::axes});
  const auto axes = t.axes(t.rank());
  Dims out = t.dims(0);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    t.require(out[at(*axis)] == 1, "takes away axes of 1 only");
    out.erase(out.begin() + *axis);
  }
  return {t.make(t.type(), std::move(out))};
}

// [shape]
Outputs expand(Tensors& t) {
  t.attributes({Attr::shape});
  const Dims wanted(t.list(Attr::shape).begin(), t.list(Attr::shape).end());
  const auto fine = check_dims(wanted);
  t.require(fine.has_value() && t.broadcast(t.dims(0), wanted) == wanted, "cannot expand its input to that shape");
  return {t.make(t.type(), wanted)};
}

// [shape]: how often, along each axis
Outputs tile(Tensors& t) {
  t.attributes({Attr::shape});
  const auto repeats = t.list(Attr::shape);
  t.require(std::ssize(repeats) == t.rank(), "needs a number for each axis");
  if (t.failed()) return {};
  Dims out = t.dims(0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    t.require(repeats[i] >= 1 && repeats[i] < max_extent, "repeats once or more");
    if (t.failed()) return {};
    out[i] *= repeats[i];
  }
  return {t.make(t.type(), std::move(out))};
}

// [pads: all begins, then all ends; mode=0: 0 constant, 1 reflect, 2 edge; value=0]
Outputs pad(Tensors& t) {
  t.attributes({Attr::pads}, {Attr::mode, Attr::value});
  t.rule().at_most(Attr::mode, 2);
  const auto pads = t.list(Attr::pads);
  t.require(std::ssize(pads) == 2 * t.rank(), "needs two numbers for each axis");
  if (t.failed()) return {};
  Dims out = t.dims(0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t before = pads[i];
    const std::int64_t after = pads[out.size() + i];
    t.require(before > -max_extent && before < max_extent && after > -max_extent && after < max_extent,
              "pads too much");
    t.require(t.i(Attr::mode) != 1 || (before < out[i] && after < out[i]), "reflects less than there is");
    if (t.failed()) return {};
    out[i] += before + after;
    t.require(out[i] >= 1, "leaves nothing");
  }
  return {t.make(t.type(), std::move(out))};
}

// [upper; starts=0: one number, the diagonal from which on, or up to which]: keeps the upper or lower triangle
Outputs trilu(Tensors& t) {
  t.attributes({Attr::upper}, {Attr::starts});
  t.require(t.rank() >= 2 && t.list(Attr::starts).size() <= 1, "takes matrices and one diagonal");
  return {t.make(t.type(), t.dims(0))};
}

// x [N, C, H, W] -> [N, C/k^2, H*k, W*k]   [k, mode=0: 0 depth-column-row, 1 column-row-depth]
Outputs depth_to_space(Tensors& t) {
  t.attributes({Attr::k}, {Attr::mode});
  t.has_rank(0, 4, 4);
  const std::int64_t k = t.rule().count(Attr::k);
  t.require(k < 4096, "has a block too large");
  t.rule().at_most(Attr::mode, 1);
  if (t.failed()) return {};
  const Dims& d = t.dims(0);
  t.require(d[1] % (k * k) == 0, "needs channels in whole blocks");
  return {t.make(t.type(), {d[0], d[1] / (k * k), d[2] * k, d[3] * k})};
}

// [shape; mode: 0 nearest, 1 linear; coords: 0 half_pixel, 1 asymmetric, 2 align_corners, 3 pytorch_half_pixel;
// rounding: 0 round_prefer_floor, 1 floor, 2 ceil, 3 round_prefer_ceil]
Outputs resize(Tensors& t) {
  t.attributes({Attr::shape}, {Attr::mode, Attr::coords, Attr::rounding});
  t.rule().at_most(Attr::mode, 1);
  t.rule().at_most(Attr::coords, 3);
  t.rule().at_most(Attr::rounding, 3);
  const Dims wanted(t.list(Attr::shape).begin(), t.list(Attr::shape).end());
  t.require(std::ssize(wanted) == t.rank() && check_dims(wanted).has_value(), "needs a size for each axis");
  return {t.make(t.floats(), wanted)};
}

// [axis]
Outputs gather(Tensors& t) {
  t.attributes({Attr::axis});
  t.indices(1);
  const std::int64_t axis = t.axis();
  if (t.failed()) return {};
  Dims out = t.dims(0);
  out.erase(out.begin() + axis);
  out.insert(out.begin() + axis, t.dims(1).begin(), t.dims(1).end());
  return {t.make(t.type(), std::move(out))};
}

// [axis]
Outputs gather_elements(Tensors& t) {
  t.attributes({Attr::axis});
  t.indices(1);
  const std::int64_t axis = t.axis();
  t.require(t.rank(1) == t.rank(0), "needs indices of the data's rank");
  for (std::int64_t i = 0; i < t.rank(0) && !t.failed(); ++i)
    t.require(i == axis || t.dims(1)[at(i)] <= t.dims(0)[at(i)], "has more indices than data beside the axis");
  return {t.make(t.type(), t.dims(1))};
}

// The shape of what GatherND takes and ScatterND puts.
Dims nd_rows(Tensors& t) {
  const Dims& indices = t.dims(1);
  t.indices(1);
  t.require(!indices.empty() && indices.back() <= t.rank(0), "needs no more indices in a row than dimensions");
  if (t.failed()) return {};
  Dims out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), t.dims(0).begin() + indices.back(), t.dims(0).end());
  return out;
}

Outputs gather_nd(Tensors& t) {
  t.attributes({});
  Dims out = nd_rows(t);
  return {t.make(t.type(), std::move(out))};
}

// data, indices, updates   [axis for ScatterElements, reduction=0: 0 replace, 1 add, 2 multiply, 3 max, 4 min]
Outputs scatter(Tensors& t, bool elements) {
  if (elements) {
    t.attributes({Attr::axis}, {Attr::reduction});
    t.indices(1);
    const std::int64_t axis = t.axis();
    t.require(t.dims(1) == t.dims(2) && t.rank(1) == t.rank(0), "needs indices of the updates' shape");
    for (std::int64_t i = 0; i < t.rank(0) && !t.failed(); ++i)
      t.require(i == axis || t.dims(1)[at(i)] <= t.dims(0)[at(i)], "has more indices than data beside the axis");
  } else {
    t.attributes({}, {Attr::reduction});
    t.require(nd_rows(t) == t.dims(2), "needs updates that are what the indices name");
  }
  constexpr std::int64_t reductions = 5;
  const std::int64_t how = t.i(Attr::reduction);
  t.require(how >= 0 && how < reductions, "knows reductions 0 to 4");
  t.require(how == 0 || t.type(0) != DType::BOOL, "reduces numbers, not truth");
  if (t.failed()) return {};
  const bool first_adapts = t.adapts(0) || t.adapts(2);
  if (!first_adapts && t.type(0) != t.type(2))
    t.rule().fail("needs data and updates of one type, found {} and {}", name(t.type(0)), name(t.type(2)));
  Value out = t.make(t.adapts(0) ? t.type(2) : t.type(0), t.dims(0));
  out.dynamic = t.value(0).dynamic;
  return {std::move(out)};
}

// [axis, k, largest=1]
Outputs top_k(Tensors& t) {
  t.attributes({Attr::axis, Attr::k}, {Attr::largest});
  const std::size_t axis = at(t.axis());
  const std::int64_t k = t.rule().count(Attr::k);
  if (t.failed()) return {};
  t.require(k <= t.dims(0)[axis], "chooses more than there are");
  Dims out = t.dims(0);
  out[axis] = k;
  return {t.make(t.type(), out), t.make(DType::I64, out)};
}

// indices -> I64, a last axis of `depth` with 1 where the index is, else 0   [depth]
Outputs one_hot(Tensors& t) {
  t.attributes({Attr::depth});
  t.indices(0);
  Dims out = t.dims(0);
  out.push_back(t.rule().count(Attr::depth));
  return {t.make(DType::I64, std::move(out))};
}

// [most]: how many there can be at most
Outputs non_zero(Tensors& t) {
  t.attributes({Attr::most});
  const std::int64_t most = t.rule().count(Attr::most);
  t.require(most <= t.value(0).elements(), "cannot find more than there are");
  Value out = t.make(DType::I64, {t.rank(), most});
  out.dynamic = true;
  return {std::move(out)};
}

// [to]
Outputs cast(Tensors& t) {
  t.attributes({Attr::to});
  const auto to = t.i(Attr::to);
  const bool known = to >= 0 && to < std::ssize(all_formats()) && all_formats()[at(to)].block == 1;
  t.require(known, "needs a plain type");
  return {t.make(known ? static_cast<DType>(to) : DType::F32, t.dims(0))};
}

Outputs outputs_of(Op op, Tensors& t) {
  switch (op) {
    case Op::MatMul:
      return mat_mul(t);
    case Op::Gemm:
      return gemm(t);
    case Op::Conv:
      return conv(t);
    case Op::ConvTranspose:
      return conv_transpose(t);
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Pow:
    case Op::Mod:
    case Op::Max:
    case Op::Min:
    case Op::PRelu:
      return binary(t, false, false);
    case Op::Equal:
    case Op::Greater:
    case Op::GreaterOrEqual:
    case Op::Less:
    case Op::LessOrEqual:
      return binary(t, true, false);
    case Op::And:
    case Op::Or:
    case Op::Xor:
      return binary(t, true, true);
    case Op::Where:
      return where(t);
    case Op::Sqrt:
    case Op::Exp:
    case Op::Log:
    case Op::Reciprocal:
    case Op::Sigmoid:
    case Op::Tanh:
    case Op::Erf:
    case Op::Sin:
    case Op::Cos:
    case Op::Softplus:
    case Op::HardSwish:
      return same_floats(t);
    case Op::Gelu:
      return same_floats(t, {}, {Attr::mode});  // 0: with erf, 1: with tanh
    case Op::LeakyRelu:
    case Op::Elu:
      return same_floats(t, {Attr::alpha});
    case Op::HardSigmoid:
      return same_floats(t, {Attr::alpha, Attr::beta});
    case Op::Neg:
    case Op::Abs:
    case Op::Sign:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Relu:
    case Op::Identity:
    case Op::Dropout:
      return same(t);
    case Op::Clip:
      return same(t, {}, {Attr::low, Attr::high});
    case Op::Not:
      t.require(t.value(0).dtype == DType::BOOL, "takes truth values");
      return same(t);
    case Op::IsNaN:
      t.attributes({});
      return {t.make(DType::BOOL, t.dims(0))};
    case Op::Cast:
      return cast(t);
    case Op::ReduceMean:
    case Op::ReduceSum:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ReduceProd:
    case Op::ReduceL2:
      return reduce(t);
    case Op::ArgMax:
      return arg_max(t);
    case Op::Softmax:
    case Op::LogSoftmax:
      return along(t, {});
    case Op::CumSum:
      return along(t, {Attr::exclusive, Attr::reverse});
    case Op::LayerNormalization:
      return layer_norm(t);
    case Op::BatchNormalization:
    case Op::InstanceNormalization:
      return channel_norm(t);
    case Op::MaxPool:
    case Op::AveragePool:
      return pool(t);
    case Op::GlobalAveragePool:
      return global_pool(t);
    case Op::Reshape:
      return reshape(t);
    case Op::Transpose:
      return transpose(t);
    case Op::Concat:
      return concat(t);
    case Op::Slice:
      return slice(t);
    case Op::Split:
      return split(t);
    case Op::Unsqueeze:
      return unsqueeze(t);
    case Op::Squeeze:
      return squeeze(t);
    case Op::Expand:
      return expand(t);
    case Op::Tile:
      return tile(t);
    case Op::Pad:
      return pad(t);
    case Op::Trilu:
      return trilu(t);
    case Op::DepthToSpace:
      return depth_to_space(t);
    case Op::Resize:
      return resize(t);
    case Op::Gather:
      return gather(t);
    case Op::GatherElements:
      return gather_elements(t);
    case Op::GatherND:
      return gather_nd(t);
    case Op::ScatterElements:
      return scatter(t, true);
    case Op::ScatterND:
      return scatter(t, false);
    case Op::TopK:
      return top_k(t);
    case Op::OneHot:
      return one_hot(t);
    case Op::NonZero:
      return non_zero(t);
    default:
      t.rule().fail("has no shape rule here");
      return {};
  }
}

}  // namespace

Result<std::vector<Value>> infer_primitive(Op op, const Attrs& attrs, std::span<const Value* const> inputs) {
  Tensors tensors(op, attrs, inputs);
  Outputs outputs;
  if (!tensors.failed()) outputs = outputs_of(op, tensors);
  if (tensors.failed()) return tensors.rule().error();
  return outputs;
}

}  // namespace knapsack
