#include "plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace knapsack {
namespace {

constexpr std::int64_t npu_chunk = 128;  // static prefill programs of NPUs take so many tokens

// Multiply-adds of causal attention as operations: 4 for each column, query and key that it sees.
double attention_flop(const PlanModel& model, std::int64_t prompt) {
  double pairs = 0;
  const auto p = static_cast<double>(prompt);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto window =
        model.windows.empty() ? 0.0 : static_cast<double>(model.windows[static_cast<std::size_t>(layer)]);
    pairs += window > 0 && window < p ? p * window - window * window / 2 : p * p / 2;
  }
  return 4 * static_cast<double>(model.attention) * pairs;
}

Estimate inverse(const Estimate& seconds, double amount) {
  return {amount / seconds.high, amount / seconds.expected, amount / seconds.low};
}
Estimate times(const Estimate& e, double factor) { return {e.low * factor, e.expected * factor, e.high * factor}; }

double published_peak(const DeviceProfile& device, UnitKind kind) {
  const UnitProfile* unit = device.unit(kind);
  if (unit == nullptr) return 0;
  const Number* peak = nullptr;
  if (kind == UnitKind::gpu) peak = unit->peak("fp32");
  if (kind == UnitKind::npu) peak = unit->peak("int8") != nullptr ? unit->peak("int8") : unit->peak("unstated");
  return peak == nullptr ? 0 : peak->value;
}

void speed(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
           const PlanOptions& options, const WeightTotals& weights, const Place& place, UnitKind unit, Plan& out) {
  if (!options.gb_per_s && !device.memory.theoretical_gb_per_s) {
    out.unknown.push_back(
        fmt::format("decode, prefill and time to the first token: the memory bandwidth of {} is not known (pass "
                    "--bandwidth GB/s if you know it)",
                    device.name));
    return;
  }
  const double gb_per_s = options.gb_per_s ? *options.gb_per_s : device.memory.theoretical_gb_per_s->value;
  out.gb_per_s = gb_per_s;
  out.bandwidth_share = efficiency.bandwidth_share(place);
  const double bits = bits_of_kv(options.kv);
  const auto seconds_at = [&](std::int64_t depth) {
    return efficiency.decode(place, {.weight_gb = weights.read_bytes / 1e9,
                                     .kv_gb = kv_bytes_read(model, bits, depth) / 1e9,
                                     .gb_per_s = gb_per_s,
                                     .weights_billion = weights.read / 1e9,
                                     .layers = static_cast<double>(model.layers)});
  };
  const Estimate step = seconds_at(options.prompt);
  out.decode_tokens_per_s = inverse(step, 1);
  for (const std::int64_t depth : {std::int64_t{0}, options.prompt, options.ctx})
    if (out.decode_at_depth.empty() || out.decode_at_depth.back().depth < depth)
      out.decode_at_depth.push_back({depth, inverse(seconds_at(depth), 1)});
  out.floor_ms = 1e3 * (weights.read_bytes + kv_bytes_read(model, bits, options.prompt)) / 1e9 / gb_per_s;

  const double peak = efficiency.peak(place.unit, published_peak(device, unit), gb_per_s);
  out.peak_tops = peak;
  if (published_peak(device, unit) <= 0)
    out.unknown.push_back(fmt::format(
        "the peak of the {} of {}: prefill is reckoned with what units beside such a bandwidth usually have",
        place.unit, device.name));
  const auto prompt_tokens = static_cast<double>(options.prompt);
  const Estimate prompt = efficiency.prefill(place, {.tflop = out.prefill_tflop,
                                                     .attention_tflop = out.attention_tflop,
                                                     .peak_tops = peak,
                                                     .weight_gb = weights.read_bytes / 1e9,
                                                     .gb_per_s = gb_per_s,
                                                     .layers = static_cast<double>(model.layers),
                                                     .chunks = efficiency.chunks(place.unit, prompt_tokens)});
  out.prefill_tokens_per_s = inverse(prompt, static_cast<double>(options.prompt));
  out.ttft_ms = times(prompt, 1e3);
}

// The part of a tensor that a token reads: of experts those that it takes.
double share_read(const PlanModel& model, const PlanTensor& tensor) {
  return tensor.experts > 1 ? static_cast<double>(model.top_k) / static_cast<double>(tensor.experts) : 1;
}

// The format that the engine would hold a tensor in; of a vendor's scheme the one with as many bits.
std::string format_here(const PlanModel& model, const std::optional<Scheme>& scheme, const PlanTensor& tensor) {
  if (!scheme) return std::string(name(*tensor.dtype));
  if (const auto type = scheme->type(model.place(), tensor.place)) return std::string(name(*type));
  const double bits = 8 * static_cast<double>(scheme->bytes(model.place(), tensor.place)) /
                      static_cast<double>(tensor.place.rows * tensor.place.cols);
  constexpr double floats = 12;
  constexpr double bytes = 6;
  return bits > floats ? "F16" : bits > bytes ? "Q8_0" : "Q4_0";
}

