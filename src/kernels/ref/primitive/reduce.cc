// Along axes: sums in order, in double.
#include <cmath>
#include <limits>

#include "kernels/ref/primitive/tensor.h"

namespace knapsack::ref {
namespace {

// The elements of an axis, or of several, that make one element of the result.
struct Group {
  const Tensor& x;
  std::int64_t first;
  std::int64_t count;
  std::span<const std::int64_t> dims;  // of the reduced axes
  const Index& strides;
  [[nodiscard]] std::int64_t at(std::int64_t i) const { return first + place(i, dims, strides); }
  [[nodiscard]] float f(std::int64_t i) const { return x.f(at(i)); }
  [[nodiscard]] std::int64_t i(std::int64_t i) const { return x.i(at(i)); }
};

// f(group, i) for each element of the result.
template <class F>
void for_groups(const OpCall& call, std::span<const std::int64_t> axes, F&& f) {
  const Tensor x(call.in[0]);
  const auto dims = x.dims();
  const Index strides = strides_of(dims);
  std::array<bool, max_dims> gone{};
  for (const std::int64_t axis : axes) gone[static_cast<std::size_t>(axis)] = true;
  Index kept_dims{};
  Index kept_strides{};
  Index group_dims{};
  Index group_strides{};
  std::size_t kept = 0;
  std::size_t grouped = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    (gone[i] ? group_dims[grouped] : kept_dims[kept]) = dims[i];
    (gone[i] ? group_strides[grouped] : kept_strides[kept]) = strides[i];
    ++(gone[i] ? grouped : kept);
  }
  const std::span<const std::int64_t> of_group(group_dims.data(), grouped);
  const std::span<const std::int64_t> of_kept(kept_dims.data(), kept);
  const std::int64_t count = product(of_group);
  for_rows(call, product(of_kept), [&](std::int64_t i, int) {
    f(Group{x, place(i, of_kept, kept_strides), count, of_group, group_strides}, i);
  });
}

template <class F, class G>
void reduce(const OpCall& call, F&& floats, G&& integers) {
  const Sink out(call.out[0]);
  for_groups(call, call.attrs->list(Attr::axes), [&](const Group& group, std::int64_t i) {
    if (group.x.integer()) {
      out.i(i, integers(group));
    } else {
      out.f(i, floats(group));
    }
  });
}

double sum(const Group& group) {
  double sum = 0;
  for (std::int64_t i = 0; i < group.count; ++i) sum += group.f(i);
  return sum;
}
std::int64_t whole_sum(const Group& group) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < group.count; ++i) sum += static_cast<std::uint64_t>(group.i(i));
  return static_cast<std::int64_t>(sum);
}

template <class F>
float best(const Group& group, F&& better) {
  float found = group.f(0);
  for (std::int64_t i = 1; i < group.count; ++i)
    if (const float x = group.f(i); x != x || better(x, found)) found = x;
  return found;
}
template <class F>
std::int64_t whole_best(const Group& group, F&& better) {
  std::int64_t found = group.i(0);
  for (std::int64_t i = 1; i < group.count; ++i)
    if (better(group.i(i), found)) found = group.i(i);
  return found;
}

// The one axis of Softmax, LogSoftmax, CumSum: each element of it makes one of the result.
template <class F>
void along(const OpCall& call, F&& f) {
  const std::int64_t axis = call.attrs->i(Attr::axis);
  for_groups(call, {&axis, 1}, [&](const Group& group, std::int64_t) { f(group); });
}

}  // namespace

void ReduceSum(const OpCall& call) {
  reduce(
      call, [](const Group& g) { return static_cast<float>(sum(g)); }, whole_sum);
}
void ReduceMean(const OpCall& call) {
  reduce(
      call, [](const Group& g) { return static_cast<float>(sum(g) / static_cast<double>(g.count)); },
      [](const Group& g) { return whole_sum(g) / g.count; });
}
void ReduceMax(const OpCall& call) {
  const auto more = [](auto a, auto b) { return a > b; };
  reduce(
      call, [&](const Group& g) { return best(g, more); }, [&](const Group& g) { return whole_best(g, more); });
}
void ReduceMin(const OpCall& call) {
  const auto less = [](auto a, auto b) { return a < b; };
  reduce(
      call, [&](const Group& g) { return best(g, less); }, [&](const Group& g) { return whole_best(g, less); });
}
void ReduceProd(const OpCall& call) {
  reduce(
      call,
      [](const Group& g) {
        double all = 1;
        for (std::int64_t i = 0; i < g.count; ++i) all *= g.f(i);
        return static_cast<float>(all);
      },
      [](const Group& g) {
        std::uint64_t all = 1;
        for (std::int64_t i = 0; i < g.count; ++i) all *= static_cast<std::uint64_t>(g.i(i));
        return static_cast<std::int64_t>(all);
      });
}
void ReduceL2(const OpCall& call) {
  const auto norm = [](const Group& g) {
    double squares = 0;
    for (std::int64_t i = 0; i < g.count; ++i) squares += static_cast<double>(g.f(i)) * g.f(i);
    return std::sqrt(squares);
  };
  reduce(
      call, [&](const Group& g) { return static_cast<float>(norm(g)); },
      [&](const Group& g) { return static_cast<std::int64_t>(norm(g)); });
}

// The first of several.
void ArgMax(const OpCall& call) {
  const std::int64_t axis = call.attrs->i(Attr::axis);
  const Sink out(call.out[0]);
  for_groups(call, {&axis, 1}, [&](const Group& group, std::int64_t i) {
    std::int64_t found = 0;
    for (std::int64_t k = 1; k < group.count; ++k)
      if (group.x.integer() ? group.i(k) > group.i(found) : group.f(k) > group.f(found)) found = k;
    out.i(i, found);
  });
}

void Softmax(const OpCall& call) {
  const Sink out(call.out[0]);
  along(call, [&](const Group& group) {
    const float highest = best(group, [](float a, float b) { return a > b; });
    float total = 0;
    for (std::int64_t i = 0; i < group.count; ++i) total += std::exp(group.f(i) - highest);
    for (std::int64_t i = 0; i < group.count; ++i) out.f(group.at(i), std::exp(group.f(i) - highest) / total);
  });
}

void LogSoftmax(const OpCall& call) {
  const Sink out(call.out[0]);
  along(call, [&](const Group& group) {
    const float highest = best(group, [](float a, float b) { return a > b; });
    double total = 0;
    for (std::int64_t i = 0; i < group.count; ++i) total += std::exp(group.f(i) - highest);
    const auto log = static_cast<float>(std::log(total));
    for (std::int64_t i = 0; i < group.count; ++i) out.f(group.at(i), group.f(i) - highest - log);
  });
}

void CumSum(const OpCall& call) {
  const bool exclusive = call.attrs->i(Attr::exclusive) != 0;
  const bool reverse = call.attrs->i(Attr::reverse) != 0;
  const Sink out(call.out[0]);
  along(call, [&](const Group& group) {
    double floats = 0;
    std::uint64_t whole = 0;
    for (std::int64_t k = 0; k < group.count; ++k) {
      const std::int64_t i = reverse ? group.count - 1 - k : k;
      const double before = floats;
      const std::uint64_t whole_before = whole;
      if (group.x.integer()) {
        whole += static_cast<std::uint64_t>(group.i(i));
        out.i(group.at(i), static_cast<std::int64_t>(exclusive ? whole_before : whole));
      } else {
        floats += group.f(i);
        out.f(group.at(i), static_cast<float>(exclusive ? before : floats));
      }
    }
  });
}

}  // namespace knapsack::ref
