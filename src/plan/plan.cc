#include "plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/nearest.h"
#include "plan/estimate.h"
#include "plan/judge.h"

namespace knapsack {
namespace {

constexpr std::array all_units{UnitKind::npu, UnitKind::gpu, UnitKind::cpu};  // where no speed is known: in this order

Result<void> check(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
                   const PlanOptions& options) {
  if (options.ctx < 1) return usage_error("--ctx {}: a context has at least 1 token", options.ctx);
  if (model.trained_ctx > 0 && options.ctx > model.trained_ctx)
    return usage_error("--ctx {}: {} was made for at most {} tokens", options.ctx, model.name, model.trained_ctx);
  if (options.prompt < 1) return usage_error("--prompt {}: a prompt has at least 1 token", options.prompt);
  if (options.prompt > options.ctx)
    return usage_error("--prompt {}: it does not fit into a context of {} (--ctx)", options.prompt, options.ctx);
  if (options.quant != "auto" && options.quant != "stored" && !Scheme::named(options.quant)) {
    std::vector<std::string> names = scheme_names();
    names.insert(names.end(), {"auto", "all"});
    return usage_error("--quant {}: there is no such scheme; the nearest are {}", options.quant,
                       fmt::join(nearest_names(options.quant, names, 3), ", "));
  }
  if (options.quant == "stored" && model.stored.empty())
    return usage_error("{} has no weights to be taken as they are stored; choose a scheme (--quant)", model.name);
  if (!options.framework.empty() && !efficiency.knows_framework(options.framework))
    return usage_error("--framework {}: nothing was measured with it; the nearest are {}", options.framework,
                       fmt::join(nearest_names(options.framework, efficiency.frameworks(), 3), ", "));
  if (device.machine && (!options.framework.empty() || options.gb_per_s))
    return usage_error("--{} does not go with {}: what counts there is this program's own engine, as it was measured",
                       options.gb_per_s ? "bandwidth" : "framework", device.id);
  if (options.kv != "f16" && options.kv != "i8" && options.kv != "i4")
    return usage_error("--kv {}: expected f16, i8 or i4", options.kv);
  if (options.unit != "auto") {
    std::vector<std::string> there;
    for (const UnitKind unit : all_units)
      if (device.unit(unit) != nullptr) there.emplace_back(unit_name(unit));
    if (std::find(there.begin(), there.end(), options.unit) == there.end())
      return usage_error("--unit {}: the profile of {} has none; it has {}", options.unit, device.name,
                         there.empty() ? "no unit" : fmt::format("{}", fmt::join(there, ", ")));
  }
  return {};
}

bool measured(const DeviceProfile& device, const Efficiency& efficiency, UnitKind unit) {
  return !efficiency.usual_framework(std::string(unit_name(unit)), efficiency.chip(device.id)).empty();
}
bool measured_of_family(const DeviceProfile& device, const Efficiency& efficiency, UnitKind unit) {
  return !efficiency.usual_framework_of_family(std::string(unit_name(unit)), device.family).empty();
}

// Those asked for. Where language models were measured on a chip, `auto` takes none of its units that they were not
// measured on: a display's small GPU has a peak, too.
std::vector<UnitKind> units_of(const DeviceProfile& device, const Efficiency& efficiency, const PlanOptions& options) {
  std::vector<UnitKind> units;
  for (const UnitKind unit : all_units)
    if (device.unit(unit) != nullptr && (options.unit == "auto" || options.unit == unit_name(unit)))
      units.push_back(unit);
  for (const auto known : {measured, measured_of_family}) {  // its own figures first
    const auto never = [&](UnitKind unit) { return !known(device, efficiency, unit); };
    if (options.unit != "auto" || std::all_of(units.begin(), units.end(), never)) continue;
    std::erase_if(units, never);
    break;
  }
  if (units.empty()) units.push_back(UnitKind::cpu);  // memory alone can be said
  return units;
}

std::vector<std::string> schemes_of(const PlanOptions& options, UnitKind unit, const PlanModel& model) {
  if (options.quant != "auto") return {options.quant};
  if (!model.stored.empty()) return {"stored"};
  return usual_schemes(std::string(unit_name(unit)));
}

double rate(const Plan& plan) { return plan.decode_tokens_per_s ? plan.decode_tokens_per_s->expected : 0; }

// Seconds until a person has an answer of usual length: what makes one unit faster than another.
std::optional<double> answer_s(const Plan& plan) {
  constexpr double usual_tokens = 128;
  if (!plan.decode_tokens_per_s || !plan.ttft_ms) return std::nullopt;
  return plan.ttft_ms->expected / 1e3 + usual_tokens / plan.decode_tokens_per_s->expected;
}

// Verdict first; then as it was asked: of units the faster one, of schemes the more exact one.
bool better(const Plan& a, const Plan& b) {
  if (a.verdict != b.verdict) return a.verdict < b.verdict;
  constexpr double same = 0.02;
  if (a.verdict == Verdict::does_not_fit && std::fabs(a.excess - b.excess) > same) return a.excess < b.excess;
  if (a.unit != b.unit && answer_s(a) && answer_s(b)) return *answer_s(a) < *answer_s(b);
  return false;  // schemes come from the most exact on
}

bool as_measured_with(const Efficiency& efficiency, const Plan& plan) {
  constexpr double about = 1.25;  // tables and heads have more bits than the label says
  const auto most = efficiency.most_bits(plan.unit, plan.framework);
  return !most || plan.bits_per_weight <= about * *most;
}

Plan best(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
          const PlanOptions& options) {
  std::optional<Plan> chosen;
  for (const UnitKind unit : units_of(device, efficiency, options)) {
    std::optional<Plan> of_unit;
    bool usual = false;
    for (const std::string& scheme : schemes_of(options, unit, model)) {
      Plan next = estimate(model, device, efficiency, options, scheme, unit);
      judge(model, device, options, next);
      // `auto` takes none that is wider than whatever the framework was measured with, where there is another.
      const bool as_measured = options.quant != "auto" || as_measured_with(efficiency, next);
      if (!of_unit || (as_measured && (!usual || better(next, *of_unit)))) of_unit = std::move(next);
      usual = usual || as_measured;
    }
    if (!chosen || better(*of_unit, *chosen)) chosen = std::move(of_unit);
  }
  return std::move(*chosen);
}

struct Change {
  std::string text;
  PlanOptions options;
};

// The cheapest first: what costs no quality, then a little, then more.
std::vector<Change> candidates(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
                               const PlanOptions& options, const Plan& now) {
  std::vector<Change> out;
  const auto freed = [&](double before, double after) {
    return before - after >= 1 ? fmt::format(" frees {}", size_text(before - after)) : std::string();
  };
  const auto kv_of = [&](std::string_view kv, std::int64_t ctx) { return kv_bytes(model, bits_of_kv(kv), ctx) / mib; };
  PlanOptions fixed = options;
  fixed.quant = now.quant;
  fixed.unit = now.unit;
  if (options.unit == "auto") fixed.unit = "auto";
  for (const UnitKind unit : all_units) {
    if (device.unit(unit) == nullptr || now.unit == unit_name(unit)) continue;
    Change change{fmt::format("--unit {} in place of {}{}", unit_name(unit), now.unit,
                              measured(device, efficiency, unit) ? "" : " (reckoned, never measured there)"),
                  fixed};
    change.options.unit = unit_name(unit);
    out.push_back(std::move(change));
  }
  if (options.kv == "f16") {
    Change change{fmt::format("KV int8{}", freed(now.kv_mib, kv_of("i8", options.ctx))), fixed};
    change.options.kv = "i8";
    out.push_back(std::move(change));
  }
  for (std::int64_t ctx = options.ctx / 2; ctx >= std::max<std::int64_t>(options.prompt, 512); ctx /= 2) {
    Change change{fmt::format("ctx {} -> {}{}", options.ctx, ctx, freed(now.kv_mib, kv_of(options.kv, ctx))), fixed};
    change.options.ctx = ctx;
    out.push_back(std::move(change));
  }
  for (const std::string& scheme : usual_schemes(now.unit)) {
    const double weights = weigh(model, scheme).bytes / mib;
    if (weights > now.weights_mib * 0.97) continue;
    Change change{fmt::format("{} in place of {}{}", scheme, now.quant == "stored" ? model.stored : now.quant,
                              freed(now.weights_mib, weights)),
                  fixed};
    change.options.quant = scheme;
    out.push_back(std::move(change));
  }
  if (now.ttft_ms && now.ttft_ms->expected > options.bar.ttft_s * 1e3 && options.prompt > 1) {
    const auto prompt = static_cast<std::int64_t>(static_cast<double>(options.prompt) * options.bar.ttft_s * 1e3 /
                                                  now.ttft_ms->expected * 0.95);
    if (prompt >= 1) {
      Change change{fmt::format("prompt {} -> {}", options.prompt, prompt), fixed};
      change.options.prompt = prompt;
      out.push_back(std::move(change));
    }
  }
  return out;
}

// Whether it is better at something that now does not fit, or is tight.
bool helps(const Plan& now, const Plan& then) {
  constexpr double much = 1.05;
  const auto fails = [&](Wall wall) { return now.by_wall[static_cast<std::size_t>(wall)] != Verdict::fits; };
  const auto first = [](const Plan& plan) { return plan.ttft_ms ? plan.ttft_ms->expected : 0; };
  return (fails(Wall::memory) && then.peak_mib * much < now.peak_mib) ||
         (fails(Wall::decode) && rate(then) > much * rate(now)) ||
         (fails(Wall::first_token) && first(then) * much < first(now)) ||
         (fails(Wall::load) && then.weights_mib * much < now.weights_mib) ||
         (fails(Wall::heat) && then.sustained_tokens_per_s > now.sustained_tokens_per_s);
}

// Prefill on one unit and decode on another; each holds its own weights.
Plan together(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options, const Plan& prefill,
              const Plan& decode) {
  Plan out = decode;
  out.ttft_ms = prefill.ttft_ms;
  out.prefill_tokens_per_s = prefill.prefill_tokens_per_s;
  out.weights_mib += prefill.weights_mib;
  out.peak_mib += prefill.weights_mib + prefill.arena_mib + prefill.overhead_mib;
  judge(model, device, options, out);
  return out;
}

std::string shown_quant(const PlanModel& model, const Plan& plan) {
  return plan.quant == "stored" ? model.stored : plan.quant;
}

// "Move to the NPU for prefill only", where each of both units is the better one at its half.
void find_split(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
                const PlanOptions& options, Plan& now) {
  if (options.unit != "auto" && options.unit != now.unit) return;
  for (const UnitKind unit : all_units) {
    if (device.unit(unit) == nullptr || now.unit == unit_name(unit)) continue;
    PlanOptions there = options;
    there.unit = unit_name(unit);
    const Plan other = best(model, device, efficiency, there);
    if (!other.ttft_ms || !now.ttft_ms) continue;
    const bool first = other.ttft_ms->expected < now.ttft_ms->expected;
    const auto unfit = [](const Plan& plan) {  // the unit itself cannot, whatever it is asked for
      return plan.by_wall[static_cast<std::size_t>(Wall::unit)] == Verdict::does_not_fit;
    };
    if (unfit(now) || unfit(other)) continue;
    const Plan both =
        first ? together(model, device, options, other, now) : together(model, device, options, now, other);
    if (both.verdict < now.verdict && both.verdict < other.verdict)
      now.changes.push_back(fmt::format("prefill on the {} ({}) and decode on the {} ({}), {} of memory in all: {}",
                                        (first ? other : now).unit, shown_quant(model, first ? other : now),
                                        (first ? now : other).unit, shown_quant(model, first ? now : other),
                                        size_text(both.peak_mib), verdict_name(both.verdict)));
  }
}

void find_changes(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
                  const PlanOptions& options, Plan& now) {
  if (now.verdict == Verdict::fits) return;
  std::vector<std::string> towards;
  for (const Change& change : candidates(model, device, efficiency, options, now)) {
    if (now.changes.size() >= 4) break;
    const Plan then = best(model, device, efficiency, change.options);
    if (then.verdict < now.verdict) {
      now.changes.push_back(fmt::format("{}: {}", change.text, verdict_name(then.verdict)));
    } else if (helps(now, then)) {
      towards.push_back(change.text + ": not enough by itself");
    }
  }
  find_split(model, device, efficiency, options, now);
  for (std::string& text : towards)
    if (now.changes.size() < 4) now.changes.push_back(std::move(text));
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::tight:
      return "tight";
    case Verdict::does_not_fit:
      return "does not fit";
  }
  return "";
}

std::vector<std::string> usual_schemes(const std::string& unit) {
  if (unit == "npu") return {"f16", "w8a8", "w4a16-g128", "w4a16"};
  return {"f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0", "q3_k_m", "q2_k"};
}

Result<Plan> plan(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
                  const PlanOptions& options) {
  TRY_VOID(check(model, device, efficiency, options));
  Plan out = best(model, device, efficiency, options);
  find_changes(model, device, efficiency, options, out);
  return out;
}

}  // namespace knapsack
