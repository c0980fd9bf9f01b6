#include "cli/devices_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr std::string_view not_known = "?";

std::string_view kind_text(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::soc:
      return "soc";
    case DeviceKind::module:
      return "module";
    case DeviceKind::npu_ip:
      return "npu_ip";
    case DeviceKind::host:
      return "host";
  }
  return "soc";
}

// The figure that is computed with.
const Number* bandwidth_of(const MemoryProfile& memory) {
  if (memory.sustained_gb_per_s) return &*memory.sustained_gb_per_s;
  return memory.theoretical_gb_per_s ? &*memory.theoretical_gb_per_s : nullptr;
}

// int8, else what the vendor does not say the type of.
const Number* npu_tops_of(const DeviceProfile& profile) {
  if (!profile.npu) return nullptr;
  const Number* peak = profile.npu->peak("int8");
  return peak != nullptr ? peak : profile.npu->peak("unstated");
}

std::vector<std::int64_t> sizes_of(const MemoryProfile& memory) {
  if (memory.sizes_bytes) return memory.sizes_bytes->value;
  return memory.max_bytes ? std::vector{memory.max_bytes->value} : std::vector<std::int64_t>{};
}

std::string memory_text(const MemoryProfile& memory) {
  const std::vector<std::int64_t> sizes = sizes_of(memory);
  if (sizes.empty()) return std::string(not_known);
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  const std::string largest = format_bytes(static_cast<double>(*most));
  if (!memory.sizes_bytes) return "to " + largest;
  return *least == *most ? largest : format_bytes(static_cast<double>(*least)) + " to " + largest;
}

std::string npu_text(const DeviceProfile& profile) {
  if (!profile.npu) return "none";
  const Number* tops = npu_tops_of(profile);
  return tops == nullptr ? std::string(not_known) : fmt::format("{:g}", tops->value);
}

struct Row {
  std::string figure, value, kind, source, note;
};

std::string text_of(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : json::serialize(value);
}

std::string figure_text(std::string_view key, const json::value& value) {
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const json::value& item : value.get_array()) parts.push_back(figure_text(key, item));
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  if (key.ends_with("_bytes") && value.is_number()) return format_bytes(value.to_number<double>());
  if (value.is_double()) return fmt::format("{:g}", value.get_double());
  return text_of(value);
}

// Every figure below `value`, in the order of the file.
void rows_of(const std::string& path, std::string_view key, const json::value& value, std::vector<Row>& rows) {
  if (const json::array* array = value.if_array()) {
    const bool plain = std::all_of(array->begin(), array->end(), [](const json::value& v) { return v.is_primitive(); });
    if (plain) {
      rows.push_back({path, figure_text(key, value), "", "", ""});
      return;
    }
    for (std::size_t i = 0; i < array->size(); ++i) rows_of(fmt::format("{}[{}]", path, i), key, (*array)[i], rows);
    return;
  }
  const json::object* object = value.if_object();
  if (object == nullptr) {
    rows.push_back({path, figure_text(key, value), "", "", ""});
    return;
  }
  const json::value* figure = object->if_contains("value");
  if (figure == nullptr) figure = object->if_contains("values");
  const auto word = [&](std::string_view name) {
    const json::value* found = object->if_contains(name);
    return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
  };
  if (figure == nullptr || word("source").empty()) {
    for (const auto& [inner, content] : *object)
      rows_of(path.empty() ? std::string(inner) : path + "." + std::string(inner), inner, content, rows);
    return;
  }
  Row row{path, figure_text(key, *figure), word("kind"), word("source"), word("note")};
  if (const json::value* range = object->if_contains("range"); range != nullptr && range->is_array())
    row.value += fmt::format(" ({} to {})", figure_text(key, range->get_array().at(0)),
                             figure_text(key, range->get_array().at(1)));
  rows.push_back(std::move(row));
}

std::string toolchain_text(const Toolchain& toolchain) {
  const auto count = [&](Support support) {
    return std::count_if(toolchain.ops.begin(), toolchain.ops.end(),
                         [&](const OpSupport& op) { return op.support == support; });
  };
  return fmt::format("  {}: {} {}: {} operators taken, {} in part, {} not; of others nothing is known\n", toolchain.id,
                     one_line(toolchain.name), one_line(toolchain.version), count(Support::yes),
                     count(Support::partial), count(Support::no));
}

}  // namespace

