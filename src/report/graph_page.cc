#include "report/graph_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/utf8.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

json::value optional_text(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }
json::value layer_json(std::int64_t layer) { return layer < 0 ? json::value(nullptr) : json::value(layer); }

// A number where the dimension is one.
json::value dimension(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc{} && end == text.data() + text.size() ? json::value(number) : json::value(text);
}

const char* kind_name(GraphView::Kind kind) {
  switch (kind) {
    case GraphView::Kind::input:
      return "input";
    case GraphView::Kind::constant:
      return "constant";
    case GraphView::Kind::state:
      return "state";
    case GraphView::Kind::computed:
      break;
  }
  return "computed";
}

json::object value_json(const GraphView::Value& value) {
  json::object made{{"name", value.name}, {"kind", kind_name(value.kind)}};
  json::array shape;
  for (const std::string& each : value.shape) shape.push_back(dimension(each));
  made["shape"] = std::move(shape);
  made["dtype"] = optional_text(value.dtype);
  made["block"] = value.block;
  made["block_bytes"] = value.block_bytes > 0 ? json::value(value.block_bytes) : json::value(nullptr);
  made["bytes"] = value.bytes ? json::value(*value.bytes) : json::value(nullptr);
  made["bytes_per"] = optional_text(value.per);
  made["layer"] = layer_json(value.layer);
  made["note"] = optional_text(value.note);
  return made;
}

}  // namespace

std::string shape_text(const GraphView::Value& value) { return fmt::format("[{}]", fmt::join(value.shape, ", ")); }

std::string format_text(const GraphView::Value& value) {
  if (value.block_bytes <= 0 || value.block <= 1) return value.dtype;
  return fmt::format("{}, {:.4g} bits (blocks of {} in {} bytes)", value.dtype,
                     static_cast<double>(value.block_bytes) * 8 / static_cast<double>(value.block), value.block,
                     value.block_bytes);
}

std::string bytes_text(const GraphView::Value& value) {
  if (!value.bytes) return "";
  const std::string size = format_bytes(static_cast<double>(*value.bytes));
  return value.per.empty() ? size : fmt::format("{} per {}", size, value.per);
}

std::int64_t weight_bytes(const GraphView& view, const GraphView::Node& node) {
  std::int64_t bytes = 0;
  for (const std::size_t input : node.inputs)
    if (view.values[input].kind == GraphView::Kind::constant) bytes += view.values[input].bytes.value_or(0);
  return bytes;
}

const char* class_colour(std::size_t cls) {
  static constexpr std::array<const char*, class_colours> colours{"#9ecbf0", "#d5d9de", "#b5e2a8", "#f6bd86",
                                                                  "#eab3d0", "#fbe58b", "#cbc3f2", "#ffffff",
                                                                  "#9fe0dc", "#e6c9a8", "#f4a6a0", "#c9d98a"};
  return colours.at(cls % colours.size());
}

std::string short_name(const std::string& name, std::int64_t layer, std::size_t columns) {
  std::string text = one_line(name);
  const std::string prefix = fmt::format("layers.{}.", layer);
  if (layer >= 0 && text.starts_with(prefix) && text.size() > prefix.size()) text.erase(0, prefix.size());
  if (display_width(text) <= columns) return text;
  // As much of the end as of the beginning: names differ at both.
  std::vector<std::size_t> ends{0};
  while (ends.back() < text.size())
    ends.push_back(ends.back() + std::max<std::size_t>(1, utf8_character(text, ends.back())));
  std::size_t head = 0, tail = ends.size() - 1;
  const auto cut = [&] { return display_width(text.substr(0, ends[head])) + display_width(text.substr(ends[tail])); };
  while (head < tail && cut() + 1 < columns) {
    ++head;
    if (head < tail && cut() + 1 < columns) --tail;
  }
  while (head > 0 && cut() + 1 > columns) --head;
  return fmt::format("{}\xe2\x80\xa6{}", text.substr(0, ends[head]), text.substr(ends[tail]));
}

json::object graph_json(const GraphView& view) {
  const auto names = [&](const std::vector<std::size_t>& values) {
    json::array list;
    for (const std::size_t value : values) list.push_back(json::value(view.values[value].name));
    return list;
  };
  json::object object{{"title", view.title}, {"facts", json::value_from(view.facts)}};
  json::array nodes, values;
  for (const GraphView::Node& node : view.nodes) {
    if (node.source) continue;
    json::object made{{"name", node.name}, {"op", node.op}, {"class", view.classes[node.cls]}};
    made["layer"] = layer_json(node.layer);
    made["unit"] = optional_text(node.unit);
    made["why"] = optional_text(node.why);
    made["origin"] = optional_text(node.origin);
    made["purpose"] = optional_text(node.purpose);
    made["inputs"] = names(node.inputs);
    made["outputs"] = names(node.outputs);
    json::object attributes;
    for (const auto& [key, value] : node.attributes)
      std::visit([&, &at = key](const auto& held) { attributes[at] = json::value_from(held); }, value);
    made["attributes"] = std::move(attributes);
    made["weight_bytes"] = weight_bytes(view, node);
    nodes.push_back(std::move(made));
  }
  for (const GraphView::Value& value : view.values) values.push_back(value_json(value));
  object["nodes"] = std::move(nodes);
  object["values"] = std::move(values);
  object["outputs"] = names(view.outputs);
  return object;
}

}  // namespace knapsack
