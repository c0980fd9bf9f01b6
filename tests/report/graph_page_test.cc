// A graph as a picture: no box over another, no line through one, names that cannot break out of any format.
#include "report/graph_page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/graph_layout.h"
#include "support/support.h"

namespace knapsack {
namespace {

using View = GraphView;

std::size_t add_value(View& view, const std::string& name, std::int64_t layer) {
  view.values.push_back(
      {.name = name, .shape = {"T", "64"}, .dtype = "F32", .block_bytes = 4, .bytes = 256, .per = "T", .layer = layer});
  return view.values.size() - 1;
}

std::size_t add_node(View& view, const std::string& name, std::int64_t layer, std::vector<std::size_t> inputs,
                     const std::string& op = "op", std::size_t cls = 0) {
  const std::size_t out = add_value(view, name, layer);
  view.nodes.push_back(
      {.name = name, .op = op, .cls = cls, .layer = layer, .inputs = std::move(inputs), .outputs = {out}});
  return out;
}

View empty_view() { return {.title = "t", .classes = {"matrix", "elementwise"}}; }

// Layers with a residual around three branches, a table that all of them read, and a head behind them.
View decoder(std::int64_t layers, int branches = 3) {
  View view = empty_view();
  std::size_t x = add_node(view, "embed", -1, {});
  const std::size_t table = add_node(view, "table", -1, {});
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string at = fmt::format("layers.{}.", layer);
    const std::size_t norm = add_node(view, at + "norm", layer, {x});
    std::vector<std::size_t> parts;
    for (int i = 0; i < branches; ++i)
      parts.push_back(add_node(view, fmt::format("{}attn.branch_{}", at, i), layer,
                               i % 2 == 0 ? std::vector{norm, table} : std::vector{norm}, "op", 1));
    const std::size_t joined = add_node(view, at + "joined", layer, parts);
    x = add_node(view, at + "out", layer, {x, joined});
  }
  const std::size_t norm = add_node(view, "norm", -1, {x});
  view.outputs = {add_node(view, "logits", -1, {norm})};
  return view;
}

// Without layers, `wide` nodes a rank, each of which reads two of the rank before, and now and then one of far above.
View flat(std::size_t count, std::size_t wide) {
  View view = empty_view();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::size_t> inputs;
    const std::size_t column = i % wide;
    if (i >= wide) inputs = {i - wide, i - column - wide + (column + 1) % wide};
    if (i % 97 == 0 && i > 3000) inputs.push_back(i - 2999);
    add_node(view, fmt::format("/model/block_{}/MatMul", i), -1, inputs);
  }
  return view;
}

struct Rect {
  double left, top, right, bottom;
};
bool overlap(const Rect& a, const Rect& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

Rect rect_of(const GraphLayout& layout, const GraphPlaces& places, std::size_t node) {
  const GraphLayout::Box& box = layout.boxes[node];
  const auto& at = places.frames[box.frame];
  return {at.x + box.x, at.y + box.y, at.x + box.x + box.width, at.y + box.y + GraphLayout::node_height};
}

// Sorted by top, so that only near ones are compared.
void expect_apart(const View& view) {
  const GraphLayout layout = lay_out(view);
  const GraphPlaces places = place(layout);
  std::vector<Rect> boxes, frames;
  for (std::size_t i = 0; i < view.nodes.size(); ++i) boxes.push_back(rect_of(layout, places, i));
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    const auto& frame = layout.frames[i];
    frames.push_back(
        {places.frames[i].x, places.frames[i].y, places.frames[i].x + frame.width, places.frames[i].y + frame.height});
    for (const std::size_t node : frame.nodes) {
      const Rect &box = boxes[node], &around = frames.back();
      EXPECT_GE(box.left, around.left - 0.01) << view.nodes[node].name;
      EXPECT_LE(box.right, around.right + 0.01) << view.nodes[node].name;
      EXPECT_GE(box.top, around.top - 0.01) << view.nodes[node].name;
      EXPECT_LE(box.bottom, around.bottom + 0.01) << view.nodes[node].name;
    }
    EXPECT_LE(frames.back().right, places.width);
    EXPECT_LE(frames.back().bottom, places.height);
  }
  for (auto* list : {&boxes, &frames}) {
    std::sort(list->begin(), list->end(), [](const Rect& a, const Rect& b) { return a.top < b.top; });
    for (std::size_t i = 0; i < list->size(); ++i)
      for (std::size_t k = i + 1; k < list->size() && (*list)[k].top < (*list)[i].bottom; ++k)
        ASSERT_FALSE(overlap((*list)[i], (*list)[k])) << i << " and " << k;
  }
  // A line keeps clear of every box but the two it joins: its corners do, and what lies between them upright.
  for (std::size_t f = 0; f < layout.frames.size(); ++f)
    for (const auto& wire : layout.frames[f].wires)
      for (std::size_t i = 1; i < wire.points.size(); ++i) {
        if (std::abs(wire.points[i].x - wire.points[i - 1].x) > 0.01) continue;
        const double x = places.frames[f].x + wire.points[i].x;
        const Rect line{x - 1, places.frames[f].y + wire.points[i - 1].y + 0.5, x + 1,
                        places.frames[f].y + wire.points[i].y - 0.5};
        for (const std::size_t node : layout.frames[f].nodes) {
          if (static_cast<std::ptrdiff_t>(node) == wire.from || static_cast<std::ptrdiff_t>(node) == wire.to) continue;
          ASSERT_FALSE(overlap(line, rect_of(layout, places, node)))
              << "the line of " << view.values[wire.value].name << " through " << view.nodes[node].name;
        }
      }
}

