#include "align/align_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"
#include "report/plot.h"
#include "report/table.h"

namespace knapsack {
namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.3g}", value) : "inf"; }
std::string cosine_text(double value) { return fmt::format("{:.6f}", value); }
std::string decibels(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f}", value) : value > 0 ? "inf" : "-inf";
}

// JSON has no infinity, and what was not compared has no number.
json::value finite(double value) { return std::isfinite(value) ? json::value(value) : json::value(nullptr); }

std::string verdict(const Alignment& alignment) {
  const auto broken =
      std::count_if(alignment.nodes.begin(), alignment.nodes.end(), [](const auto& n) { return n.broken; });
  if (broken > 0)
    return fmt::format("NOT aligned: {} node{} born beyond cosine {:g}, the worst {}", broken, broken == 1 ? "" : "s",
                       alignment.cosine, alignment.nodes[alignment.born.front()].name);
  if (alignment.born.empty()) return "aligned: no error is born anywhere";
  return fmt::format("aligned: error is born in {} of {} nodes, none beyond cosine {:g}", alignment.born.size(),
                     alignment.nodes.size(), alignment.cosine);
}

std::string logits_text(const Alignment& alignment) {
  if (!alignment.has_logits) return "logits: not in both";
  return fmt::format("logits: KL {} nats, top-1 {:.1f} %, cosine {}{}", number(alignment.logits.kl),
                     alignment.logits.top1 * 100, cosine_text(alignment.logits.cosine),
                     std::isfinite(alignment.logits.kl) ? "" : "; some are no finite numbers, so none of these counts");
}

// Values that float32 does not hold compare as alike where both sides lost them.
std::string beyond_text(const Alignment& alignment) {
  std::int64_t nodes = 0;
  const AlignedNode* first = nullptr;
  for (const AlignedNode& node : alignment.nodes) {
    if (node.beyond == 0) continue;
    ++nodes;
    if (first == nullptr) first = &node;
  }
  if (first == nullptr) return "";
  return fmt::format(
      "values left the range of float32 in both, so that nothing can be compared there: in {} node{}, first {} ({} "
      "values)\n",
      nodes, nodes == 1 ? "" : "s", first->name, first->beyond);
}

std::string limits_text(const Alignment& alignment) {
  return fmt::format(
      "born: a replayed token's relative L2 over {:g}; the gate: its cosine below {:.9g} or its relative L2 over "
      "{:.3g}",
      born_floor, alignment.cosine, alignment.rel_l2);
}

std::string side_text(std::string_view letter, const std::string& label, const std::string& how) {
  return how.empty() ? fmt::format("{}: {}", letter, label) : fmt::format("{}: {} ({})", letter, label, how);
}

std::string text_text(const Alignment& alignment) {
  return fmt::format("{} tokens{}{}, {} values compared", alignment.tokens, alignment.text.empty() ? "" : " of ",
                     alignment.text, alignment.nodes.size());
}

// Whether all that breaks the gate are products of which one side alone rounds what they read, so that this may be the
// whole reason: the weights are compared where it does not.
std::string rounding_hint(const Alignment& alignment) {
  std::int64_t broken = 0, by_a = 0, by_b = 0;
  for (const AlignedNode& node : alignment.nodes) {
    if (!node.broken) continue;
    ++broken;
    by_a += node.rounds_a && !node.rounds_b ? 1 : 0;
    by_b += node.rounds_b && !node.rounds_a ? 1 : 0;
  }
  if (broken == 0 || (by_a != broken && by_b != broken)) return "";
  return fmt::format(
      "all {} beyond the gate {} of integers in {}, which round{} activations to 8 bits; the word `exact` behind the "
      "colon of {} makes them of floats, so that what is left is due to the weights\n",
      broken, broken == 1 ? "is a product" : "are products", by_b == broken ? "B" : "A", broken == 1 ? "s" : "",
      by_b == broken ? "B" : "A");
}

std::string hints(const Alignment& alignment) {
  std::string out;
  for (const std::size_t number : alignment.born) {
    const AlignedNode& node = alignment.nodes[number];
    if (!node.hint.empty()) out += fmt::format("{}: {}\n", node.name, node.hint);
  }
  return out;
}

