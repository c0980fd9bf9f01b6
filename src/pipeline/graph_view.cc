#include "pipeline/graph_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/cpus.h"
#include "base/utf8.h"
#include "graph/layer_name.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

// In the order of OpClass, then what is no op.
constexpr std::array classes{"matrix", "tensor_transform", "elementwise", "dynamic", "sensitive", "input",
                             "state",  "left out"};
constexpr std::size_t input_class = 5, state_class = 6, left_out_class = 7;
static_assert(static_cast<std::size_t>(OpClass::sensitive) + 1 == input_class);

bool shown(std::int64_t layer, const GraphLayers& layers) {
  return layer < 0 || !layers || std::find(layers->begin(), layers->end(), layer) != layers->end();
}

std::int64_t layer_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Node& node : graph.list()) count = std::max(count, node.layer() + 1);
  return count;
}

// "0-3, 5".
std::string ranges(const std::vector<std::int64_t>& layers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    parts.push_back(end == i ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[end]));
    i = end + 1;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "layers 0-3 and what is of none; left out: 24 layers with 408 nodes".
std::string left_out(const Graph& graph, const GraphLayers& layers) {
  std::set<std::int64_t> gone;
  std::size_t nodes = 0;
  for (const Node& node : graph.list()) {
    const std::int64_t layer = node.layer();
    if (shown(layer, layers)) continue;
    gone.insert(layer);
    ++nodes;
  }
  return fmt::format("shown: layer{} {} and what is of none; left out: {} layer{} with {} node{}",
                     layers->size() == 1 ? "" : "s", ranges(*layers), gone.size(), gone.size() == 1 ? "" : "s", nodes,
                     nodes == 1 ? "" : "s");
}

std::string dimension(std::int64_t extent) {
  return extent == tokens_dim ? "T" : extent == selected_dim ? "S" : fmt::format("{}", extent);
}

std::string joined(std::string text, const std::string& more) {
  return text.empty() ? more : fmt::format("{}; {}", text, more);
}

// Everything that depends on how a Value holds its shape and type stands here.
GraphView::Value view_of(const Value& value) {
  GraphView::Value made{.name = value.name, .layer = layer_of(value.name)};
  made.kind = value.kind == ValueKind::input      ? GraphView::Kind::input
              : value.kind == ValueKind::constant ? GraphView::Kind::constant
              : value.state >= 0                  ? GraphView::Kind::state
                                                  : GraphView::Kind::computed;
  made.shape.reserve(value.dims.size());
  std::int64_t elements = 1;
  for (const std::int64_t extent : value.dims) {
    made.shape.push_back(dimension(extent));
    if (extent < 0) made.per = dimension(extent);
    elements *= std::max<std::int64_t>(extent, 1);
  }
  if (value.dynamic) made.note = joined(made.note, "a dimension depends on data: at most this");
  if (value.quant)
    made.note = joined(made.note, fmt::format("kept in {} bits, scale {:g}, zero {}", value.quant->bits,
                                              value.quant->scale, value.quant->zero));
  if (value.as && *value.as != value.dtype) made.note = joined(made.note, fmt::format("read as {}", name(*value.as)));
  if (value.transposed) made.note = joined(made.note, "stored the other way round");
  if (value.line > 0) made.note = joined(made.note, fmt::format("each row in lines of {} bytes", value.line));
  if (value.channel_first) made.note = joined(made.note, "channel first: a channel's positions side by side");
  if (value.state >= 0) return made;  // its type is chosen when it runs
  const FormatInfo& info = format(value.dtype);
  made.dtype = std::string(info.name);
  made.block = info.block;
  made.block_bytes = info.block_bytes;
  if (value.kind == ValueKind::constant)
    made.bytes = value.kept_bytes();
  else if (!value.dynamic)
    made.bytes = elements / info.block * info.block_bytes;
  return made;
}

GraphView::Attribute attribute(const Attrs::Entry& entry) {
  GraphView::Attribute made{std::string(attr_text(entry.key)), entry.i};
  if (attr_kind(entry.key) == AttrKind::number) made.second = entry.f;
  if (attr_kind(entry.key) == AttrKind::list) made.second = entry.list;
  if (attr_kind(entry.key) == AttrKind::integer)
    if (const auto word = attribute_word(entry.key, entry.i); !word.empty()) made.second = std::string(word);
  return made;
}

}  // namespace

Result<GraphLayers> graph_layers(const Graph& graph, const std::string& list) {
  const std::int64_t count = layer_count(graph);
  constexpr int most = 99999;  // as a number; more than any graph has
  const auto numbers = number_list(list, most);
  if (!numbers || numbers->empty())
    return usage_error("--layers: expected numbers and ranges of layers up to {}, as 0 or 0-3 or 0,5; found {}", most,
                       printable(list));
  if (count == 0) return usage_error("--layers {}: no node of this graph is of a layer", list);
  if (numbers->back() >= count) return usage_error("--layers {}: expected at most {}, the last layer", list, count - 1);
  return GraphLayers(std::vector<std::int64_t>(numbers->begin(), numbers->end()));
}

