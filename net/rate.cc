#include "net/rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "src/table.h"

namespace lockstep {
namespace {

double constant(const RateOptions& o, double, double) { return o.base; }

double exponential(const RateOptions& o, double epoch, double) {
  const double periods = epoch / o.decay_epochs;
  return o.base * std::pow(o.decay, o.smooth ? periods : std::floor(periods));
}

double cosine(const RateOptions& o, double epoch, double epochs) {
  const double done = std::min(epoch / epochs, 1.0);
  return o.end + (o.base - o.end) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

double linear(const RateOptions& o, double epoch, double epochs) {
  return o.end + (o.base - o.end) * (1 - std::min(epoch / epochs, 1.0));
}

constexpr std::array kSchedules{
    RateEntry{"constant", "--lr throughout", constant},
    RateEntry{"exponential",
              "times --lr-decay every --lr-decay-epochs, in steps unless --lr-smooth", exponential},
    RateEntry{"cosine", "half a cosine from --lr to --lr-end over the run", cosine},
    RateEntry{"linear", "a straight line from --lr to --lr-end over the run", linear},
};

}  // namespace

std::span<const RateEntry> rate_schedules() { return kSchedules; }

double learning_rate(const RateOptions& options, double epoch, double epochs) {
  const double rate = find(rate_schedules(), options.schedule).rate(options, epoch, epochs);
  return epoch < options.warmup_epochs ? rate * epoch / options.warmup_epochs : rate;
}

}  // namespace lockstep
