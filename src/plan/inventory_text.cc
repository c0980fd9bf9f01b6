#include "plan/inventory_text.h"
#include "plan/primitive_values.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

std::string bytes(std::int64_t n) { return format_bytes(static_cast<double>(n)); }

std::string us_number(double us) { return us < 10 ? fmt::format("{:.2g} us", us) : fmt::format("{:.0f} us", us); }

std::string us_text(const CrossingTime& time) {
  if (time.us) return us_number(*time.us);
  return time.at_least_us ? fmt::format("at least {}", us_number(*time.at_least_us)) : "unknown time";
}

std::string cost_text(const Crossing& cost, const CrossingTime& time) {
  if (cost.copies == 0) return "";
  std::string out = fmt::format("{} out, {} back, {} cop{}", bytes(cost.to_cpu_bytes), bytes(cost.to_npu_bytes),
                                cost.copies, cost.copies == 1 ? "y" : "ies");
  if (time.us || time.at_least_us) out += fmt::format(", {}", us_text(time));
  return out;
}

json::value or_null(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

json::value us_json(const std::optional<double>& us) { return us ? json::value(*us) : json::value(nullptr); }

json::object cost_json(const Crossing& cost) {
  return {{"to_cpu_bytes", cost.to_cpu_bytes}, {"to_npu_bytes", cost.to_npu_bytes}, {"copies", cost.copies}};
}

json::object decision_json(const Decision& d) {
  return {{"site", site_name(d.site)},
          {"strategy", strategy_name(d.strategy)},
          {"dtype", or_null(d.dtype)},
          {"with", or_null(d.with)},
          {"why", d.why},
          {"source", or_null(d.source)}};
}

json::array operators_json(const Inventory& inventory) {
  json::array out;
  for (const OperatorRow& row : inventory.operators) {
    json::object object{
        {"op", op_info(row.op).text}, {"count", row.count}, {"class", op_class_name(op_info(row.op).cls)}};
    for (const Site site : {Site::npu, Site::cpu, Site::ahead, Site::unknown})
      object[site_name(site)] = row.sites[static_cast<std::size_t>(site)];
    json::array ways;
    for (std::size_t i = 0; i < row.ways.size(); ++i) {
      json::object way = decision_json(row.ways[i]);
      way["count"] = row.counts[i];
      way["cost"] = cost_json(row.ways[i].cost);
      way["cost_us"] = us_json(row.times[i].us);
      way["cost_at_least_us"] = us_json(row.times[i].at_least_us);
      ways.push_back(std::move(way));
    }
    object["ways"] = std::move(ways);
    object["cost"] = cost_json(row.cost);
    object["cost_us"] = us_json(row.time.us);
    object["cost_at_least_us"] = us_json(row.time.at_least_us);
    out.push_back(std::move(object));
  }
  return out;
}

std::string_view kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::input:
      return "input";
    case ValueKind::constant:
      return "constant";
    case ValueKind::state:
      return "state";
    case ValueKind::computed:
      return "computed";
  }
  CHECK(false);
}

std::string decided(const Inventory& inventory) {
  Table table({{"operator"},
               {"count", Table::Align::right},
               {"class"},
               {"where"},
               {"type"},
               {"strategy"},
               {"leaving the NPU"},
               {"why"}});
  for (const OperatorRow& row : inventory.operators) {
    for (std::size_t i = 0; i < row.ways.size(); ++i) {
      const Decision& way = row.ways[i];
      std::string strategy(strategy_name(way.strategy));
      if (!way.with.empty()) strategy += fmt::format(": {}", way.with);
      table.row({std::string(op_info(row.op).text), std::to_string(row.counts[i]),
                 std::string(op_class_name(op_info(row.op).cls)), std::string(site_name(way.site)), way.dtype,
                 std::move(strategy), cost_text(way.cost, row.times[i]), way.why});
    }
  }
  return table.text();
}

// Without an NPU there is nothing to decide.
std::string counted(const Inventory& inventory) {
  Table table({{"operator"}, {"count", Table::Align::right}, {"class"}, {"can be precomputed", Table::Align::right}});
  for (const OperatorRow& row : inventory.operators) {
    const std::int64_t ahead = row.sites[static_cast<std::size_t>(Site::ahead)];
    table.row({std::string(op_info(row.op).text), std::to_string(row.count),
               std::string(op_class_name(op_info(row.op).cls)), ahead == 0 ? std::string{} : std::to_string(ahead)});
  }
  return table.text();
}

}  // namespace

