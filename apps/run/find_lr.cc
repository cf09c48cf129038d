#include "apps/run/find_lr.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

/// Rows for at most kRows of the points. Bars reach from the lowest loss to a little above the
/// first, because the losses at the end may be much higher.
std::vector<std::string> table_of(const RangeTest& test) {
  constexpr std::int64_t kRows = 24, kColumns = 50;
  const auto& points = test.points();
  const std::int64_t count = std::ssize(points), every = (count + kRows - 1) / kRows;
  const double first = points.front().smoothed;
  const double low = test.lowest() ? test.lowest()->smoothed : 0, high = low + 1.1 * (first - low);
  std::vector<std::string> rows{fmt::format("{:>10} {:>10}  loss, smoothed", "lr", "loss")};
  for (std::int64_t i = every - 1; i < count; i += every) {
    const auto& [rate, loss, smoothed] = points[i];
    const double share = std::isfinite(smoothed) ? (smoothed - low) / (high - low) : 1;
    const auto columns = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kColumns);
    rows.push_back(fmt::format("{:>10.2e} {:>10.4f}  {}", rate, loss, std::string(columns, '#')));
  }
  return rows;
}

/// The end of the table: the suggestion, and what it follows from.
std::string verdict(const RangeTest& test) {
  const auto lowest = test.lowest();
  if (!lowest) {
    return fmt::format("{:<12} none: the loss never fell. Check the data, or pass more steps",
                       "suggested");
  }
  const bool falls = lowest->rate == test.points().back().rate && !test.diverged();
  return fmt::format(
      "{:<12} --lr {:g}: a tenth of the rate with the lowest loss ({:.2g}, loss {:.3f}){}",
      "suggested", *test.suggestion(), lowest->rate, lowest->smoothed,
      falls ? "; the loss still fell at the end" : "");
}

/// A number, or text for those that JSON does not have.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

void write_file(const Options& options, const RunPlan& plan, const RangeTest& test) {
  ordered_json points = ordered_json::array();
  for (const auto& [rate, loss, smoothed] : test.points())
    points.push_back({{"lr", rate}, {"loss", number(loss)}, {"smoothed", number(smoothed)}});
  const auto suggestion = test.suggestion();
  const ordered_json all = {
      {"kind", "find-lr"},
      {"program", options.program},
      {"dataset", options.data.dataset},
      {"model", options.model.name},
      {"optimizer", options.optimizer.name},
      {"global_batch", plan.global_batch},
      {"seed", plan.seed},
      {"diverged", test.diverged()},
      {"suggested", suggestion ? ordered_json(*suggestion) : ordered_json(nullptr)},
      {"rule", "a tenth of the rate with the lowest smoothed loss"},
      {"points", points}};
  const std::filesystem::path file = options.find_lr.file;
  make_directories(file.parent_path(), "folder of the learning-rate test");
  replace_file(file, all.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace

double RangeTest::rate(std::int64_t step) const {
  const double share = static_cast<double>(step) / (steps_ - 1);
  constexpr double kLowest = RangeTestOptions::kLowest;
  return kLowest * power(RangeTestOptions::kHighest / kLowest, share);
}

bool RangeTest::add(double loss) {
  constexpr double kDiverged = 4;
  // The average begins at 0, so it is divided by the weight of the losses that it contains. Until
  // the loss has fallen, divergence is measured against the first one.
  const double keep = std::max(0.0, 1 - 20.0 / steps_);
  average_ = keep * average_ + (1 - keep) * loss;
  weight_ = keep * weight_ + (1 - keep);  // of the losses so far; 1 in the long run
  const double smoothed = average_ / weight_;
  points_.push_back({rate(std::ssize(points_)), loss, smoothed});
  const auto best = lowest();
  diverged_ = !std::isfinite(loss) ||
              smoothed > kDiverged * (best ? best->smoothed : points_.front().smoothed);
  return !diverged_ && std::ssize(points_) < steps_;
}

std::optional<RangeTest::Point> RangeTest::lowest() const {
  const auto found = std::ranges::min_element(points_, {}, &Point::smoothed);
  constexpr double kFell = 0.99;
  if (points_.empty() || found->smoothed > kFell * points_.front().smoothed) return {};
  return *found;
}

std::optional<double> RangeTest::suggestion() const {
  const auto best = lowest();
  if (!best) return {};
  return std::stod(fmt::format("{:.1e}", best->rate / 10));
}

void find_learning_rate(const LoopParts& parts) {
  const RunSetup& setup = parts.setup;
  const Options& options = setup.options;
  RangeTest test(setup.plan.steps);
  bool more = true;
  for (std::int64_t step = 0; more; ++step) {
    // The table shows the rate as --lr has it. With --lr-scale-batch training multiplies it.
    const double rate = test.rate(step) * setup.plan.rate_factor;
    // run() waits for the totals, because the loss decides whether there is another step.
    const StepTotals totals = parts.step.run(*parts.loader, step, static_cast<float>(rate),
                                             {.stop = parts.stop_requested()});
    more = test.add(totals.cross_entropy);
    parts.reporter.progress(step + 1, totals.cross_entropy);
    if (totals.stop) {
      require_batches(parts, step + 1);
      throw AgreedError(
          fmt::format("a signal stopped the test after step {}. Start it again.", step + 1));
    }
  }
  parts.reporter.clear();
  for (const std::string& row : table_of(test)) parts.reporter.line(row);
  if (test.diverged()) {
    parts.reporter.line(fmt::format("{:<12} after step {} of {}: the loss diverged", "ended",
                                    test.points().size(), setup.plan.steps));
  }
  parts.reporter.result(verdict(test));
  if (options.find_lr.file.empty()) return;
  agree_on_rank_0(setup.comm, [&] { write_file(options, setup.plan, test); });
  parts.reporter.result(
      fmt::format("{:<12} {}: scripts/plot_run.py draws it", "written", options.find_lr.file));
}

}  // namespace lockstep
