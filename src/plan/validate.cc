#include "plan/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>

#include "plan/csv.h"
#include "report/table.h"

namespace knapsack {
namespace {

constexpr double least_number = 1e-9;
constexpr double most_number = 1e12;
constexpr std::array<std::string_view, 13> numbers{
    "params_b", "active_params_b", "read_params_b", "weight_bits", "kv_bits",        "prompt_tokens", "decode_ctx",
    "ttft_ms",  "prefill_tok_s",   "decode_tok_s",  "memory_mb",   "weight_file_gb", "fit_ok"};

std::optional<double> number_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// A published row: its cells as numbers, absent where they are empty.
class Row {
 public:
  explicit Row(const CsvRow& cells) : cells_(cells) {}
  [[nodiscard]] std::string text(std::string_view column) const {
    const auto it = cells_.find(column);
    return it == cells_.end() ? "" : it->second;
  }
  // Above 0, or nothing.
  [[nodiscard]] std::optional<double> number(std::string_view column) const {
    const auto value = number_of(text(column));
    return value && *value >= least_number && *value <= most_number ? value : std::nullopt;
  }
  // The first column that holds something else than a number in that range or 0; empty: there is none.
  [[nodiscard]] std::string_view unreadable() const {
    for (const auto column : numbers) {
      const std::string cell = text(column);
      if (cell.find_first_not_of(' ') == std::string::npos || number(column)) continue;
      if (number_of(cell) != 0.0) return column;
    }
    return {};
  }
  [[nodiscard]] std::optional<double> first(std::initializer_list<std::string_view> columns) const {
    for (const auto column : columns)
      if (const auto value = number(column)) return value;
    return std::nullopt;
  }

