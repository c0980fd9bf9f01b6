#include <cmath>

#include "kernels/ref/ref.h"

namespace knapsack::ref {
namespace {

struct Routing {
  std::int64_t experts, top_k, groups, top_groups;
  bool sigmoid, normalise, sum_of_two;
  float scale;
};

std::size_t floats_a_thread(std::int64_t experts, std::int64_t groups) {
  return static_cast<std::size_t>(2 * experts + groups);
}

void score(const Routing& r, const float* logits, float* scores) {
  if (r.sigmoid) {
    for (std::int64_t e = 0; e < r.experts; ++e) scores[e] = 1.0F / (1.0F + std::exp(-logits[e]));
    return;
  }
  const float highest = *std::max_element(logits, logits + r.experts);
  float sum = 0;
  for (std::int64_t e = 0; e < r.experts; ++e) sum += scores[e] = std::exp(logits[e] - highest);
  for (std::int64_t e = 0; e < r.experts; ++e) scores[e] /= sum;
}

// Broken weights give NaN; it counts as the least, so that there are always top_k different experts to choose.
float ordered(float value) { return std::isnan(value) ? -INFINITY : value; }

// The index of the largest value that is not NaN (which marks what was taken); the lowest index wins a tie.
std::int64_t best(const float* values, std::int64_t count) {
  std::int64_t at = -1;
  for (std::int64_t i = 0; i < count; ++i)
    if (!std::isnan(values[i]) && (at < 0 || values[i] > values[at])) at = i;
  return at;
}

// Experts outside the best groups get the choice 0: as transformers masks them, so that they can still win against
// a negative corrected score.
void keep_best_groups(const Routing& r, float* choice, float* group_scores) {
  const std::int64_t size = r.experts / r.groups;
  for (std::int64_t g = 0; g < r.groups; ++g) {
    const float* in_group = choice + g * size;
    const std::int64_t first = best(in_group, size);
    group_scores[g] = in_group[first];
    if (!r.sum_of_two) continue;
    float second = -INFINITY;
    for (std::int64_t i = 0; i < size; ++i)
      if (i != first) second = std::max(second, in_group[i]);
    group_scores[g] = ordered(group_scores[g] + second);
  }
  for (std::int64_t k = 0; k < r.top_groups; ++k) group_scores[best(group_scores, r.groups)] = NAN;
  for (std::int64_t g = 0; g < r.groups; ++g)
    if (!std::isnan(group_scores[g])) std::fill_n(choice + g * size, size, 0.0F);
}

}  // namespace

std::size_t router_scratch(const OpCall& shape, std::int64_t, int threads) {
  return floats_a_thread(shape.in[0].cols, shape.attrs->i(Attr::groups, 1)) * static_cast<std::size_t>(threads) *
         sizeof(float);
}

void router(const OpCall& call) {
  const Routing r{.experts = call.in[0].cols,
                  .top_k = call.attrs->i(Attr::top_k),
                  .groups = call.attrs->i(Attr::groups, 1),
                  .top_groups = call.attrs->i(Attr::top_groups, 1),
                  .sigmoid = call.attrs->i(Attr::score) == 1,
                  .normalise = call.attrs->i(Attr::norm_topk) != 0,
                  .sum_of_two = call.attrs->i(Attr::group_score) == 1,
                  .scale = call.attrs->f(Attr::scale, 1)};
  const float* correction = call.in.size() > 1 ? call.in[1].weight->f32() : nullptr;
  for_rows(call, call.in[0].rows, [&](std::int64_t row, int thread) {
    float* scores = reinterpret_cast<float*>(call.scratch.data()) +
                    static_cast<std::size_t>(thread) * floats_a_thread(r.experts, r.groups);
    float* choice = scores + r.experts;
    score(r, call.in[0].f32() + row * r.experts, scores);
    for (std::int64_t e = 0; e < r.experts; ++e)
      choice[e] = ordered(scores[e] + (correction != nullptr ? correction[e] : 0.0F));
    if (r.groups > 1) keep_best_groups(r, choice, choice + r.experts);
    if (correction == nullptr) std::copy_n(choice, r.experts, scores);

    std::int32_t* ids = call.out[0].i32() + row * r.top_k;
    float* weights = call.out[1].f32() + row * r.top_k;
    float sum = 1e-20F;  // as transformers: never divides by zero
    for (std::int64_t k = 0; k < r.top_k; ++k) {
      const std::int64_t expert = best(choice, r.experts);
      choice[expert] = NAN;
      ids[k] = static_cast<std::int32_t>(expert);
      weights[k] = scores[expert];
      sum += weights[k];
    }
    for (std::int64_t k = 0; k < r.top_k; ++k) weights[k] = (r.normalise ? weights[k] / sum : weights[k]) * r.scale;
  });
}

}  // namespace knapsack::ref