// This machine, with this program's own engine: put together from what was measured there; no fit of other programs
// is needed.
void measured_speed(const PlanModel& model, const Machine& machine, double band, const PlanOptions& options,
                    Plan& out) {
  if (!machine.engine) {
    out.unknown.emplace_back("decode and prefill: this machine was not measured (`knapsack devices measure`)");
    return;
  }
  const EngineSpeed& engine = *machine.engine;
  double gb_per_s = machine.peaks.read(engine.threads);
  const auto scheme = Scheme::named(out.quant);
  double decode_s = 0;   // a token, without attention
  double prefill_s = 0;  // a token, without attention
  double head_s = 0;     // a prompt
  int widest_bits = 0;   // of the codes that are multiplied; 0: floats
  for (const PlanTensor& tensor : model.tensors) {
    const TensorPart part = tensor.place.part;
    if (part == TensorPart::table || part == TensorPart::vector) continue;
    const std::string here = format_here(model, scheme, tensor);
    const MatrixSpeed speed = engine.matrix(here, model.hidden);
    gb_per_s = std::max(gb_per_s, speed.decode_gb_per_s);  // a cache may feed it faster than memory was read
    widest_bits = std::max(widest_bits, format(*dtype_from_name(here)).level_bits);
    const double share = share_read(model, tensor);
    const auto bytes = static_cast<double>(scheme ? scheme->bytes(model.place(), tensor.place) : *tensor.bytes);
    const double step = share * bytes / 1e9 / speed.decode_gb_per_s;
    decode_s += step;
    if (part == TensorPart::head) {
      head_s += step;
    } else {
      prefill_s +=
          2 * share * static_cast<double>(tensor.place.rows * tensor.place.cols) / 1e9 / speed.prefill_gop_per_s;
    }
  }
  const LayerSpeed layer = engine.layer(model.hidden);
  const auto layers = static_cast<double>(model.layers);
  decode_s += layers * layer.decode_us / 1e6;
  prefill_s += layers * static_cast<double>(model.hidden) * layer.prefill_ns / 1e9;

  const double bits = bits_of_kv(options.kv);
  const auto banded = [&](double x) { return Estimate{x * std::exp(-band), x, x * std::exp(band)}; };
  const auto seconds_at = [&](std::int64_t depth) {
    return banded(decode_s + kv_bytes_read(model, bits, depth) / 1e9 / engine.attention_gb_per_s);
  };
  out.decode_tokens_per_s = inverse(seconds_at(options.prompt), 1);
  for (const std::int64_t depth : {std::int64_t{0}, options.prompt, options.ctx})
    if (out.decode_at_depth.empty() || out.decode_at_depth.back().depth < depth)
      out.decode_at_depth.push_back({depth, inverse(seconds_at(depth), 1)});
  const double read = out.read_gb + out.kv_read_gb;
  if (gb_per_s > 0) {
    out.gb_per_s = gb_per_s;
    out.floor_ms = 1e3 * read / gb_per_s;
    out.bandwidth_share = read / gb_per_s * out.decode_tokens_per_s->expected;
  }
  const Estimate prompt = banded(prefill_s * static_cast<double>(options.prompt) + head_s +
                                 1e3 * out.attention_tflop / engine.attention_gop_per_s);
  const bool integers = widest_bits > 0 && machine.peaks.int8(engine.threads, widest_bits) > 0;
  const double peak = integers ? machine.peaks.int8(engine.threads, widest_bits) : machine.peaks.fp32(engine.threads);
  if (peak > 0) out.peak_tops = peak / 1e3;
  out.prefill_tokens_per_s = inverse(prompt, static_cast<double>(options.prompt));
  out.ttft_ms = times(prompt, 1e3);
}

