// Operators whose windows slide over the dimensions behind the channels.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/onnx/call.h"

namespace knapsack::onnx {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 31;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A list attribute of `count` numbers in [least, 2^31); absent: all `otherwise`.
std::vector<std::int64_t> list(Call& call, std::string_view name, std::int64_t count, std::int64_t least,
                               std::int64_t otherwise) {
  auto given = call.ints(name);
  if (given.empty()) given.assign(at(std::max<std::int64_t>(count, 0)), otherwise);
  if (std::ssize(given) != count) call.broken("needs {} numbers in {}, has {}", count, name, given.size());
  for (const std::int64_t each : given)
    if (each < least || each >= most) call.broken("has {} in {}", each, name);
  return given;
}

struct Window {
  std::vector<std::int64_t> kernel{}, strides{}, dilations{}, pads{};
  std::int64_t same = 0;  // auto_pad: 0 explicit, 1 SAME_UPPER, 2 SAME_LOWER
};

// Attributes that convolutions and pools share; explicit pads.
Window window(Call& call, std::vector<std::int64_t> kernel, bool dilates = true) {
  const std::int64_t n = std::ssize(kernel);
  Window w{.kernel = std::move(kernel)};
  w.strides = list(call, "strides", n, 1, 1);
  w.dilations = dilates ? list(call, "dilations", n, 1, 1) : std::vector<std::int64_t>(at(n), 1);
  const std::int64_t automatic = call.choice("auto_pad", "NOTSET", {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
  w.pads = list(call, "pads", 2 * n, 0, 0);
  if (automatic != 0) std::fill(w.pads.begin(), w.pads.end(), 0);
  w.same = std::max<std::int64_t>(automatic - 1, 0);
  return w;
}

// Where an odd pad's larger half goes.
void split_pad(Window& w, std::size_t k, std::int64_t total, bool end_larger) {
  const std::int64_t half = total / 2;
  w.pads[k] = end_larger ? half : total - half;
  w.pads[w.kernel.size() + k] = total - w.pads[k];
}

// SAME: as many results as there are strides in the input.
void resolve_same(Call& call, Window& w) {
  if (w.same == 0 || call.failed()) return;
  for (std::size_t k = 0; k < w.kernel.size(); ++k) {
    const std::int64_t size = call.dims(0)[2 + k];
    const std::int64_t count = (size + w.strides[k] - 1) / w.strides[k];
    const std::int64_t reach = (w.kernel[k] - 1) * w.dilations[k] + 1;
    split_pad(w, k, std::max<std::int64_t>((count - 1) * w.strides[k] + reach - size, 0), w.same == 1);
  }
}

// The weight's dimensions behind the channels, which kernel_shape repeats.
std::vector<std::int64_t> weight_kernel(Call& call) {
  if (call.rank() < 3 || call.rank(1) != call.rank())
    call.broken("needs a weight of its input's rank, 3 or more; has {} and {}", call.rank(1), call.rank());
  if (call.failed()) return {};
  std::vector<std::int64_t> kernel(call.dims(1).begin() + 2, call.dims(1).end());
  const auto said = call.ints("kernel_shape");
  if (!said.empty() && said != kernel) call.broken("has a kernel_shape other than its weight");
  return kernel;
}

Attrs convolution(Call& call, Window&& w) {
  return Attrs()
      .set(Attr::group, call.i("group", 1))
      .set(Attr::strides, std::move(w.strides))
      .set(Attr::dilations, std::move(w.dilations))
      .set(Attr::pads, std::move(w.pads));
}

std::vector<Ref> with_bias(Call& call) {
  std::vector<Ref> inputs{call.in(0), call.in(1)};
  if (call.given(2)) inputs.push_back(call.in(2));
  return inputs;
}

}  // namespace

void conv(Call& call) {
  call.arity(2, 3);
  Window w = window(call, weight_kernel(call));
  resolve_same(call, w);
  if (call.failed()) return;
  Attrs attrs = convolution(call, std::move(w));
  call.make(Op::Conv, with_bias(call), std::move(attrs));
}

// output_padding and output_shape say how much of the result's end is left; so do pads.
void conv_transpose(Call& call) {
  call.arity(2, 3);
  Window w = window(call, weight_kernel(call));
  const std::int64_t n = std::ssize(w.kernel);
  const auto more = list(call, "output_padding", n, 0, 0);
  auto shape = call.ints("output_shape");
  if (call.failed()) return;
  if (!shape.empty() && std::ssize(shape) == n + 2) shape.erase(shape.begin(), shape.begin() + 2);
  if (!shape.empty() && std::ssize(shape) != n) call.broken("needs {} numbers in output_shape", n);
  for (std::size_t k = 0; k < w.kernel.size() && !call.failed(); ++k) {
    const std::int64_t size = call.dims(0)[2 + k];
    const std::int64_t full = (size - 1) * w.strides[k] + (w.kernel[k] - 1) * w.dilations[k] + 1;
    std::int64_t& end = w.pads[w.kernel.size() + k];
    if (!shape.empty() || w.same != 0) {
      const std::int64_t wanted = !shape.empty() ? shape[k] : size * w.strides[k];
      const std::int64_t total = full + more[k] - wanted;
      if (wanted < 1 || total < 0) {
        call.refuse("an output of {} where there are at most {}; the nearest form is without output_shape", wanted,
                    full);
        return;
      }
      split_pad(w, k, total, w.same == 1);
    }
    end -= more[k];
    if (end < 0) call.refuse("output_padding larger than the pads at the end; the nearest form is Pad behind it");
  }
  if (call.failed()) return;
  Attrs attrs = convolution(call, std::move(w));
  call.make(Op::ConvTranspose, with_bias(call), std::move(attrs));
}

void pool(Call& call) {
  const Op op = *op_from_text(call.node().op_type);
  call.arity(1, 1);
  call.ignore({"storage_order"});  // of indices, which are not made
  auto kernel = call.ints("kernel_shape");
  if (kernel.empty() || std::ssize(kernel) != call.rank() - 2)
    call.broken("needs a kernel_shape of {} numbers", call.rank() - 2);
  for (const std::int64_t each : kernel)
    if (each < 1 || each >= most) call.broken("has {} in kernel_shape", each);
  if (call.failed()) return;
  Window w = window(call, std::move(kernel));
  const bool up = call.flag("ceil_mode");
  resolve_same(call, w);
  if (call.failed()) return;
  Attrs attrs;
  attrs.set(Attr::kernel, w.kernel)
      .set(Attr::strides, w.strides)
      .set(Attr::dilations, w.dilations)
      .set(Attr::pads, w.pads)
      .set(Attr::ceil, up ? 1 : 0);
  if (op == Op::AveragePool) attrs.set(Attr::count_pads, call.flag("count_include_pad") ? 1 : 0);
  call.make(op, {call.in(0)}, std::move(attrs));
}

void global_max_pool(Call& call) {
  call.arity(1, 1);
  if (call.rank() < 3) call.broken("needs dimensions behind the channels");
  if (call.failed()) return;
  std::vector<std::int64_t> axes(at(call.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  call.make(Op::ReduceMax, {call.in(0)}, Attrs().set(Attr::axes, std::move(axes)).set(Attr::keepdims, 1));
}

// X, roi, scales, sizes. The kernel takes sizes; scales that are not their ratio would mean something else.
void resize(Call& call) {
  call.arity(1, 4);
  call.ignore({"cubic_coeff_a", "exclude_outside", "extrapolation_value"});  // of modes that are refused
  const std::int64_t mode = call.choice("mode", "nearest", {"nearest", "linear"});
  const std::int64_t coords = call.choice("coordinate_transformation_mode", "half_pixel",
                                          {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"});
  const std::int64_t rounding =
      call.choice("nearest_mode", "round_prefer_floor", {"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"});
  if (call.flag("antialias")) call.refuse("antialias=1; the nearest form is without it");
  call.choice("keep_aspect_ratio_policy", "stretch", {"stretch"});
  auto axes = call.axes_of(call.ints("axes"), call.rank());
  if (axes.empty()) {
    axes.resize(at(call.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (call.failed()) return;
  std::vector<std::int64_t> shape = call.dims(0);
  const bool sized = call.given(3);
  const auto sizes = sized ? call.numbers(3, "sizes") : std::vector<std::int64_t>{};
  const auto scales = !sized && call.given(2) ? call.reals(2, "scales") : std::vector<double>{};
  if (!call.failed() && std::ssize(axes) != (sized ? std::ssize(sizes) : std::ssize(scales)))
    call.broken("needs a size or scale for each of {} axes", axes.size());
  for (std::size_t k = 0; k < axes.size() && !call.failed(); ++k) {
    std::int64_t& size = shape[at(axes[k])];
    if (sized) {
      size = sizes[k];
      continue;
    }
    const double made = std::floor(static_cast<double>(size) * scales[k]);
    if (!(made >= 1 && made < static_cast<double>(most))) {
      call.broken("has a scale of {}", scales[k]);
      return;
    }
    // Corners on corners, the scale does not matter.
    if (coords != 2 && std::abs(made / static_cast<double>(size) - scales[k]) > 1e-6 * scales[k])
      call.refuse("a scale of {} that makes {} of {}; the nearest form is with sizes", scales[k], made, size);
    size = static_cast<std::int64_t>(made);
  }
  call.make(Op::Resize, {call.in(0)},
            Attrs()
                .set(Attr::shape, std::move(shape))
                .set(Attr::mode, mode)
                .set(Attr::coords, coords)
                .set(Attr::rounding, rounding));
}

}  // namespace knapsack::onnx