 private:
  const CsvRow& cells_;
};

// What a row's chip may be called: as it is written, without what stands in brackets ("Dimensity 9400 (MT6991)", but
// not "Apple M3 (variant not stated)"), then its device. At least one.
std::vector<std::string> device_names(const Row& row) {
  std::vector<std::string> names;
  for (const std::string& name : {row.text("soc"), row.text("device")}) {
    if (name.empty()) continue;
    names.push_back(name);
    const std::size_t bracket = name.find(" (");
    if (bracket != std::string::npos && name.find("not stated") == std::string::npos)
      names.push_back(name.substr(0, bracket));
  }
  if (names.empty()) names.emplace_back();
  return names;
}

// A usual model of so many billion parameters, for one whose shape is not known.
RowShape usual_shape(double billions) {
  const double d = 2048 * std::pow(billions / 1.5, 0.4);
  return {.layers = std::nearbyint(28 * std::pow(billions / 3, 0.2)),
          .hidden = d,
          .attention = d,
          .vocab = 100000,
          .kv = 50000 * std::pow(billions / 3, 0.3),
          .tied = billions < 4};
}

RowShape shape_of(const Row& row, const RowSources& sources) {
  static const std::regex stated(R"(L=(\d+) d=(\d+) ff=\d+ h=(\d+) kv=(\d+) hd=(\d+) V=(\d+) (un)?tied)");
  static const std::regex named(R"(language part = (\S+?)(;|$)|^(\S+) architecture)");
  const std::string notes = row.text("arch_notes");
  std::smatch m;
  if (std::regex_search(notes, m, stated)) {
    const auto n = [&](std::size_t i) { return number_of(m[i].str()).value_or(0); };
    return {.layers = n(1),
            .hidden = n(2),
            .attention = n(3) * n(5),
            .vocab = n(6),
            .kv = 2 * n(4) * n(5) * n(1),
            .tied = m[7].str().empty()};
  }
  std::string name = row.text("model");
  if (std::regex_search(notes, m, named)) name = m[1].matched ? m[1].str() : m[3].str();
  if (const auto shape = sources.model(name)) return *shape;
  if (const auto shape = sources.model(row.text("model"))) return *shape;
  return usual_shape(row.number("params_b").value_or(1));
}

// What the label says of activations: w8a8 -> a8.
std::string scheme_of(const std::string& label) {
  static const std::regex stated(R"(w\d+a(8|16)|(8|16)a\d+w|A(8)W)");
  std::smatch m;
  if (!std::regex_search(label, m, stated)) return "float";
  for (std::size_t i = 1; i < m.size(); ++i)
    if (m[i].matched) return fmt::format("a{}", m[i].str());
  return "float";
}

void add_reason(ValidatedRow& out, const std::string& text) { out.reason += (out.reason.empty() ? "" : "; ") + text; }

struct Case {
  const Row& row;
  const DeviceProfile* device;
  const Efficiency& efficiency;
  Place place;
  RowShape shape;
  double kv_bits = 16;
  std::optional<double> prompt{};
};

void predict_speed(const Case& c, ValidatedRow& out) {
  const auto decode = c.row.number("decode_tok_s");
  const auto rate = c.row.number("prefill_tok_s");
  const auto ttft = c.row.number("ttft_ms");
  if (!decode && !rate && !ttft) return;
  const auto bits = c.row.number("weight_bits");
  const auto read = c.row.first({"read_params_b", "active_params_b", "params_b"});
  if (c.place.unit != "cpu" && c.place.unit != "gpu" && c.place.unit != "npu")
    return add_reason(out, fmt::format("backend \"{}\" is no cpu, gpu or npu", c.place.unit));
  if (!bits || !read) return add_reason(out, fmt::format("{} is not stated", bits ? "parameters" : "weight_bits"));
  if (c.device == nullptr)
    return add_reason(out, fmt::format("no profile of \"{}\", so its bandwidth is not known", out.device));
  if (!c.device->memory.theoretical_gb_per_s)
    return add_reason(out, fmt::format("the bandwidth of {} is not known", c.device->name));
  const double gb_per_s = c.device->memory.theoretical_gb_per_s->value;
  const double weight_gb = *read * *bits / 8;
  if (decode) {
    const double kv_gb = c.shape.kv * c.kv_bits / 8 * c.row.number("decode_ctx").value_or(128) / 1e9;
    const Estimate seconds = c.efficiency.decode(c.place, {.weight_gb = weight_gb,
                                                           .kv_gb = kv_gb,
                                                           .gb_per_s = gb_per_s,
                                                           .weights_billion = *read,
                                                           .layers = c.shape.layers});
    out.decode = 1 / seconds.expected;
    out.decode_err = *out.decode / *decode - 1;
    out.decode_in_band = *decode >= 1 / seconds.high && *decode <= 1 / seconds.low;
    if ((weight_gb + kv_gb) / gb_per_s > 1 / *decode) {
      out.above_roofline = true;
      add_reason(out, fmt::format("above the roofline: {:.2f} GB a token at {:g} GB/s give at most {:.1f} tokens/s",
                                  weight_gb + kv_gb, gb_per_s, gb_per_s / (weight_gb + kv_gb)));
    }
  }
  if (!rate && !ttft) return;
  const UnitKind kind = c.place.unit == "gpu" ? UnitKind::gpu : UnitKind::npu;
  const UnitProfile* unit = c.place.unit == "cpu" ? nullptr : c.device->unit(kind);
  const Number* published = nullptr;
  if (unit != nullptr && kind == UnitKind::gpu) published = unit->peak("fp32");
  if (unit != nullptr && kind == UnitKind::npu)
    published = unit->peak("int8") != nullptr ? unit->peak("int8") : unit->peak("unstated");
  const double peak = c.efficiency.peak(c.place.unit, published == nullptr ? 0 : published->value, gb_per_s);
  constexpr double usual_prompt = 512;
  const double prompt = c.prompt.value_or(usual_prompt);
  const double active = c.row.number("active_params_b").value_or(*read);
  const double body = std::max(active - c.shape.vocab * c.shape.hidden / 1e9, 0.3 * active);
  const Estimate seconds =
      c.efficiency.prefill(c.place, {.tflop = 2 * body * prompt / 1e3,
                                     .attention_tflop = 2 * c.shape.layers * c.shape.attention * prompt * prompt / 1e12,
                                     .peak_tops = peak,
                                     .weight_gb = weight_gb,
                                     .gb_per_s = gb_per_s,
                                     .layers = c.shape.layers,
                                     .chunks = c.efficiency.chunks(c.place.unit, prompt)});
  if (!c.prompt && rate) add_reason(out, fmt::format("prefill: prompt_tokens is not stated, {:g} are taken", prompt));
  out.prefill = prompt / seconds.expected;
  if (rate) out.prefill_err = *out.prefill / *rate - 1;
  if (ttft && c.prompt) {
    out.ttft = 1e3 * seconds.expected;
    out.ttft_err = *out.ttft / *ttft - 1;
  } else if (ttft) {
    add_reason(out, "TTFT: prompt_tokens is not stated");
  }
}

void predict_memory(const Case& c, ValidatedRow& out) {
  const auto published = c.row.number("memory_mb");
  if (!published) return;
  const auto bits = c.row.number("weight_bits");
  const auto params = c.row.number("params_b");
  const auto file = c.row.number("weight_file_gb");
  if (!file && !(bits && params)) return add_reason(out, "memory: parameters or weight_bits are not stated");
  const double tokens = c.row.first({"decode_ctx", "prompt_tokens"}).value_or(128);
  const Estimate e = c.efficiency.memory(c.place, {.weight_gb = file ? *file : *params * *bits / 8,
                                                   .table_gb = c.shape.tied ? c.shape.vocab * c.shape.hidden / 1e9 : 0,
                                                   .kv_gb = c.shape.kv * c.kv_bits / 8 * tokens / 1e9,
                                                   .logits_gb = c.prompt.value_or(20) * c.shape.vocab / 1e9});
  out.memory = e.expected;
  out.memory_err = e.expected / *published - 1;
}

struct Group {
  std::vector<double> decode, prefill, ttft, memory;
  std::int64_t rows = 0, banded = 0, in_band = 0;

