#include "net/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/cpu/parallel_for.h"

namespace lockstep {
namespace {

constexpr double kUnit = 0x1p32;
constexpr double kLargestLoss = 1e5;  // times 2^32 and ten thousand samples still fits 63 bits

template <class T>
SampleResult row(const T* logits, std::int32_t label, std::int64_t classes, float scale,
                 T* gradient) {
  SampleResult result;
  float highest = -std::numeric_limits<float>::infinity();
  const float own = logits[label];
  for (std::int64_t c = 0; c < classes; ++c) {
    const float value = logits[c];
    if (value > highest) {
      highest = value;
      result.predicted = static_cast<std::int32_t>(c);
    }
    // Written so that a NaN on either side counts as "above".
    const bool below = c < label ? value < own : value <= own;
    result.rank += !below;
  }
  result.rank -= !(own <= own);
  float sum = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    sum += std::exp(static_cast<float>(logits[c]) - highest);
  result.loss = std::log(sum) + (highest - own);  // the difference of large logits is exact
  if (gradient != nullptr) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const float softmax = std::exp(static_cast<float>(logits[c]) - highest) / sum;
      gradient[c] = (softmax - static_cast<float>(c == label)) * scale;
    }
  }
  return result;
}

}  // namespace

void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           std::span<SampleResult> results) {
  const std::int64_t samples = logits.shape[0], classes = logits.shape.row();
  expect(static_cast<std::int64_t>(results.size()) >= samples,
         "a result is wanted for every sample");
  dispatch(logits.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T* from = logits.as<T>();
    T* to = gradient ? gradient.as<T>() : nullptr;
    const std::int32_t* label = labels.as<std::int32_t>();
    parallel_for(stream.threads(), samples, 256, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        results[static_cast<std::size_t>(n)] =
            row(from + n * classes, label[n], classes, scale, to ? to + n * classes : nullptr);
      }
    });
  });
}

void Score::add(const SampleResult& result) {
  samples += 1;
  top1 += result.rank < 1;
  top5 += result.rank < 5;
  if (result.loss <= kLargestLoss) {
    loss_units += std::llround(static_cast<double>(result.loss) * kUnit);
  } else {
    diverged += 1;
  }
}

double Score::loss() const {
  if (diverged > 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(loss_units) / kUnit / static_cast<double>(samples);
}

}  // namespace lockstep