TEST(GraphLayout, NothingLiesOverAnything) {
  expect_apart(decoder(3));
  expect_apart(decoder(2, 40));
  expect_apart(flat(300, 7));
  expect_apart(flat(60, 1));
  View wide = empty_view();
  std::vector<std::size_t> leaves;
  const std::size_t root = add_node(wide, "root", -1, {});
  for (int i = 0; i < 200; ++i) leaves.push_back(add_node(wide, fmt::format("expert.{}", i), -1, {root}));
  add_node(wide, "sum", -1, leaves);
  expect_apart(wide);
}

TEST(GraphLayout, ReadsDownwards) {
  const View view = decoder(4);
  const GraphLayout layout = lay_out(view);
  const GraphPlaces places = place(layout);
  EXPECT_EQ(layout.frames.size(), 6U);  // what is before the layers, the layers, what is behind
  for (std::size_t i = 0; i < view.nodes.size(); ++i)
    for (const std::size_t value : view.nodes[i].inputs)  // in this view node and value have one number
      EXPECT_LT(rect_of(layout, places, value).bottom, rect_of(layout, places, i).top) << view.nodes[i].name;
  // The table goes to every layer; beside the way down it needs one lane, which all share.
  EXPECT_EQ(layout.lanes, 1U);
}

TEST(GraphLayout, AGraphOfNothing) {
  const View view = empty_view();
  EXPECT_TRUE(lay_out(view).frames.empty());
  EXPECT_NE(graph_svg(view).find("</svg>"), std::string::npos);
  EXPECT_NE(graph_html(view).find("\"nodes\":[]"), std::string::npos);
  EXPECT_EQ(graph_json(view).at("nodes").as_array().size(), 0U);
}

// A link back against the order of frames, which a node of no layer between two of one layer makes.
TEST(GraphLayout, ANodeBetweenTwoOfOneLayer) {
  View view = empty_view();
  const std::size_t a = add_node(view, "layers.0.a", 0, {});
  const std::size_t outside = add_node(view, "outside", -1, {a});
  const std::size_t b = add_node(view, "layers.0.b", 0, {outside});
  const std::size_t c = add_node(view, "layers.1.c", 1, {b});
  view.outputs = {add_node(view, "end", -1, {c})};
  expect_apart(view);
  EXPECT_EQ(lay_out(view).lanes, 1U);  // the link back
}

// Lines past layers share a lane where they do not meet: 0 -> 2 and 3 -> 5 do not, 1 -> 4 meets both.
TEST(GraphLayout, LanesAreSharedByLinesThatDoNotMeet) {
  const auto lanes = [](const std::vector<std::pair<std::int64_t, std::int64_t>>& jumps) {
    View view = empty_view();
    std::vector<std::size_t> sides;
    std::size_t x = 0;
    for (std::int64_t layer = 0; layer < 6; ++layer) {
      const std::string at = fmt::format("layers.{}.", layer);
      std::vector<std::size_t> inputs;
      if (layer > 0) inputs.push_back(x);
      for (const auto& [from, to] : jumps)
        if (to == layer) inputs.push_back(sides[static_cast<std::size_t>(from)]);
      sides.push_back(add_node(view, at + "side", layer, inputs));
      x = add_node(view, at + "out", layer, {sides.back()});
    }
    expect_apart(view);
    return lay_out(view).lanes;
  };
  EXPECT_EQ(lanes({}), 0U);
  EXPECT_EQ(lanes({{0, 2}, {3, 5}}), 1U);
  EXPECT_EQ(lanes({{0, 2}, {3, 5}, {1, 4}}), 2U);
}

TEST(GraphLayout, TenThousandNodes) {
  for (const View& view : {decoder(100, 98), flat(10000, 4)}) {
    EXPECT_GE(view.nodes.size(), 10000U);
    expect_apart(view);
    const std::string page = graph_html(view);
    EXPECT_LT(page.size(), std::size_t{6} << 20);
  }
}

const std::string hostile =
    "a</script><script>alert(1)</script><!--\"'&lt;\\n\n\t\x1b[31m\xe5\xb1\x82\xff\xf0\x9f\x98\x80{{DATA}}";

