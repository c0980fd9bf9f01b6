#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/devices.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

template <class T>
json::object fact(std::string_view key, const T& value, std::string_view source, const std::string& note = "") {
  json::object object{{key, json::value_from(value)}, {"kind", "measured"}, {"source", source}};
  if (!note.empty()) object["note"] = note;
  return object;
}

// To four digits, never to 0.
double rounded(double value) {
  const double digits = 3 - std::floor(std::log10(value));
  const double scale = std::pow(10, std::fabs(digits));
  return digits < 0 ? std::round(value / scale) * scale : std::round(value * scale) / scale;
}

std::string threads_note(int threads, std::string_view more = "") {
  return fmt::format("{} thread{}{}{}", threads, threads == 1 ? "" : "s", more.empty() ? "" : ", ", more);
}

json::object engine_json(const EngineSpeed& engine) {
  json::array matrices;
  for (const MatrixSpeed& speed : engine.matrices)
    matrices.push_back(json::object{{"format", speed.format},
                                    {"hidden", speed.hidden},
                                    {"decode_gb_per_s", rounded(speed.decode_gb_per_s)},
                                    {"prefill_gop_per_s", rounded(speed.prefill_gop_per_s)}});
  json::array layers;
  for (const LayerSpeed& speed : engine.layers)
    layers.push_back(json::object{
        {"hidden", speed.hidden}, {"decode_us", rounded(speed.decode_us)}, {"prefill_ns", rounded(speed.prefill_ns)}});
  return {{"threads", engine.threads},
          {"matrices", std::move(matrices)},
          {"layers", std::move(layers)},
          {"load_gb_per_s", rounded(engine.load_gb_per_s)},
          {"attention_gb_per_s", rounded(engine.attention_gb_per_s)},
          {"attention_gop_per_s", rounded(engine.attention_gop_per_s)}};
}

}  // namespace

json::object host_profile(const Machine& found) {
  const Host& host = found.host;
  const Peaks& peaks = found.peaks;
  constexpr std::string_view system = "the operating system";
  constexpr std::string_view measured = "knapsack devices measure";
  const std::string name = host.cpu.empty() ? host.architecture : one_line(host.cpu);
  json::object profile{{"id", "host"}, {"name", name}, {"kind", "host"}};

  json::object memory;
  const bool limited = host.memory_limit_bytes > 0 && host.memory_limit_bytes < host.memory_bytes;
  const std::int64_t bytes = limited ? host.memory_limit_bytes : host.memory_bytes;
  if (bytes > 0)
    memory["sizes_bytes"] =
        fact("values", std::vector<std::int64_t>{bytes}, system,
             limited ? fmt::format("the limit of this process; there are {}", host.memory_bytes) : "");
  if (!peaks.memory.empty()) {
    const auto best = std::max_element(peaks.memory.begin(), peaks.memory.end(),
                                       [](const auto& a, const auto& b) { return a.gb_per_s < b.gb_per_s; });
    memory["bandwidth_gb_per_s"] =
        json::object{{"sustained", fact("value", best->gb_per_s, measured, "read by " + threads_note(best->threads))}};
  }
  profile["memory"] = std::move(memory);

  json::object cluster{{"core", name}, {"cores", fact("value", std::max(1, host.cores), system)}};
  if (!host.features.empty()) cluster["isa"] = fact("values", host.features, system);
  json::object cpu{{"name", name}, {"clusters", json::array{std::move(cluster)}}};
  json::object tops;
  for (const auto& [products, dtype] : {std::pair(Products::fp32, "fp32"), std::pair(Products::int8, "int8")}) {
    const ComputePeak* best = nullptr;
    for (const ComputePeak& peak : peaks.compute)
      if (peak.products == products && (best == nullptr || peak.gop_per_s > best->gop_per_s)) best = &peak;
    if (best != nullptr)
      tops[dtype] = fact("value", best->gop_per_s / 1000, measured, threads_note(best->threads, best->mix));
  }
  if (!tops.empty()) cpu["peak_tops"] = std::move(tops);
  profile["units"] = json::object{{"cpu", std::move(cpu)}};

  json::object machine = machine_json(host, peaks);
  machine["cpu"] = name;
  if (!host.cpu_quota) machine.erase("cpu_quota");  // absent where there is none, as everything in a profile
  if (found.engine) machine["engine"] = engine_json(*found.engine);
  profile["machine"] = std::move(machine);
  return profile;
}

}  // namespace knapsack
