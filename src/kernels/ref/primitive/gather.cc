// Data chosen by indices. An index below 0 counts from the end; one that is out of range is the nearest that is not:
// ONNX leaves it open, and nothing outside of the data is touched.
#include <algorithm>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {
namespace {

std::int64_t index_of(const Tensor& indices, std::int64_t i, std::int64_t size) {
  const std::int64_t index = indices.i(i);
  return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size - 1);
}

std::size_t axis_of(const OpCall& call) { return static_cast<std::size_t>(call.attrs->i(Attr::axis)); }

}  // namespace

void Gather(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Tensor indices(call.in[1]);
  const Sink out(call.out[0]);
  const std::size_t axis = axis_of(call);
  const std::int64_t size = x.dims()[axis];
  const std::int64_t inner = product(x.dims().subspan(axis + 1));
  const std::int64_t chosen = indices.elements();
  for_elements(call, out.elements(), [&](std::int64_t i) {
    const std::int64_t index = index_of(indices, i / inner % chosen, size);
    out.copy(i, x, (i / inner / chosen * size + index) * inner + i % inner);
  });
}

namespace {

// Where an element of GatherElements and ScatterElements lies in the data: its own place, but for the axis.
std::int64_t element_place(std::int64_t i, const Tensor& indices, std::span<const std::int64_t> data,
                           std::size_t axis) {
  const auto dims = indices.dims();
  const Index strides = strides_of(data);
  std::int64_t at = 0;
  std::int64_t rest = i;
  for (std::size_t d = dims.size(); d-- > 0;) {
    at += (d == axis ? index_of(indices, i, data[d]) : rest % dims[d]) * strides[d];
    rest /= dims[d];
  }
  return at;
}

// Where row `row` of an index table of GatherND and ScatterND begins in the data.
std::int64_t row_place(const Tensor& indices, std::int64_t row, std::span<const std::int64_t> data) {
  const std::int64_t width = indices.dims().back();
  const Index strides = strides_of(data);
  std::int64_t at = 0;
  for (std::int64_t k = 0; k < width; ++k) {
    const auto d = static_cast<std::size_t>(k);
    at += index_of(indices, row * width + k, data[d]) * strides[d];
  }
  return at;
}

void copy_data(const OpCall& call) {
  const Tensor data(call.in[0]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(), [&](std::int64_t i) { out.copy(i, data, i); });
}

// An update over what lies there, as `reduction` has it.
template <class T>
T reduced(std::int64_t how, T there, T update) {
  switch (how) {
    case 1:
      return static_cast<T>(there + update);
    case 2:
      return static_cast<T>(there * update);
    case 3:
      return std::max(there, update);
    case 4:
      return std::min(there, update);
    default:
      return update;
  }
}

void put(const OpCall& call, std::int64_t at, std::int64_t update) {
  const Tensor updates(call.in[2]);
  const Tensor there(call.out[0]);
  const Sink out(call.out[0]);
  const std::int64_t how = call.attrs->i(Attr::reduction);
  if (how == 0) {
    out.copy(at, updates, update);
  } else if (out.integer()) {
    // Wraps as two's complement does.
    out.i(at, static_cast<std::int64_t>(reduced(how, there.i(at), updates.i(update))));
  } else {
    out.f(at, reduced(how, there.f(at), updates.f(update)));
  }
}

}  // namespace

void GatherElements(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Tensor indices(call.in[1]);
  const Sink out(call.out[0]);
  for_elements(call, out.elements(),
               [&](std::int64_t i) { out.copy(i, x, element_place(i, indices, x.dims(), axis_of(call))); });
}

void GatherND(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Tensor indices(call.in[1]);
  const Sink out(call.out[0]);
  const std::int64_t inner = product(x.dims().subspan(static_cast<std::size_t>(indices.dims().back())));
  for_elements(call, out.elements(),
               [&](std::int64_t i) { out.copy(i, x, row_place(indices, i / inner, x.dims()) + i % inner); });
}

// One thread: updates of one place follow each other; where none reduces, the last one stays.
void ScatterElements(const OpCall& call) {
  copy_data(call);
  const Tensor indices(call.in[1]);
  const Tensor updates(call.in[2]);
  const Sink out(call.out[0]);
  for (std::int64_t i = 0; i < updates.elements(); ++i)
    put(call, element_place(i, indices, out.dims(), axis_of(call)), i);
}

void ScatterND(const OpCall& call) {
  copy_data(call);
  const Tensor indices(call.in[1]);
  const Tensor updates(call.in[2]);
  const Sink out(call.out[0]);
  const std::int64_t inner = product(out.dims().subspan(static_cast<std::size_t>(indices.dims().back())));
  for (std::int64_t i = 0; i < updates.elements(); ++i)
    put(call, row_place(indices, i / inner, out.dims()) + i % inner, i);
}

// The best first, of equal ones the first in the data.
void TopK(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink values(call.out[0]);
  const Sink places(call.out[1]);
  const std::size_t axis = axis_of(call);
  const bool largest = call.attrs->i(Attr::largest, 1) != 0;
  const std::int64_t size = x.dims()[axis];
  const std::int64_t k = values.dims()[axis];
  const std::int64_t inner = product(x.dims().subspan(axis + 1));
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const bool ahead =
        x.integer() ? (largest ? x.i(a) > x.i(b) : x.i(a) < x.i(b)) : (largest ? x.f(a) > x.f(b) : x.f(a) < x.f(b));
    const bool behind =
        x.integer() ? (largest ? x.i(a) < x.i(b) : x.i(a) > x.i(b)) : (largest ? x.f(a) < x.f(b) : x.f(a) > x.f(b));
    return ahead || (!behind && a < b);
  };
  for_rows(call, x.elements() / size, [&](std::int64_t row, int) {
    const std::int64_t first = row / inner * size * inner + row % inner;
    std::int64_t last = -1;  // the one chosen before
    for (std::int64_t j = 0; j < k; ++j) {
      std::int64_t found = -1;
      for (std::int64_t s = 0; s < size; ++s) {
        const std::int64_t at = first + s * inner;
        if (last >= 0 && !before(last, at)) continue;  // chosen already
        if (found < 0 || before(at, found)) found = at;
      }
      if (found < 0) found = last;  // NaNs, which are neither before nor behind
      const std::int64_t to = (row / inner * k + j) * inner + row % inner;
      values.copy(to, x, found < 0 ? first : found);
      places.i(to, found < 0 ? 0 : (found - first) / inner);
      last = found < 0 ? first : found;
    }
  });
}

void OneHot(const OpCall& call) {
  const Tensor indices(call.in[0]);
  const Sink out(call.out[0]);
  const std::int64_t depth = call.attrs->i(Attr::depth);
  for_elements(call, out.elements(), [&](std::int64_t i) {
    const std::int64_t index = indices.i(i / depth);
    out.i(i, (index < 0 ? index + depth : index) == i % depth ? 1 : 0);
  });
}

// The first `most` of them, in order; 0 where there are fewer. How many there are depends on data, so no program has it
// (graph/lower.cc): it is computed for constants, which are counted before (graph/evaluate.h).
void NonZero(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const auto dims = x.dims();
  const std::int64_t most = out.dims().back();
  for (std::int64_t i = 0; i < out.elements(); ++i) out.i(i, 0);
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < x.elements() && found < most; ++i) {
    if (x.integer() ? x.i(i) == 0 : x.f(i) == 0) continue;
    std::int64_t rest = i;
    for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d])
      out.i(static_cast<std::int64_t>(d) * most + found, rest % dims[d]);
    ++found;
  }
}

}  // namespace knapsack::ref