std::string devices_table(std::span<const Device> devices) {
  using Align = Table::Align;
  Table table({{"id"}, {"name"}, {"memory"}, {"GB/s", Align::right}, {"NPU TOPS", Align::right}, {"toolchains"}});
  for (const Device& device : devices) {
    const DeviceProfile& profile = device.profile;
    const Number* bandwidth = bandwidth_of(profile.memory);
    std::string chains = profile.toolchains.empty() ? "" : profile.toolchains[0];
    if (profile.toolchains.size() > 1) chains += fmt::format(" and {} more", profile.toolchains.size() - 1);
    table.row({profile.id, one_line(profile.name), memory_text(profile.memory),
               bandwidth == nullptr ? std::string(not_known) : fmt::format("{:g}", bandwidth->value), npu_text(profile),
               chains});
  }
  return table.text() + fmt::format("\n{} device{}; ?: not known\n", devices.size(), devices.size() == 1 ? "" : "s");
}

json::object devices_json(std::span<const Device> devices) {
  const auto number = [](const Number* figure) {
    return figure == nullptr ? json::value() : json::value(figure->value);
  };
  json::array all;
  for (const Device& device : devices) {
    const DeviceProfile& profile = device.profile;
    const std::vector<std::int64_t> sizes = sizes_of(profile.memory);
    all.push_back(
        json::object{{"id", profile.id},
                     {"name", profile.name},
                     {"kind", kind_text(profile.kind)},
                     {"vendor", profile.vendor.empty() ? json::value() : json::value(profile.vendor)},
                     {"family", profile.family.empty() ? json::value() : json::value(profile.family)},
                     {"aliases", json::value_from(profile.aliases)},
                     {"memory_bytes", sizes.empty() ? json::value() : json::value(*std::ranges::max_element(sizes))},
                     {"bandwidth_gb_per_s", number(bandwidth_of(profile.memory))},
                     {"npu", profile.npu ? json::value(profile.npu->name) : json::value()},
                     {"npu_tops", number(npu_tops_of(profile))},
                     {"toolchains", json::value_from(profile.toolchains)},
                     {"origin", device.origin.empty() ? json::value("built in") : json::value(device.origin)}});
  }
  return {{"devices", std::move(all)}};
}

json::object toolchain_json(const Toolchain& toolchain) {
  return {{"id", toolchain.id}, {"name", toolchain.name}, {"version", toolchain.version}, {"at", toolchain.at}};
}

std::string device_text(const Device& device, std::span<const Toolchain> toolchains) {
  const DeviceProfile& profile = device.profile;
  std::string text = fmt::format("{}: {} ({}{}{})\n", profile.id, one_line(profile.name), kind_text(profile.kind),
                                 profile.vendor.empty() ? "" : ", ", one_line(profile.vendor));
  if (!profile.aliases.empty())
    text += fmt::format("also  {}\n", one_line(fmt::format("{}", fmt::join(profile.aliases, ", "))));
  text += fmt::format("from  {}\n\n", device.origin.empty() ? "what is built in" : one_line(device.origin));

  std::vector<Row> rows;
  for (const std::string_view part : {"memory", "units", "links", "power", "heat", "machine"})
    if (const json::value* value = device.json.if_contains(part)) rows_of(std::string(part), part, *value, rows);
  std::vector<std::string> sources;
  Table table({{"figure"}, {"value"}, {"kind"}, {"source"}, {"note"}});
  for (Row& row : rows) {
    std::string number;
    if (!row.source.empty()) {
      auto found = std::find(sources.begin(), sources.end(), row.source);
      if (found == sources.end()) found = sources.insert(sources.end(), row.source);
      number = fmt::format("[{}]", found - sources.begin() + 1);
    }
    table.row({row.figure, one_line(row.value), row.kind, number, one_line(row.note)});
  }
  text += table.text();
  if (!sources.empty()) text += "\nsources\n";
  for (std::size_t i = 0; i < sources.size(); ++i) text += fmt::format("  [{}] {}\n", i + 1, one_line(sources[i]));
  if (!toolchains.empty()) text += "\ntoolchains\n";
  for (const Toolchain& toolchain : toolchains) text += toolchain_text(toolchain);
  if (!profile.notes.empty()) text += "\nnotes\n";
  for (const std::string& note : profile.notes) text += fmt::format("  {}\n", one_line(note));
  return text + "\nWhat is not listed is not known.\n";
}

}  // namespace knapsack