// A line for each router that chose otherwise.
std::string routing(const Alignment& alignment) {
  std::string out;
  for (const AlignedRouter& router : alignment.routers) {
    if (router.flipped + router.own == 0) continue;
    out += fmt::format("{}: other experts for {} of {} tokens", router.name, router.flipped, router.tokens);
    if (router.own > 0) out += fmt::format(", for {} on {}'s own scores", router.own, "A");
    out += router.unexplained == 0 ? ", all within the noise of their scores\n"
                                   : fmt::format(", {} beyond the noise of their scores\n", router.unexplained);
  }
  return out;
}

std::string unpaired(const std::string& label, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  constexpr std::size_t few = 6;
  std::string out = fmt::format("only in {}: {}", label, names[0]);
  for (std::size_t i = 1; i < std::min(few, names.size()); ++i) out += fmt::format(", {}", names[i]);
  if (names.size() > few) out += fmt::format(" and {} more", names.size() - few);
  return out + "\n";
}

// "attn.q_proj" of "layers.3.attn.q_proj"; the whole name where there is no layer.
std::string part_of(const AlignedNode& node) {
  if (node.layer < 0) return node.name;
  const auto dot = node.name.find('.', std::string_view("layers.").size());
  return dot == std::string::npos ? node.name : node.name.substr(dot + 1);
}

constexpr double least = 1e-7;  // float32's own

// White at float32's own error, over yellow to dark red at 1.
std::string colour(double error) {
  if (!std::isfinite(error)) return "#000000";
  const double share = std::clamp((std::log10(std::max(error, least)) + 7) / 7, 0.0, 1.0);
  struct Stop {
    double at;
    std::array<double, 3> rgb;
  };
  constexpr std::array<Stop, 4> stops{
      {{0, {246, 248, 250}}, {0.45, {255, 222, 120}}, {0.75, {240, 110, 50}}, {1, {120, 0, 20}}}};
  std::size_t i = 1;
  while (i + 1 < stops.size() && share > stops[i].at) ++i;
  const double t = (share - stops[i - 1].at) / (stops[i].at - stops[i - 1].at);
  std::string out = "#";
  for (std::size_t c = 0; c < 3; ++c)
    out += fmt::format(
        "{:02x}", static_cast<int>(std::lround(stops[i - 1].rgb[c] + t * (stops[i].rgb[c] - stops[i - 1].rgb[c]))));
  return out;
}

// Layers downwards, the parts of a layer to the right; values that belong to no layer stand in the first row.
std::string heat_map(const Alignment& alignment, bool born) {
  std::vector<std::string> parts;
  std::int64_t layers = 0;
  for (const AlignedNode& node : alignment.nodes) {
    const std::string part = part_of(node);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    layers = std::max(layers, node.layer + 1);
  }
  constexpr int cell_width = 30, cell_height = 18, left = 60, top = 130;
  const int width = left + cell_width * static_cast<int>(parts.size()) + 100;
  const int height = top + cell_height * static_cast<int>(layers + 1) + 10;
  std::string out = fmt::format(
      "<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"11\">\n", width,
      height);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int x = left + cell_width * static_cast<int>(i) + cell_width / 2;
    out += fmt::format("<text x=\"{0}\" y=\"{1}\" transform=\"rotate(-55 {0} {1})\">{2}</text>\n", x, top - 6,
                       escaped(parts[i]));
  }
  for (std::int64_t row = 0; row <= layers; ++row)
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 8,
                       top + cell_height * row + 13, row == 0 ? "model" : fmt::format("{}", row - 1));
  for (const AlignedNode& node : alignment.nodes) {
    const auto column = std::find(parts.begin(), parts.end(), part_of(node)) - parts.begin();
    const std::string said = born ? fmt::format("born {}", number(node.born_rel_l2))
                                  : fmt::format("median token {}, all tokens as one vector {}",
                                                number(node.median_rel_l2), number(node.free.rel_l2));
    out +=
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}><title>{}: {}</title></rect>\n",
                    left + cell_width * column, top + cell_height * (node.layer + 1), cell_width - 2, cell_height - 2,
                    colour(born ? node.born_rel_l2 : node.median_rel_l2),
                    born && node.broken ? " stroke=\"#000\" stroke-width=\"2\"" : "", escaped(node.name), said);
  }
  return out + "</svg>\n";
}

std::string scale_key() {
  std::string out = "<p class=\"key\">relative L2:";
  for (int power = -7; power <= 0; ++power) {
    const double error = std::pow(10, power);
    out += fmt::format(" <span style=\"background:{}\">&nbsp;&nbsp;&nbsp;</span>&nbsp;1e{}", colour(error), power);
  }
  return out + " <span style=\"background:#000\">&nbsp;&nbsp;&nbsp;</span>&nbsp;not finite</p>\n";
}

