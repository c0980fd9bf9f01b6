// Charts: lines with a band as SVG, on linear or logarithmic axes; bars as text for a terminal. Not for what they show.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace knapsack {

struct PlotPoint {
  double x = 0, y = 0;
  std::optional<double> low{}, high{};
  std::string label{};  // beside the point; empty: none
};
struct PlotSeries {
  std::string name{};
  std::vector<PlotPoint> points{};
  bool line = true;  // else points alone
};
struct Plot {
  std::string title{}, x_title{}, y_title{};
  bool log_x = false, log_y = false;
  std::vector<double> x_ticks{};       // numbers of tokens, from the left to the right end; empty: chosen here
  std::vector<std::string> x_names{};  // where x counts names: 0, 1, ...
  std::vector<PlotSeries> series{};
};
// Text as it may stand in SVG and HTML, in quotes too.
std::string escaped(const std::string& text);
// A file of its own. Points that have no place on a logarithmic axis are left out.
std::string svg(const Plot& plot);

struct Bar {
  std::string label{};
  std::optional<double> value{};  // nothing: "unknown"
  std::string text{};             // at the bar's end
};
// A line a bar, the longest `width` characters.
std::string bars(const std::vector<Bar>& bars, int width = 40);

}  // namespace knapsack
