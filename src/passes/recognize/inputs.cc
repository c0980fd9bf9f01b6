#include "passes/recognize/inputs.h"

#include <algorithm>

#include "passes/recognize/form.h"
#include "passes/recognize/side.h"

namespace knapsack::recognition {
namespace {

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

std::shared_ptr<const Value> known_input(const Value& v, std::int64_t tokens, std::int64_t past) {
  const std::int64_t count = v.elements();
  std::vector<double> numbers(static_cast<std::size_t>(count), 1.0);
  if (has(v.name, "position")) {
    for (std::int64_t i = 0; i < count; ++i)
      numbers[static_cast<std::size_t>(i)] = static_cast<double>(past + i % tokens);
  } else if (v.dims.size() > 2) {  // a mask for each token
    const std::int64_t length = v.dims.back();
    for (std::int64_t i = 0; i < count; ++i) {
      const bool visible = i % length <= past + i / length % tokens;
      numbers[static_cast<std::size_t>(i)] = v.dtype == DType::BOOL ? (visible ? 1.0 : 0.0) : visible ? 0.0 : -1e9;
    }
  }
  return side_value(v.name, v.dtype, v.dims, numbers);
}

}  // namespace

Result<Inputs> inputs_of(const Graph& graph) {
  Inputs found;
  std::vector<ValueId> others;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& v = graph.values()[i];
    const auto id = static_cast<ValueId>(i);
    if (v.kind == ValueKind::state) return unsupported("it is a decoder already");
    if (v.kind != ValueKind::input) continue;
    if (has(v.name, "mask") || has(v.name, "position")) {
      others.push_back(id);
      if (has(v.name, "mask")) length = v.cols();
    } else if (is_float(v.dtype) && v.dims.size() >= 3) {
      found.caches.push_back(id);
    } else if ((v.dtype == DType::I64 || v.dtype == DType::I32) && v.dims.size() == 2 && found.ids < 0) {
      found.ids = id;
    } else {
      return unsupported("input '{}' is neither token ids, positions, a mask nor a cache", v.name);
    }
  }
  if (found.ids < 0) return unsupported("no input has token ids");
  const Value& ids = graph.value(found.ids);
  if (ids.dims[0] != 1) return unsupported("input '{}' has a batch of {}; pin it to 1", ids.name, ids.dims[0]);
  found.tokens = ids.dims[1];
  std::vector<ValueId> whole;  // of a context's length: tokens are written into them
  for (const Node& node : graph.list()) {
    const bool is_cache = !node.inputs.empty() &&
                          std::find(found.caches.begin(), found.caches.end(), node.inputs[0]) != found.caches.end();
    if (is_cache && node.op == Op::Concat && node.inputs.size() == 2)
      found.axes[node.inputs[0]] = node.attrs.i(Attr::axis);
    if (is_cache && node.op == Op::ScatterND) {
      found.axes[node.inputs[0]] = graph.value(node.inputs[1]).cols() - 1;
      whole.push_back(node.inputs[0]);
    }
  }
  for (const ValueId id : found.caches) {
    const auto axis = found.axes.find(id);
    if (axis == found.axes.end())
      return unsupported("input '{}' is no cache that tokens are appended to", graph.value(id).name);
    std::int64_t past = graph.value(id).dims[static_cast<std::size_t>(axis->second)];
    if (std::find(whole.begin(), whole.end(), id) != whole.end()) past -= found.tokens;
    if (found.past != 0 && past != found.past) return unsupported("its caches have different lengths");
    found.past = past;
  }
  if (found.past < 0) return unsupported("a step of {} tokens does not fit its caches", found.tokens);
  if (found.caches.empty() && length > found.tokens)
    return unsupported("a mask of {} for {} tokens, and no cache", length, found.tokens);
  if (found.past + found.tokens < 2) return unsupported("one token without a past; pin two or more");
  for (const ValueId id : others) found.known[id] = known_input(graph.value(id), found.tokens, found.past);
  return found;
}

}  // namespace knapsack::recognition
