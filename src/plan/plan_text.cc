#include "plan/plan_text.h"

#include <fmt/format.h>

#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

std::string size_text(double mebibytes) {
  return mebibytes >= 1024 ? fmt::format("{:.2f} GiB", mebibytes / 1024) : fmt::format("{:.0f} MiB", mebibytes);
}

// Three digits that mean something.
std::string number(double value) {
  return value >= 100  ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.2f}", value);
}
std::string spread(const std::optional<Estimate>& e, std::string_view unit, double scale = 1) {
  if (!e) return "unknown";
  return fmt::format("{} {} ({} to {})", number(e->expected * scale), unit, number(e->low * scale),
                     number(e->high * scale));
}

json::value json_of(const std::optional<double>& value) { return value ? json::value(*value) : json::value(nullptr); }
json::value json_of(const std::optional<Estimate>& e) {
  if (!e) return nullptr;
  return json::object{{"low", e->low}, {"expected", e->expected}, {"high", e->high}};
}

// What a step takes beside reading: starting layers, working on weights.
std::string beside(const Plan& plan) {
  if (plan.framework == "knapsack" || !plan.decode_tokens_per_s || plan.bandwidth_share <= 0.0) return "";
  const double ms = 1e3 / plan.decode_tokens_per_s->expected - *plan.floor_ms / *plan.bandwidth_share;
  return ms > 0 ? fmt::format(", and {} ms go to layers and weights besides", number(ms)) : "";
}

json::value operators_json(const std::optional<PlanOperators>& operators) {
  if (!operators) return nullptr;
  const PlanOperators& o = *operators;
  return json::object{{"toolchain", o.toolchain},
                      {"at", o.at},
                      {"total", o.nodes},
                      {"npu", o.on_npu},
                      {"cpu", o.on_cpu},
                      {"ahead", o.ahead},
                      {"unknown", o.unknown},
                      {"refused", json::value_from(o.refused)},
                      {"npu_graphs", o.pieces},
                      {"copies", o.crossings.copies},
                      {"to_cpu_bytes", o.crossings.to_cpu_bytes},
                      {"to_npu_bytes", o.crossings.to_npu_bytes},
                      {"us", json_of(o.time.us)},
                      {"us_at_least", json_of(o.time.at_least_us)},
                      {"weight_bits", json::value_from(o.weight_bits)}};
}

}  // namespace

std::string plan_text(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options,
                      const Plan& plan) {
  std::string out =
      fmt::format("{} on {}: {}\n", one_line(model.name), one_line(device.name), verdict_name(plan.verdict));
  for (const std::string& reason : plan.reasons) out += fmt::format("  - {}\n", one_line(reason));
  if (!plan.changes.empty()) {
    out += "\nwhat would change that, the cheapest first\n";
    for (const std::string& change : plan.changes) out += fmt::format("  - {}\n", one_line(change));
  }
  const auto line = [&](std::string_view label, const std::string& value) {
    out += fmt::format("{:<14}{}\n", label, one_line(value));
  };
  out += "\n";
  line("scheme", fmt::format("{}, {:.2f} bits per weight, KV {}", plan.quant == "stored" ? model.stored : plan.quant,
                             plan.bits_per_weight, options.kv));
  line("runs on", plan.framework.empty() ? plan.unit : fmt::format("{}, as {} does there", plan.unit, plan.framework));
  line("memory", fmt::format("{} = weights {} + KV {} ({} tokens) + activations {} + runtime {}{}",
                             size_text(plan.peak_mib), size_text(plan.weights_mib), size_text(plan.kv_mib), options.ctx,
                             size_text(plan.arena_mib), size_text(plan.overhead_mib),
                             plan.budget_mib ? fmt::format("; budget {}", size_text(*plan.budget_mib)) : ""));
  if (plan.gb_per_s)
    line("bandwidth",
         fmt::format("{:.3f} GB of weights and {:.3f} GB of KV a token at {:g} GB/s: {} ms at least; {:.0f} "
                     "% of the bandwidth is reached, as {}{}",
                     plan.read_gb, plan.kv_read_gb, *plan.gb_per_s, number(*plan.floor_ms), 100 * *plan.bandwidth_share,
                     device.machine ? "measured" : "fitted", beside(plan)));
  line("decode", spread(plan.decode_tokens_per_s, "tokens/s"));
  for (const DepthRate& rate : plan.decode_at_depth)
    line("", fmt::format("{} after {} tokens", number(rate.tokens_per_s.expected), rate.depth));
  line("prefill", spread(plan.prefill_tokens_per_s, "tokens/s"));
  if (plan.peak_tops)
    line("", fmt::format("{:.3f} TFLOP of products and {:.3f} of attention for {} tokens{}; reckoned with {} TOPS (of "
                         "the data sheet and the bandwidth, before efficiency)",
                         plan.prefill_tflop, plan.attention_tflop, options.prompt,
                         plan.padded_prompt > options.prompt ? fmt::format(" (padded to {})", plan.padded_prompt) : "",
                         number(*plan.peak_tops)));
  line("first token", plan.ttft_ms ? spread(plan.ttft_ms, "s", 1e-3) + ", warm" : "unknown");
  if (plan.load_s) {
    line("", fmt::format("{}, cold: loading takes {}", spread(plan.ttft_cold_ms, "s", 1e-3), spread(plan.load_s, "s")));
  } else if (plan.load_floor_s) {
    line("", fmt::format("cold: {} s more at least, to read the file", number(*plan.load_floor_s)));
  }
  if (plan.energy_mj_per_token) line("energy", fmt::format("{} mJ a token", number(*plan.energy_mj_per_token)));
  if (plan.steady_c)
    line("heat", fmt::format("{:.0f} C in the end at {:g} C ambient{}", *plan.steady_c, options.ambient_c,
                             plan.never_throttles ? ", below where it throttles"
                             : plan.minutes_to_throttle
                                 ? fmt::format(", throttles after {:.1f} minutes", *plan.minutes_to_throttle)
                                 : ""));
  if (plan.sustained_tokens_per_s)
    line("for ever", fmt::format("{} tokens/s can be held", number(*plan.sustained_tokens_per_s)));
  if (!plan.unknown.empty()) {
    out += "\nunknown\n";
    for (const std::string& each : plan.unknown) out += fmt::format("  - {}\n", one_line(each));
  }
  return out;
}