Plot by_depth(const Alignment& alignment) {
  Plot plot{.title = "Error along depth", .x_title = "layer", .y_title = "relative L2", .log_y = true};
  // A sum over tokens would be that of the one with huge activations; the median is not.
  PlotSeries carried{.name = "the residual after the layer, both run freely: median token"};
  PlotSeries worst{.name = "the same, worst token"}, born{.name = "born in the layer, replayed: worst token"};
  for (const AlignedNode& node : alignment.nodes) {
    if (node.layer < 0) continue;
    const auto at = static_cast<double>(node.layer);
    if (part_of(node) == "out") {
      carried.points.push_back({.x = at, .y = node.median_rel_l2});
      double most = 0;
      for (const float error : node.by_position)
        if (!std::isnan(error)) most = std::max(most, static_cast<double>(error));
      worst.points.push_back({.x = at, .y = most});
    }
    if (born.points.empty() || born.points.back().x != at) born.points.push_back({.x = at});
    born.points.back().y = std::max(born.points.back().y, node.born_rel_l2);
  }
  plot.series = {carried, worst, born};
  return plot;
}

Plot by_position(const Alignment& alignment) {
  Plot plot{.title = "Error by position, both run freely",
            .x_title = "position",
            .y_title = "relative L2, KL in nats",
            .log_y = true};
  const auto add = [&](const std::string& name, const std::vector<float>& values) {
    PlotSeries series{.name = name};
    for (std::size_t i = 0; i < values.size(); ++i)
      series.points.push_back({.x = static_cast<double>(i), .y = static_cast<double>(values[i])});
    plot.series.push_back(std::move(series));
  };
  for (const AlignedNode& node : alignment.nodes)
    if (node.name == "logits") add("logits, relative L2", node.by_position);
  if (alignment.has_logits) add("KL", alignment.logits.kl_by_position);
  if (!alignment.born.empty()) {
    const AlignedNode& worst = alignment.nodes[alignment.born.front()];
    add(fmt::format("{}, relative L2", worst.name), worst.by_position);
  }
  return plot;
}

std::string kl_text(const AlignedToken& token) { return token.kl < 0 ? "-" : number(token.kl); }
std::string top_text(const AlignedToken& token) { return token.kl < 0 ? "-" : token.same_top ? "same" : "other"; }
std::string born_text(const AlignedToken& token) {
  return token.born > born_floor ? fmt::format("{} {}", number(token.born), token.born_at) : "-";
}
bool differs(const AlignedToken& token) { return token.rel_l2 > 0 || token.kl > 0 || token.born > born_floor; }

// The tokens that differ most; empty: none differs.
std::string worst_tokens(const Alignment& alignment, std::size_t top) {
  using Align = Table::Align;
  const bool several = alignment.by_token.back().sequence > 0;
  std::vector<Table::Column> columns;
  if (several) columns.push_back({"sequence", Align::right});
  columns.insert(columns.end(), {{"at", Align::right}, {"token"}, {"KL", Align::right}, {"top-1"}});
  columns.push_back({fmt::format("rel L2 of {}", alignment.token_value), Align::right});
  columns.push_back({"born most"});
  Table table(columns);
  std::size_t shown = 0;
  for (const std::size_t number_of : alignment.worst_tokens) {
    const AlignedToken& token = alignment.by_token[number_of];
    if (shown == top || !differs(token)) break;
    ++shown;
    std::vector<std::string> row;
    if (several) row.push_back(fmt::format("{}", token.sequence));
    row.push_back(fmt::format("{}", token.position));
    row.push_back(token.text ? fmt::format("{} {}", token.id, printable(*token.text, 24))
                             : fmt::format("{}", token.id));
    row.insert(row.end(), {kl_text(token), top_text(token), number(token.rel_l2), born_text(token)});
    table.row(std::move(row));
  }
  return shown == 0 ? "" : fmt::format("Tokens, worst first\n{}\n", table.text());
}

