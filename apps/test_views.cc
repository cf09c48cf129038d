#include "apps/test_views.h"

#include "src/data/augment.h"
#include "src/each.h"

namespace lockstep {
namespace {

template <class T>
struct Seen {
  const T* images;
  T* to;
  int height, width, channels, shift;
  bool mirror;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t count = std::int64_t{height} * width * channels;
    const T* image = images + row * count;
    for (std::int64_t i = team.lane; i < count; i += team.lanes) {
      const auto pixel = static_cast<int>(i / channels), c = static_cast<int>(i % channels);
      const int y = pixel / width, x = mirror ? width - 1 - pixel % width : pixel % width;
      to[row * count + i] =
          image[(reflected(y - shift, height) * width + reflected(x - shift, width)) * channels +
                c];
    }
  }
};

template <class T>
struct AddWeighted {
  const T* logits;
  float weight;
  bool first;
  float* sum;
  HOST_DEVICE void operator()(std::int64_t i) const {
    sum[i] = std::fma(weight, static_cast<float>(logits[i]), first ? 0.0f : sum[i]);
  }
};

}  // namespace

void see(Stream& stream, View images, const TestView& view, View to) {
  const Shape shape = images.shape;
  dispatch(images.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each_row(
        stream, shape[0], shape.row(),
        Seen<T>{images.as<T>(), to.as<T>(), static_cast<int>(shape[1]), static_cast<int>(shape[2]),
                static_cast<int>(shape[3]), view.shift, view.mirror});
  });
}

void add_weighted(Stream& stream, View logits, float weight, bool first, View sum) {
  dispatch(logits.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each(stream, logits.count(), AddWeighted<T>{logits.as<T>(), weight, first, sum.as<float>()});
  });
}

}  // namespace lockstep
