#include "apps/run/test_views.h"

#include <cmath>
#include <limits>

#include "src/data/augment.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Seen {
  const T* images;
  T* to;
  int height, width, channels, shift;
  bool mirror;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t pixel = i / channels, row = pixel / width, image = row / height;
    const auto y = static_cast<int>(row % height), x = static_cast<int>(pixel % width);
    const int from_y = reflected(y - shift, height),
              from_x = reflected((mirror ? width - 1 - x : x) - shift, width);
    to[i] = images[((image * height + from_y) * width + from_x) * channels + i % channels];
  }
};

template <class T>
struct AddWeighted {
  const T* logits;
  float weight;
  const float* before;  ///< or null
  float* sum;
  HOST_DEVICE void operator()(std::int64_t i) const {
    sum[i] = std::fma(weight, static_cast<float>(logits[i]), before == nullptr ? 0.0f : before[i]);
  }
};

/// NaN counts as uncertain if all logits are NaN, else as no logit.
template <class Team>
HOST_DEVICE bool certain(const float* sums, std::int64_t classes, Team team) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float highest = kNone, next = kNone;
  for (std::int64_t c = team.lane; c < classes; c += team.lanes)
    highest = sums[c] > highest ? sums[c] : highest;
  highest = team.max(highest);
  std::int64_t place = classes;
  for (std::int64_t c = team.lane; c < classes; c += team.lanes)
    place = sums[c] == highest && c < place ? c : place;
  place = team.min(place);
  for (std::int64_t c = team.lane; c < classes; c += team.lanes)
    next = c != place && sums[c] > next ? sums[c] : next;
  return (highest - team.max(next)) * kFirstFactor >= kCertain;
}

struct ChooseCertain {
  const float* first;
  float* mean;
  std::int64_t classes;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const float* const sums = first + row * classes;
    if (!certain(sums, classes, team)) return;
    for (std::int64_t c = team.lane; c < classes; c += team.lanes)
      mean[row * classes + c] = kFirstFactor * sums[c];
  }
};

}  // namespace

void see(Stream& stream, View images, const TestView& view, View to) {
  const Shape shape = images.shape;
  dispatch(images.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each(stream, shape.count(),
         Seen<T>{images.as<T>(), to.as<T>(), static_cast<int>(shape[1]), static_cast<int>(shape[2]),
                 static_cast<int>(shape[3]), view.shift, view.mirror});
  });
}

void add_weighted(Stream& stream, View logits, float weight, View before, View sum) {
  dispatch(logits.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each(stream, logits.count(),
         AddWeighted<T>{logits.as<T>(), weight, before ? before.as<float>() : nullptr,
                        sum.as<float>()});
  });
}

bool is_certain(const float* sums, std::int64_t classes) { return certain(sums, classes, Alone{}); }

void choose_certain(Stream& stream, View first, View mean) {
  const std::int64_t classes = first.shape.row();
  each_row(stream, first.shape[0], classes,
           ChooseCertain{first.as<float>(), mean.as<float>(), classes});
}

}  // namespace lockstep
