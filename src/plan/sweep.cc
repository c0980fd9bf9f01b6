#include "plan/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace knapsack {
namespace {

constexpr std::size_t most_values = 64;
constexpr std::array variables{"ctx", "prompt", "quant", "kv", "device"};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t comma = text.find(',');
    out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::optional<std::int64_t> tokens_from(std::string_view text) {
  std::int64_t scale = 1;
  if (text.ends_with('k') || text.ends_with('K')) scale = 1024;
  if (text.ends_with('M')) scale = std::int64_t{1024} * 1024;
  if (scale > 1) text.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value >= most / scale)
    return std::nullopt;
  return value * scale;
}

Result<Sweep> read_sweep(std::string_view text) {
  const std::size_t equals = text.find('=');
  Sweep sweep{std::string(text.substr(0, equals)), {}};
  if (equals == std::string_view::npos || std::find(variables.begin(), variables.end(), sweep.what) == variables.end())
    return usage_error("--sweep {}: expected ctx=1k..32k, prompt=..., quant=a,b, kv=a,b or device=a,b", text);
  const std::string_view values = text.substr(equals + 1);
  const bool numbers = sweep.what == "ctx" || sweep.what == "prompt";
  const std::size_t dots = values.find("..");
  if (numbers && dots != std::string_view::npos) {
    const auto first = tokens_from(values.substr(0, dots));
    const auto last = tokens_from(values.substr(dots + 2));
    if (!first || !last || *first > *last)
      return usage_error("--sweep {}: expected two numbers of tokens, the smaller one first", text);
    for (std::int64_t n = *first; n < *last; n *= 2) sweep.values.push_back(std::to_string(n));
    sweep.values.push_back(std::to_string(*last));
    return sweep;
  }
  for (const std::string& value : split(values)) {
    const auto tokens = tokens_from(value);
    if (value.empty() || (numbers && !tokens))
      return usage_error("--sweep {}: expected {} separated by commas", text, numbers ? "numbers of tokens" : "names");
    sweep.values.push_back(numbers ? std::to_string(*tokens) : value);
  }
  if (sweep.values.size() > most_values)
    return usage_error("--sweep: at most {} values, found {}", most_values, sweep.values.size());
  return sweep;
}

namespace {

// What varies with a prompt is the first token, with anything else the rate of decoding at a full context.
std::optional<Estimate> swept(const Sweep& sweep, const Plan& plan) {
  if (sweep.what == "prompt") {
    if (!plan.ttft_ms) return std::nullopt;
    return Estimate{plan.ttft_ms->low / 1e3, plan.ttft_ms->expected / 1e3, plan.ttft_ms->high / 1e3};
  }
  if (plan.decode_at_depth.empty()) return std::nullopt;
  return plan.decode_at_depth.back().tokens_per_s;
}

}  // namespace

Plot sweep_plot(const std::string& title, const Sweep& sweep, std::span<const PlanRow> rows, const PlanBar& bar) {
  const bool numbers = sweep.what == "ctx" || sweep.what == "prompt";
  const bool first = sweep.what == "prompt";
  Plot plot{.title = title,
            .x_title = sweep.what + (numbers ? " (tokens)" : ""),
            .y_title = first ? "seconds to the first token" : "tokens/s in decode",
            .log_x = numbers};
  PlotSeries series{.name = first ? "first token, from low to high" : "decode at the full context, from low to high",
                    .line = numbers};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!numbers) plot.x_names.push_back(rows[i].label);
    const double x = numbers ? static_cast<double>(tokens_from(rows[i].label).value_or(1)) : static_cast<double>(i);
    if (numbers) plot.x_ticks.push_back(x);
    const Plan& plan = rows[i].plan;
    const auto e = swept(sweep, plan);
    if (!e) continue;
    series.points.push_back({.x = x,
                             .y = e->expected,
                             .low = e->low,
                             .high = e->high,
                             .label = plan.verdict == Verdict::does_not_fit ? "does not fit" : ""});
  }
  std::sort(plot.x_ticks.begin(), plot.x_ticks.end());
  const double asked = first ? bar.ttft_s : bar.decode_tokens_per_s;
  PlotSeries line{.name = fmt::format("asked for: {:g}", asked)};
  if (!rows.empty()) {
    const auto last = static_cast<double>(rows.size()) - 0.5;
    line.points = {{.x = numbers ? plot.x_ticks.front() : -0.5, .y = asked},
                   {.x = numbers ? plot.x_ticks.back() : last, .y = asked}};
  }
  plot.series.push_back(std::move(series));
  if (!plot.series.front().points.empty()) plot.series.push_back(std::move(line));
  return plot;
}

std::string sweep_bars(const Sweep& sweep, std::span<const PlanRow> rows) {
  const bool first = sweep.what == "prompt";
  std::vector<Bar> out;
  for (const PlanRow& row : rows) {
    Bar bar{.label = row.label};
    if (const auto e = swept(sweep, row.plan)) {
      bar.value = e->expected;
      bar.text = fmt::format("{:.{}f} {}, {}", e->expected, first ? 2 : 1, first ? "s" : "tokens/s",
                             verdict_name(row.plan.verdict));
    }
    out.push_back(std::move(bar));
  }
  return (first ? "first token\n" : "decode at the full context\n") + bars(out);
}

Plot roofline(const std::string& title, const PlanOptions& options, const Plan& plan) {
  Plot plot{.title = title,
            .x_title = "operations a byte read",
            .y_title = "10^9 operations a second",
            .log_x = true,
            .log_y = true};
  if (!plan.gb_per_s || !plan.peak_tops || !plan.decode_tokens_per_s || !plan.prefill_tokens_per_s) return plot;
  const double peak = *plan.peak_tops * 1e3;
  const double ridge = peak / *plan.gb_per_s;
  PlotSeries roof{.name = fmt::format("{:g} GB/s, {:.2f} TOPS", *plan.gb_per_s, *plan.peak_tops)};
  for (const double x : {0.1, ridge, std::max(1000.0, ridge * 10)})
    roof.points.push_back({.x = x, .y = std::min(peak, x * *plan.gb_per_s)});
  const auto point = [](const char* name, double gflop, double gb, const Estimate& seconds_inverse, double per) {
    const double scale = gflop / per;
    return PlotPoint{.x = gflop / gb,
                     .y = scale * seconds_inverse.expected,
                     .low = scale * seconds_inverse.low,
                     .high = scale * seconds_inverse.high,
                     .label = name};
  };
  const double prompt = static_cast<double>(options.prompt);
  const double per_token = plan.prefill_tflop * 1e3 / static_cast<double>(plan.padded_prompt);
  PlotSeries points{.name = fmt::format("{} on {}", plan.quant, plan.unit), .line = false};
  points.points.push_back(point("decode", per_token, plan.read_gb + plan.kv_read_gb, *plan.decode_tokens_per_s, 1));
  points.points.push_back(point("prefill", per_token * prompt, plan.read_gb, *plan.prefill_tokens_per_s, prompt));
  plot.series = {std::move(roof), std::move(points)};
  return plot;
}

}  // namespace knapsack
