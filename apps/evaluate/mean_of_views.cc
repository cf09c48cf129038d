#include "apps/evaluate/mean_of_views.h"

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
    // A view is mirrored last, so the way back to the image begins with that.
    const int from_y = reflected(y - shift, height),
              from_x = reflected((mirror ? width - 1 - x : x) - shift, width);
    to[i] = images[((image * height + from_y) * width + from_x) * channels + i % channels];
  }
};

template <class T>
struct AddWeighted {
  const T* logits;
  float weight;
  bool first;  ///< nothing was added yet
  float* sum;
  HOST_DEVICE void operator()(std::int64_t i) const {
    // By name, so that the choice of a compiler to fuse changes no bit.
    sum[i] = std::fma(weight, static_cast<float>(logits[i]), first ? 0.0f : sum[i]);
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

MeanOfViews::MeanOfViews(Device& device, Model& model, int classes)
    : model_(model), classes_(classes) {
  const Shape input = model.input();
  seen_ = arena_.reserve(input.count() * size_of(model.input_type()));
  mean_ = arena_.reserve(input[0] * classes_ * sizeof(float));
  arena_.allocate(device);
}

View MeanOfViews::of_batch(Stream& stream, View images) {
  const View seen = arena_.view(seen_, images.shape, images.type),
             mean = arena_.view(mean_, {images.shape[0], classes_}, Type::f32);
  for (const TestView& view : kTestViews) {
    // One view at a time, all in one buffer: the stream keeps them apart.
    see(stream, images, view, seen);
    const View logits = model_.forward(stream, seen);
    dispatch(logits.type, [&]<class T>(T*) {
      each(stream, logits.count(),
           AddWeighted<T>{logits.as<T>(), view.weight, &view == kTestViews.data(),
                          mean.as<float>()});
    });
  }
  return mean;
}

}  // namespace lockstep
