// Whether a norm makes all elements of a token larger or smaller by one factor, as a wrong epsilon does: beside large
// activations that is less than any threshold for single nodes can be, and yet it is in every token the same thing.
// Not for norms that differ in another way: align.h compares their values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace knapsack {

class NormScale {
 public:
  // Of a token: what both norms read, what A's and B's make of it. `width` columns share a norm. epsilon: A's; 0: not
  // known.
  void add(std::span<const float> x, std::span<const float> a, std::span<const float> b, std::int64_t width,
           double epsilon);

  struct Found {
    double factor = 0;   // B's elements are A's times 1 + factor, in the mean
    double epsilon = 0;  // what B adds to the mean square more than A does, if that is why
    bool of_epsilon = false;
  };
  // Nothing: they do not differ, or no more than what `rounding` of each factor explains. What an epsilon changes grows
  // as activations shrink; what is rounded has either sign and does not.
  [[nodiscard]] std::optional<Found> found(double rounding) const;

 private:
  std::int64_t norms_ = 0;
  // By the weight that an error of the factor has in the epsilon, 1 / (mean square + epsilon)^2.
  double weights_ = 0, epsilons_ = 0, squares_ = 0;
  double factors_ = 0;
};

}  // namespace knapsack
