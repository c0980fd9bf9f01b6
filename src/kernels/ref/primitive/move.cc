// Data that change their place and nothing else.
#include <algorithm>
#include <cmath>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {
namespace {

// Element i of the result is element from(i) of the operand.
template <class F>
void take(const OpCall& call, F&& from) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.copy(i, x, from(i)); });
}

void keep_order(const OpCall& call) {
  take(call, [](std::int64_t i) { return i; });
}

std::size_t axis_of(const OpCall& call) { return static_cast<std::size_t>(call.attrs->i(Attr::axis)); }

}  // namespace

void Reshape(const OpCall& call) { keep_order(call); }
void Unsqueeze(const OpCall& call) { keep_order(call); }
void Squeeze(const OpCall& call) { keep_order(call); }

void Transpose(const OpCall& call) {
  const auto perm = call.attrs->list(Attr::perm);
  const Index own = strides_of(call.in[0].dims);
  Index strides{};
  for (std::size_t i = 0; i < perm.size(); ++i) strides[i] = own[static_cast<std::size_t>(perm[i])];
  take(call, [&](std::int64_t i) { return place(i, call.out[0].dims, strides); });
}

void Concat(const OpCall& call) {
  const std::size_t axis = axis_of(call);
  const Sink out(call.out[0]);
  const std::int64_t inner = product(out.dims().subspan(axis + 1));
  const std::int64_t out_row = out.dims()[axis] * inner;
  std::int64_t begin = 0;
  for (const Operand& operand : call.in) {
    const Tensor x(operand);
    const std::int64_t row = x.dims()[axis] * inner;
    for_elements(call, x.elements(), [&](std::int64_t i) { out.copy(i / row * out_row + begin + i % row, x, i); });
    begin += row;
  }
}

void Slice(const OpCall& call) {
  const auto axes = call.attrs->list(Attr::axes);
  const auto starts = call.attrs->list(Attr::starts);
  const auto steps = call.attrs->list(Attr::steps);
  Index strides = strides_of(call.in[0].dims);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    first += starts[i] * strides[axis];
    if (!steps.empty()) strides[axis] *= steps[i];
  }
  take(call, [&](std::int64_t i) { return first + place(i, call.out[0].dims, strides); });
}

void Split(const OpCall& call) {
  const std::size_t axis = axis_of(call);
  const Tensor x(call.in[0]);
  const std::int64_t inner = product(x.dims().subspan(axis + 1));
  const std::int64_t row = x.dims()[axis] * inner;
  std::int64_t begin = 0;
  for (const Operand& operand : call.out) {
    const Sink out(operand);
    const std::int64_t part = out.dims()[axis] * inner;
    for_elements(call, out.elements(), [&](std::int64_t i) { out.copy(i, x, i / part * row + begin + i % part); });
    begin += part;
  }
}

void Expand(const OpCall& call) {
  const Index strides = broadcast_strides(call.in[0].dims, call.out[0].dims.size());
  take(call, [&](std::int64_t i) { return place(i, call.out[0].dims, strides); });
}

void Tile(const OpCall& call) {
  const auto dims = call.in[0].dims;
  const Index strides = strides_of(dims);
  take(call, [&](std::int64_t i) {
    std::int64_t at = 0;
    for (std::size_t d = dims.size(); d-- > 0;) {
      at += i % call.out[0].dims[d] % dims[d] * strides[d];
      i /= call.out[0].dims[d];
    }
    return at;
  });
}

void Pad(const OpCall& call) {
  const auto pads = call.attrs->list(Attr::pads);
  const std::int64_t mode = call.attrs->i(Attr::mode);
  const float value = call.attrs->f(Attr::value);
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const auto dims = x.dims();
  const Index strides = strides_of(dims);
  for_elements(call, out.elements(), [&](std::int64_t i) {
    std::int64_t at = 0;
    std::int64_t rest = i;
    bool inside = true;
    for (std::size_t d = dims.size(); d-- > 0;) {
      std::int64_t p = rest % out.dims()[d] - pads[d];
      rest /= out.dims()[d];
      if (mode == 1 && p < 0) p = -p;
      if (mode == 1 && p >= dims[d]) p = 2 * (dims[d] - 1) - p;
      if (mode == 2) p = std::clamp<std::int64_t>(p, 0, dims[d] - 1);
      inside &= p >= 0 && p < dims[d];
      at += p * strides[d];
    }
    if (inside) {
      out.copy(i, x, at);
    } else {
      out.f(i, value);
    }
  });
}