// Each sequence as it stands, every token on the colour of its error.
std::string tokens_html(const Alignment& alignment) {
  constexpr std::size_t most = 4000;
  std::string out;
  std::int64_t sequence = -1;
  for (std::size_t i = 0; i < std::min(most, alignment.by_token.size()); ++i) {
    const AlignedToken& token = alignment.by_token[i];
    if (token.sequence != sequence) out += sequence++ < 0 ? "<p class=\"text\">" : "</p>\n<p class=\"text\">";
    // Line ends are shown, and then are some.
    std::string text = token.text ? *token.text : fmt::format("{} ", token.id);
    const bool line = text.ends_with('\n');
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.replace(at, 1, "\u21b5");
    const bool dark = token.rel_l2 > 0.01;
    out += fmt::format(
        "<span style=\"background:{}{}\" title=\"{} at {}: relative L2 {}, KL {}, top-1 {}, born {}\">{}</span>{}",
        colour(token.rel_l2), dark ? ";color:#fff" : "", token.id, token.position, number(token.rel_l2), kl_text(token),
        top_text(token), escaped(born_text(token)), escaped(text), line ? "<br>" : "");
  }
  out += "</p>\n";
  if (alignment.by_token.size() > most)
    out += fmt::format("<p>and {} tokens more</p>\n", alignment.by_token.size() - most);
  constexpr std::size_t rows = 40;
  out +=
      fmt::format("<table><tr><th>sequence, position<th>token<th>text<th>KL<th>top-1<th>rel. L2 of {}<th>born most\n",
                  escaped(alignment.token_value));
  for (std::size_t i = 0; i < std::min(rows, alignment.worst_tokens.size()); ++i) {
    const AlignedToken& token = alignment.by_token[alignment.worst_tokens[i]];
    if (!differs(token)) break;
    out += fmt::format("<tr><td>{}, {}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}\n", token.sequence, token.position, token.id,
                       token.text ? escaped(printable(*token.text)) : "", kl_text(token), top_text(token),
                       number(token.rel_l2), escaped(born_text(token)));
  }
  return out + "</table>\n";
}

std::string routing_html(const Alignment& alignment) {
  std::string rows;
  for (const AlignedRouter& router : alignment.routers)
    for (const RouterFlip& flip : router.flips)
      rows += fmt::format("<tr{}><td>{}<td>{}, {}<td>{}<td>{}<td>{}<td>{}<td>{}\n",
                          flip.noise_alone ? "" : " class=\"broken\"", escaped(router.name), flip.sequence,
                          flip.position, flip.token, fmt::join(flip.a, ", "), fmt::join(flip.b, ", "),
                          flip.margin < 0 ? "-" : number(flip.margin), number(flip.noise));
  std::string lines;
  for (const char c : escaped(routing(alignment))) lines += c == '\n' ? std::string("<br>\n") : std::string(1, c);
  if (lines.empty()) return "";
  return fmt::format(
      "<h2>Other experts</h2>\n<p>{}</p>\n<table><tr><th>router<th>sequence, position<th>token<th>only in A<th>only in "
      "B<th>margin<th>noise\n{}</table>\n",
      lines, rows);
}

std::string worst_html(const Alignment& alignment) {
  constexpr std::size_t most = 60;
  std::string out =
      "<table><tr><th>node<th>op<th>cosine<th>rel. L2<th>max abs<th>SQNR dB<th>born cosine<th>born rel. L2<th>worst "
      "at<th>range A<th>range "
      "B<th>saturated\n";
  for (std::size_t i = 0; i < std::min(most, alignment.worst.size()); ++i) {
    const AlignedNode& node = alignment.nodes[alignment.worst[i]];
    out += fmt::format(
        "<tr{}><td{}>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{} .. {}<td>{} .. {}<td>{:.2f} %\n",
        node.broken ? " class=\"broken\"" : "",
        node.hint.empty() ? "" : fmt::format(" title=\"{}\"", escaped(node.hint)), escaped(node.name), escaped(node.op),
        cosine_text(node.free.cosine), number(node.free.rel_l2), number(node.free.max_abs), decibels(node.free.sqnr_db),
        node.born ? cosine_text(node.born_cosine) : "", node.born ? number(node.born_rel_l2) : "",
        node.born ? fmt::format("{}", node.born_position) : "", number(node.a_low), number(node.a_high),
        number(node.b_low), number(node.b_high), node.saturated * 100);
  }
  out += "</table>\n";
  for (const std::size_t number_of : alignment.born)
    if (const AlignedNode& node = alignment.nodes[number_of]; !node.hint.empty())
      out += fmt::format("<p>{}: {}</p>\n", escaped(node.name), escaped(node.hint));
  if (alignment.worst.size() > most) out += fmt::format("<p>and {} more</p>\n", alignment.worst.size() - most);
  return out;
}

}  // namespace

