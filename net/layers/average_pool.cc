// The mean over windows. Only what lies in the image counts, so that a short window at an end is
// the mean of fewer elements. Backward gathers: every element of dx is written once, in a fixed
// order.

#include "net/layers/spatial.h"
#include "net/layers/windows.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* y;
  Windows h, w;
  std::int64_t channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t ox = row % w.out, oy = row / w.out % h.out, image = row / (w.out * h.out);
    const auto count = static_cast<float>((h.end(oy) - h.begin(oy)) * (w.end(ox) - w.begin(ox)));
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      float sum = 0;
      for (std::int64_t iy = h.begin(oy); iy < h.end(oy); ++iy) {
        for (std::int64_t ix = w.begin(ox); ix < w.end(ox); ++ix)
          sum += static_cast<float>(x[((image * h.in + iy) * w.in + ix) * channels + c]);
      }
      y[row * channels + c] = sum / count;
    }
  }
};

template <class T>
struct Backward {
  const T* dy;
  T* dx;
  Windows h, w;
  std::int64_t channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t ix = row % w.in, iy = row / w.in % h.in, image = row / (w.in * h.in);
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      float sum = 0;
      for (std::int64_t oy = h.first(iy); oy < h.behind(iy); ++oy) {
        for (std::int64_t ox = w.first(ix); ox < w.behind(ix); ++ox) {
          const auto count =
              static_cast<float>((h.end(oy) - h.begin(oy)) * (w.end(ox) - w.begin(ox)));
          sum += static_cast<float>(dy[((image * h.out + oy) * w.out + ox) * channels + c]) / count;
        }
      }
      dx[row * channels + c] = sum;
    }
  }
};

class AveragePoolLayer : public Layer {
 public:
  AveragePoolLayer(std::int64_t kernel, std::int64_t stride, Padding padding)
      : kernel_(kernel), stride_(stride), padding_(padding) {}

  Shape setup(Setup& setup, Shape in) override {
    const Shape image = as_image(in, "the average-pool " + setup.name);
    images_ = image[0];
    channels_ = image[3];
    h_ = windows_of(image[1], kernel_, stride_, padding_);
    w_ = windows_of(image[2], kernel_, stride_, padding_);
    return like(in, {images_, h_.out, w_.out, channels_});
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(*call.stream, images_ * h_.out * w_.out, kernel_ * kernel_ * channels_,
               Forward<T>{x.as<T>(), y.as<T>(), h_, w_, channels_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(dy.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(*call.stream, images_ * h_.in * w_.in, channels_,
               Backward<T>{dy.as<T>(), dx.as<T>(), h_, w_, channels_});
    });
  }
  std::string implementation() const override { return "average_pool"; }

 private:
  std::int64_t kernel_, stride_;
  Padding padding_;
  std::int64_t images_ = 0, channels_ = 0;
  Windows h_{}, w_{};
};

}  // namespace

std::unique_ptr<Layer> average_pool(std::int64_t kernel, std::int64_t stride, Padding padding) {
  return std::make_unique<AveragePoolLayer>(kernel, stride, padding);
}

}  // namespace lockstep
