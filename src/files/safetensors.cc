#include "files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/json.h"
#include "base/utf8.h"
#include "files/safetensors_parse.h"
#include "files/tensor_files.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".safetensors";
constexpr std::string_view index_suffix = ".safetensors.index.json";

class Opened final : public TensorFiles<SafetensorsFiles, SafeTensor> {
 public:
  // Takes over the tensors that `keep` wants.
  template <class F>
  void add(std::shared_ptr<const MappedFile> file, SafetensorsPart part, F&& keep) {
    add_part(std::move(file), part.header_bytes);
    for (auto& tensor : part.tensors)
      if (keep(tensor)) add_tensor(std::move(tensor));
  }
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A few names of many, for a message.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i) {
    if (i > 0) text += ", ";
    text += printable(names[i]);
  }
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

Result<std::shared_ptr<const SafetensorsFiles>> open_index(const fs::path& index, std::vector<std::string>& warnings) {
  TRY(const std::string text, read_text_file(index.string()));
  TRY(const auto weights, parse_safetensors_index(text, index.string()));
  std::map<std::string, std::vector<std::string>> wanted;  // shard -> tensors
  for (const auto& [name, shard] : weights) wanted[shard].push_back(name);

  auto opened = std::make_shared<Opened>();
  for (auto& shard_entry : wanted) {
    const std::string& shard = shard_entry.first;
    std::vector<std::string>& names = shard_entry.second;
    const fs::path path = index.parent_path() / shard;
    if (!is_there(path))
      return bad_input("{}: shard {} is missing; it should hold {}", index.string(), printable(shard), some_of(names));
    TRY(auto file, MappedFile::open(path.string()));
    TRY(auto part, parse_safetensors(file->bytes(), path.string()));
    std::vector<std::string> unnamed, elsewhere;
    std::set<std::string_view> held;
    opened->add(std::move(file), std::move(part), [&](const SafeTensor& tensor) {
      const auto entry = weights.find(tensor.name);
      if (entry == weights.end()) {
        unnamed.push_back(tensor.name);
        return true;
      }
      if (entry->second != shard) {
        elsewhere.push_back(tensor.name);
        return false;
      }
      held.insert(entry->first);
      return true;
    });
    if (held.size() < names.size()) {
      std::erase_if(names, [&](const std::string& name) { return held.contains(name); });
      return bad_input("{}: the index names {} here, but the shard does not hold {}", path.string(), some_of(names),
                       names.size() == 1 ? "it" : "them");
    }
    if (!unnamed.empty())
      warnings.push_back(
          fmt::format("{}: holds tensors that the index does not name: {}", path.string(), some_of(unnamed)));
    if (!elsewhere.empty())
      warnings.push_back(fmt::format("{}: ignored tensors that the index places in another shard: {}", path.string(),
                                     some_of(elsewhere)));
  }
  TRY_VOID(opened->index_tensors());
  return std::shared_ptr<const SafetensorsFiles>(std::move(opened));
}

// What a folder without model.safetensors holds: names that end as wanted, in order.
std::vector<std::string> names_ending(const fs::path& folder, std::string_view ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(ending) && !name.starts_with("adapter_")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Error nothing_to_open(const fs::path& folder) {
  const std::string expected =
      fmt::format("{}: expected model.safetensors or model.safetensors.index.json", folder.string());
  if (is_there(folder / "adapter_model.safetensors"))
    return unsupported("{}; found a LoRA adapter: merge it into its base model first", expected);
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"}) {
    if (is_there(folder / pickle))
      return unsupported("{}; found {}, a Python pickle: save the model as safetensors first", expected, pickle);
  }
  return bad_input("{}; found neither", expected);
}

}  // namespace

Result<std::shared_ptr<const SafetensorsFiles>> SafetensorsFiles::open_file(const std::string& path) {
  TRY(auto file, MappedFile::open(path));
  TRY(auto part, parse_safetensors(file->bytes(), path));
  auto opened = std::make_shared<Opened>();
  opened->add(std::move(file), std::move(part), [](const SafeTensor&) { return true; });
  TRY_VOID(opened->index_tensors());
  return std::shared_ptr<const SafetensorsFiles>(std::move(opened));
}

Result<std::shared_ptr<const SafetensorsFiles>> SafetensorsFiles::open_folder(const std::string& folder,
                                                                              std::vector<std::string>& warnings) {
  const fs::path root(folder);
  const fs::path index = root / "model.safetensors.index.json";
  const fs::path single = root / "model.safetensors";
  if (is_there(index)) {
    TRY(auto opened, open_index(index, warnings));
    const auto parts = opened->parts();
    const bool named =
        std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part->path() == single.string(); });
    if (is_there(single) && !named)
      warnings.push_back(
          fmt::format("{}: ignored, since {} names other files", single.string(), index.filename().string()));
    return opened;
  }
  if (is_there(single)) return open_file(single.string());

  const auto indexes = names_ending(root, index_suffix);
  const auto files = names_ending(root, suffix);
  if (indexes.size() == 1) return open_index(root / indexes.front(), warnings);
  if (indexes.empty() && files.size() == 1) return open_file((root / files.front()).string());
  if (files.empty() && indexes.empty()) return nothing_to_open(root);
  return bad_input(
      "{}: expected model.safetensors or model.safetensors.index.json; found {} without an index that "
      "says which belong together",
      folder, some_of(files.empty() ? indexes : files));
}

}  // namespace knapsack