void load(const WeightTotals& weights, const DeviceProfile& device, double band, const PlanOptions& options,
          Plan& out) {
  const double gigabytes = weights.bytes / 1e9;
  if (options.storage_gb_per_s) out.load_floor_s = gigabytes / *options.storage_gb_per_s;
  if (device.machine && device.machine->engine) {
    // Packing reads the pages as they come. Without --storage the file is taken to be in the page cache.
    const double packing = gigabytes / device.machine->engine->load_gb_per_s;
    const double seconds = std::max(packing, out.load_floor_s.value_or(0));
    out.load_s = Estimate{seconds * std::exp(-band), seconds, seconds * std::exp(band)};
    if (out.ttft_ms)
      out.ttft_cold_ms = Estimate{out.ttft_ms->low + 1e3 * out.load_s->low, out.ttft_ms->expected + 1e3 * seconds,
                                  out.ttft_ms->high + 1e3 * out.load_s->high};
    return;
  }
  out.unknown.push_back(
      options.storage_gb_per_s
          ? fmt::format("compiling and warming up on {}; reading the file alone takes {:.1f} s", device.name,
                        *out.load_floor_s)
          : fmt::format("loading, compiling and warming up: how fast the storage beside {} is read is not known (pass "
                        "--storage GB/s), nor how long its runtime compiles",
                        device.name));
}

// A device as one thermal mass: T(t) = ambient + P R (1 - exp(-t / R C)).
void power_and_heat(const DeviceProfile& device, const PlanOptions& options, Plan& out) {
  if (!device.power.sustained_w) {
    out.unknown.push_back(fmt::format("energy, temperature and throttling: the power of {} is not known", device.name));
    return;
  }
  const double watts = device.power.sustained_w->value;
  if (out.decode_tokens_per_s) out.energy_mj_per_token = 1e3 * watts / out.decode_tokens_per_s->expected;
  if (!device.heat.resistance_c_per_w) {
    out.unknown.push_back(
        fmt::format("temperature and minutes to throttling: the thermal resistance of {} is not known", device.name));
    return;
  }
  const double resistance = device.heat.resistance_c_per_w->value;
  out.steady_c = options.ambient_c + watts * resistance;
  const auto& points = device.heat.throttle_points;
  const auto lowest = std::min_element(points.begin(), points.end(),
                                       [](const auto& a, const auto& b) { return a.celsius.value < b.celsius.value; });
  if (lowest == points.end()) {
    out.unknown.push_back(fmt::format("minutes to throttling: where {} throttles is not known", device.name));
    return;
  }
  const double limit = lowest->celsius.value;
  if (*out.steady_c <= limit) {
    out.never_throttles = true;
    if (out.decode_tokens_per_s) out.sustained_tokens_per_s = out.decode_tokens_per_s->expected;
    return;
  }
  const double held = std::max(0.0, (limit - options.ambient_c) / resistance);
  if (out.decode_tokens_per_s) out.sustained_tokens_per_s = out.decode_tokens_per_s->expected * held / watts;
  if (!device.heat.capacity_j_per_c) {
    out.unknown.push_back(fmt::format("minutes to throttling: the heat capacity of {} is not known", device.name));
    return;
  }
  const double part = (limit - options.ambient_c) / (watts * resistance);
  out.minutes_to_throttle =
      part <= 0 ? 0 : std::max(0.0, -resistance * device.heat.capacity_j_per_c->value * std::log(1 - part) / 60);
}

}  // namespace

std::string size_text(double mebibytes) {
  return mebibytes >= 1024 ? fmt::format("{:.1f} GiB", mebibytes / 1024) : fmt::format("{:.0f} MiB", mebibytes);
}

double bits_of_kv(std::string_view kv) { return kv == "i4" ? 4.5 : kv == "i8" ? 8.5 : 16; }

WeightTotals weigh(const PlanModel& model, const std::string& quant) {
  WeightTotals out;
  const auto scheme = Scheme::named(quant);
  for (const PlanTensor& tensor : model.tensors) {
    const auto elements = static_cast<double>(tensor.place.rows * tensor.place.cols);
    CHECK(scheme || tensor.bytes);
    const auto bytes = static_cast<double>(scheme ? scheme->bytes(model.place(), tensor.place) : *tensor.bytes);
    out.bytes += bytes;
    if (tensor.place.part == TensorPart::table) continue;
    const double share = share_read(model, tensor);
    out.read_bytes += bytes * share;
    out.read += elements * share;
    if (tensor.place.part != TensorPart::head && tensor.place.part != TensorPart::vector)
      out.active += elements * share;
  }
  return out;
}

double kv_bytes(const PlanModel& model, double bits, std::int64_t tokens) {
  double cols = 0;
  for (const auto each : model.kv_cols) cols += static_cast<double>(each);
  return cols * bits / 8 * static_cast<double>(tokens);
}

double kv_bytes_read(const PlanModel& model, double bits, std::int64_t depth) {
  double elements = 0;
  for (std::size_t layer = 0; layer < model.kv_cols.size(); ++layer) {
    const std::int64_t window = layer < model.windows.size() ? model.windows[layer] : 0;
    elements +=
        static_cast<double>(model.kv_cols[layer]) * static_cast<double>(window > 0 ? std::min(window, depth) : depth);
  }
  return elements * bits / 8;
}

