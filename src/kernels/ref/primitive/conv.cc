// Convolutions: channels in order, then the kernel's places in order.
#include "kernels/ref/primitive/window.h"

namespace knapsack::ref {

// x [N, C, ..] or in blocks of channels, w [M, C/group, ..], b [M]?
void Conv(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Tensor w(call.in[1]);
  const Sink out(call.out[0]);
  const Channels in(*call.attrs, x.dims());
  const Channels made(*call.attrs, out.dims());
  const Window window(*call.attrs, w.dims().subspan(2), in.places());
  const Clamp clamp(*call.attrs);
  const std::int64_t taps = product(w.dims().subspan(2));
  const std::int64_t per_group = w.dims()[1];
  const std::int64_t group_outputs = w.dims()[0] / call.attrs->i(Attr::group, 1);
  for_rows(call, out.elements(), [&](std::int64_t i, int) {
    const std::int64_t m = made.channel(i);
    const std::int64_t image = made.image(i);
    const Index begin = window.begin(made.place(i), made.places());
    float sum = 0;
    for (std::int64_t c = 0; c < per_group; ++c) {
      const std::int64_t channel = m / group_outputs * per_group + c;
      const std::int64_t weights = (m * per_group + c) * taps;
      window.visit(begin,
                   [&](std::int64_t at, std::int64_t k) { sum += x.f(in.at(image, channel, at)) * w.f(weights + k); });
    }
    if (call.in.size() > 2) sum += Tensor(call.in[2]).f(m);
    out.f(i, clamp(sum));
  });
}

// x [N, C, ..], w [C, M/group, ..], b [M]?: what each input element adds to the results its kernel reaches, gathered
// from the results' side.
void ConvTranspose(const OpCall& call) {
  const Tensor x(call.in[0]);
  const Tensor w(call.in[1]);
  const Sink out(call.out[0]);
  const auto kernel = w.dims().subspan(2);
  const auto dims = x.dims().subspan(2);
  const Window window(*call.attrs, kernel, dims);
  const std::int64_t inner = product(dims);
  const std::int64_t made = product(out.dims().subspan(2));
  const std::int64_t taps = product(kernel);
  const std::int64_t group = call.attrs->i(Attr::group, 1);
  const std::int64_t per_group = w.dims()[1];
  const std::int64_t inputs = x.dims()[1] / group;
  const Index inner_strides = strides_of(dims);
  for_rows(call, out.elements(), [&](std::int64_t i, int) {
    const std::int64_t m = i / made % (per_group * group);
    const std::int64_t image = i / made / (per_group * group);
    float sum = 0;
    for (std::int64_t c = 0; c < inputs; ++c) {
      const std::int64_t from = m / per_group * inputs + c;
      for (std::int64_t k = 0; k < taps; ++k) {
        std::int64_t at = 0;
        std::int64_t place_left = i % made;
        std::int64_t tap_left = k;
        bool inside = true;
        for (std::size_t d = dims.size(); d-- > 0;) {
          const std::int64_t p =
              place_left % out.dims()[2 + d] + window.pad(d) - tap_left % kernel[d] * window.dilation(d);
          place_left /= out.dims()[2 + d];
          tap_left /= kernel[d];
          inside &= p >= 0 && p % window.stride(d) == 0 && p / window.stride(d) < dims[d];
          at += inside ? p / window.stride(d) * inner_strides[d] : 0;
        }
        if (inside)
          sum += x.f((image * x.dims()[1] + from) * inner + at) * w.f((from * per_group + m % per_group) * taps + k);
      }
    }
    out.f(i, call.in.size() > 2 ? sum + Tensor(call.in[2]).f(m) : sum);
  });
}

}  // namespace knapsack::ref
