#include "apps/run/metrics.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

std::string loss_text(const StepTotals& totals, bool long_lines) {
  std::string text = fmt::format("cross-entropy {:#.4g}", totals.cross_entropy);
  if (totals.penalty <= 0) return text;
  text += fmt::format(" + penalty {:#.4g}", totals.penalty);
  if (!long_lines) return text;
  return fmt::format("loss {:#.4g} ({})", totals.cross_entropy + totals.penalty, text);
}

}  // namespace

Metrics metrics_of(const StepReport& r, bool long_lines) {
  const StepTotals& totals = r.totals;
  const double speed = r.images_per_s();
  const auto share = [&](double seconds) { return std::clamp(seconds / r.seconds, 0.0, 1.0); };
  const double exposed = share(r.times.exposed);
  Metrics metrics{
      {"epoch", r.epoch, fmt::format("epoch {:.{}f}", r.epoch, r.epoch < 10 ? 2 : 1)},
      {"loss", totals.cross_entropy + totals.penalty, loss_text(totals, long_lines)},
      {"cross_entropy", totals.cross_entropy},
      {"penalty", totals.penalty},
      {"batch_top1", totals.top1_share, fmt::format("top-1 {:.0f} %", 100 * totals.top1_share)},
      {"images_per_s", speed, fmt::format("{:.0f} images/s", speed)},
      {"seconds_per_batch", r.seconds / static_cast<double>(r.steps)},
      {"learning_rate", r.learning_rate, fmt::format("lr {:.4g}", r.learning_rate)},
      {"exposed_communication", exposed, fmt::format("waiting for sums {:.1f} %", 100 * exposed)},
      {"loader_wait", share(r.times.loader)}};
  if (r.scaled) {
    const LossScale& scale = totals.loss_scale;
    metrics.insert(metrics.end(),
                   {{"loss_scale", scale.scale, fmt::format("scale {:g}", scale.scale)},
                    {"loss_scale_good_steps", static_cast<double>(scale.good)},
                    {"skipped_steps", static_cast<double>(scale.skipped)}});
  }
  if (const auto& late = r.straggler) {
    metrics.insert(metrics.end(),
                   {{"straggler", static_cast<double>(late->rank)},
                    {"straggler_seconds", late->seconds / static_cast<double>(late->steps)}});
  }
  return metrics;
}

Metrics metrics_of(const Score& score, double epoch) {
  return {{"epoch", epoch, "", /*scalar=*/false},
          {"top1", score.top1_share(), fmt::format("top-1 {:.2f} %", 100 * score.top1_share())},
          {"top5", score.top5_share(), fmt::format("top-5 {:.2f} %", 100 * score.top5_share())},
          {"loss", score.loss(), fmt::format("cross-entropy {:.4f}", score.loss())},
          {"samples", static_cast<double>(score.samples), fmt::format("{} samples", score.samples),
           /*scalar=*/false}};
}

Metrics metrics_of(const EpochReport& r, const Score& score) {
  const auto steps = static_cast<double>(r.steps);
  const double seconds = now_seconds() - r.begin;
  const auto row = [](const char* name, double value) {
    return Metric{name, value, fmt::format("{} {:.4f}", name, value)};
  };
  return {{"epoch", static_cast<double>(r.number)},
          {"seconds", seconds,
           fmt::format("epoch {}/{:.0f}: {:.1f} s", r.number, std::ceil(r.epochs - 0.01), seconds)},
          row("loss", r.loss / steps),
          row("acc", r.accuracy / steps),
          row("val_loss", score.loss()),
          row("val_acc", score.top1_share()),
          row("val_top5", score.top5_share())};
}

std::vector<std::string> texts_of(const Metrics& metrics) {
  std::vector<std::string> texts;
  for (const Metric& metric : metrics) {
    if (!metric.text.empty()) texts.push_back(metric.text);
  }
  return texts;
}

}  // namespace lockstep
