// Windows over the dimensions behind the channels.
#include <limits>

#include "kernels/ref/primitive/window.h"

namespace knapsack::ref {
namespace {

// f(an element's place in the channel -> its value, window, its begin) for each element of the result.
template <class F>
void for_windows(const OpCall& call, F&& f) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const Channels in(*call.attrs, x.dims());
  const Channels made(*call.attrs, out.dims());
  const Window window(*call.attrs, call.attrs->list(Attr::kernel), in.places());
  for_rows(call, out.elements(), [&](std::int64_t i, int) {
    const std::int64_t channel = made.channel(i);
    const std::int64_t image = made.image(i);
    const auto value = [&](std::int64_t at) { return x.f(in.at(image, channel, at)); };
    out.f(i, f(value, window, window.begin(made.place(i), made.places())));
  });
}

}  // namespace

void MaxPool(const OpCall& call) {
  for_windows(call, [](const auto& x, const Window& window, const Index& begin) {
    float highest = -std::numeric_limits<float>::infinity();
    window.visit(begin, [&](std::int64_t at, std::int64_t) { highest = std::max(highest, x(at)); });
    return highest;
  });
}

void AveragePool(const OpCall& call) {
  const bool count_pads = call.attrs->i(Attr::count_pads) != 0;
  for_windows(call, [&](const auto& x, const Window& window, const Index& begin) {
    double sum = 0;
    std::int64_t count = 0;
    window.visit(begin, [&](std::int64_t at, std::int64_t) {
      sum += x(at);
      ++count;
    });
    if (count_pads) count = window.padded(begin);
    return static_cast<float>(sum / static_cast<double>(count));
  });
}

void GlobalAveragePool(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Sink out(call.out[0]);
  const Channels in(*call.attrs, x.dims());
  const Channels made(*call.attrs, out.dims());
  const std::int64_t inner = product(in.places());
  for_rows(call, out.elements(), [&](std::int64_t i, int) {
    double sum = 0;
    for (std::int64_t k = 0; k < inner; ++k) sum += x.f(in.at(made.image(i), made.channel(i), k));
    out.f(i, static_cast<float>(sum / static_cast<double>(inner)));
  });
}

}  // namespace knapsack::ref
