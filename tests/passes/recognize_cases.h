// What the tests of recognition share: exports that other programs made, with PyTorch's values; graphs compared as
// text; graphs that are nearly a decoder's.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "graph/graph.h"
#include "import/golden.h"
#include "import/onnx.h"
#include "import/onnx_run.h"

namespace knapsack::recognition_tests {

struct Export {
  OnnxModel model;
  NpzFile values;
};

inline Export open(const std::string& name) {
  auto model = read_onnx(testing::data_path("data/onnx/" + name + ".onnx").string());
  auto values = open_npz(testing::data_path("data/onnx/" + name + ".npz").string());
  EXPECT_TRUE(model) << model.error().message;
  EXPECT_TRUE(values) << values.error().message;
  return {std::move(*model), std::move(*values)};
}

// With the sizes that PyTorch's values have.
inline Graph imported(const Export& file) {
  auto made = graph_from_onnx(file.model, pins_from(file.values.arrays, file.model));
  EXPECT_TRUE(made) << made.error().message;
  return std::move(made->graph);
}

// With other sizes: `tokens` behind `past`.
inline Graph imported(const Export& file, std::int64_t tokens, std::int64_t past) {
  OnnxPins pins = pins_from(file.values.arrays, file.model);
  for (auto& [name, shape] : pins.shapes) {
    if (shape.size() == 4) shape[2] = past;
    if (shape.size() == 2) shape[1] = name.find("mask") != std::string::npos ? past + tokens : tokens;
  }
  auto made = graph_from_onnx(file.model, pins);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(made->graph);
}

inline std::multiset<std::string> node_lines(const Graph& graph) {
  std::multiset<std::string> lines;
  const std::string text = to_text(graph);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (text[at] == '%' || text[at] == 'o') lines.insert(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Lines of one alone, numbers to six digits; empty: the same graph.
inline std::string differences(const Graph& a, const Graph& b) {
  const std::regex number("=([0-9.]+(e[+-][0-9]+)?)");
  std::multiset<std::string> lines[2];
  for (const int i : {0, 1}) {
    for (const std::string& line : node_lines(i == 0 ? a : b)) {
      std::string short_one;
      std::sregex_iterator at(line.begin(), line.end(), number);
      std::size_t done = 0;
      for (; at != std::sregex_iterator(); ++at) {
        short_one += line.substr(done, static_cast<std::size_t>(at->position()) - done);
        short_one += fmt::format("={:.6g}", std::stod((*at)[1].str()));
        done = static_cast<std::size_t>(at->position() + at->length());
      }
      lines[i].insert(short_one + line.substr(done));
    }
  }
  std::vector<std::string> all;
  std::set_difference(lines[0].begin(), lines[0].end(), lines[1].begin(), lines[1].end(), std::back_inserter(all));
  std::string text;
  for (const std::string& line : all) text += "+ " + line + "\n";
  all.clear();
  std::set_difference(lines[1].begin(), lines[1].end(), lines[0].begin(), lines[0].end(), std::back_inserter(all));
  for (const std::string& line : all) text += "- " + line + "\n";
  return text;
}

// A graph that is nearly a decoder's, and what is said of it.
struct Planted {
  const char* what;
  Graph graph;
  const char* said;
};

}  // namespace knapsack::recognition_tests