View hostile_view() {
  View view = empty_view();
  view.title = hostile;
  view.facts = {hostile};
  view.classes[0] = hostile;
  const std::size_t x = add_node(view, hostile, -1, {}, hostile);
  view.values[x].dtype = view.values[x].note = hostile;
  view.nodes[0].unit = view.nodes[0].origin = view.nodes[0].purpose = hostile;
  view.nodes[0].attributes = {
      {hostile, hostile}, {"eps", 1e-6}, {"heads", std::int64_t{12}}, {"perm", std::vector<std::int64_t>{0, 2, 1}}};
  view.outputs = {add_node(view, hostile + "2", 0, {x})};
  return view;
}

TEST(GraphPage, NamesCannotBreakOut) {
  const std::string page = graph_html(hostile_view());
  // The page's own two, and no more.
  std::size_t scripts = 0, ends = 0;
  for (std::size_t at = 0; (at = page.find("<script", at)) != std::string::npos; ++at) ++scripts;
  for (std::size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(scripts, 2U);
  EXPECT_EQ(ends, 2U);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  // The data is JSON, and holds the name as it is but for what is no UTF-8.
  const std::string mark = "id=\"graph\">";
  const auto begin = page.find(mark) + mark.size();
  const auto data = parse_json_object(page.substr(begin, page.find("</script>") - begin), "data");
  ASSERT_TRUE(data) << data.error().message;
  std::string valid = hostile;
  valid.replace(valid.find('\xff'), 1, "\xef\xbf\xbd");
  EXPECT_EQ(data->at("nodes").as_array().at(0).as_array().at(0).as_string(), valid);
  EXPECT_EQ(data->at("title").as_string(), valid);
  const auto object = graph_json(hostile_view());
  EXPECT_EQ(object.at("nodes").as_array().at(0).as_object().at("attributes").as_object().at("perm"),
            json::value(json::array{0, 2, 1}));
  EXPECT_NE(page.find("[\"perm\",\"[0, 2, 1]\"]"), std::string::npos);

  const std::string svg = graph_svg(hostile_view());
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find('\x1b'), std::string::npos);
  EXPECT_EQ(svg.find('\xff'), std::string::npos);
  EXPECT_NE(svg.find("\xe5\xb1\x82"), std::string::npos);

  // Each statement of the dot file is one line: quotes are even on it, but for those that are escaped.
  const std::string dot = graph_dot(hostile_view());
  for (std::size_t at = 0; at < dot.size();) {
    const std::size_t end = dot.find('\n', at);
    int quotes = 0;
    for (std::size_t i = at; i < end; ++i) {
      if (dot[i] == '\\')
        ++i;
      else if (dot[i] == '"')
        ++quotes;
    }
    EXPECT_EQ(quotes % 2, 0) << dot.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_NE(dot.find("&amp;lt;"), std::string::npos);
  EXPECT_EQ(dot.find('\x1b'), std::string::npos);
}

// The page takes rows of the data apart by position: as many names as there are columns.
TEST(GraphPage, ReadsAsManyColumnsAsThereAre) {
  const std::string page = graph_html(decoder(4));
  const std::string mark = "id=\"graph\">";
  const auto begin = page.find(mark) + mark.size();
  const auto data = parse_json_object(page.substr(begin, page.find("</script>") - begin), "data");
  ASSERT_TRUE(data) << data.error().message;
  for (const std::string list : {"values", "nodes", "frames", "links"}) {
    const std::string head = fmt::format("G.{}.map(([", list);
    const auto at = page.find(head);
    ASSERT_NE(at, std::string::npos) << list;
    const std::string names = page.substr(at, page.find("])", at) - at);
    const auto& rows = data->at(list).as_array();
    ASSERT_FALSE(rows.empty()) << list;
    EXPECT_EQ(static_cast<std::size_t>(std::count(names.begin(), names.end(), ',')) + 1, rows[0].as_array().size())
        << list;
  }
}

TEST(GraphPage, NeedsNoNetwork) {
  const std::string page = graph_html(decoder(3));
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(GraphPage, NamesAreCutInTheMiddle) {
  EXPECT_EQ(short_name("layers.3.attn.q_proj", 3, 40), "attn.q_proj");
  EXPECT_EQ(short_name("layers.3.attn.q_proj", 2, 40), "layers.3.attn.q_proj");
  EXPECT_EQ(short_name("layers.3.", 3, 40), "layers.3.");
  EXPECT_EQ(short_name("abcdefghijklmnop", -1, 9), "abcd\xe2\x80\xa6mnop");
  // Two columns each; a character is not cut apart.
  const std::string wide = short_name("\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82", -1, 7);
  EXPECT_EQ(wide, "\xe5\xb1\x82\xe5\xb1\x82\xe2\x80\xa6\xe5\xb1\x82");
}

TEST(GraphPage, Dot) {
  View view = decoder(1, 1);
  view.nodes[0].source = true;
  EXPECT_EQ(graph_dot(view), testing::read_file(testing::data_path("data/graph/decoder.dot")));
}

}  // namespace
}  // namespace knapsack
