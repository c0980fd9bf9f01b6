#include "device/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "device/data.h"

namespace knapsack {
namespace {

constexpr std::size_t most_files = 4096;

std::string small(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The names of FOLDER/*.json; none where there is no such folder.
Result<std::vector<std::string>> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator entries(folder, failed);
  if (failed == std::errc::no_such_file_or_directory) return names;
  if (failed) return bad_input("{}: cannot be listed: {}", folder.string(), failed.message());
  for (const std::filesystem::directory_iterator end; entries != end; entries.increment(failed)) {
    const std::string name = entries->path().filename().string();
    if (name.ends_with(".json") && name != "schema.json" && name != "toolchain.schema.json" &&
        name != "efficiency.json")
      names.push_back(name.substr(0, name.size() - 5));
    if (names.size() > most_files) return bad_input("{}: more than {} profiles", folder.string(), most_files);
    if (failed) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What the words name, without regard to case: each once, sorted by nearness.
Error unknown(std::string_view what, const std::string& which,
              const std::vector<std::pair<std::string, std::string>>& names, std::string_view hint) {
  std::vector<std::string> words;
  words.reserve(names.size());
  for (const auto& [word, id] : names) words.push_back(word);
  std::vector<std::string> near;
  for (const std::string& word : nearest_names(which, words, words.size())) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == word; });
    if (std::find(near.begin(), near.end(), found->second) == near.end()) near.push_back(found->second);
    if (near.size() == 3) break;
  }
  return usage_error("unknown {} {}; the nearest are {} ({})", what, printable(which), fmt::join(near, ", "), hint);
}

// What a profile may be called by beside its file's name, as far as it says so.
std::vector<std::string> names_of(const json::object& profile) {
  std::vector<std::string> names;
  const auto add = [&](const json::value* name) {
    if (name != nullptr && name->is_string()) names.emplace_back(name->get_string());
  };
  add(profile.if_contains("id"));
  add(profile.if_contains("name"));
  const json::value* aliases = profile.if_contains("aliases");
  if (aliases != nullptr && aliases->is_array())
    for (const json::value& alias : aliases->get_array()) add(&alias);
  return names;
}

bool same_machine(const Host& a, const Host& b) {
  return a.cpu == b.cpu && a.architecture == b.architecture && a.cores == b.cores && a.features == b.features;
}

}  // namespace

std::string devices_folder() {
  if (const char* named = std::getenv("KNAPSACK_DEVICES")) return named;
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && *config == '/') return (std::filesystem::path(config) / "knapsack" / "devices").string();
  if (home != nullptr && *home == '/')
    return (std::filesystem::path(home) / ".config" / "knapsack" / "devices").string();
  return "";
}

Result<Devices> Devices::in_use() { return with_folder(devices_folder()); }

Result<Devices> Devices::with_folder(const std::string& folder) {
  Devices all;
  const auto add = [](std::vector<Entry>& entries, std::span<const DataFile> files, const std::filesystem::path& own,
                      const std::vector<std::string>& names) {
    for (const std::string& name : names) entries.push_back({name, (own / (name + ".json")).string(), {}});
    for (const DataFile& file : files)
      if (file.name != "efficiency" && std::find(names.begin(), names.end(), file.name) == names.end())
        entries.push_back({std::string(file.name), "", file.text});
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  };
  std::vector<std::string> devices;
  std::vector<std::string> toolchains;
  const std::filesystem::path own(folder);
  if (!folder.empty()) {
    TRY(devices, files_in(own));
    TRY(toolchains, files_in(own / "toolchains"));
  }
  add(all.devices_, device_data(), own, devices);
  add(all.toolchains_, toolchain_data(), own / "toolchains", toolchains);
  return all;
}

const Devices::Entry* Devices::named(const std::vector<Entry>& entries, std::string_view name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return small(entry.name) == name; });
  return found == entries.end() ? nullptr : &*found;
}

Result<std::string> Devices::text_of(const Entry& entry) {
  if (entry.path.empty()) return std::string(entry.text);
  return read_text_file(entry.path, most_profile_bytes);
}

Result<Device> Devices::read(const Entry& entry) {
  TRY(const std::string text, text_of(entry));
  Device device{.origin = entry.path};
  const std::string origin = entry.path.empty() ? "devices/" + entry.name + ".json" : entry.path;
  TRY(device.profile, read_profile(text, origin));
  TRY(device.json, parse_json_object(text, origin));
  return device;
}

std::vector<std::string> Devices::ids() const {
  std::vector<std::string> ids{"host"};
  for (const Entry& entry : devices_)
    if (entry.name != "host") ids.push_back(entry.name);
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<Device> Devices::find(const std::string& which) const {
  if (which.ends_with(".json")) return read({"", which, {}});
  const std::string word = small(which);
  if (word == "host") {
    const Host here = read_host();
    if (const Entry* kept = named(devices_, "host")) {
      auto found = read(*kept);
      if (!found)
        return Error{found.error().code, found.error().message + "; `knapsack devices measure` writes it anew"};
      Device device = std::move(*found);
      if (!device.profile.machine) return device;
      if (same_machine(device.profile.machine->host, here)) {
        // What this process may take is what the system says now, not what it said then.
        const auto now = read_profile(json::serialize(host_profile({.host = here})), "this machine");
        if (now && now->memory.sizes_bytes) device.profile.memory.sizes_bytes = now->memory.sizes_bytes;
        return device;
      }
      warn("{} is of another machine ({}) and not used: measure this one with `knapsack devices measure`", kept->path,
           printable(device.profile.name));
    }
    Device device{.json = host_profile({.host = here}), .origin = "this machine"};
    TRY(device.profile, read_profile(json::serialize(device.json), device.origin));
    return device;
  }
  if (const Entry* entry = named(devices_, word)) return read(*entry);
  std::vector<std::pair<std::string, std::string>> names{{"host", "host"}};  // as one may call it, its id
  for (const Entry& entry : devices_) {
    names.emplace_back(entry.name, entry.name);
    const auto text = text_of(entry);
    const auto object = text ? parse_json_object(*text, entry.path) : Result<json::object>(text.error());
    if (!object) {  // only who names it has to care
      warn("{}", object.error().message);
      continue;
    }
    for (const std::string& name : names_of(*object)) {
      if (small(name) == word) return read(entry);
      names.emplace_back(name, entry.name);
    }
  }
  if (which.find('/') != std::string::npos) return read({"", which, {}});  // last: names have slashes, too
  return unknown("device", which, names, "`knapsack devices` lists them all; FILE.json is a profile of your own");
}

std::vector<std::string> Devices::toolchain_ids() const {
  std::vector<std::string> ids;
  for (const Entry& entry : toolchains_) ids.push_back(entry.name);
  return ids;
}

Result<Toolchain> Devices::read_table(const Entry& entry) {
  TRY(const std::string text, text_of(entry));
  return read_toolchain(text, entry.path.empty() ? "devices/toolchains/" + entry.name + ".json" : entry.path);
}

// All that `which` may mean, the likeliest first: tables of other versions of the same are among them.
Result<std::vector<Toolchain>> Devices::tables(const std::string& which, const std::vector<std::string>& among) const {
  std::vector<Toolchain> found;
  const auto add = [&](const Entry& entry) -> Result<void> {
    TRY(Toolchain table, read_table(entry));
    found.push_back(std::move(table));
    return {};
  };
  const std::string word = small(which);
  if (which.ends_with(".json")) {
    TRY_VOID(add({"", which, {}}));
    return found;
  }
  if (const Entry* entry = named(toolchains_, word)) {
    TRY_VOID(add(*entry));
    return found;
  }
  const auto begins = [&](const std::string& id) { return word.size() > 2 && small(id).starts_with(word + "-"); };
  for (const std::string& id : among)
    if (const Entry* entry = begins(id) ? named(toolchains_, small(id)) : nullptr) TRY_VOID(add(*entry));
  std::vector<const Entry*> matching;
  for (const Entry& entry : toolchains_)
    if (begins(entry.name)) matching.push_back(&entry);
  std::vector<Toolchain> others;
  for (const Entry* entry : matching) {
    TRY(Toolchain table, read_table(*entry));
    const bool same = !found.empty() && found[0].base() == table.base() && found[0].id != table.id;
    if (found.empty() || same) others.push_back(std::move(table));
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Toolchain& a, const Toolchain& b) { return version_before(b.at, a.at); });
  // Without a device's own, a beginning that several toolchains share names none of them.
  const bool one = std::all_of(others.begin(), others.end(),
                               [&](const Toolchain& table) { return table.base() == others[0].base(); });
  if (!found.empty() || one) std::move(others.begin(), others.end(), std::back_inserter(found));
  return found;
}

Result<Toolchain> Devices::toolchain(const std::string& which, const std::vector<std::string>& among) const {
  const std::size_t mark = which.ends_with(".json") ? std::string::npos : which.rfind('@');  // folders may have one
  const std::string name = which.substr(0, mark);
  TRY(std::vector<Toolchain> found, tables(name, among));
  if (found.empty()) {
    std::vector<std::pair<std::string, std::string>> names;
    for (const Entry& entry : toolchains_) names.emplace_back(entry.name, entry.name);
    return unknown("toolchain", name, names, fmt::format("there are {}", fmt::join(toolchain_ids(), ", ")));
  }
  if (mark == std::string::npos) return std::move(found[0]);
  const std::string version = which.substr(mark + 1);
  std::vector<std::string> covered;
  for (Toolchain& table : found) {
    if (table.covers(version)) {
      table.at = version == table.version ? table.at : version;
      return std::move(table);
    }
    covered.push_back(fmt::format("{} ({})", table.version, table.id));
  }
  return usage_error("{}: there is no table of version {}; there {} of {}", printable(name), printable(version),
                     covered.size() == 1 ? "is one" : "are some", fmt::join(covered, ", "));
}

Result<std::optional<Toolchain>> Devices::toolchain_of(const DeviceProfile& profile,
                                                       const std::optional<std::string>& asked) const {
  if (!asked && profile.toolchains.empty()) return std::optional<Toolchain>{};
  TRY(Toolchain found, toolchain(asked ? *asked : profile.toolchains.front(), profile.toolchains));
  return std::optional(std::move(found));
}

std::vector<ProfileFault> Devices::unknown_toolchains(const DeviceProfile& profile) const {
  std::vector<ProfileFault> faults;
  const std::vector<std::string> ids = toolchain_ids();
  for (std::size_t i = 0; i < profile.toolchains.size(); ++i) {
    const std::string& id = profile.toolchains[i];
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
    faults.push_back(
        {fmt::format("toolchains[{}]", i), fmt::format("there is no table of {}; the nearest are {}", printable(id, 60),
                                                       fmt::join(nearest_names(id, ids), ", "))});
  }
  return faults;
}

}  // namespace knapsack