std::string inventory_text(const std::string& title, const Graph& graph, const Inventory& inventory) {
  std::string out =
      fmt::format("{}: {} operators of {} kinds\n", title, graph.list().size(), inventory.operators.size());
  out += inventory.has_npu ? decided(inventory) : counted(inventory);
  if (!inventory.killers.empty()) {
    out += "\nknown killers\n";
    for (const Killer& killer : inventory.killers) {
      out +=
          fmt::format("  {} ({}{}): {}\n    fix: {}\n", killer.id, killer.count,
                      killer.example.empty() ? "" : fmt::format(", first {}", killer.example), killer.what, killer.fix);
    }
  }
  if (!inventory.has_npu) return out;
  out += fmt::format("\nfragments: {} NPU graph{}", inventory.pieces, inventory.pieces == 1 ? "" : "s");
  if (inventory.tiny_pieces > 0) out += fmt::format(", {} of them without a matrix product", inventory.tiny_pieces);
  const Crossing& c = inventory.crossings;
  out += c.copies == 0 ? std::string("; nothing leaves the NPU between")
                       : fmt::format("; {} tensor{} cross{}: {} to the CPU, {} back, {}", c.copies,
                                     c.copies == 1 ? "" : "s", c.copies == 1 ? "es" : "", bytes(c.to_cpu_bytes),
                                     bytes(c.to_npu_bytes), us_text(inventory.crossings_time));
  std::int64_t open = 0;
  for (const OperatorRow& row : inventory.operators) open += row.sites[static_cast<std::size_t>(Site::unknown)];
  if (open > 0) out += fmt::format(" (if the {} operators are taken of which that is not known)", open);
  out += "\n";
  return out;
}

namespace {

// The nodes of one layer, and of none; nothing: all.
bool of_layer(const Node& node, std::optional<std::int64_t> layer) {
  return !layer || node.layer() == *layer || node.layer() < 0;
}

// By node, with what many share said once: a decision, a tensor are numbers in `decisions` and `tensors`. What a key
// would say of most is left out: the cost of 0, the purpose `plain`, the name of a tensor that is its node's.
void add_nodes(json::object& out, const Graph& graph, const Inventory& inventory, std::optional<std::int64_t> layer) {
  std::map<std::tuple<Strategy, Site, std::string, std::string, std::string, std::string>, std::int64_t> numbers;
  json::array decisions;
  std::vector<std::int64_t> tensor_number(graph.values().size(), -1);
  json::array tensors;
  const auto tensor = [&](int id, bool computed_here) {
    std::int64_t& number = tensor_number[static_cast<std::size_t>(id)];
    if (number >= 0) return number;
    number = static_cast<std::int64_t>(tensors.size());
    const Value& each = graph.value(id);
    json::object object{
        {"dtype", onnx_type_name(each.type())}, {"shape", json::value_from(each.dims)}, {"bytes", value_bytes(each)}};
    if (!computed_here) object["name"] = each.name;
    if (each.kind != ValueKind::computed) object["kind"] = is_cache(each) ? "state" : kind_name(each.kind);
    if (each.dynamic) object["dynamic"] = true;
    if (const std::string stored = stored_format(each); !stored.empty()) object["stored"] = stored;
    tensors.push_back(std::move(object));
    return number;
  };
  const auto list = [&](const std::vector<int>& ids, bool computed_here) {
    json::array array;
    for (const int id : ids) array.emplace_back(tensor(id, computed_here));
    return array;
  };
  json::array nodes;
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (!of_layer(node, layer)) continue;
    const Decision& d = inventory.nodes[i];
    const auto [known, fresh] = numbers.try_emplace({d.strategy, d.site, d.dtype, d.with, d.why, d.source},
                                                    static_cast<std::int64_t>(decisions.size()));
    if (fresh) decisions.push_back(decision_json(d));
    json::object object{{"name", node.name}, {"op", op_info(node.op).text}, {"from", op_info(node.origin_op).text}};
    if (node.layer() >= 0) object["layer"] = node.layer();
    if (node.purpose != Purpose::plain) object["purpose"] = purpose_name(node.purpose);
    object["inputs"] = list(node.inputs, false);
    object["outputs"] = list(node.outputs, true);
    object["decision"] = known->second;
    if (d.piece >= 0) object["piece"] = d.piece;
    if (d.cost.copies > 0) object["cost"] = cost_json(d.cost);
    nodes.push_back(std::move(object));
  }
  out["decisions"] = std::move(decisions);
  out["nodes"] = std::move(nodes);
  out["tensors"] = std::move(tensors);
}

}  // namespace

json::object inventory_json(const Graph& graph, const Inventory& inventory, std::optional<std::int64_t> layer) {
  std::int64_t tokens = 0;
  std::int64_t past = 0;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::input && value.name == "input_ids") tokens = value.dims.back();
    if (is_cache(value)) past = value.dims[2];
  }
  json::object out{{"tokens", tokens}, {"past", past}, {"node_count", graph.list().size()}};
  out["operators"] = operators_json(inventory);
  json::array killers;
  for (const Killer& each : inventory.killers)
    killers.push_back(json::object{{"id", each.id},
                                   {"count", each.count},
                                   {"example", or_null(each.example)},
                                   {"what", each.what},
                                   {"fix", each.fix}});
  out["killers"] = std::move(killers);
  out["fragments"] = json::object{{"pieces", inventory.pieces},
                                  {"tiny", inventory.tiny_pieces},
                                  {"crossings", cost_json(inventory.crossings)},
                                  {"crossings_us", us_json(inventory.crossings_time.us)},
                                  {"crossings_at_least_us", us_json(inventory.crossings_time.at_least_us)}};
  out["not_listed"] = json::value_from(inventory.not_listed);
  out["unknown"] = json::value_from(inventory.unknown);
  add_nodes(out, graph, inventory, layer);
  return out;
}

}  // namespace knapsack
