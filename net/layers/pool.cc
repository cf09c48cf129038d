// Maximum and mean over windows. What a window reaches over beyond the ends does not count, so a
// short window at an end is the mean of fewer elements.
//
// A row is a pixel, and a team shares its channels, which lie side by side. A single thread
// computes them in blocks of vector registers, a lane of a warp one by one. The maximum notes which
// tap won (kNoTap if the ReLU cuts it off). Backward gathers: an input pixel sums the gradients of
// the few windows that contain it, so each element of dx is written exactly once, in a fixed order.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "net/layers/spatial.h"
#include "src/base/round_up.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// The windows of a pool along one axis.
struct Windows {
  std::int64_t in, out, kernel, stride, pad;

  /// The beginning of window `o`, which is below 0 if the window reaches beyond the axis.
  HOST_DEVICE constexpr std::int64_t origin(std::int64_t o) const { return o * stride - pad; }
  /// Its first element, and the element after its last.
  HOST_DEVICE constexpr std::int64_t begin(std::int64_t o) const {
    return origin(o) < 0 ? 0 : origin(o);
  }
  HOST_DEVICE constexpr std::int64_t end(std::int64_t o) const {
    return origin(o) + kernel < in ? origin(o) + kernel : in;
  }
  /// The first window that contains element `i`, and the window after the last.
  HOST_DEVICE constexpr std::int64_t first(std::int64_t i) const {
    return i + pad < kernel ? 0 : (i + pad - kernel) / stride + 1;
  }
  HOST_DEVICE constexpr std::int64_t after(std::int64_t i) const {
    const std::int64_t last = (i + pad) / stride + 1;
    return last < out ? last : out;
  }
};

/// The windows of a pool along an axis of `in` elements. Padding::same has ceil(in / stride) of
/// them, short ones at the ends; Padding::centred too, with the middle of the first one at the
/// first element; Padding::valid has only whole ones, or one if `in` is less than `kernel`.
Windows windows_of(std::int64_t in, std::int64_t kernel, std::int64_t stride, Padding padding) {
  const std::int64_t out = padding == Padding::valid ? (in - std::min(in, kernel)) / stride + 1
                                                     : ceil_div(in, stride),
                     missing = (out - 1) * stride + kernel - in;
  return {in, out, kernel, stride,
          padding == Padding::centred ? kernel / 2 : std::max<std::int64_t>(missing, 0) / 2};
}

constexpr int kNoTap = 255;

/// Channels that a lane of a team computes at a time.
template <class Team>
constexpr int kBlock = Team::lanes == 1 ? 64 : 1;

/// Calls f(first, count) for the channels of this lane, block by block. The count of a whole block
/// is a constant, so that it stays in registers.
template <class Team, class F>
HOST_DEVICE void each_block(Team team, std::int64_t channels, F f) {
  constexpr int kCount = kBlock<Team>;
  for (std::int64_t c = team.lane * kCount; c < channels; c += team.lanes * kCount) {
    if (channels - c >= kCount) {
      f(c, std::integral_constant<int, kCount>());
    } else {
      f(c, static_cast<int>(channels - c));
    }
  }
}

/// The maximum of `count` channels, kCount at most, over the taps of window (oy, ox) of the image
/// whose first pixel is at `x`.
template <int kCount, class Count, class T>
HOST_DEVICE void highest(const Windows& h, const Windows& w, std::int64_t channels, bool relu,
                         std::int64_t oy, std::int64_t ox, Count count, const T* __restrict x,
                         T* __restrict y, std::uint8_t* __restrict argmax) {
  float best[kCount];
  std::int32_t which[kCount];
  for (int c = 0; c < kCount; ++c) {
    best[c] = -std::numeric_limits<float>::infinity();
    which[c] = 0;
  }
  // The bounds keep to the taps inside, because branches in these loops cost a GPU registers.
  const std::int64_t top = h.origin(oy), left = w.origin(ox), right = w.end(ox);
  for (std::int64_t iy = h.begin(oy); iy < h.end(oy); ++iy) {
    for (std::int64_t ix = w.begin(ox); ix < right; ++ix) {
      const T* tap = x + (iy * w.in + ix) * channels;
      const auto index = static_cast<std::int32_t>((iy - top) * h.kernel + ix - left);
      for (int c = 0; c < count; ++c) {
        const float value = tap[c];
        // A NaN wins and stays, so that a diverging run is seen and not hidden.
        const bool wins = (value > best[c]) | (value != value);
        best[c] = wins ? value : best[c];
        which[c] = wins ? index : which[c];
      }
    }
  }
  for (int c = 0; c < count; ++c) {
    const bool cut = relu & (best[c] <= 0);
    y[c] = cut ? 0.0f : best[c];
    argmax[c] = static_cast<std::uint8_t>(cut ? kNoTap : which[c]);
  }
}

template <class T>
struct MaxForward {
  Windows h, w;
  std::int64_t channels;
  bool relu;
  const T* x;
  T* y;
  std::uint8_t* argmax;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t line = row / w.out, ox = row - line * w.out, image = line / h.out,
                       oy = line - image * h.out;
    const T* from = x + image * h.in * w.in * channels;
    each_block(team, channels, [&](std::int64_t c, auto count) {
      const std::int64_t place = row * channels + c;
      highest<kBlock<Team>>(h, w, channels, relu, oy, ox, count, from + c, y + place,
                            argmax + place);
    });
  }
};

