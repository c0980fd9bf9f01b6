#include "plan/speed_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/check.h"
#include "device/data.h"

namespace knapsack {
namespace {

constexpr double far = 1e6;  // no effect and no figure of the file is beyond it

Result<std::map<std::string, double>> numbers(const json::object& object, const std::string& origin) {
  std::map<std::string, double> out;
  for (const auto& [key, value] : object) {
    TRY(const double number, json_number(object, key, origin, -far, far));
    out[std::string(key)] = number;
  }
  return out;
}

Result<std::map<std::string, std::string>> words(const json::object& object, const std::string& origin) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : object) {
    TRY(std::string word, json_string(object, key, origin));
    out[std::string(key)] = std::move(word);
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The key of a level's effect; empty: the place does not say.
std::string key_of(std::string_view level, const Place& place) {
  const auto two = [&](const std::string& second) { return second.empty() ? "" : place.unit + "/" + second; };
  if (level == "unit") return place.unit;
  if (level == "family") return two(place.family);
  if (level == "framework") return two(place.framework);
  if (level == "soc") return two(place.soc);
  if (place.framework.empty()) return "";
  if (level == "scheme") return place.scheme.empty() ? "" : two(place.framework + "/" + place.scheme);
  if (level == "group") return place.soc.empty() ? "" : two(place.soc + "/" + place.framework);
  return "";
}

}  // namespace

Result<Efficiency> Efficiency::read(std::string_view text, const std::string& origin) {
  Efficiency out;
  TRY(const json::object whole, parse_json_object(text, origin));
  TRY(const json::array* const frameworks, json_array(whole, "frameworks", origin));
  for (const auto& each : *frameworks) {
    if (!each.is_array() || each.as_array().size() != 2 || !each.as_array()[0].is_string() ||
        !each.as_array()[1].is_string())
      return bad_input("{}: frameworks: expected pairs of strings", origin);
    out.frameworks_.emplace_back(each.as_array()[0].as_string(), each.as_array()[1].as_string());
  }
  TRY(const json::object* const chips, json_object(whole, "chips", origin));
  TRY(out.chips_, words(*chips, origin));
  TRY(const json::object* const usual, json_object(whole, "usual_framework", origin));
  TRY(out.usual_framework_, words(*usual, origin));
  TRY(const json::object* const peaks, json_object(whole, "usual_peak", origin));
  TRY(out.usual_peak_, numbers(*peaks, origin));
  TRY(const json::object* const family, json_object(whole, "usual_framework_of_family", origin));
  TRY(out.usual_framework_of_family_, words(*family, origin));
  TRY(const json::object* const chunk, json_object(whole, "chunk", origin));
  TRY(out.chunk_, numbers(*chunk, origin));
  TRY(const json::object* const bits, json_object(whole, "most_bits", origin));
  TRY(out.most_bits_, numbers(*bits, origin));
  TRY(const json::object* const engine, json_object(whole, "engine", origin));
  for (const auto& [key, target] : {std::pair{"runtime_mib", &out.engine_.runtime_mib}, {"band", &out.engine_.band}}) {
    TRY(*target, json_number(*engine, key, origin, 0, far));
  }
  TRY(const json::object* const targets, json_object(whole, "targets", origin));
  for (const char* name : {"decode", "prefill", "memory"}) {
    Target& target = out.targets_[name];
    TRY(const json::object* const object, json_object(*targets, name, origin));
    TRY(const json::object* const band, json_object(*object, "band", origin));
    TRY(target.band, numbers(*band, origin));
    TRY(target.band_unseen, json_number(*object, "band_unseen", origin, 0, far));
    TRY(const json::array* const groups, json_array(*object, "groups", origin));
    for (const auto& group : *groups)
      if (group.is_string()) target.groups.emplace_back(group.as_string());
    TRY(const json::object* const quantities, json_object(*object, "quantities", origin));
    for (const auto& [key, value] : *quantities) {
      TRY(const json::object* const levels, json_object(*quantities, key, origin));
      Quantity& quantity = target.quantities[std::string(key)];
      TRY(quantity.base, json_number(*levels, "base", origin, -far, far));
      for (const auto& [level, effects] : *levels) {
        if (level == "base") continue;
        TRY(const json::object* const effect, json_object(*levels, level, origin));
        TRY(quantity.levels[std::string(level)], numbers(*effect, origin));
      }
    }
  }
  return out;
}

const Efficiency& Efficiency::fitted() {
  static const Efficiency efficiency = [] {
    const auto files = device_data();
    const auto file =
        std::find_if(files.begin(), files.end(), [](const DataFile& f) { return f.name == "efficiency"; });
    CHECK(file != files.end());
    auto read = Efficiency::read(file->text, "devices/efficiency.json");
    CHECK(read.has_value());  // a test reads the file
    return std::move(read).value();
  }();
  return efficiency;
}

std::string Efficiency::framework(std::string_view published) const {
  std::string name = lower(published);
  for (const auto& [piece, group] : frameworks_)
    if (name.find(piece) != std::string::npos) return group;
  return name;
}

std::vector<std::string> Efficiency::frameworks() const {
  std::vector<std::string> names;
  for (const auto& [key, bits] : most_bits_) {  // "npu/rkllm"
    std::string name = key.substr(key.find('/') + 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

bool Efficiency::knows_framework(std::string_view published) const {
  const auto all = frameworks();
  return std::find(all.begin(), all.end(), framework(published)) != all.end();
}

std::string Efficiency::chip(const std::string& device) const {
  const auto it = chips_.find(device);
  return it == chips_.end() ? device : it->second;
}

std::string Efficiency::usual_framework(const std::string& unit, const std::string& chip) const {
  const auto it = usual_framework_.find(unit + "/" + chip);
  return it == usual_framework_.end() ? "" : it->second;
}

std::string Efficiency::usual_framework_of_family(const std::string& unit, const std::string& family) const {
  const auto it = usual_framework_of_family_.find(unit + "/" + family);
  return it == usual_framework_of_family_.end() ? "" : it->second;
}

double Efficiency::chunks(const std::string& unit, double prompt) const {
  const auto it = chunk_.find(unit);
  return it == chunk_.end() || it->second < 1 ? 1 : std::ceil(prompt / it->second);
}

std::optional<double> Efficiency::most_bits(const std::string& unit, const std::string& framework) const {
  const auto it = most_bits_.find(unit + "/" + framework);
  return it == most_bits_.end() ? std::nullopt : std::optional(it->second);
}

double Efficiency::peak(const std::string& unit, double published, double gb_per_s) const {
  const auto it = usual_peak_.find(unit);
  const double usual = it == usual_peak_.end() ? 0 : it->second * gb_per_s;
  if (published <= 0 || usual <= 0) return published > 0 ? published : usual;
  return unit == "npu" ? std::sqrt(published * usual) : published;
}

double Efficiency::sum(const std::string& target, const std::string& quantity, const Place& place) const {
  const auto& quantities = targets_.at(target).quantities;
  const auto q = quantities.find(quantity);
  if (q == quantities.end()) return 0;
  double total = q->second.base;
  for (const auto& [level, effects] : q->second.levels) {
    const auto effect = effects.find(key_of(level, place));
    if (effect != effects.end()) total += effect->second;
  }
  return total;
}

bool Efficiency::known(const std::string& target, const Place& place) const {
  const std::string key = key_of("group", place);
  const auto& groups = targets_.at(target).groups;
  return !key.empty() && std::find(groups.begin(), groups.end(), key) != groups.end();
}

Estimate Efficiency::with_band(const std::string& target, const Place& place, double expected) const {
  const Target& t = targets_.at(target);
  const auto band = t.band.find(place.unit);
  const double half = known(target, place) && band != t.band.end() ? band->second : t.band_unseen;
  return {expected * std::exp(-half), expected, expected * std::exp(half)};
}

double Efficiency::bandwidth_share(const Place& place) const { return 1 / (1 + std::exp(-sum("decode", "e", place))); }

double Efficiency::runtime_mib(const Place& place) const { return std::exp(sum("memory", "base", place)); }

Estimate Efficiency::decode(const Place& place, const DecodeWork& work) const {
  const double bytes = work.weight_gb + work.kv_gb * std::exp(sum("decode", "kv", place));
  return with_band("decode", place,
                   bytes / (work.gb_per_s * bandwidth_share(place)) +
                       1e-3 * work.layers * std::exp(sum("decode", "layer", place)) +
                       1e-3 * work.weights_billion * std::exp(sum("decode", "weight", place)));
}

Estimate Efficiency::prefill(const Place& place, const PrefillWork& work) const {
  constexpr double read_once = 0.8;  // the part of the bandwidth with which the weights are read
  const double products = work.tflop + work.attention_tflop * std::exp(sum("prefill", "attn", place));
  return with_band("prefill", place,
                   products / (work.peak_tops * std::exp(sum("prefill", "u", place))) +
                       work.chunks * work.weight_gb / (read_once * work.gb_per_s) +
                       1e-3 * work.chunks * work.layers * std::exp(sum("prefill", "layer", place)));
}

Estimate Efficiency::memory(const Place& place, const MemoryWork& work) const {
  const double gb = work.weight_gb * std::exp(sum("memory", "w", place)) +
                    work.table_gb * std::exp(sum("memory", "table", place)) + work.kv_gb +
                    work.logits_gb * std::exp(sum("memory", "logits", place));
  return with_band("memory", place, gb * 1e9 / (1 << 20) + runtime_mib(place));
}

}  // namespace knapsack