  void add(const ValidatedRow& row) {
    ++rows;
    for (const auto& [error, list] : {std::pair{&row.decode_err, &decode},
                                      {&row.prefill_err, &prefill},
                                      {&row.ttft_err, &ttft},
                                      {&row.memory_err, &memory}})
      if (*error) list->push_back(std::abs(**error));
    if (!row.decode_in_band) return;
    ++banded;
    if (*row.decode_in_band) ++in_band;
  }
};

std::optional<double> middle(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// In the order of the table: all rows, by unit, by unit and framework, by device.
std::vector<std::pair<std::string, Group>> groups_of(const std::vector<ValidatedRow>& rows) {
  std::vector<std::pair<std::string, Group>> out{{"all", {}}};
  std::array<std::map<std::string, Group>, 3> by;
  for (const ValidatedRow& row : rows) {
    if (!row.fit_ok || row.above_roofline) continue;
    out.front().second.add(row);
    by[0][row.unit].add(row);
    by[1][row.unit + "/" + row.framework].add(row);
    by[2][row.device].add(row);
  }
  for (auto& level : by)
    for (auto& [name, group] : level) out.emplace_back(name, std::move(group));
  return out;
}

}  // namespace

RowShape row_shape(const PlanModel& model) {
  double kv = 0;
  for (const auto cols : model.kv_cols) kv += static_cast<double>(cols);
  return {.layers = static_cast<double>(model.layers),
          .hidden = static_cast<double>(model.hidden),
          .attention = static_cast<double>(model.attention),
          .vocab = static_cast<double>(model.vocab),
          .kv = kv,
          .tied = model.tied};
}

Result<std::vector<ValidatedRow>> validate_rows(std::string_view csv, const std::string& origin,
                                                const Efficiency& efficiency, const RowSources& sources) {
  TRY(const std::vector<CsvRow> table, read_csv(csv, origin));
  if (table.empty()) return bad_input("{}: expected rows below the header, found none", origin);
  for (const char* column : {"id", "backend", "framework", "model", "decode_tok_s"})
    if (!table.front().contains(column))
      return bad_input("{}: expected a column {} among those of line 1, separated by commas; found none", origin,
                       column);
  std::vector<ValidatedRow> out;
  for (const CsvRow& cells : table) {
    const Row row(cells);
    ValidatedRow& result = out.emplace_back();
    result.id = row.text("id");
    const std::vector<std::string> names = device_names(row);
    result.device = names.front();
    result.unit = row.text("backend");
    result.framework = efficiency.framework(row.text("framework"));
    result.fit_ok = row.text("fit_ok") != "0";
    const DeviceProfile* device = nullptr;
    for (const std::string& name : names)
      if (device == nullptr && !name.empty()) device = sources.device(name);
    Case c{row, device, efficiency, {}, shape_of(row, sources)};
    std::string chip = result.device;
    std::transform(chip.begin(), chip.end(), chip.begin(),
                   [](unsigned char x) { return static_cast<char>(std::tolower(x)); });
    c.place = {.unit = result.unit,
               .soc = efficiency.chip(device != nullptr ? device->id : chip),
               .family = device != nullptr && !device->family.empty() ? device->family : "unknown",
               .framework = result.framework,
               .scheme = scheme_of(row.text("quant_label"))};
    c.kv_bits = row.number("kv_bits").value_or(16);
    c.prompt = row.number("prompt_tokens");
    constexpr double short_chat = 20;  // tokens: what the note means
    if (!c.prompt && row.text("note").find("short-chat") != std::string::npos) c.prompt = short_chat;
    if (const auto column = row.unreadable(); !column.empty())
      add_reason(result, fmt::format("{} is \"{}\", no number from {:g} to {:g}", column,
                                     row.text(column).substr(0, 40), least_number, most_number));
    predict_speed(c, result);
    predict_memory(c, result);
    if (!result.fit_ok) add_reason(result, "marked as unfit for a model of bandwidth (fit_ok = 0)");
  }
  return out;
}

std::string validation_text(const std::vector<ValidatedRow>& rows) {
  using Align = Table::Align;
  Table table({{"median error"},
               {"rows", Align::right},
               {"decode", Align::right},
               {"in band", Align::right},
               {"prefill", Align::right},
               {"first token", Align::right},
               {"memory", Align::right}});
  const auto percent = [](const std::optional<double>& part) {
    return part ? fmt::format("{:.1f} %", 100 * *part) : std::string("-");
  };
  for (const auto& [name, group] : groups_of(rows))
    table.row({name, std::to_string(group.rows), percent(middle(group.decode)),
               group.banded == 0 ? "-"
                                 : fmt::format("{:.0f} %", 100 * static_cast<double>(group.in_band) /
                                                               static_cast<double>(group.banded)),
               percent(middle(group.prefill)), percent(middle(group.ttft)), percent(middle(group.memory))});
  std::string out = table.text();
  out +=
      "\nRows that devices/efficiency.json was fitted on are met better than others: docs/plan.md has the errors of "
      "rows "
      "that were left out.\n";
  for (const ValidatedRow& row : rows)
    if (row.above_roofline) out += fmt::format("{} {}: {}\n", row.id, row.device, row.reason);
  return out;
}

json::object validation_json(const std::vector<ValidatedRow>& rows) {
  const auto value = [](const std::optional<double>& x) { return x ? json::value(*x) : json::value(nullptr); };
  json::array list;
  for (const ValidatedRow& row : rows)
    list.push_back(
        json::object{{"id", row.id},
                     {"decode_err", value(row.decode_err)},
                     {"prefill_err", value(row.prefill_err)},
                     {"ttft_err", value(row.ttft_err)},
                     {"memory_err", value(row.memory_err)},
                     {"decode_in_band", row.decode_in_band ? json::value(*row.decode_in_band) : json::value(nullptr)},
                     {"reason", row.reason.empty() ? json::value(nullptr) : json::value(row.reason)}});
  json::array groups;
  for (const auto& [name, group] : groups_of(rows))
    groups.push_back(json::object{{"name", name},
                                  {"rows", group.rows},
                                  {"decode", value(middle(group.decode))},
                                  {"prefill", value(middle(group.prefill))},
                                  {"ttft", value(middle(group.ttft))},
                                  {"memory", value(middle(group.memory))},
                                  {"in_band", group.banded == 0 ? json::value(nullptr)
                                                                : json::value(static_cast<double>(group.in_band) /
                                                                              static_cast<double>(group.banded))}});
  return {{"rows", std::move(list)}, {"groups", std::move(groups)}};
}

}  // namespace knapsack
