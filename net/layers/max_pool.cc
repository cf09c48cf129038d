// A row is a pixel, and a team shares its channels, which lie side by side: a thread alone takes
// them in blocks of vector registers, a lane of a warp one by one. Forward takes the maximum tap by
// tap and notes which tap won (kNobody where ReLU cuts it off); backward gathers: an input pixel
// sums the gradients of the few windows that it won, so that every element of dx is written exactly
// once, in a fixed order.

#include <limits>
#include <type_traits>

#include "net/layers/spatial.h"
#include "net/layers/windows.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr int kNobody = 255;

/// Channels that one of a team takes at a time.
template <class Team>
constexpr int kBlock = Team::lanes == 1 ? 64 : 1;

/// Calls f(first, count) for the channels of this one of the team, block by block. The count of a
/// whole block is a constant, so that it stays in registers.
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
  // The taps that lie inside: bounds of loops, for branches within them cost a GPU registers.
  const std::int64_t top = h.origin(oy), left = w.origin(ox), behind = w.end(ox);
  for (std::int64_t iy = h.begin(oy); iy < h.end(oy); ++iy) {
    for (std::int64_t ix = w.begin(ox); ix < behind; ++ix) {
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
    argmax[c] = static_cast<std::uint8_t>(cut ? kNobody : which[c]);
  }
}

template <class T>
struct Forward {
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
/// windows that it is in and won.
template <int kCount, class Count, class T>
HOST_DEVICE void gather(const Windows& h, const Windows& w, std::int64_t channels, std::int64_t iy,
                        std::int64_t ix, Count count, const T* __restrict dy,
                        const std::uint8_t* __restrict argmax, T* __restrict dx) {
  float sum[kCount];
  for (int c = 0; c < kCount; ++c) sum[c] = 0;
  const std::int64_t left = w.first(ix), behind = w.behind(ix);
  for (std::int64_t oy = h.first(iy); oy < h.behind(iy); ++oy) {
    for (std::int64_t ox = left; ox < behind; ++ox) {
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
struct Backward {
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

class MaxPoolLayer : public Layer {
 public:
  MaxPoolLayer(std::int64_t kernel, std::int64_t stride, bool relu, Padding padding)
      : kernel_(kernel), stride_(stride), relu_(relu), padding_(padding) {
    expect(kernel * kernel <= kNobody, "a pooling window has at most 255 elements");
  }

  Shape setup(Setup& setup, Shape in) override {
    const Shape image = as_image(in, "the max-pool " + setup.name);
    images_ = image[0];
    channels_ = image[3];
    h_ = windows_of(image[1], kernel_, stride_, padding_);
    w_ = windows_of(image[2], kernel_, stride_, padding_);
    const Shape out{images_, h_.out, w_.out, channels_};
    setup.save(out.count());
    return like(in, out);
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(*call.stream, images_ * h_.out * w_.out, channels_ * h_.kernel * h_.kernel,
               Forward<T>{h_, w_, channels_, relu_, x.as<T>(), y.as<T>(), argmax(call)});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(dy.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(*call.stream, images_ * h_.in * w_.in, channels_ * h_.kernel,
               Backward<T>{h_, w_, channels_, dy.as<T>(), argmax(call), dx.as<T>()});
    });
  }
  std::string implementation() const override { return "max_pool"; }

 private:
  /// One byte per element of y: which tap of its window won.
  static std::uint8_t* argmax(LayerCall& call) {
    return reinterpret_cast<std::uint8_t*>(call.saved);
  }

  std::int64_t kernel_, stride_;
  bool relu_;
  Padding padding_;
  std::int64_t images_ = 0, channels_ = 0;
  Windows h_{}, w_{};
};

}  // namespace

std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                                Padding padding) {
  return std::make_unique<MaxPoolLayer>(kernel, stride, relu, padding);
}

}  // namespace lockstep
