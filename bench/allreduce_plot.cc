// The plot of bench_allreduce: two panels with logarithmic axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/allreduce_report.h"

namespace lockstep {
namespace {

constexpr double kWidth = 560, kHeight = 380, kLeft = 70, kTop = 50, kRight = 20, kBottom = 50;
constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#2e933c", "#8a4fbf", "#e08e0b",
                                    "#16a3a3", "#7a5230", "#d44fa5", "#5b6770", "#9aa300"};

struct Point {
  double x, y;
};

struct Line {
  std::string name;
  std::string style;  ///< attributes of the polyline
  std::vector<Point> points;
};

struct Axis {
  double least, most;  ///< powers of `base`
  double base;

  Axis(double low, double high, double b)
      : least(std::pow(b, std::floor(std::log(low) / std::log(b) + 1e-9))),
        most(std::pow(b, std::ceil(std::log(high) / std::log(b) - 1e-9))),
        base(b) {
    if (most <= least) most = least * base;
  }
  double share(double value) const { return std::log(value / least) / std::log(most / least); }
};

std::string tick_name(double value) {
  return value >= 0.01 && value < 1e6 ? fmt::format("{:g}", value) : fmt::format("{:.0e}", value);
}

std::string text(double x, double y, const std::string& anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     words);
}

std::string panel(double offset, const std::string& title, const std::vector<Line>& lines) {
  double low_x = INFINITY, high_x = 0, low_y = INFINITY, high_y = 0;
  for (const Line& line : lines) {
    for (const Point& p : line.points) {
      low_x = std::min(low_x, p.x), high_x = std::max(high_x, p.x);
      low_y = std::min(low_y, p.y), high_y = std::max(high_y, p.y);
    }
  }
  if (high_x == 0 || high_y == 0) return "";
  const Axis xs(low_x, high_x, 2), ys(low_y, high_y, 10);
  const double width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom;
  const auto x_at = [&](double value) { return offset + kLeft + width * xs.share(value); };
  const auto y_at = [&](double value) { return kTop + height * (1 - ys.share(value)); };
  std::string out = text(offset + kLeft, kTop - 12, "start", title);
  for (double y = ys.least; y <= ys.most * 1.01; y *= ys.base) {
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
        offset + kLeft, y_at(y), offset + kLeft + width, y_at(y));
    out += text(offset + kLeft - 6, y_at(y) + 4, "end", tick_name(y));
  }
  const double every = std::pow(2, std::ceil(std::log2(xs.most / xs.least) / 6));
  for (double x = xs.least; x <= xs.most * 1.01; x *= every) {
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
        x_at(x), kTop, x_at(x), kTop + height);
    out += text(x_at(x), kTop + height + 18, "middle", size_name(static_cast<std::int64_t>(x)));
  }
  for (const Line& line : lines) {
    std::string points;
    for (const Point& p : line.points)
      points += fmt::format("{:.1f},{:.1f} ", x_at(p.x), y_at(p.y));
    out += fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n", line.style, points);
  }
  return out;
}

std::vector<Line> lines_of(const std::vector<AllreduceRow>& rows,
                           const std::function<double(const AllreduceRow&, double us)>& value) {
  std::vector<Line> lines;
  Line bound{"bound", "stroke=\"#000\" stroke-dasharray=\"6 4\"", {}};
  for (const AllreduceRow& row : rows) {
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const Line& other) { return other.name == row.reducer; });
    if (line == lines.end()) {
      const char* colour = kColours[lines.size() % std::size(kColours)];
      line = lines.insert(
          lines.end(), {row.reducer, fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour), {}});
    }
    const auto add = [&](Line& to, double us) {
      const auto x = static_cast<double>(row.bytes);
      const double y = value(row, us);
      if (y > 0 && std::isfinite(y)) to.points.push_back({x, y});
    };
    add(*line, row.median_us);
    const bool seen =
        !bound.points.empty() && bound.points.back().x >= static_cast<double>(row.bytes);
    if (row.bound_us && !seen) add(bound, *row.bound_us);
  }
  if (!bound.points.empty()) lines.push_back(bound);
  return lines;
}

}  // namespace

std::string plot(const std::vector<AllreduceRow>& rows, int ranks, const std::string& title) {
  std::vector<AllreduceRow> sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const double factor = 2.0 * (ranks - 1) / ranks * 1e-3;
  const std::vector<Line> times = lines_of(sorted, [](const auto&, double us) { return us; });
  const std::vector<Line> rates = lines_of(sorted, [&](const AllreduceRow& row, double us) {
    return static_cast<double>(row.bytes) / us * factor;
  });
  const double legend = 20 * static_cast<double>((times.size() + 4) / 5);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      2 * kWidth, kHeight + legend);
  out += text(kLeft, 20, "start", title);
  out += panel(0, "microseconds", times) + panel(kWidth, "bus bandwidth, GB/s", rates);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double x = kLeft + 200 * static_cast<double>(i % 5);
    const double y = kHeight + 20 * static_cast<double>(i / 5);
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x, y,
                       x + 24, y, times[i].style);
    out += text(x + 30, y + 4, "start", times[i].name);
  }
  return out + "</svg>\n";
}

}  // namespace lockstep