GraphView graph_view(const Graph& graph, const std::string& title, const GraphLayers& layers,
                     const std::vector<std::string>& notes, const Reasons& reasons) {
  GraphView view{.title = title};
  view.classes.assign(classes.begin(), classes.end());
  std::map<ValueId, std::size_t> known;
  std::map<ValueId, std::size_t> maker;
  for (std::size_t i = 0; i < graph.list().size(); ++i)
    for (const ValueId output : graph.list()[i].outputs) maker[output] = i;
  // A file may call a weight as it likes: it is of the layer that reads it, where that is one.
  std::map<ValueId, std::int64_t> reading;
  for (const Node& node : graph.list())
    for (const ValueId input : node.inputs) {
      const std::int64_t layer = node.layer();
      const auto [it, fresh] = reading.try_emplace(input, layer);
      if (!fresh && it->second != layer) it->second = -1;
    }
  const auto value = [&](ValueId id) {
    const auto [it, fresh] = known.try_emplace(id, view.values.size());
    if (!fresh) return it->second;
    view.values.push_back(view_of(graph.value(id)));
    if (view.values.back().kind == GraphView::Kind::constant) view.values.back().layer = reading.at(id);
    return it->second;
  };
  // What a shown node reads is a box before it is read.
  const auto read = [&](ValueId id) {
    const bool fresh = !known.contains(id);
    const std::size_t at = value(id);
    const Value& held = graph.value(id);
    if (!fresh || held.kind == ValueKind::constant) return at;
    const bool made = held.kind == ValueKind::computed;
    const bool state = held.kind == ValueKind::state;
    view.nodes.push_back({.name = held.name,
                          .op = made    ? fmt::format("from layer {}", graph.list()[maker.at(id)].layer())
                                : state ? "state"
                                        : "input",
                          .cls = made    ? left_out_class
                                 : state ? state_class
                                         : input_class,
                          .layer = made ? -1 : layer_of(held.name),
                          .source = true,
                          .left_out = made,
                          .outputs = {at}});
    return at;
  };
  std::size_t count = 0;
  std::map<const Weight*, std::size_t> weights;  // each once, however many ways it is seen: as what it is seen first
  for (const Node& node : graph.list()) {
    if (!shown(node.layer(), layers)) continue;
    GraphView::Node made{.name = node.name,
                         .op = std::string(op_info(node.op).text),
                         .cls = static_cast<std::size_t>(op_info(node.op).cls),
                         .layer = node.layer(),
                         .unit = node.unit};
    if (const auto why = reasons.find(node.name); why != reasons.end()) made.why = why->second;
    if (!node.origin.empty()) {
      made.origin = fmt::format("{} ({})", node.origin, op_info(node.origin_op).text);
      made.purpose = node.purpose == Purpose::plain ? "" : std::string(purpose_name(node.purpose));
    }
    for (const Attrs::Entry& entry : node.attrs.entries()) made.attributes.push_back(attribute(entry));
    for (const ValueId input : node.inputs) {
      const std::size_t at = read(input);
      made.inputs.push_back(at);
      if (graph.value(input).kind != ValueKind::constant) continue;
      const auto [first, fresh] = weights.try_emplace(graph.value(input).weight.get(), at);
      if (fresh || first->second == at) continue;
      std::string& note = view.values[at].note;
      const std::string same = fmt::format("the bytes of {}", view.values[first->second].name);
      if (note.find(same) == std::string::npos) note = joined(note, same);
    }
    for (const ValueId output : node.outputs) made.outputs.push_back(value(output));
    view.nodes.push_back(std::move(made));
    ++count;
  }
  for (const ValueId output : graph.outputs())
    if (const auto it = known.find(output); it != known.end()) view.outputs.push_back(it->second);
  std::int64_t bytes = 0;
  for (const auto& [weight, at] : weights) bytes += weight->bytes();
  const bool symbolic =
      std::any_of(view.values.begin(), view.values.end(), [](const GraphView::Value& v) { return !v.per.empty(); });
  view.facts.push_back(fmt::format("{} node{}, {} weight{} in {}{}", format_count(static_cast<long long>(count)),
                                   count == 1 ? "" : "s", format_count(static_cast<long long>(weights.size())),
                                   weights.size() == 1 ? "" : "s", format_bytes(static_cast<double>(bytes)),
                                   symbolic ? "; T: tokens of a step, S: rows of logits" : ""));
  std::map<std::string, long long> units;
  for (const auto& node : view.nodes)
    if (!node.unit.empty()) ++units[node.unit];
  for (const auto& [unit, nodes] : units)
    view.facts.push_back(fmt::format("{} node{} {}{}", format_count(nodes), nodes == 1 ? "" : "s",
                                     unit == "ahead" ? "made " : "on the ", unit));
  if (layers) view.facts.push_back(left_out(graph, layers));
  view.facts.insert(view.facts.end(), notes.begin(), notes.end());
  return view;
}

std::string graph_text(const Graph& graph, const GraphLayers& layers, const std::vector<std::string>& notes) {
  std::string text =
      layers ? to_text(graph, [&](const Node& node) { return shown(node.layer(), layers); }) : to_text(graph);
  std::string comments;
  if (layers) comments = fmt::format("# {}; not to be read back\n", left_out(graph, layers));
  for (const std::string& note : notes) comments += fmt::format("# {}\n", one_line(note));
  return text.insert(text.find('\n') + 1, comments);
}

}  // namespace knapsack
