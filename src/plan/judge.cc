#include "plan/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "plan/estimate.h"

namespace knapsack {
namespace {

constexpr double full = 0.9;  // beyond this part of the budget memory is tight

struct Reason {
  Wall wall = Wall::unknown;
  double weight = 0;  // how many times beyond the bar, as a logarithm; below 0: within it
  Verdict verdict = Verdict::fits;
  std::string text;
};

UnitKind unit_of(const Plan& plan) {
  return plan.unit == "gpu" ? UnitKind::gpu : plan.unit == "npu" ? UnitKind::npu : UnitKind::cpu;
}

void judge_memory(const DeviceProfile& device, const PlanOptions& options, const Plan& plan,
                  std::vector<Reason>& reasons) {
  const std::string parts =
      fmt::format("weights {}, KV {} at {} tokens, activations {}, runtime {}", size_text(plan.weights_mib),
                  size_text(plan.kv_mib), options.ctx, size_text(plan.arena_mib), size_text(plan.overhead_mib));
  if (!plan.budget_mib) {
    reasons.push_back(
        {Wall::unknown, 0, Verdict::tight,
         fmt::format("needs {} ({}); how much memory the device has is not known", size_text(plan.peak_mib), parts)});
    return;
  }
  const double share = plan.peak_mib / *plan.budget_mib;
  const Verdict verdict = share > 1 ? Verdict::does_not_fit : share > full ? Verdict::tight : Verdict::fits;
  // What does not go in at all comes before what is slow.
  constexpr double first = 10;
  reasons.push_back({Wall::memory, std::log(share) + (verdict == Verdict::does_not_fit ? first : 0), verdict,
                     fmt::format("{} of memory {} {} ({})", size_text(plan.peak_mib),
                                 verdict == Verdict::does_not_fit ? "is more than the budget of" : "in a budget of",
                                 size_text(*plan.budget_mib), parts)});
  const auto& sizes = device.memory.sizes_bytes;
  if (!options.memory_gib && !options.bar.memory_mib && !device.machine)
    reasons.back().text += "; the budget is of the largest memory it has, --memory GIB says another";
  if (verdict != Verdict::does_not_fit && sizes && !options.memory_gib && !options.bar.memory_mib) {
    const double keep = usable_share(device, unit_of(plan));
    std::vector<std::int64_t> small;
    for (const auto size : sizes->value)
      if (static_cast<double>(size) * keep < plan.peak_mib * mib) small.push_back(size);
    if (!small.empty())
      reasons.push_back(
          {Wall::memory, -0.5, Verdict::fits,
           fmt::format("not with {} of memory, with which it is sold, too",
                       size_text(static_cast<double>(*std::max_element(small.begin(), small.end())) / mib))});
  }
}

// tight: it may be met and may not. Of what is asked to be at most `bar`, expected and at worst.
void judge_figure(Wall wall, const std::string& text, double expected, double high, double bar,
                  std::vector<Reason>& reasons) {
  const Verdict verdict = expected > bar ? Verdict::does_not_fit : high > bar ? Verdict::tight : Verdict::fits;
  reasons.push_back({wall, std::log(expected / bar), verdict, text});
}

// The bits of a scheme's matrices in the middle of a model, as toolchains count them.
std::int64_t middle_bits(const PlanModel& model, const Scheme& scheme) {
  const TensorPlace place{TensorPart::up, model.layers / 2, model.hidden, model.hidden};
  const double bits =
      8 * static_cast<double>(scheme.bytes(model.place(), place)) / static_cast<double>(place.rows * place.cols);
  constexpr double floats = 12;
  constexpr double bytes = 7;
  constexpr double nibbles = 3.5;
  return bits > floats ? 16 : bits > bytes ? 8 : bits > nibbles ? 4 : 2;
}

void judge_npu(const PlanModel& model, const DeviceProfile& device, const Plan& plan, std::vector<Reason>& reasons) {
  const UnitProfile* npu = device.unit(UnitKind::npu);
  if (plan.unit != "npu" || npu == nullptr) return;
  const UnitLimits& limits = npu->limits;
  const auto parts_of = [](double need, double each) { return static_cast<std::int64_t>(std::ceil(need / each)); };
  const double mapped = (plan.weights_mib + plan.kv_mib) * mib;
  if (limits.process_domain_bytes && mapped > static_cast<double>(limits.process_domain_bytes->value))
    reasons.push_back(
        {Wall::unit, -0.2, Verdict::fits,
         fmt::format("weights and KV ({}) are more than one address space of the NPU holds ({}): {} "
                     "sessions are needed",
                     size_text(mapped / mib), size_text(static_cast<double>(limits.process_domain_bytes->value) / mib),
                     parts_of(mapped, static_cast<double>(limits.process_domain_bytes->value)))});
  if (limits.context_bytes && plan.weights_mib * mib > static_cast<double>(limits.context_bytes->value)) {
    const auto parts = parts_of(plan.weights_mib * mib, static_cast<double>(limits.context_bytes->value));
    const bool too_many = limits.contexts && parts > limits.contexts->value;
    reasons.push_back({Wall::unit, too_many ? 1.0 : -0.2, too_many ? Verdict::does_not_fit : Verdict::fits,
                       fmt::format("the weights ({}) must be split into {} contexts of the NPU, each of at most {}",
                                   size_text(plan.weights_mib), parts,
                                   size_text(static_cast<double>(limits.context_bytes->value) / mib))});
  }
  if (limits.address_bits && mapped > std::exp2(limits.address_bits->value))
    reasons.push_back({Wall::unit, std::log(mapped / std::exp2(limits.address_bits->value)), Verdict::does_not_fit,
                       fmt::format("weights and KV ({}) are more than the NPU's addresses of {} bits reach",
                                   size_text(mapped / mib), limits.address_bits->value)});
  if (limits.weight_buffer_bytes && plan.weights_mib * mib > static_cast<double>(limits.weight_buffer_bytes->value))
    reasons.push_back(
        {Wall::unit, -0.4, Verdict::fits,
         fmt::format("map the weights ({}) as at least {} buffers: one of {} is known to have failed on such a device",
                     size_text(plan.weights_mib),
                     parts_of(plan.weights_mib * mib, static_cast<double>(limits.weight_buffer_bytes->value)),
                     size_text(static_cast<double>(limits.weight_buffer_bytes->value) / mib))});
  if (limits.tensor_dim) {
    std::int64_t widest = 0;
    for (const PlanTensor& tensor : model.tensors)
      if (tensor.place.part != TensorPart::table)
        widest = std::max({widest, tensor.place.rows / tensor.experts, tensor.place.cols});
    if (widest > limits.tensor_dim->value)
      reasons.push_back(
          {Wall::unit, -0.4, Verdict::fits,
           fmt::format("a matrix of {} rows or columns must be cut into {}: the NPU takes no dimension beyond {}",
                       widest, parts_of(static_cast<double>(widest), static_cast<double>(limits.tensor_dim->value)),
                       limits.tensor_dim->value)});
  }
  // What was measured with such weights there, its runtime unpacks.
  const auto scheme = Scheme::named(plan.quant);
  if (!npu->dtypes || plan.measured || !scheme) return;
  const std::int64_t bits = middle_bits(model, *scheme);
  const bool lists = std::any_of(npu->dtypes->value.begin(), npu->dtypes->value.end(), [&](const std::string& dtype) {
    return bits == 16  ? dtype == "fp16" || dtype == "bf16" || dtype == "fp32"
           : bits == 8 ? dtype.ends_with("int8") || dtype == "fp8"
                       : dtype.ends_with("int4") || dtype == "fp4";
  });
  if (!lists)
    reasons.push_back(
        {Wall::unit, 0.5, Verdict::does_not_fit,
         fmt::format("the NPU takes no weights of {} bits, but {}", bits, fmt::join(npu->dtypes->value, ", "))});
}

// What the toolchain takes: of types a wall, of operators a price.
void judge_operators(const PlanModel& model, const Plan& plan, std::vector<Reason>& reasons) {
  if (!plan.operators) return;
  const PlanOperators& o = *plan.operators;
  const std::string which = o.toolchain.find(o.at) == std::string::npos || o.at.empty()
                                ? fmt::format("{} at {}", o.toolchain, o.at)
                                : o.toolchain;
  if (const auto scheme = Scheme::named(plan.quant); scheme && !o.weight_bits.empty()) {
    const std::int64_t bits = middle_bits(model, *scheme);
    if (std::find(o.weight_bits.begin(), o.weight_bits.end(), bits) == o.weight_bits.end())
      reasons.push_back(
          {Wall::unit, 0.5, Verdict::does_not_fit,
           fmt::format("{} takes no weights of {} bits, but of {}", which, bits, fmt::join(o.weight_bits, ", "))});
  }
  if (o.on_cpu > 0) {
    const double us = o.time.us.value_or(o.time.at_least_us.value_or(0));
    const std::string price = o.time.us            ? fmt::format(", {:.0f} us", us)
                              : o.time.at_least_us ? fmt::format(", {:.0f} us at least", us)
                                                   : "";
    constexpr double much = 0.1;  // of a step
    const bool dear = plan.decode_tokens_per_s && us * 1e-6 * plan.decode_tokens_per_s->expected > much;
    const double kib = static_cast<double>(o.crossings.to_cpu_bytes + o.crossings.to_npu_bytes) / 1024;
    reasons.push_back(
        {Wall::unit, dear ? 0.1 : -0.3, dear ? Verdict::tight : Verdict::fits,
         fmt::format("with {} {} of {} operators of a decode step leave the NPU ({}): {} copies, {:.0f} KiB{} a token, "
                     "in {} NPU graphs (see `knapsack inspect --device`)",
                     which, o.on_cpu, o.nodes, fmt::join(o.refused, ", "), o.crossings.copies, kib, price, o.pieces)});
  } else if (o.unknown == 0) {
    reasons.push_back(
        {Wall::unit, -0.6, Verdict::fits, fmt::format("{} takes all {} operators of a decode step", which, o.nodes)});
  }
}

}  // namespace

void judge(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options, Plan& plan) {
  std::vector<Reason> reasons;
  judge_memory(device, options, plan, reasons);
  const PlanBar& bar = options.bar;
  if (plan.decode_tokens_per_s) {
    const Estimate& e = *plan.decode_tokens_per_s;
    judge_figure(Wall::decode,
                 fmt::format("{:.1f} tokens/s in decode ({:.1f} to {:.1f}), {:g} are asked for", e.expected, e.low,
                             e.high, bar.decode_tokens_per_s),
                 1 / e.expected, 1 / e.low, 1 / bar.decode_tokens_per_s, reasons);
  } else {
    reasons.push_back({Wall::unknown, 0, Verdict::tight, "how fast it decodes cannot be said"});
  }
  if (plan.ttft_ms) {
    const Estimate& e = *plan.ttft_ms;
    judge_figure(
        Wall::first_token,
        fmt::format("first token of a prompt of {} after {:.2f} s ({:.2f} to {:.2f}), at most {:g} s are asked "
                    "for",
                    options.prompt, e.expected / 1e3, e.low / 1e3, e.high / 1e3, bar.ttft_s),
        e.expected, e.high, bar.ttft_s * 1e3, reasons);
  }
  if (plan.load_s)
    judge_figure(Wall::load,
                 fmt::format("loaded after {:.1f} s ({:.1f} to {:.1f}), at most {:g} s are asked for",
                             plan.load_s->expected, plan.load_s->low, plan.load_s->high, bar.load_s),
                 plan.load_s->expected, plan.load_s->high, bar.load_s, reasons);
  else if (plan.load_floor_s && *plan.load_floor_s > bar.load_s)
    reasons.push_back({Wall::load, std::log(*plan.load_floor_s / bar.load_s), Verdict::does_not_fit,
                       fmt::format("reading the weights alone takes {:.1f} s, at most {:g} s are asked for to load",
                                   *plan.load_floor_s, bar.load_s)});
  const auto asked = [&](bool named, bool known, const char* what) {
    if (named && !known)
      reasons.push_back({Wall::unknown, 0, Verdict::tight, fmt::format("{} is asked for and cannot be said", what)});
  };
  asked(bar.asks_load, plan.load_s.has_value() || (plan.load_floor_s && *plan.load_floor_s > bar.load_s),
        "how long loading takes");
  asked(bar.asks_minutes, plan.minutes_to_throttle || plan.never_throttles, "how long it runs without throttling");
  asked(bar.asks_ttft, plan.ttft_ms.has_value(), "when the first token comes");
  if (plan.minutes_to_throttle && *plan.minutes_to_throttle < bar.minutes)
    reasons.push_back(
        {Wall::heat, std::log(bar.minutes / std::max(0.01, *plan.minutes_to_throttle)),
         plan.sustained_tokens_per_s && *plan.sustained_tokens_per_s >= bar.decode_tokens_per_s ? Verdict::tight
                                                                                                : Verdict::does_not_fit,
         fmt::format("throttles after {:.1f} minutes, {:g} are asked for", *plan.minutes_to_throttle, bar.minutes)});
  judge_npu(model, device, plan, reasons);
  judge_operators(model, plan, reasons);
  std::stable_sort(reasons.begin(), reasons.end(), [](const Reason& a, const Reason& b) {
    return a.verdict != b.verdict ? a.verdict > b.verdict : a.weight > b.weight;
  });
  plan.verdict = reasons.front().verdict;
  plan.by_wall.fill(Verdict::fits);
  plan.excess = 0;
  for (const Reason& reason : reasons) {
    Verdict& of_wall = plan.by_wall[static_cast<std::size_t>(reason.wall)];
    of_wall = std::max(of_wall, reason.verdict);
    if (reason.verdict == Verdict::does_not_fit) plan.excess += std::max(0.0, reason.weight);
  }
  plan.reasons.clear();
  for (Reason& reason : reasons) plan.reasons.push_back(std::move(reason.text));
}

}  // namespace knapsack
