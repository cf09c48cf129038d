// One row-wise kernel computes loss, gradient and counts, while the logits of a sample are in the
// cache. Sums over samples are integers, because atomic additions come in any order and floats
// would make the result depend on it.
#include "net/loss.h"

#include <cmath>

#include "net/exponential.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// Above every loss of finite logits.
constexpr double kEndOfLosses = 0x1p131;

/// Adds `loss` in pieces of 32 bits, each of which has room for 2^31 samples.
HOST_DEVICE inline void add_loss(Score& score, double loss) {
  double unit = 0x1p96, inverse = 0x1p-96;
  for (int k = 3; k > 0 && loss >= 0x1p32; --k) {  // hardly ever
    const auto piece = static_cast<std::int64_t>(loss * inverse);
    add_atomically(score.loss_whole[k], piece);
    loss -= static_cast<double>(piece) * unit;
    unit *= 0x1p-32;
    inverse *= 0x1p32;
  }
  const auto whole = static_cast<std::int64_t>(loss);
  if (whole != 0) add_atomically(score.loss_whole[0], whole);
  const double fraction = loss - static_cast<double>(whole);
  add_atomically(score.loss_fraction, std::llround(fraction * 0x1p32));
}

template <class T>
struct SoftmaxRow {
  const T* logits;
  const std::int32_t* labels;
  std::int64_t classes;
  float scale;
  T* gradient;  ///< or null
  Score* score;
  std::int64_t* confusion;  ///< or null
  LossModifiers modifiers;

  HOST_DEVICE float smoothing() const { return modifiers.LabelSmoothing::value; }

  /// Computed where it is needed, because a GPU has no register left to keep it.
  HOST_DEVICE LossTarget target_of(std::int64_t n) const {
    LossTarget target{labels[n], labels[n]};
    modifiers.apply(n, target);
    return target;
  }

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t n, Team team) const {
    const T* x = logits + n * classes;
    const std::int32_t label = target_of(n).label;
    const float own = x[label];
    float highest = -std::numeric_limits<float>::infinity();
    std::int64_t above = 0;
    for (std::int64_t c = team.lane; c < classes; c += team.lanes) {
      const float value = x[c];
      highest = value > highest ? value : highest;
      above += !(c < label ? value < own : value <= own);  // so a NaN on either side is above
    }
    highest = team.max(highest);
    above = team.sum(above) - !(own <= own);  // the label's own class is not above itself

    std::int64_t predicted = classes;
    float sum = 0, below = 0;
    for (std::int64_t c = team.lane; c < classes; c += team.lanes) {
      const float value = x[c];
      predicted = value == highest && c < predicted ? c : predicted;
      sum += exponential(value - highest);
      below += highest - value;
    }
    predicted = team.min(predicted);
    sum = team.sum(sum);
    if (gradient != nullptr) write_gradient(n, highest, sum, team);
    below = smoothing() > 0 ? team.sum(below) : 0;

    if (team.lane != 0) return;
    const LossTarget target = target_of(n);
    const auto [same, other, share, factor] = target;
    const float each = smoothing() / static_cast<float>(classes);
    float apart = highest - own;  // the difference of large logits is exact
    if (share < 1) apart = share * apart + (1 - share) * (highest - static_cast<float>(x[other]));
    double loss =
        natural_log(sum) + (smoothing() > 0 ? (1 - smoothing()) * apart + each * below : apart);
    // Rare: the difference of two finite logits may be above the largest float. NaN comes here too,
    // and stays.
    if (!(loss <= std::numeric_limits<float>::max())) loss = beyond_floats(x, highest, target);
    loss *= static_cast<double>(factor);
    const bool finite = loss < kEndOfLosses;
    add_atomically(score->samples, 1);
    add_atomically(score->top1, above < 1);
    add_atomically(score->top5, above < 5);
    add_atomically(score->diverged, !finite);
    if (finite) add_loss(*score, loss);
    if (confusion == nullptr) return;
    if (predicted == classes) predicted = 0;  // all logits are NaN
    add_atomically(confusion[label * classes + predicted], 1);
  }

  template <class Team>
  HOST_DEVICE void write_gradient(std::int64_t n, float highest, float sum, Team team) const {
    const T* x = logits + n * classes;
    const auto [label, other, share, factor] = target_of(n);
    const float each = smoothing() / static_cast<float>(classes);
    const float scaled = scale * factor;
    for (std::int64_t c = team.lane; c < classes; c += team.lanes) {
      const float softmax = exponential(static_cast<float>(x[c]) - highest) / sum;
      const float one = static_cast<float>(c == label),
                  labelled =
                      share < 1 ? share * one + (1 - share) * static_cast<float>(c == other) : one;
      const float truth = smoothing() > 0 ? (1 - smoothing()) * labelled + each : labelled;
      gradient[n * classes + c] = (softmax - truth) * scaled;
    }
  }

  /// The loss of logits so far apart that it exceeds the largest float, as a sum of quarters. The
  /// logarithm is far below its last bit. Not finite if a logit is not.
  HOST_DEVICE double beyond_floats(const T* x, float highest, const LossTarget& target) const {
    const auto [label, other, share, factor] = target;
    const auto below = [&](std::int64_t c) { return highest / 4 - static_cast<float>(x[c]) / 4; };
    float quarter = below(label);
    if (share < 1) quarter = share * quarter + (1 - share) * below(other);
    quarter *= 1 - smoothing();
    for (std::int64_t c = 0; c < classes; ++c)  // also without smoothing: 0 times NaN is NaN
      quarter += smoothing() / static_cast<float>(classes) * below(c);
    return 4 * static_cast<double>(quarter);
  }
};

}  // namespace

void softmax_cross_entropy(Stream& stream, const LossSpec& spec) {
  const View logits = spec.logits, gradient = spec.gradient;
  const std::int64_t samples = logits.shape[0], classes = logits.shape.row();
  expect(spec.labels.count() >= samples, "a label is wanted for every sample");
  expect(spec.modifiers.fits(samples, classes),
         "loss modifiers do not fit the samples or the classes");
  dispatch(logits.type, [&]<class T>(T*) {
    each_row(stream, samples, classes,
             SoftmaxRow<T>{logits.as<T>(), spec.labels.as<std::int32_t>(), classes, spec.scale,
                           gradient ? gradient.as<T>() : nullptr, spec.score, spec.confusion,
                           spec.modifiers});
  });
}

}  // namespace lockstep
