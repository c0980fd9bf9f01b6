// A golden model copied to a folder of its own, to be broken on purpose.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "import/golden.h"
#include "support/support.h"

namespace knapsack::testing {

// The tensors of a safetensors file in memory; written back with offsets that fit.
struct TensorBytes {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

class BrokenModel {
 public:
  explicit BrokenModel(const std::string& golden) {
    for (const auto& entry : std::filesystem::directory_iterator(data_path("golden/" + golden)))
      if (entry.path().extension() != ".f32") std::filesystem::copy(entry.path(), temp_.path());
  }

  [[nodiscard]] std::string path() const { return temp_.path().string(); }
  [[nodiscard]] std::string file(const std::string& name) const { return temp_.file(name); }
  void write(const std::string& name, const std::string& text) const { write_file(file(name), text); }
  void remove(const std::string& name) const { std::filesystem::remove(file(name)); }

  void json_file(const std::string& name, const std::function<void(json::object&)>& change) const {
    json::object object = parse_json_object(read_file(file(name)), name).value();
    change(object);
    write(name, json::serialize(object));
  }
  void config(const std::function<void(json::object&)>& change) const { json_file("config.json", change); }

  void tensors(const std::function<void(std::map<std::string, TensorBytes>&)>& change) const {
    const std::string whole = read_file(file("model.safetensors"));
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data(), sizeof length);
    const json::object header = parse_json_object(whole.substr(8, length), "header").value();
    std::map<std::string, TensorBytes> all;
    for (const auto& [name, value] : header) {
      if (name == "__metadata__") continue;
      const json::object& info = value.as_object();
      TensorBytes tensor;
      tensor.dtype = std::string(info.at("dtype").as_string());
      for (const json::value& d : info.at("shape").as_array()) tensor.shape.push_back(d.as_int64());
      const auto begin = static_cast<std::size_t>(info.at("data_offsets").as_array()[0].as_int64());
      const auto end = static_cast<std::size_t>(info.at("data_offsets").as_array()[1].as_int64());
      tensor.bytes = whole.substr(8 + length + begin, end - begin);
      all[std::string(name)] = std::move(tensor);
    }
    change(all);
    json::object out;
    std::string data;
    for (const auto& [name, tensor] : all) {
      out[name] = {{"dtype", tensor.dtype},
                   {"shape", json::array(tensor.shape.begin(), tensor.shape.end())},
                   {"data_offsets", json::array{data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    std::string text = json::serialize(out);
    while (text.size() % 8 != 0) text += ' ';
    const std::uint64_t size = text.size();
    write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data);
  }

  // Imports it and gives the error; fails the test when there is none.
  [[nodiscard]] Error error() const {
    auto result = import_model(path(), {});
    if (!result) return result.error();
    ADD_FAILURE() << "imported, though broken";
    return {};
  }
  [[nodiscard]] Imported imported() const {
    auto result = import_model(path(), {});
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }

 private:
  TempDir temp_;
};

inline bool says(const std::string& text, std::string_view what) { return text.find(what) != std::string::npos; }
inline bool any_says(const std::vector<std::string>& lines, std::string_view what) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return says(line, what); });
}

}  // namespace knapsack::testing