std::string alignment_text(const Alignment& alignment, std::size_t top) {
  using Align = Table::Align;
  // `!` stands before what breaks the gate.
  Table table({{" "},
               {"node"},
               {"op"},
               {"cosine", Align::right},
               {"rel L2", Align::right},
               {"max abs", Align::right},
               {"SQNR dB", Align::right},
               {"born cosine", Align::right},
               {"born rel L2", Align::right},
               {"at", Align::right}});
  const std::size_t shown = std::min(top, alignment.worst.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const AlignedNode& node = alignment.nodes[alignment.worst[i]];
    table.row({node.broken ? "!" : " ", node.name, node.op, cosine_text(node.free.cosine), number(node.free.rel_l2),
               number(node.free.max_abs), decibels(node.free.sqnr_db), node.born ? cosine_text(node.born_cosine) : "-",
               node.born ? number(node.born_rel_l2) : "-", node.born ? fmt::format("{}", node.born_position) : "-"});
  }
  constexpr std::size_t few_tokens = 8;
  std::string out =
      fmt::format("{}\n{}\n{}\n{}\n\n", side_text("A", alignment.a, alignment.a_how),
                  side_text("B", alignment.b, alignment.b_how), text_text(alignment), limits_text(alignment));
  out += table.text();
  if (shown < alignment.worst.size()) out += fmt::format("and {} more (--top)\n", alignment.worst.size() - shown);
  out += fmt::format("\n{}", worst_tokens(alignment, std::min(top, few_tokens)));
  out += unpaired(alignment.a, alignment.a_only) + unpaired(alignment.b, alignment.b_only);
  out += routing(alignment) + hints(alignment) + beyond_text(alignment) + rounding_hint(alignment);
  return out + fmt::format("{}\n{}\n", logits_text(alignment), verdict(alignment));
}

json::object alignment_json(const Alignment& alignment) {
  json::array nodes, born;
  for (const AlignedNode& node : alignment.nodes) {
    json::object made{{"name", node.name}, {"op", node.op}};
    made["layer"] = node.layer < 0 ? json::value(nullptr) : json::value(node.layer);
    made["cosine"] = node.free.cosine;
    made["rel_l2"] = finite(node.free.rel_l2);
    made["max_abs"] = node.free.max_abs;
    made["sqnr_db"] = finite(node.free.sqnr_db);
    made["born"] = node.born;
    made["hint"] = node.hint.empty() ? json::value(nullptr) : json::value(node.hint);
    made["born_cosine"] = node.born_cosine;
    made["born_rel_l2"] = finite(node.born_rel_l2);
    made["born_position"] = node.born ? json::value(node.born_position) : json::value(nullptr);
    made["born_token"] = node.born ? json::value(node.born_token) : json::value(nullptr);
    made["broken"] = node.broken;
    made["range_a"] = json::array{node.a_low, node.a_high};
    made["range_b"] = json::array{node.b_low, node.b_high};
    made["saturated"] = node.saturated;
    made["not_finite"] = node.not_finite;
    made["beyond_f32"] = node.beyond;
    made["rel_l2_median_token"] = finite(node.median_rel_l2);
    json::array by_position;
    for (const float error : node.by_position) by_position.push_back(finite(static_cast<double>(error)));
    made["rel_l2_by_position"] = std::move(by_position);
    nodes.push_back(std::move(made));
  }
  json::array routers;
  for (const AlignedRouter& router : alignment.routers) {
    json::array flips;
    for (const RouterFlip& flip : router.flips)
      flips.push_back(json::object{{"sequence", flip.sequence},
                                   {"position", flip.position},
                                   {"token", flip.token},
                                   {"experts_a", json::value_from(flip.a)},
                                   {"experts_b", json::value_from(flip.b)},
                                   {"margin", flip.margin < 0 ? json::value(nullptr) : json::value(flip.margin)},
                                   {"noise", finite(flip.noise)},
                                   {"noise_alone", flip.noise_alone}});
    routers.push_back(json::object{{"name", router.name},
                                   {"tokens", router.tokens},
                                   {"flipped", router.flipped},
                                   {"own", router.own},
                                   {"unexplained", router.unexplained},
                                   {"flips", std::move(flips)}});
  }
  for (const std::size_t number : alignment.born) born.push_back(json::value(alignment.nodes[number].name));
  json::object object{{"a", alignment.a}, {"b", alignment.b}, {"tokens", alignment.tokens}};
  object["run_a"] = alignment.a_how.empty() ? json::value(nullptr) : json::value(alignment.a_how);
  object["run_b"] = alignment.b_how.empty() ? json::value(nullptr) : json::value(alignment.b_how);
  object["text"] = alignment.text.empty() ? json::value(nullptr) : json::value(alignment.text);
  object["replayed"] = alignment.a_replayed ? "a" : "b";
  object["nodes"] = std::move(nodes);
  object["born"] = std::move(born);
  object["routers"] = std::move(routers);
  if (alignment.has_logits) {
    json::array by_position;
    for (const float kl : alignment.logits.kl_by_position) by_position.push_back(finite(static_cast<double>(kl)));
    object["logits"] = json::object{{"tokens", alignment.logits.tokens},
                                    {"kl", finite(alignment.logits.kl)},
                                    {"top1", alignment.logits.top1},
                                    {"cosine", alignment.logits.cosine},
                                    {"kl_by_position", std::move(by_position)}};
  } else {
    object["logits"] = nullptr;
  }
  object["only_in_a"] = json::value_from(alignment.a_only);
  object["only_in_b"] = json::value_from(alignment.b_only);
  object["token_value"] = alignment.token_value;
  json::array by_token;
  for (const AlignedToken& token : alignment.by_token) {
    json::object made{{"sequence", token.sequence}, {"position", token.position}, {"token", token.id}};
    made["text"] = token.text ? json::value(*token.text) : json::value(nullptr);
    made["rel_l2"] = finite(token.rel_l2);
    made["kl"] = token.kl < 0 ? json::value(nullptr) : finite(token.kl);
    made["same_top"] = token.kl < 0 ? json::value(nullptr) : json::value(token.same_top);
    made["born"] = finite(token.born);
    made["born_at"] = token.born_at.empty() ? json::value(nullptr) : json::value(token.born_at);
    by_token.push_back(std::move(made));
  }
  object["by_token"] = std::move(by_token);
  object["threshold_cosine"] = alignment.cosine;
  object["threshold_rel_l2"] = alignment.rel_l2;
  const std::string hint = rounding_hint(alignment);
  object["hint"] = hint.empty() ? json::value(nullptr) : json::value(hint.substr(0, hint.size() - 1));
  object["passed"] = alignment.passed;
  return object;
}

