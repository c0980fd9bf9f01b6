// A window that slides over up to three dimensions: convolutions and pools.
#pragma once

#include <algorithm>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {

// Where a channel's elements lie: side by side, or with the other channels of their block between them.
class Channels {
 public:
  // dims: of activations, [N, C, ..] or, with attribute `block`, [N, C / block, .., block]
  Channels(const Attrs& attrs, std::span<const std::int64_t> dims)
      : block_(attrs.i(Attr::block, 1)), places_(dims.subspan(2, dims.size() - 2 - (block_ > 1 ? 1 : 0))) {
    inner_ = product(places_);
    count_ = dims[1] * block_;
  }
  [[nodiscard]] std::span<const std::int64_t> places() const { return places_; }  // dimensions behind the channels
  [[nodiscard]] std::int64_t count() const { return count_; }
  // Of element i: its place in its channel, its channel, its image.
  [[nodiscard]] std::int64_t place(std::int64_t i) const { return i / block_ % inner_; }
  [[nodiscard]] std::int64_t channel(std::int64_t i) const {
    return i / (inner_ * block_) % (count_ / block_) * block_ + i % block_;
  }
  [[nodiscard]] std::int64_t image(std::int64_t i) const { return i / (inner_ * count_); }
  [[nodiscard]] std::int64_t at(std::int64_t image, std::int64_t channel, std::int64_t place) const {
    return ((image * (count_ / block_) + channel / block_) * inner_ + place) * block_ + channel % block_;
  }

 private:
  std::int64_t block_ = 1, inner_ = 1, count_ = 1;
  std::span<const std::int64_t> places_;
};

class Window {
 public:
  // kernel: its size; dims: of what it slides over. Strides, dilations, pads as the attributes say.
  Window(const Attrs& attrs, std::span<const std::int64_t> kernel, std::span<const std::int64_t> dims)
      : kernel_(kernel), dims_(dims), inner_(strides_of(dims)) {
    const auto get = [&](Attr key, std::size_t i, std::int64_t otherwise) {
      const auto list = attrs.list(key);
      return list.empty() ? otherwise : list[i];
    };
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      strides_[i] = get(Attr::strides, i, 1);
      dilations_[i] = get(Attr::dilations, i, 1);
      pads_[i] = get(Attr::pads, i, 0);
      end_pads_[i] = get(Attr::pads, kernel.size() + i, 0);
    }
  }

  // Where the window of element `i` of the result begins, in elements of the input; below 0 in the padding.
  [[nodiscard]] Index begin(std::int64_t i, std::span<const std::int64_t> made) const {
    Index begin{};
    for (std::size_t k = made.size(); k-- > 0;) {
      begin[k] = i % made[k] * strides_[k] - pads_[k];
      i /= made[k];
    }
    return begin;
  }

  // f(place in the channel, place in the kernel) for what of the window lies in the input, in order.
  template <class F>
  void visit(const Index& begin, F&& f) const {
    const std::int64_t count = product(kernel_);
    for (std::int64_t k = 0; k < count; ++k) {
      std::int64_t at = 0;
      bool inside = true;
      std::int64_t rest = k;
      for (std::size_t d = kernel_.size(); d-- > 0;) {
        const std::int64_t p = begin[d] + rest % kernel_[d] * dilations_[d];
        rest /= kernel_[d];
        inside &= p >= 0 && p < dims_[d];
        at += p * inner_[d];
      }
      if (inside) f(at, k);
    }
  }

  // Places of the window that lie in the input or its padding.
  [[nodiscard]] std::int64_t padded(const Index& begin) const {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < kernel_.size(); ++d) {
      std::int64_t along = 0;
      for (std::int64_t k = 0; k < kernel_[d]; ++k)
        along += begin[d] + k * dilations_[d] < dims_[d] + end_pads_[d] ? 1 : 0;
      count *= along;
    }
    return count;
  }

  [[nodiscard]] std::int64_t stride(std::size_t d) const { return strides_[d]; }
  [[nodiscard]] std::int64_t dilation(std::size_t d) const { return dilations_[d]; }
  [[nodiscard]] std::int64_t pad(std::size_t d) const { return pads_[d]; }

 private:
  std::span<const std::int64_t> kernel_, dims_;
  Index inner_{}, strides_{}, dilations_{}, pads_{}, end_pads_{};
};

}  // namespace knapsack::ref
