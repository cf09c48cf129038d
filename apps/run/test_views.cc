#include "apps/run/test_views.h"

#include <cmath>

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

struct ChooseCertain {
  const float* first;
  float* mean;
  std::int64_t classes;
  HOST_DEVICE void operator()(std::int64_t row) const {
    if (!is_certain(first + row * classes, classes)) return;
    for (std::int64_t i = row * classes; i < (row + 1) * classes; ++i)
      mean[i] = kFirstFactor * first[i];
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

void choose_certain(Stream& stream, View first, View mean) {
  each(stream, first.shape[0],
       ChooseCertain{first.as<float>(), mean.as<float>(), first.shape.row()});
}

}  // namespace lockstep