std::string alignment_html(const Alignment& alignment) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>knapsack align</title>\n<style>\n"
      "body{font-family:sans-serif;margin:2em;max-width:80em;color:#1f2328}\n"
      "table{border-collapse:collapse;font-size:13px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid "
      "#d8dee4}\n"
      "td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}\n"
      ".broken td:first-child{color:#d1242f;font-weight:bold}.key{font-size:12px}.text{line-height:1.7}.text "
      "span{white-space:pre-wrap}.wide{overflow-x:auto}\n"
      "</style></head><body>\n";
  out += fmt::format("<h1>{}</h1>\n<p>{}<br>{}<br>{}<br>{}<br>{}</p>\n", escaped(verdict(alignment)),
                     escaped(side_text("A", alignment.a, alignment.a_how)),
                     escaped(side_text("B", alignment.b, alignment.b_how)), escaped(text_text(alignment)),
                     escaped(limits_text(alignment)), escaped(logits_text(alignment)));
  for (const std::string& line : {unpaired(alignment.a, alignment.a_only), unpaired(alignment.b, alignment.b_only),
                                  beyond_text(alignment), rounding_hint(alignment)})
    if (!line.empty()) out += fmt::format("<p>{}</p>\n", escaped(line));
  out += fmt::format(
      "<h2>Where error is born</h2>\n<p>Each node replayed on {}'s values: the relative L2 of its worst token. Framed: "
      "beyond the gate. Point at a cell for its number.</p>\n<div class=\"wide\">{}</div>\n{}",
      alignment.a_replayed ? "B" : "A", heat_map(alignment, true), scale_key());
  out += fmt::format(
      "<h2>Both run freely: born and carried</h2>\n<p>The relative L2 of the median token.</p>\n<div "
      "class=\"wide\">{}</div>\n",
      heat_map(alignment, false));
  out += fmt::format("<h2>Curves</h2>\n{}\n{}\n", svg(by_depth(alignment)), svg(by_position(alignment)));
  out += fmt::format("<h2>Tokens</h2>\n<p>On the colour of the relative L2 of {}, both run freely.</p>\n{}",
                     escaped(alignment.token_value), tokens_html(alignment));
  out += routing_html(alignment);
  out += fmt::format("<h2>Nodes, worst first</h2>\n{}</body></html>\n", worst_html(alignment));
  return out;
}

}  // namespace knapsack
