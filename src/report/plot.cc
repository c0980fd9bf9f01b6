#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace knapsack {
namespace {

constexpr double width = 760, height = 460, left = 80, right = 24, top = 48, bottom = 64;
constexpr std::array colours{"#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a"};

// One axis: data -> pixels, and where its ticks are.
class Axis {
 public:
  Axis(bool log, double from, double to) : log_(log), from_(from), to_(to) {}
  void add(double value) {
    if (!fits(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  // Exactly this, without a round number at either end.
  void set(double low, double high) {
    low_ = low;
    high_ = high;
  }
  void settle() {
    if (low_ > high_) low_ = high_ = 1;
    if (log_) {
      low_ = std::pow(10, std::floor(std::log10(low_)));
      high_ = std::pow(10, std::ceil(std::log10(high_)));
      if (high_ <= low_) high_ = low_ * 10;
      return;
    }
    low_ = std::min(low_, 0.0);
    if (high_ <= low_) high_ = low_ + 1;
    high_ = std::ceil(high_ / step()) * step();
  }
  [[nodiscard]] bool fits(double value) const { return std::isfinite(value) && (!log_ || value > 0); }
  [[nodiscard]] double at(double value) const {
    const double part = log_ ? (std::log10(value) - std::log10(low_)) / (std::log10(high_) - std::log10(low_))
                             : (value - low_) / (high_ - low_);
    return from_ + part * (to_ - from_);
  }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> out;
    constexpr int most = 24;
    if (log_) {
      double next = low_;
      while (next <= high_ * 1.001 && out.size() < most) {
        out.push_back(next);
        next *= 10;
      }
    } else {
      for (int i = 0; low_ + i * step() <= high_ * 1.0001 && i < most; ++i) out.push_back(low_ + i * step());
    }
    return out;
  }

 private:
  // 1, 2 or 5 times a power of ten, some six to an axis.
  [[nodiscard]] double step() const {
    const double raw = (high_ - low_) / 6;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    for (const double each : {1.0, 2.0, 5.0})
      if (raw <= each * power) return each * power;
    return 10 * power;
  }
  bool log_;
  double from_, to_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                     colour);
}
std::string text(double x, double y, const char* anchor, const std::string& what, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(what));
}

// 4096 tokens are 4k.
std::string tick_text(double value, bool tokens) {
  constexpr double kilo = 1024;
  if (tokens && value >= kilo && std::fmod(value, kilo) == 0) return fmt::format("{:g}k", value / kilo);
  return fmt::format("{:g}", value);
}

std::string series_svg(const PlotSeries& series, const Axis& x, const Axis& y, const char* colour) {
  std::string path, upper, lower, out;
  std::vector<const PlotPoint*> shown;
  for (const PlotPoint& p : series.points)
    if (x.fits(p.x) && y.fits(p.y)) shown.push_back(&p);
  const bool banded = series.line && shown.size() > 1 && std::all_of(shown.begin(), shown.end(), [&](const auto* p) {
                        return p->low && p->high && y.fits(*p->low) && y.fits(*p->high);
                      });
  for (const PlotPoint* p : shown) {
    path += fmt::format("{:.1f},{:.1f} ", x.at(p->x), y.at(p->y));
    if (!banded) continue;
    upper += fmt::format("{:.1f},{:.1f} ", x.at(p->x), y.at(*p->high));
    lower.insert(0, fmt::format("{:.1f},{:.1f} ", x.at(p->x), y.at(*p->low)));
  }
  if (banded) out += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" opacity=\"0.15\"/>\n", upper, lower, colour);
  if (series.line)
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, colour);
  for (const PlotPoint* p : shown) {
    if (!series.line || !p->label.empty() || shown.size() < 40)
      out +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x.at(p->x), y.at(p->y), colour);
    if (!banded && p->low && p->high && y.fits(*p->low) && y.fits(*p->high))
      out += line(x.at(p->x), y.at(*p->low), x.at(p->x), y.at(*p->high), colour);
    if (p->label.empty()) continue;
    const bool near_the_end = x.at(p->x) > width - right - 7 * static_cast<double>(p->label.size());
    out += text(x.at(p->x) + (near_the_end ? -6 : 6), y.at(p->y) - 6, near_the_end ? "end" : "start", p->label);
  }
  return out;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:  // XML has no control characters
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

std::string svg(const Plot& plot) {
  // Names stand slanted below their place, and the picture grows by what the longest needs.
  std::size_t longest = 0;
  for (const std::string& name : plot.x_names) longest = std::max(longest, std::min<std::size_t>(name.size(), 40));
  constexpr double slanted_letter = 4.5;
  const double tall = height + slanted_letter * static_cast<double>(longest);
  const double floor = tall - bottom - slanted_letter * static_cast<double>(longest);
  Axis x(plot.log_x, left, width - right);
  Axis y(plot.log_y, floor, top);
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& p : series.points) {
      x.add(p.x);
      y.add(p.y);
      if (p.low) y.add(*p.low);
      if (p.high) y.add(*p.high);
    }
  if (!plot.x_names.empty()) {
    x.set(-0.5, static_cast<double>(plot.x_names.size()) - 0.5);
  } else if (plot.x_ticks.size() > 1) {
    x.set(plot.x_ticks.front(), plot.x_ticks.back());
  } else {
    x.settle();
  }
  y.settle();
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, tall);
  out += text(width / 2, 24, "middle", plot.title, " font-size=\"15\"");
  for (const double tick : y.ticks()) {
    out += line(left, y.at(tick), width - right, y.at(tick), "#d8dee4");
    out += text(left - 6, y.at(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  if (plot.x_names.empty()) {
    for (const double tick : plot.x_ticks.size() > 1 ? plot.x_ticks : x.ticks()) {
      out += line(x.at(tick), top, x.at(tick), floor, "#d8dee4");
      out += text(x.at(tick), floor + 18, "middle", tick_text(tick, plot.x_ticks.size() > 1));
    }
  } else {
    for (std::size_t i = 0; i < plot.x_names.size(); ++i)
      out += text(x.at(static_cast<double>(i)) + 4, floor + 16, "end", plot.x_names[i],
                  fmt::format(" transform=\"rotate(-30 {:.1f} {:.1f})\"", x.at(static_cast<double>(i)) + 4, floor + 16)
                      .c_str());
  }
  out += text((left + width - right) / 2, tall - 20, "middle", plot.x_title);
  out += text(18, (top + floor) / 2, "middle", plot.y_title,
              fmt::format(" transform=\"rotate(-90 18 {})\"", (top + floor) / 2).c_str());
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const char* colour = colours.at(i % colours.size());
    out += series_svg(plot.series[i], x, y, colour);
    if (!plot.series[i].name.empty())
      out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", left + 12,
                         top + 16 * (static_cast<double>(i) + 1), colour, escaped(plot.series[i].name));
  }
  return out + "</svg>\n";
}

std::string bars(const std::vector<Bar>& all, int most) {
  std::size_t label = 0;
  double longest = 0;
  for (const Bar& bar : all) {
    label = std::max(label, bar.label.size());
    if (bar.value) longest = std::max(longest, *bar.value);
  }
  std::string out;
  for (const Bar& bar : all) {
    const int n = bar.value && longest > 0 ? static_cast<int>(std::lround(*bar.value / longest * most)) : 0;
    out += fmt::format("{:<{}}  {}{}{}\n", bar.label, label, std::string(static_cast<std::size_t>(n), '#'),
                       n > 0 ? " " : "", bar.value ? bar.text : "unknown");
  }
  return out;
}

}  // namespace knapsack
