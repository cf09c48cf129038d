#include "net/rate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/option_rows.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

double constant(const RateOptions& o, double, double) { return o.base; }

double exponential(const RateOptions& o, double epoch, double) {
  const double periods = epoch / o.decay_epochs;
  return o.base * power(o.decay, o.smooth ? periods : std::floor(periods));
}

double cosine(const RateOptions& o, double epoch, double epochs) {
  const double done = std::min(epoch / epochs, 1.0);
  return o.end + (o.base - o.end) * 0.5 * (1 + cosine_of_turns(0.5 * done));
}

double linear(const RateOptions& o, double epoch, double epochs) {
  return o.end + (o.base - o.end) * (1 - std::min(epoch / epochs, 1.0));
}

/// From base / 25 up to base in the first three tenths, then down to base / 250,000, both along
/// half a cosine: the defaults of PyTorch's OneCycleLR. Source: Smith, Topin, "Super-convergence:
/// very fast training of neural networks using large learning rates", 2019.
double one_cycle(const RateOptions& o, double epoch, double epochs) {
  constexpr double kRise = 0.3, kBegin = 1 / 25.0, kEnd = kBegin / 1e4;
  const double done = std::min(epoch / epochs, 1.0);
  const auto between = [&](double from, double to, double share) {
    return o.base * (to + (from - to) * 0.5 * (1 + cosine_of_turns(0.5 * share)));
  };
  return done < kRise ? between(kBegin, 1, done / kRise)
                      : between(1, kEnd, (done - kRise) / (1 - kRise));
}

constexpr std::array kSchedules{
    RateEntry{"constant", "--lr throughout", constant},
    RateEntry{"exponential",
              "times FACTOR every EPOCHS, in steps: exponential:FACTOR@EPOCHS[:smooth]",
              exponential},
    RateEntry{"cosine", "half a cosine from --lr to --lr-end over the run", cosine},
    RateEntry{"one_cycle", "up to --lr in three tenths of the run, then down to 0", one_cycle},
    RateEntry{"linear", "a straight line from --lr to --lr-end over the run", linear},
};

}  // namespace

std::span<const RateEntry> rate_schedules() { return kSchedules; }

void RateOptions::choose(const std::string& text) {
  const std::vector<std::string> words = split(text, ':');
  if (words[0] != "exponential" || words.size() == 1) {
    // A later choice replaces all of an earlier one, such as the numbers of a recipe. The other
    // options stay.
    find(rate_schedules(), text);
    *this = {.schedule = text, .base = base, .warmup_epochs = warmup_epochs, .end = end};
    return;
  }
  const std::vector<std::string> numbers = split(words[1], '@');
  smooth = words.size() == 3 && words[2] == "smooth";
  try {
    if (numbers.size() == 2 && words.size() == (smooth ? 3u : 2u)) {
      schedule = words[0];
      decay = parse_number<double>("", numbers[0], Bounds::above_zero());
      decay_epochs = parse_number<double>("", numbers[1], Bounds::above_zero());
      return;
    }
  } catch (const Error&) {  // the same error
  }
  fail_usage(
      "--lr-schedule: \"{}\" is unknown. Pass exponential:FACTOR@EPOCHS, such as "
      "exponential:0.1@350, or exponential:0.1@350:smooth.",
      text);
}

std::string RateOptions::text() const {
  if (schedule != "exponential") return schedule;
  return fmt::format("{}:{}@{}{}", schedule, decay, decay_epochs, smooth ? ":smooth" : "");
}

double learning_rate(const RateOptions& options, double epoch, double epochs) {
  const double rate = find(rate_schedules(), options.schedule).rate(options, epoch, epochs);
  // A factor of the schedule, so that the rate does not jump at the end of the warm-up.
  return epoch < options.warmup_epochs ? rate * epoch / options.warmup_epochs : rate;
}

}  // namespace lockstep