double usable_share(const DeviceProfile& device, UnitKind unit) {
  const double left = 1 - (device.memory.os_share ? device.memory.os_share->value : 0);
  const UnitProfile* profile = device.unit(unit);
  const bool limited = profile != nullptr && profile->limits.memory_share.has_value();
  return limited ? std::min(left, profile->limits.memory_share->value) : left;
}

std::optional<double> budget_mib(const DeviceProfile& device, const PlanOptions& options, UnitKind unit) {
  std::optional<double> bytes;
  if (options.memory_gib) {
    bytes = *options.memory_gib * 1024 * mib;
  } else if (device.memory.sizes_bytes && !device.memory.sizes_bytes->value.empty()) {
    const auto& sizes = device.memory.sizes_bytes->value;
    bytes = static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  } else if (device.memory.max_bytes) {
    bytes = static_cast<double>(device.memory.max_bytes->value);
  }
  if (!bytes) return options.bar.memory_mib;
  const double left = *bytes * usable_share(device, unit) / mib;
  return options.bar.memory_mib ? std::min(left, *options.bar.memory_mib) : left;
}

Plan estimate(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
              const PlanOptions& options, const std::string& quant, UnitKind unit) {
  Plan out;
  out.quant = quant;
  out.unit = unit_name(unit);
  Place place;
  place.unit = out.unit;
  place.soc = efficiency.chip(device.id);
  place.family = device.family;
  place.framework = options.framework.empty() ? efficiency.usual_framework(place.unit, place.soc)
                                              : efficiency.framework(options.framework);
  if (place.framework.empty()) place.framework = efficiency.usual_framework_of_family(place.unit, place.family);
  const auto scheme = Scheme::named(quant);
  place.scheme = scheme ? scheme->activations() : "float";
  if (device.machine) place.framework = "knapsack";
  out.measured = device.machine || efficiency.known("decode", place);
  if (!out.measured)
    out.unknown.push_back(fmt::format("how the {} of {} really does{}: nobody published it, other chips stand for it",
                                      place.unit, device.name,
                                      place.framework.empty() ? "" : " with " + place.framework));
  out.framework = place.framework;

  const WeightTotals weights = weigh(model, quant);
  const double bits = bits_of_kv(options.kv);
  out.bits_per_weight = weights.bytes * 8 / static_cast<double>(model.parameters);
  out.weights_mib = weights.bytes / mib;
  out.kv_mib = kv_bytes(model, bits, options.ctx) / mib;
  out.arena_mib = static_cast<double>(model.arena_bytes) / mib;
  out.overhead_mib = device.machine ? efficiency.engine().runtime_mib : efficiency.runtime_mib(place);
  if (device.machine && quant == "stored" && model.engine) {
    out.weights_mib = static_cast<double>(model.engine->weights_bytes) / mib;
    out.arena_mib = static_cast<double>(model.engine->arena_bytes) / mib;
    out.overhead_mib += static_cast<double>(model.engine->tokenizer_bytes) / mib;
  }
  out.peak_mib = out.weights_mib + out.kv_mib + out.arena_mib + out.overhead_mib;
  out.budget_mib = budget_mib(device, options, unit);
  if (!out.budget_mib)
    out.unknown.push_back(
        fmt::format("whether it fits: the memory of {} is not known (pass --memory GIB)", device.name));
  else if (!device.memory.os_share && !options.bar.memory_mib)
    out.unknown.push_back(
        fmt::format("what the system and other programs keep of {}'s memory: the budget is all of it", device.name));
  out.read_gb = weights.read_bytes / 1e9;
  out.kv_read_gb = kv_bytes_read(model, bits, options.prompt) / 1e9;

  out.padded_prompt = unit == UnitKind::npu ? (options.prompt + npu_chunk - 1) / npu_chunk * npu_chunk : options.prompt;
  out.prefill_tflop = 2 * weights.active * static_cast<double>(out.padded_prompt) / 1e12;
  out.attention_tflop = attention_flop(model, out.padded_prompt) / 1e12;
  if (device.machine) {
    measured_speed(model, *device.machine, efficiency.engine().band, options, out);
  } else {
    speed(model, device, efficiency, options, weights, place, unit, out);
  }
  if (unit == UnitKind::npu) out.operators = options.operators;
  if (out.operators && out.operators->unknown > 0)
    out.unknown.push_back(
        fmt::format("whether {} of {} operators of a decode step run on the NPU: the table of {} does "
                    "not list them",
                    out.operators->unknown, out.operators->nodes, out.operators->toolchain));
  load(weights, device, efficiency.engine().band, options, out);
  power_and_heat(device, options, out);
  return out;
}

}  // namespace knapsack
