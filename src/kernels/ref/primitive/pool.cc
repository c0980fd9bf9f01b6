// Windows over the dimensions behind the channels.
#include <limits>

#include "kernels/ref/primitive/window.h"

namespace knapsack::ref {
namespace {

// f(begin of the channel in x, window) for each element i of the result.
template <class F>
void for_windows(const OpCall& call, F&& f) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const auto kernel = call.attrs->list(Attr::kernel);
  const Window window(*call.attrs, kernel, x.dims().subspan(2));
  const std::int64_t inner = product(x.dims().subspan(2));
  const std::int64_t made = product(out.dims().subspan(2));
  for_rows(call, out.elements(), [&](std::int64_t i, int) {
    out.f(i, f(x, i / made * inner, window, window.begin(i % made, out.dims().subspan(2))));
  });
}

}  // namespace

void MaxPool(const OpCall& call) {
  for_windows(call, [](const Tensor& x, std::int64_t channel, const Window& window, const Index& begin) {
    float highest = -std::numeric_limits<float>::infinity();
    window.visit(begin, [&](std::int64_t at, std::int64_t) { highest = std::max(highest, x.f(channel + at)); });
    return highest;
  });
}

void AveragePool(const OpCall& call) {
  const bool count_pads = call.attrs->i(Attr::count_pads) != 0;
  for_windows(call, [&](const Tensor& x, std::int64_t channel, const Window& window, const Index& begin) {
    double sum = 0;
    std::int64_t count = 0;
    window.visit(begin, [&](std::int64_t at, std::int64_t) {
      sum += x.f(channel + at);
      ++count;
    });
    if (count_pads) count = window.padded(begin);
    return static_cast<float>(sum / static_cast<double>(count));
  });
}

void GlobalAveragePool(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const std::int64_t inner = product(x.dims().subspan(2));
  for_rows(call, out.elements(), [&](std::int64_t i, int) {
    double sum = 0;
    for (std::int64_t k = 0; k < inner; ++k) sum += x.f(i * inner + k);
    out.f(i, static_cast<float>(sum / static_cast<double>(inner)));
  });
}

}  // namespace knapsack::ref
