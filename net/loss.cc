#include "net/loss.h"

#include <cmath>
#include <limits>

#include "src/each.h"

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

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t n, Team team) const {
    const T* x = logits + n * classes;
    const std::int32_t label = labels[n];
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
    for (std::int64_t c = team.lane; gradient != nullptr && c < classes; c += team.lanes) {
      const float softmax = std::exp(static_cast<float>(x[c]) - highest) / sum;
      const float truth = smoothing > 0 ? (1 - smoothing) * static_cast<float>(c == label) + each
                                        : static_cast<float>(c == label);
      gradient[n * classes + c] = (softmax - truth) * scale;
    }
    below = smoothing > 0 ? team.sum(below) : 0;

    if (team.lane != 0) return;
    const float apart = highest - own;  // the difference of large logits is exact
    const float loss =
        std::log(sum) + (smoothing > 0 ? (1 - smoothing) * apart + each * below : apart);
    const bool finite = loss <= kLargestLoss;
    add_atomically(score->samples, 1);
    add_atomically(score->top1, above < 1);
    add_atomically(score->top5, above < 5);
    add_atomically(score->diverged, !finite);
    if (finite) add_atomically(score->loss_units, std::llround(static_cast<double>(loss) * 0x1p32));
    if (confusion == nullptr) return;
    if (predicted == classes) predicted = 0;  // no logit is a number
    add_atomically(confusion[label * classes + predicted], 1);
  }
};

}  // namespace

void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           Score* score, std::int64_t* confusion, float smoothing) {
  const std::int64_t samples = logits.shape[0], classes = logits.shape.row();
  expect(labels.count() >= samples, "a label is wanted for every sample");
  dispatch(logits.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each_row(stream, samples, classes,
             SoftmaxRow<T>{logits.as<T>(), labels.as<std::int32_t>(), classes, scale,
                           gradient ? gradient.as<T>() : nullptr, score, confusion, smoothing});
  });
}

}  // namespace lockstep
