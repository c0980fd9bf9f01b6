#include "import/public_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/nearest.h"
#include "base/utf8.h"

namespace knapsack {
namespace {

using namespace std::string_view_literals;

struct ModelFile {
  std::string_view id;
  std::string_view text;
};
constexpr auto files = std::to_array<ModelFile>({
#include "import/models.inc"
});

std::string small(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Result<PublicModel> read(const ModelFile& file) {
  const std::string origin = fmt::format("models/{}.json", file.id);
  PublicModel model{.id = std::string(file.id)};
  TRY(model.config, parse_json_object(file.text, origin));
  TRY(const json::object* about, json_object(model.config, "knapsack", origin));
  TRY(model.name, json_string(*about, "name", origin));
  TRY(model.parameters, json_int(*about, "parameters", origin, 1));
  TRY(const auto shape_only, json_string_if(*about, "shape_only", origin));
  model.shape_only = shape_only.value_or("");
  TRY(const json::array* aliases, json_array(*about, "aliases", origin));
  for (const json::value& alias : *aliases)
    if (alias.is_string()) model.aliases.emplace_back(alias.get_string());
  model.config.erase("knapsack");  // the rest is what a config.json says
  return model;
}

}  // namespace

std::vector<std::string> public_model_ids() {
  std::vector<std::string> ids;
  ids.reserve(std::size(files));
  for (const ModelFile& file : files) ids.emplace_back(file.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<PublicModel> find_public_model(const std::string& which) {
  const std::string word = small(which);
  std::vector<std::string> names;
  std::vector<std::string> ids;  // of each name
  for (const ModelFile& file : files) {
    TRY(PublicModel model, read(file));
    std::vector<std::string> also = model.aliases;
    also.push_back(model.id);
    also.push_back(model.name);
    for (const std::string& name : also) {
      if (small(name) == word) return model;
      names.push_back(name);
      ids.push_back(model.id);
    }
  }
  std::vector<std::string> near;
  for (const std::string& name : nearest_names(which, names, names.size())) {
    const std::string& id =
        ids.at(static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
    if (std::find(near.begin(), near.end(), id) == near.end()) near.push_back(id);
    if (near.size() == 3) break;
  }
  return usage_error(
      "unknown model {}: there is no such file, and of public models the nearest are {} (a name of models/*.json, a "
      "checkpoint, or a config.json)",
      printable(which), fmt::join(near, ", "));
}

std::vector<PublicModel> smaller_public_models(const PublicModel& model) {
  const auto family = [](const std::string& id) { return id.substr(0, id.rfind('-') + 1); };
  std::vector<PublicModel> out;
  for (const ModelFile& file : files) {
    if (family(std::string(file.id)) != family(model.id)) continue;
    auto other = read(file);
    if (other && other->parameters < model.parameters) out.push_back(std::move(*other));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.parameters > b.parameters; });
  return out;
}

}  // namespace knapsack
