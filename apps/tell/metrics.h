// Every number that a run logs. A new one needs a row here and the place that measures it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/evaluate/measures.h"
#include "apps/step/straggler.h"
#include "apps/step/training_step.h"
#include "collectives/watch/host_watch.h"
#include "net/loss.h"
#include "src/base/clock.h"
#include "src/report/report.h"

namespace lockstep {

/// "loss" is the mean cross-entropy everywhere, "penalty" the weight penalty that training adds.
struct Metric {
  std::string
      name;  ///< in metrics.jsonl, and with the kind in front in TensorBoard; empty: in none
  double value = 0;
  std::string text = {};  ///< in the line on stdout; empty: it is not there
  bool scalar = true;     ///< TensorBoard shows it
};
using Metrics = std::vector<Metric>;

/// A step, and the steps since the last report with a speed, as the training loop measured them.
struct StepReport {
  std::int64_t step = 0;                ///< steps done
  std::int64_t steps = 0, samples = 0;  ///< 0: the speed is not known (TrainingClock)
  double seconds = 0;
  double seconds_left = 0;  ///< of training, until the run ends
  StepTimes times;          ///< of these steps
  StepTotals totals;        ///< of the last step
  double epoch = 0, learning_rate = 0;
  bool timed = false;                  ///< passes have times: the device works at once
  std::optional<Straggler> straggler;  ///< none: there is none, or ranks were not compared

  double images_per_s() const { return static_cast<double>(samples) / seconds; }
  double share(double part) const { return std::clamp(part / seconds, 0.0, 1.0); }
};

inline Metrics metrics_of(const StepReport& r) {
  const StepTotals& totals = r.totals;
  const double loss = totals.cross_entropy, exposed = r.share(r.times.exposed);
  const auto speed = [&](const char* name, double value, const std::string& text = "") {
    return r.steps > 0 ? Metric{name, value, text} : Metric{};
  };
  Metrics metrics{
      {"epoch", r.epoch, fmt::format("epoch {:.{}f}", r.epoch, r.epoch < 10 ? 2 : 1)},
      {"loss", loss, fmt::format("loss {:#.4g}", loss)},
      {"penalty", totals.penalty},
      {"batch_top1", totals.top1_share, fmt::format("accuracy {:.0f}%", 100 * totals.top1_share)},
      speed("images_per_s", r.images_per_s(), fmt::format("{:.0f} samples/s", r.images_per_s())),
      {"", 0, fmt::format("ETA {}", duration_text(r.seconds_left))},
      speed("seconds_per_batch", r.seconds / static_cast<double>(r.steps)),
      {"learning_rate", r.learning_rate, fmt::format("lr {:.3g}", r.learning_rate)},
      speed("exposed_communication", exposed, fmt::format("exposed {:.1f}%", 100 * exposed)),
      speed("loader_wait", r.share(r.times.loader))};
  if (r.timed) {
    metrics.push_back({"forward", r.share(r.times.forward)});
    metrics.push_back({"backward", r.share(r.times.backward)});
    metrics.push_back({"optimizer", r.share(r.times.optimizer)});
  }
  if (const auto& late = r.straggler) {
    metrics.push_back({"straggler", static_cast<double>(late->rank)});
    metrics.push_back({"straggler_seconds", late->seconds / static_cast<double>(late->steps)});
  }
  return metrics;
}

/// With fewer classes top-5 is always 100 %.
inline bool shows_top5(int classes) { return classes > 5; }

/// An evaluation at `epoch`. `shown`: the name of a measure that the line on stdout has too.
inline Metrics metrics_of(const EvaluationResult& result, double epoch,
                          std::string_view shown = "") {
  Metrics metrics{{"epoch", epoch, "", /*scalar=*/false}};
  for (const Measure& measure : measures()) {
    const double value = measure.value(result);
    std::string text;
    if (measure.needs == Measure::score)
      text = fmt::format("{} {}", measure.title, measure.text(value));
    else if (std::isnan(value))
      continue;
    else if (shown == measure.name)
      text = fmt::format("{} {:.4f}", shown, value);
    if (measure.field == "top5" && !shows_top5(result.classes())) text.clear();
    metrics.push_back({std::string(measure.field), value, text});
  }
  const std::int64_t samples = result.score.samples;
  metrics.push_back({"samples", static_cast<double>(samples), fmt::format("{} samples", samples),
                     /*scalar=*/false});
  return metrics;
}

/// The steps of an epoch since this start of the run. A run may end within an epoch.
struct EpochReport {
  std::int64_t number = 0;  ///< from 1
  double epochs = 0;        ///< of the whole run
  std::int64_t steps = 0;
  double loss = 0, accuracy = 0;  ///< sums over the steps
  double begin = now_seconds();

  void add(const StepTotals& totals) {
    ++steps;
    loss += totals.cross_entropy;
    accuracy += totals.top1_share;
  }
};

inline Metrics metrics_of(const EpochReport& r, const Score& score, int classes) {
  const auto steps = static_cast<double>(r.steps);
  const double seconds = now_seconds() - r.begin;
  // The steps of --epochs 10 may be 10.04 epochs.
  const double near = std::max(1.0, std::round(r.epochs)),
               all = std::abs(r.epochs - near) < 0.1 ? near : std::round(100 * r.epochs) / 100,
               ended = std::min(static_cast<double>(r.number), all);
  const auto row = [](const char* name, double value) {
    return Metric{name, value, fmt::format("{} {:.4f}", name, value)};
  };
  Metrics metrics{
      {"epoch", static_cast<double>(r.number)},
      {"seconds", seconds, fmt::format("epoch {:g}/{:g}: {:.1f} s", ended, all, seconds)},
      row("loss", r.loss / steps),
      row("acc", r.accuracy / steps),
      row("val_loss", score.loss()),
      row("val_acc", score.top1_share())};
  if (shows_top5(classes)) metrics.push_back(row("val_top5", score.top5_share()));
  return metrics;
}

/// The use of each host, of the first 24: readers of metrics.jsonl keep 100 columns.
inline Metrics metrics_of(const std::vector<HostUse>& hosts, double epoch) {
  constexpr std::size_t kMost = 24;
  Metrics metrics{{"epoch", epoch, "", /*scalar=*/false}};
  for (std::size_t i = 0; i < std::min(hosts.size(), kMost); ++i) {
    const auto& [cores, bytes, received, sent] = hosts[i];
    for (const auto& [name, value] :
         {std::pair("cores", cores), std::pair("bytes", bytes),
          std::pair("received_per_s", received), std::pair("sent_per_s", sent)})
      metrics.push_back({fmt::format("{}_{}", name, i), value});
  }
  return metrics;
}

/// The parts of the line on stdout.
inline std::vector<std::string> texts_of(const Metrics& metrics) {
  std::vector<std::string> texts;
  for (const Metric& metric : metrics) {
    if (!metric.text.empty()) texts.push_back(metric.text);
  }
  return texts;
}

}  // namespace lockstep
