#include "plan/inventory_text.h"

#include <fmt/format.h>

#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

std::string_view class_name(OpClass cls) {
  switch (cls) {
    case OpClass::matrix:
      return "matrix";
    case OpClass::tensor_transform:
      return "tensor transform";
    case OpClass::elementwise:
      return "elementwise";
    case OpClass::dynamic:
      return "dynamic control";
    case OpClass::sensitive:
      return "quantization-sensitive";
  }
  CHECK(false);
}

std::string bytes(std::int64_t n) { return format_bytes(static_cast<double>(n)); }

std::string cost_text(const Crossing& cost) {
  return cost.copies == 0 ? "" : fmt::format("{} out, {} back", bytes(cost.to_cpu_bytes), bytes(cost.to_npu_bytes));
}

std::string us_text(const std::optional<double>& us) { return us ? fmt::format("{:.0f} us", *us) : "unknown time"; }

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
          {"source", or_null(d.source)},
          {"cost", cost_json(d.cost)}};
}

json::array operators_json(const Inventory& inventory) {
  json::array out;
  for (const OperatorRow& row : inventory.operators) {
    json::object object{{"op", onnx_name(row.op)}, {"count", row.count}, {"class", class_name(onnx_class(row.op))}};
    for (const Site site : {Site::npu, Site::cpu, Site::ahead, Site::unknown})
      object[site_name(site)] = row.sites[static_cast<std::size_t>(site)];
    json::array ways;
    for (std::size_t i = 0; i < row.ways.size(); ++i) {
      json::object way = decision_json(row.ways[i]);
      way["count"] = row.counts[i];
      ways.push_back(std::move(way));
    }
    object["ways"] = std::move(ways);
    object["cost"] = cost_json(row.cost);
    object["cost_us"] = us_json(row.cost_us);
    out.push_back(std::move(object));
  }
  return out;
}

json::array names(const PrimitiveGraph& graph, const std::vector<int>& ids) {
  json::array out;
  for (const int id : ids) out.emplace_back(graph.tensor(id).name);
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

}  // namespace

std::string inventory_text(const std::string& title, const PrimitiveGraph& graph, const Inventory& inventory) {
  std::string out =
      fmt::format("{}: {} operators of {} kinds\n", title, graph.nodes.size(), inventory.operators.size());
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
      table.row({std::string(onnx_name(row.op)), std::to_string(row.counts[i]),
                 std::string(class_name(onnx_class(row.op))), std::string(site_name(way.site)), way.dtype,
                 std::move(strategy), cost_text(way.cost), way.why});
    }
  }
  out += table.text();
  if (!inventory.killers.empty()) {
    out += "\nknown killers\n";
    for (const Killer& killer : inventory.killers) {
      out += fmt::format("  {} ({}): {}", killer.id, killer.count, killer.what);
      if (!killer.example.empty()) out += fmt::format(", as {}", killer.example);
      out += fmt::format("\n    fix: {}\n", killer.fix);
    }
  }
  out += fmt::format("\nfragments: {} NPU graph{}", inventory.pieces, inventory.pieces == 1 ? "" : "s");
  if (inventory.tiny_pieces > 0) out += fmt::format(", {} of them without a matrix product", inventory.tiny_pieces);
  const Crossing& c = inventory.crossings;
  out += c.copies == 0 ? std::string("; nothing leaves the NPU between\n")
                       : fmt::format("; {} tensors cross: {} to the CPU, {} back, {}\n", c.copies,
                                     bytes(c.to_cpu_bytes), bytes(c.to_npu_bytes), us_text(inventory.crossings_us));
  return out;
}

json::object inventory_json(const PrimitiveGraph& graph, const Inventory& inventory) {
  json::object out{{"tokens", graph.tokens}, {"past", graph.past}, {"node_count", graph.nodes.size()}};
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
                                  {"crossings_us", us_json(inventory.crossings_us)}};
  out["unknown"] = json::value_from(inventory.unknown);
  json::array nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const PrimitiveNode& node = graph.nodes[i];
    const Decision& d = inventory.nodes[i];
    json::object object{{"name", node.name}, {"op", onnx_name(node.op)}, {"class", class_name(onnx_class(node.op))}};
    object["layer"] = node.layer < 0 ? json::value(nullptr) : json::value(node.layer);
    object["from"] = op_info(node.from).text;
    object["from_node"] = node.from_node;
    object["purpose"] = purpose_name(node.purpose);
    object["inputs"] = names(graph, node.inputs);
    object["outputs"] = names(graph, node.outputs);
    object["decision"] = decision_json(d);
    object["piece"] = d.piece < 0 ? json::value(nullptr) : json::value(d.piece);
    nodes.push_back(std::move(object));
  }
  out["nodes"] = std::move(nodes);
  json::array tensors;
  for (const PrimitiveTensor& each : graph.tensors)
    tensors.push_back(json::object{{"name", each.name},
                                   {"kind", kind_name(each.kind)},
                                   {"dtype", onnx_type_name(each.shape.type)},
                                   {"shape", json::value_from(each.shape.dims)},
                                   {"dynamic", each.shape.dynamic},
                                   {"bytes", each.bytes},
                                   {"stored", or_null(each.stored)}});
  out["tensors"] = std::move(tensors);
  return out;
}

}  // namespace knapsack
