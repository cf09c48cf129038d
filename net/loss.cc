#include "net/loss.h"

#include <algorithm>
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

/// The two labels of a sample.
struct Labels {
  std::int32_t label, other;  ///< label: the one of more weight in the sample
  float share = 1;            ///< of the loss, of `label`; the rest is the other's
  float factor = 1;           ///< of loss and gradient
};

template <class T>
struct SoftmaxRow {
  const T* logits;
  const std::int32_t* labels;
  std::int64_t classes;
  float scale;
  T* gradient;  ///< or null
  Score* score;
  std::int64_t* confusion;  ///< or null
  float smoothing;
  const std::int32_t* others;
  const float* weights;        ///< or null
  const float* class_weights;  ///< or null

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t n, Team team) const {
    const T* x = logits + n * classes;
    const Labels its = labels_of(n);
    const auto [label, other, share, weight] = its;
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
    if (gradient != nullptr) write_gradient(n, its, highest, sum, team);
    below = smoothing > 0 ? team.sum(below) : 0;

    if (team.lane != 0) return;
    const float each = smoothing / static_cast<float>(classes);
    float apart = highest - own;  // the difference of large logits is exact
    if (share < 1) apart = share * apart + (1 - share) * (highest - static_cast<float>(x[other]));
    double loss =
        natural_log(sum) + (smoothing > 0 ? (1 - smoothing) * apart + each * below : apart);
    if (!(loss <= std::numeric_limits<float>::max()))
      loss = beyond_floats(x, highest, label, other, share);
    loss *= static_cast<double>(weight);
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

  /// The sample's own label comes first if both weights are equal.
  HOST_DEVICE Labels labels_of(std::int64_t n) const {
    const float weight = weights != nullptr ? weights[n] : 1.0f;
    const bool swapped = weight < 0.5f;
    Labels its{swapped ? others[n] : labels[n],
               swapped || weights == nullptr ? labels[n] : others[n],
               swapped ? 1 - weight : weight};
    if (class_weights != nullptr) {
      const float own = its.share * class_weights[its.label],
                  rest = (1 - its.share) * class_weights[its.other];
      its.factor = own + rest;
      if (its.factor > 0) its.share = own / its.factor;
    }
    return its;
  }

  template <class Team>
  HOST_DEVICE void write_gradient(std::int64_t n, const Labels& its, float highest, float sum,
                                  Team team) const {
    const T* x = logits + n * classes;
    const auto [label, other, share, weight] = its;
    const float each = smoothing / static_cast<float>(classes);
    const float scaled = scale * weight;
    for (std::int64_t c = team.lane; c < classes; c += team.lanes) {
      const float softmax = exponential(static_cast<float>(x[c]) - highest) / sum;
      const float one = static_cast<float>(c == label),
                  labelled =
                      share < 1 ? share * one + (1 - share) * static_cast<float>(c == other) : one;
      const float truth = smoothing > 0 ? (1 - smoothing) * labelled + each : labelled;
      gradient[n * classes + c] = (softmax - truth) * scaled;
    }
  }

  /// The loss of logits so far apart that it exceeds the largest float, as a sum of quarters. The
  /// logarithm is far below its last bit. Not finite if a logit is not.
  HOST_DEVICE double beyond_floats(const T* x, float highest, std::int32_t label,
                                   std::int32_t other, float share) const {
    const auto below = [&](std::int64_t c) { return highest / 4 - static_cast<float>(x[c]) / 4; };
    float quarter = below(label);
    if (share < 1) quarter = share * quarter + (1 - share) * below(other);
    quarter *= 1 - smoothing;
    for (std::int64_t c = 0; c < classes; ++c)  // also without smoothing: 0 times NaN is NaN
      quarter += smoothing / static_cast<float>(classes) * below(c);
    return 4 * static_cast<double>(quarter);
  }
};

}  // namespace

void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           Score* score, std::int64_t* confusion, float smoothing, View others,
                           View weights, View class_weights) {
  const std::int64_t samples = logits.shape[0], classes = logits.shape.row();
  expect(labels.count() >= samples, "a label is wanted for every sample");
  expect(bool{weights} == bool{others} &&
             (!weights || std::min(weights.count(), others.count()) >= samples),
         "mixed samples have two labels and a weight");
  expect(!class_weights || class_weights.count() >= classes, "a weight is wanted for every class");
  dispatch(logits.type, [&]<class T>(T*) {
    each_row(stream, samples, classes,
             SoftmaxRow<T>{logits.as<T>(), labels.as<std::int32_t>(), classes, scale,
                           gradient ? gradient.as<T>() : nullptr, score, confusion, smoothing,
                           others ? others.as<std::int32_t>() : nullptr,
                           weights ? weights.as<float>() : nullptr,
                           class_weights ? class_weights.as<float>() : nullptr});
  });
}

}  // namespace lockstep