/// The gradient of `count` channels, kCount at most, of input pixel (iy, ix): the sum over the
/// windows that it won.
template <int kCount, class Count, class T>
HOST_DEVICE void gather(const Windows& h, const Windows& w, std::int64_t channels, std::int64_t iy,
                        std::int64_t ix, Count count, const T* __restrict dy,
                        const std::uint8_t* __restrict argmax, T* __restrict dx) {
  float sum[kCount];
  for (int c = 0; c < kCount; ++c) sum[c] = 0;
  const std::int64_t left = w.first(ix), right = w.after(ix);
  for (std::int64_t oy = h.first(iy); oy < h.after(iy); ++oy) {
    for (std::int64_t ox = left; ox < right; ++ox) {
      const std::int64_t place = (oy * w.out + ox) * channels;
      const auto own =
          static_cast<std::int32_t>((iy - h.origin(oy)) * h.kernel + ix - w.origin(ox));
      for (int c = 0; c < count; ++c) {
        const float gradient = dy[place + c];
        sum[c] += argmax[place + c] == own ? gradient : 0.0f;
      }
    }
  }
  for (int c = 0; c < count; ++c) dx[c] = sum[c];
}

template <class T>
struct MaxBackward {
  Windows h, w;
  std::int64_t channels;
  const T* dy;
  const std::uint8_t* argmax;
  T* dx;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t line = row / w.in, ix = row - line * w.in, image = line / h.in,
                       iy = line - image * h.in, from = image * h.out * w.out * channels;
    each_block(team, channels, [&](std::int64_t c, auto count) {
      gather<kBlock<Team>>(h, w, channels, iy, ix, count, dy + from + c, argmax + from + c,
                           dx + row * channels + c);
    });
  }
};

template <class T>
struct MeanForward {
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
struct MeanBackward {
  const T* dy;
  T* dx;
  Windows h, w;
  std::int64_t channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t ix = row % w.in, iy = row / w.in % h.in, image = row / (w.in * h.in);
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      float sum = 0;
      for (std::int64_t oy = h.first(iy); oy < h.after(iy); ++oy) {
        for (std::int64_t ox = w.first(ix); ox < w.after(ix); ++ox) {
          const auto count =
              static_cast<float>((h.end(oy) - h.begin(oy)) * (w.end(ox) - w.begin(ox)));
          sum += static_cast<float>(dy[((image * h.out + oy) * w.out + ox) * channels + c]) / count;
        }
      }
      dx[row * channels + c] = sum;
    }
  }
};

class PoolLayer : public Layer {
 public:
  PoolLayer(std::int64_t kernel, std::int64_t stride, Padding padding)
      : kernel_(kernel), stride_(stride), padding_(padding) {}

  Shape setup(Setup& setup, Shape in) override {
    const Shape image = as_image(in, "the pool " + setup.name);
    h_ = windows_of(image[1], kernel_, stride_, padding_);
    w_ = windows_of(image[2], kernel_, stride_, padding_);
    channels_ = image[3];
    in_rows_ = image[0] * h_.in * w_.in;
    out_rows_ = image[0] * h_.out * w_.out;
    return like(in, {image[0], h_.out, w_.out, channels_});
  }

 protected:
  std::int64_t kernel_, stride_;
  Padding padding_;
  std::int64_t channels_ = 0, in_rows_ = 0, out_rows_ = 0;
  Windows h_{}, w_{};
};

class MaxPoolLayer : public PoolLayer {
 public:
  MaxPoolLayer(std::int64_t kernel, std::int64_t stride, bool relu, Padding padding)
      : PoolLayer(kernel, stride, padding), relu_(relu) {
    expect(kernel * kernel <= kNoTap, "a pooling window has at most 255 elements");
  }

  Shape setup(Setup& setup, Shape in) override {
    const Shape out = PoolLayer::setup(setup, in);
    setup.save(out.count());
    return out;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, out_rows_, channels_ * kernel_ * kernel_,
               MaxForward<T>{h_, w_, channels_, relu_, x.as<T>(), y.as<T>(), argmax(call)});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(*call.stream, in_rows_, channels_ * kernel_,
               MaxBackward<T>{h_, w_, channels_, dy.as<T>(), argmax(call), dx.as<T>()});
    });
  }
  std::string implementation() const override { return "max_pool"; }

 private:
  /// One byte per element of y: which tap of its window won.
  static std::uint8_t* argmax(LayerCall& call) {
    return reinterpret_cast<std::uint8_t*>(call.saved);
  }

  bool relu_;
};

class AveragePoolLayer : public PoolLayer {
 public:
  using PoolLayer::PoolLayer;

  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, out_rows_, kernel_ * kernel_ * channels_,
               MeanForward<T>{x.as<T>(), y.as<T>(), h_, w_, channels_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(*call.stream, in_rows_, channels_,
               MeanBackward<T>{dy.as<T>(), dx.as<T>(), h_, w_, channels_});
    });
  }
  std::string implementation() const override { return "average_pool"; }
};

}  // namespace

std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                                Padding padding) {
  return std::make_unique<MaxPoolLayer>(kernel, stride, relu, padding);
}

std::unique_ptr<Layer> average_pool(std::int64_t kernel, std::int64_t stride, Padding padding) {
  return std::make_unique<AveragePoolLayer>(kernel, stride, padding);
}

}  // namespace lockstep