json::object plan_json(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options,
                       const Plan& plan) {
  json::object out{{"model", model.name}, {"device", device.id}, {"verdict", verdict_name(plan.verdict)}};
  out["reasons"] = json::value_from(plan.reasons);
  out["changes"] = json::value_from(plan.changes);
  out["quant"] = plan.quant == "stored" ? model.stored : plan.quant;
  out["unit"] = plan.unit;
  out["framework"] = plan.framework.empty() ? json::value(nullptr) : json::value(plan.framework);
  out["ctx"] = options.ctx;
  out["prompt"] = options.prompt;
  out["kv"] = options.kv;
  out["parameters"] = model.parameters;
  out["bits_per_weight"] = plan.bits_per_weight;
  out["weights_mib"] = plan.weights_mib;
  out["kv_mib"] = plan.kv_mib;
  out["arena_mib"] = plan.arena_mib;
  out["overhead_mib"] = plan.overhead_mib;
  out["peak_mib"] = plan.peak_mib;
  out["budget_mib"] = json_of(plan.budget_mib);
  out["ttft_ms"] = json_of(plan.ttft_ms);
  out["ttft_cold_ms"] = json_of(plan.ttft_cold_ms);
  out["load_s"] = json_of(plan.load_s);
  out["load_floor_s"] = json_of(plan.load_floor_s);
  out["prefill_tokens_per_s"] = json_of(plan.prefill_tokens_per_s);
  out["decode_tokens_per_s"] = json_of(plan.decode_tokens_per_s);
  json::array depths;
  for (const DepthRate& rate : plan.decode_at_depth)
    depths.push_back(json::object{{"depth", rate.depth}, {"tokens_per_s", json_of(std::optional(rate.tokens_per_s))}});
  out["decode_at_depth"] = std::move(depths);
  out["energy_mj_per_token"] = json_of(plan.energy_mj_per_token);
  out["steady_c"] = json_of(plan.steady_c);
  out["minutes_to_throttle"] = json_of(plan.minutes_to_throttle);
  out["never_throttles"] = plan.never_throttles;
  out["sustained_tokens_per_s"] = json_of(plan.sustained_tokens_per_s);
  out["operators"] = operators_json(plan.operators);
  out["working"] =
      json::object{{"weights_read_gb", plan.read_gb},         {"kv_read_gb", plan.kv_read_gb},
                   {"gb_per_s", json_of(plan.gb_per_s)},      {"bandwidth_share", json_of(plan.bandwidth_share)},
                   {"floor_ms", json_of(plan.floor_ms)},      {"prefill_tflop", plan.prefill_tflop},
                   {"attention_tflop", plan.attention_tflop}, {"padded_prompt", plan.padded_prompt},
                   {"peak_tops", json_of(plan.peak_tops)}};
  out["unknown"] = json::value_from(plan.unknown);
  return out;
}

std::string plan_table(const std::string& column, std::span<const PlanRow> rows) {
  using Align = Table::Align;
  Table table({{column},
               {"verdict"},
               {"unit"},
               {"bits", Align::right},
               {"weights", Align::right},
               {"KV", Align::right},
               {"memory", Align::right},
               {"first token", Align::right},
               {"prefill tok/s", Align::right},
               {"decode tok/s", Align::right}});
  const auto value = [](const std::optional<Estimate>& e, double scale = 1) {
    return e ? number(e->expected * scale) : std::string("?");
  };
  for (const PlanRow& row : rows) {
    const Plan& p = row.plan;
    table.row({row.label, std::string(verdict_name(p.verdict)), p.unit, fmt::format("{:.2f}", p.bits_per_weight),
               size_text(p.weights_mib), size_text(p.kv_mib), size_text(p.peak_mib),
               p.ttft_ms ? value(p.ttft_ms, 1e-3) + " s" : "?", value(p.prefill_tokens_per_s),
               value(p.decode_tokens_per_s)});
  }
  return table.text();
}

}  // namespace knapsack