void Trilu(const OpCall& call) {
  const auto diagonal = call.attrs->list(Attr::starts);
  const std::int64_t k = diagonal.empty() ? 0 : diagonal[0];
  const bool upper = call.attrs->i(Attr::upper) != 0;
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const std::int64_t cols = out.dims().back();
  const std::int64_t rows = out.dims()[out.dims().size() - 2];
  for_elements(call, out.elements(), [&](std::int64_t i) {
    const std::int64_t above = i % cols - i / cols % rows;
    if (upper ? above >= k : above <= k) {
      out.copy(i, x, i);
    } else {
      out.f(i, 0);
    }
  });
}

void DepthToSpace(const OpCall& call) {
  const std::int64_t k = call.attrs->i(Attr::k);
  const bool column_first = call.attrs->i(Attr::mode) != 0;
  const auto from = call.in[0].dims;
  const auto to = call.out[0].dims;
  take(call, [&](std::int64_t i) {
    const std::int64_t x = i % to[3];
    const std::int64_t y = i / to[3] % to[2];
    const std::int64_t c = i / to[3] / to[2] % to[1];
    const std::int64_t n = i / to[3] / to[2] / to[1];
    const std::int64_t within = y % k * k + x % k;
    const std::int64_t channel = column_first ? c * k * k + within : within * to[1] + c;
    return ((n * from[1] + channel) * from[2] + y / k) * from[3] + x / k;
  });
}

namespace {

// Where element i of an axis of `to` elements lies among `from`.
float source(std::int64_t i, std::int64_t to, std::int64_t from, std::int64_t coords) {
  const float scale = static_cast<float>(to) / static_cast<float>(from);
  const auto x = static_cast<float>(i);
  switch (coords) {
    case 1:
      return x / scale;
    case 2:
      return to == 1 ? 0.0F : x * static_cast<float>(from - 1) / static_cast<float>(to - 1);
    case 3:
      return to == 1 ? 0.0F : (x + 0.5F) / scale - 0.5F;
    default:
      return (x + 0.5F) / scale - 0.5F;
  }
}

float rounded(float x, std::int64_t rounding) {
  switch (rounding) {
    case 1:
      return std::floor(x);
    case 2:
      return std::ceil(x);
    case 3:
      return std::floor(x + 0.5F);
    default:
      return std::ceil(x - 0.5F);
  }
}

}  // namespace

void Resize(const OpCall& call) {
  const bool linear = call.attrs->i(Attr::mode) != 0;
  const std::int64_t coords = call.attrs->i(Attr::coords);
  const std::int64_t rounding = call.attrs->i(Attr::rounding);
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const auto dims = x.dims();
  const Index strides = strides_of(dims);
  for_elements(call, out.elements(), [&](std::int64_t i) {
    Index low{};
    std::array<float, max_dims> share{};  // of the next one
    std::int64_t rest = i;
    for (std::size_t d = dims.size(); d-- > 0;) {
      const std::int64_t to = out.dims()[d];
      const float at = to == dims[d] ? static_cast<float>(rest % to) : source(rest % to, to, dims[d], coords);
      rest /= to;
      const auto last = static_cast<float>(dims[d] - 1);
      const float p = std::clamp(linear ? std::floor(std::clamp(at, 0.0F, last)) : rounded(at, rounding), 0.0F, last);
      low[d] = static_cast<std::int64_t>(p);
      share[d] = linear ? std::clamp(at, 0.0F, last) - p : 0.0F;
    }
    double sum = 0;  // over the corners
    for (std::size_t corner = 0; corner < std::size_t{1} << dims.size(); ++corner) {
      double weight = 1;
      std::int64_t at = 0;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const bool next = (corner >> d & 1) != 0;
        weight *= next ? share[d] : 1 - share[d];
        at += std::min(low[d] + (next ? 1 : 0), dims[d] - 1) * strides[d];
      }
      if (weight > 0) sum += weight * x.f(at);
    }
    out.f(i, static_cast<float>(sum));
  });
}

}  // namespace knapsack::ref
