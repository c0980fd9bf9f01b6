#include "device/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/utf8.h"
#include "device/fields.h"
#include "tensor/dtype.h"

namespace knapsack {
namespace {

constexpr std::array<std::string_view, 3> unit_names{"cpu", "gpu", "npu"};
constexpr std::array<std::string_view, 12> dtypes{"int2",  "int4",   "int8", "int16", "uint2", "uint4",
                                                  "uint8", "uint16", "fp4",  "fp8",   "fp16",  "bf16"};
constexpr std::array<std::string_view, 2> wide_dtypes{"tf32", "fp32"};

bool is_dtype(std::string_view name) {
  if (name == "unstated") return true;
  if (name.ends_with("-sparse")) name.remove_suffix(7);
  return std::find(dtypes.begin(), dtypes.end(), name) != dtypes.end() ||
         std::find(wide_dtypes.begin(), wide_dtypes.end(), name) != wide_dtypes.end();
}

UnitKind unit_of(std::string_view name) {
  return static_cast<UnitKind>(std::find(unit_names.begin(), unit_names.end(), name) - unit_names.begin());
}

MemoryProfile memory_of(FactFields fields) {
  MemoryProfile memory;
  memory.type = fields.text_fact("type");
  memory.sizes_bytes = fields.counts("sizes_bytes");
  memory.max_bytes = fields.count("max_bytes");
  memory.os_share = fields.share("os_share");
  memory.system_cache_bytes = fields.count("system_cache_bytes");
  if (auto bandwidth = fields.object("bandwidth_gb_per_s")) {
    memory.theoretical_gb_per_s = bandwidth->number("theoretical", 50000);
    memory.sustained_gb_per_s = bandwidth->number("sustained");
    if (memory.theoretical_gb_per_s && memory.sustained_gb_per_s &&
        memory.sustained_gb_per_s->value > memory.theoretical_gb_per_s->value)
      bandwidth->fault("sustained", fmt::format("is {}, more than the theoretical {}: one of the two is wrong",
                                                memory.sustained_gb_per_s->value, memory.theoretical_gb_per_s->value));
    bandwidth->no_others();
  }
  fields.no_others();
  return memory;
}

UnitLimits limits_of(FactFields fields) {
  UnitLimits limits;
  limits.memory_share = fields.share("memory_share");
  limits.weight_buffer_bytes = fields.count("weight_buffer_bytes");
  limits.process_domain_bytes = fields.count("process_domain_bytes");
  limits.context_bytes = fields.count("context_bytes");
  limits.contexts = fields.count("contexts");
  limits.tensor_dim = fields.count("tensor_dim");
  limits.address_bits = fields.count("address_bits");
  limits.static_shapes_only = fields.flag("static_shapes_only");
  fields.no_others();
  return limits;
}

Cluster cluster_of(FactFields fields) {
  Cluster cluster;
  cluster.core = fields.text("core");
  if (auto cores = fields.count("cores")) {
    cluster.cores = std::move(*cores);
  } else if (fields.raw().if_contains("cores") == nullptr) {
    fields.fault("cores", "is missing; expected how many cores of this kind there are");
  }
  cluster.clock_mhz = fields.number("clock_mhz");
  cluster.isa = fields.words("isa");
  fields.no_others();
  return cluster;
}

UnitProfile unit_of(UnitKind kind, FactFields fields) {
  UnitProfile unit;
  unit.name = fields.text("name");
  if (auto peaks = fields.object("peak_tops")) {
    for (const std::string_view dtype : peaks->keys()) {
      if (!is_dtype(dtype)) continue;  // said by no_others
      if (auto peak = peaks->number(dtype)) unit.peak_tops.emplace(dtype, std::move(*peak));
    }
    if (peaks->raw().empty()) peaks->fault("", "is empty; leave the key out where no peak is known");
    peaks->no_others();
  }
  if (auto limits = fields.object("limits")) unit.limits = limits_of(std::move(*limits));
  if (kind == UnitKind::cpu) {
    for (FactFields& cluster : fields.objects("clusters")) unit.clusters.push_back(cluster_of(std::move(cluster)));
    unit.isa_note = fields.text_fact("isa_note");
  } else {
    unit.cores = fields.count("cores");
    unit.clock_mhz = fields.number("clock_mhz");
  }
  if (kind == UnitKind::npu) {
    unit.architecture = fields.word("architecture");
    unit.generation = fields.integer("generation", 1, 100000);
    unit.macs_per_cycle = fields.count("macs_per_cycle");
    unit.dtypes = fields.words("dtypes");
    unit.features = fields.words("features");
    unit.sram_bytes = fields.count("sram_bytes");
    unit.sram_per_tile_bytes = fields.count("sram_per_tile_bytes");
    unit.sram_port_gb_per_s = fields.number("sram_port_gb_per_s");
    unit.dma_bytes_per_cycle = fields.count("dma_bytes_per_cycle");
    unit.dma_outstanding = fields.count("dma_outstanding");
  }
  fields.no_others();
  return unit;
}

LinkProfile link_of(FactFields fields) {
  LinkProfile link;
  const std::vector<std::string> between = fields.texts("between");
  const auto known = [](const std::string& name) {
    return std::find(unit_names.begin(), unit_names.end(), name) != unit_names.end();
  };
  if (between.size() != 2 || !known(between[0]) || !known(between[1]) || between[0] == between[1]) {
    fields.fault("between", "does not name two units; expected two of cpu, gpu, npu");
  } else {
    link.between = {unit_of(between[0]), unit_of(between[1])};
  }
  link.shared_memory = fields.flag("shared_memory");
  link.bandwidth_gb_per_s = fields.number("bandwidth_gb_per_s");
  link.latency_us = fields.number("latency_us");
  fields.no_others();
  return link;
}

HeatProfile heat_of(FactFields fields) {
  HeatProfile heat;
  heat.resistance_c_per_w = fields.number("resistance_c_per_w");
  heat.capacity_j_per_c = fields.number("capacity_j_per_c");
  for (FactFields& entry : fields.objects("throttle_points")) {
    ThrottlePoint point;
    if (auto celsius = entry.number("celsius")) {
      point.celsius = std::move(*celsius);
    } else if (entry.raw().if_contains("celsius") == nullptr) {
      entry.fault("celsius", "is missing; expected the temperature at which clocks fall");
    }
    point.action = entry.one_of("action", {"passive", "hard", "critical"});
    entry.no_others();
    heat.throttle_points.push_back(std::move(point));
  }
  fields.no_others();
  return heat;
}

// What host_profile writes.
EngineSpeed engine_of(FactFields fields) {
  constexpr double most = FactFields::most_number;
  constexpr std::int64_t many = 1 << 20;
  const auto positive = [](FactFields& from, std::string_view key) {
    return from.positive(key, most, true).value_or(1);
  };
  EngineSpeed engine;
  engine.threads = static_cast<int>(fields.integer("threads", 1, many, true).value_or(1));
  for (FactFields& entry : fields.objects("matrices", true)) {
    MatrixSpeed speed{.format = entry.text("format", true)};
    if (!dtype_from_name(speed.format))
      entry.fault("format", fmt::format("is {}; expected a storage format as Q4_0", printable(speed.format, 40)));
    speed.hidden = entry.integer("hidden", 1, many, true).value_or(1);
    speed.decode_gb_per_s = positive(entry, "decode_gb_per_s");
    speed.prefill_gop_per_s = positive(entry, "prefill_gop_per_s");
    entry.no_others();
    engine.matrices.push_back(std::move(speed));
  }
  for (FactFields& entry : fields.objects("layers", true)) {
    LayerSpeed speed{.hidden = entry.integer("hidden", 1, many, true).value_or(1)};
    speed.decode_us = positive(entry, "decode_us");
    speed.prefill_ns = positive(entry, "prefill_ns");
    entry.no_others();
    engine.layers.push_back(speed);
  }
  if (engine.matrices.empty()) fields.fault("matrices", "is empty; expected at least one speed");
  if (engine.layers.empty()) fields.fault("layers", "is empty; expected at least one speed");
  engine.load_gb_per_s = positive(fields, "load_gb_per_s");
  engine.attention_gb_per_s = positive(fields, "attention_gb_per_s");
  engine.attention_gop_per_s = positive(fields, "attention_gop_per_s");
  fields.no_others();
  return engine;
}

// What machine_json writes.
Machine machine_of(FactFields fields) {
  constexpr double most = FactFields::most_number;
  constexpr std::int64_t many = 1 << 20;
  const auto whole = [](FactFields& from, std::string_view key, std::int64_t low, std::int64_t high) {
    return from.integer(key, low, high, true).value_or(low);
  };
  const auto small = [&](FactFields& from, std::string_view key, std::int64_t low) {
    return static_cast<int>(whole(from, key, low, many));
  };
  Machine machine;
  Host& host = machine.host;
  host.cpu = fields.text("cpu", true);
  host.architecture = fields.text("architecture", true);
  host.features = fields.texts("features");
  host.cores = small(fields, "cores", 1);
  host.usable_cores = small(fields, "usable_cores", 1);
  const json::value* quota = fields.raw().if_contains("cpu_quota");
  if (quota != nullptr && quota->is_null()) {
    fields.allow("cpu_quota");
  } else {
    host.cpu_quota = fields.positive("cpu_quota", most);
  }
  host.memory_bytes = whole(fields, "memory_bytes", 0, FactFields::most_count);
  host.memory_limit_bytes = whole(fields, "memory_limit_bytes", 0, FactFields::most_count);
  for (FactFields& entry : fields.objects("caches")) {
    Cache cache{.level = small(entry, "level", 1),
                .type = entry.text("type", true),
                .bytes = whole(entry, "bytes", 0, FactFields::most_count),
                .shared_by = small(entry, "shared_by", 1)};
    if (const auto speed = entry.positive("gb_per_s", most))
      machine.peaks.caches.push_back({.cache = cache, .gb_per_s = *speed});
    entry.no_others();
    host.caches.push_back(std::move(cache));
  }
  for (FactFields& entry : fields.objects("read_bandwidth")) {
    machine.peaks.memory.push_back(
        {.threads = small(entry, "threads", 1), .gb_per_s = entry.positive("gb_per_s", most, true).value_or(0)});
    entry.no_others();
  }
  for (FactFields& entry : fields.objects("peaks")) {
    ComputePeak peak{.mix = entry.text("mix", true)};
    peak.products = entry.one_of("type", {"fp32", "int8"}) == "int8" ? Products::int8 : Products::fp32;
    if (peak.products == Products::int8) {
      peak.weight_bits = small(entry, "weight_bits", 1);
    } else {
      entry.allow("weight_bits");
    }
    peak.threads = small(entry, "threads", 1);
    peak.gop_per_s = entry.positive("gop_per_s", most, true).value_or(0);
    entry.no_others();
    machine.peaks.compute.push_back(std::move(peak));
  }
  if (auto engine = fields.object("engine")) machine.engine = engine_of(std::move(*engine));
  fields.no_others();
  return machine;
}

DeviceProfile profile_of(FactFields fields) {
  DeviceProfile profile;
  (void)fields.text("$schema");
  profile.id = fields.word("id", true);
  profile.name = fields.text("name", true);
  const std::string kind = fields.one_of("kind", {"soc", "module", "npu_ip", "host"});
  profile.kind = kind == "module"   ? DeviceKind::module
                 : kind == "npu_ip" ? DeviceKind::npu_ip
                 : kind == "host"   ? DeviceKind::host
                                    : DeviceKind::soc;
  profile.vendor = fields.text("vendor");
  profile.family = fields.word("family");
  profile.aliases = fields.texts("aliases");
  if (auto memory = fields.object("memory", true)) profile.memory = memory_of(std::move(*memory));
  if (auto units = fields.object("units", true)) {
    if (auto unit = units->object("cpu")) profile.cpu = unit_of(UnitKind::cpu, std::move(*unit));
    if (auto unit = units->object("gpu")) profile.gpu = unit_of(UnitKind::gpu, std::move(*unit));
    if (auto unit = units->object("npu")) profile.npu = unit_of(UnitKind::npu, std::move(*unit));
    units->no_others();
  }
  for (FactFields& link : fields.objects("links")) profile.links.push_back(link_of(std::move(link)));
  if (auto power = fields.object("power")) {
    profile.power.sustained_w = power->number("sustained_w");
    profile.power.modes_w = power->numbers("modes_w");
    profile.power.peak_wall_w = power->number("peak_wall_w");
    power->no_others();
  }
  if (auto heat = fields.object("heat")) profile.heat = heat_of(std::move(*heat));
  profile.toolchains = fields.texts("toolchains");
  profile.notes = fields.texts("notes");
  if (auto machine = fields.object("machine")) profile.machine = machine_of(std::move(*machine));
  fields.no_others();
  return profile;
}

}  // namespace

std::string_view unit_name(UnitKind unit) { return unit_names.at(static_cast<std::size_t>(unit)); }

const Number* UnitProfile::peak(std::string_view dtype) const {
  const auto found = peak_tops.find(dtype);
  return found == peak_tops.end() ? nullptr : &found->second;
}

const UnitProfile* DeviceProfile::unit(UnitKind which) const {
  const std::optional<UnitProfile>& found = which == UnitKind::cpu ? cpu : which == UnitKind::gpu ? gpu : npu;
  return found ? &*found : nullptr;
}

const LinkProfile* DeviceProfile::link(UnitKind a, UnitKind b) const {
  for (const LinkProfile& link : links)
    if (link.between == std::array{a, b} || link.between == std::array{b, a}) return &link;
  return nullptr;
}

Result<std::vector<ProfileFault>> check_profile(std::string_view text, const std::string& origin,
                                                DeviceProfile& profile) {
  TRY(const json::object object, parse_json_object(text, origin));
  Faults faults;
  profile = profile_of(FactFields(faults, object, ""));
  return faults.take();
}

Error fault_error(const std::vector<ProfileFault>& faults, const std::string& origin) {
  return bad_input(
      "{}: {}: {}{}", origin, faults.at(0).path, faults[0].message,
      faults.size() == 1 ? "" : fmt::format("; and {} more: `knapsack devices check` lists them", faults.size() - 1));
}

Result<DeviceProfile> read_profile(std::string_view text, const std::string& origin) {
  DeviceProfile profile;
  TRY(const std::vector<ProfileFault> faults, check_profile(text, origin, profile));
  if (!faults.empty()) return fault_error(faults, origin);
  return profile;
}

}  // namespace knapsack
