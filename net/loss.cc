#include "net/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr float kLargestLoss = 1e5;  // times 2^32 and ten thousand samples still fits 63 bits

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
  const float* weights;  ///< or null
  const float* factor;   ///< or null

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t n, Team team) const {
    const T* x = logits + n * classes;
    // The label of more weight; the sample's own if both weights are equal.
    const float weight = weights != nullptr ? weights[n] : 1.0f;
    const bool swapped = weight < 0.5f;
    const std::int32_t label = swapped ? others[n] : labels[n],
                       other = swapped || weights == nullptr ? labels[n] : others[n];
    const float share = swapped ? 1 - weight : weight;
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
      sum += std::exp(value - highest);
      below += highest - value;
    }
    predicted = team.min(predicted);
    sum = team.sum(sum);
    const float each = smoothing / static_cast<float>(classes);
    const float scaled = factor != nullptr ? scale * *factor : scale;
    for (std::int64_t c = team.lane; gradient != nullptr && c < classes; c += team.lanes) {
      const float softmax = std::exp(static_cast<float>(x[c]) - highest) / sum;
      const float one = static_cast<float>(c == label),
                  labelled =
                      share < 1 ? share * one + (1 - share) * static_cast<float>(c == other) : one;
      const float truth = smoothing > 0 ? (1 - smoothing) * labelled + each : labelled;
      gradient[n * classes + c] = (softmax - truth) * scaled;
    }
    below = smoothing > 0 ? team.sum(below) : 0;

    if (team.lane != 0) return;
    float apart = highest - own;  // the difference of large logits is exact
    if (share < 1) apart = share * apart + (1 - share) * (highest - static_cast<float>(x[other]));
    const float loss =
        std::log(sum) + (smoothing > 0 ? (1 - smoothing) * apart + each * below : apart);
    const bool finite = loss <= kLargestLoss;
    add_atomically(score->samples, 1);
    add_atomically(score->top1, above < 1);
    add_atomically(score->top5, above < 5);
    add_atomically(score->diverged, !finite);
    if (finite) add_atomically(score->loss_units, std::llround(static_cast<double>(loss) * 0x1p32));
    if (confusion == nullptr) return;
    if (predicted == classes) predicted = 0;  // all logits are NaN
    add_atomically(confusion[label * classes + predicted], 1);
  }
};

}  // namespace

void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           Score* score, std::int64_t* confusion, float smoothing, View others,
                           View weights, const float* factor) {
  const std::int64_t samples = logits.shape[0], classes = logits.shape.row();
  expect(labels.count() >= samples, "a label is wanted for every sample");
  expect(bool{weights} == bool{others} &&
             (!weights || std::min(weights.count(), others.count()) >= samples),
         "mixed samples have two labels and a weight");
  dispatch(logits.type, [&]<class T>(T*) {
    each_row(stream, samples, classes,
             SoftmaxRow<T>{logits.as<T>(), labels.as<std::int32_t>(), classes, scale,
                           gradient ? gradient.as<T>() : nullptr, score, confusion, smoothing,
                           others ? others.as<std::int32_t>() : nullptr,
                           weights ? weights.as<float>() : nullptr, factor});
  });
}

}  // namespace lockstep
