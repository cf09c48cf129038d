// Maximum and mean over windows. What a window reaches over beyond the ends does not count, so a
// short window at an end is the mean of fewer elements.
//
// A row is a line of pixels, whose channels lie side by side. A core computes a pixel's channels in
// blocks of vector registers. On a GPU a warp shares the line, and a lane computes 16 bytes of
// channels. The maximum notes which tap won (kNoTap if the ReLU cuts it off). Backward gathers: an
// input pixel sums the gradients of the few windows that contain it, so each element of dx is
// written exactly once, in a fixed order.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "net/layers/spatial.h"
#include "src/base/round_up.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// The windows of a pool along one axis. Its numbers have 32 bits, because a GPU divides such
/// numbers several times as fast.
struct Windows {
  int in, out, kernel, stride, pad;

  /// The beginning of window `o`, which is below 0 if the window reaches beyond the axis.
  HOST_DEVICE constexpr int origin(int o) const { return o * stride - pad; }
  /// Its first element, and the element after its last.
  HOST_DEVICE constexpr int begin(int o) const { return origin(o) < 0 ? 0 : origin(o); }
  HOST_DEVICE constexpr int end(int o) const {
    return origin(o) + kernel < in ? origin(o) + kernel : in;
  }
  /// By how many elements the last window reaches beyond the end.
  constexpr int pad_after() const {
    const int after = origin(out - 1) + kernel - in;
    return after > 0 ? after : 0;
  }
  /// The first window that contains element `i`, and the window after the last. Window o contains
  /// `i` if origin(o) <= i < origin(o) + kernel.
  HOST_DEVICE constexpr int first(int i) const {
    return i + pad < kernel ? 0 : (i + pad - kernel) / stride + 1;
  }
  HOST_DEVICE constexpr int after(int i) const {
    const int last = (i + pad) / stride + 1;
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
  // So that the sum of two of them fits into 32 bits.
  expect(std::max({in, kernel, stride}) < 1 << 30, "a pool has shorter axes");
  return {static_cast<int>(in), static_cast<int>(out), static_cast<int>(kernel),
          static_cast<int>(stride),
          static_cast<int>(padding == Padding::centred ? kernel / 2
                                                       : std::max<std::int64_t>(missing, 0) / 2)};
}

constexpr int kNoTap = 255;

/// Calls f(pixel, first channel, count) for the channels of a line of `pixels` that this member of
/// the team computes. If they are not `packed`, a lane computes one channel at a time.
template <class T, class Team, class F>
HOST_DEVICE void each_block(Team team, int pixels, int channels, bool packed, F f) {
  if constexpr (Team::lanes == 1) {
    for (int pixel = 0; pixel < pixels; ++pixel) {
      int c = 0;
      for (; c + 64 <= channels; c += 64) f.template operator()<64>(pixel, c, Fixed<64>());
      for (; c + 32 <= channels; c += 32) f.template operator()<32>(pixel, c, Fixed<32>());
      if (c < channels) f.template operator()<32>(pixel, c, channels - c);
    }
  } else {
    const auto share = [&]<int kCount>(std::integral_constant<int, kCount> count) {
      const int packs = channels / kCount;
      for (int i = team.lane; i < pixels * packs; i += team.lanes) {
        const int pixel = i / packs;
        f.template operator()<kCount>(pixel, (i - pixel * packs) * kCount, count);
      }
    };
    constexpr int kPack = 16 / sizeof(T);
    packed ? share(std::integral_constant<int, kPack>()) : share(std::integral_constant<int, 1>());
  }
}

/// The members that all bodies share: lines of images of `in` and `out`, and whether channels lie
/// in packs.
struct Lines {
  Windows h, w;
  int channels;
  bool packed;

  /// The image of line `line` of images with `height` lines, and the line within it.
  struct Place {
    std::int64_t image;
    int y;
  };
  HOST_DEVICE static Place place(std::int64_t line, int height) {
    const std::int64_t image = quotient(line, height);
    return {image, static_cast<int>(line - image * height)};
  }
  /// The first element of line y of an image.
  HOST_DEVICE std::int64_t in_line(std::int64_t image, int y) const {
    return (image * h.in + y) * w.in * channels;
  }
  HOST_DEVICE std::int64_t out_line(std::int64_t image, int y) const {
    return (image * h.out + y) * w.out * channels;
  }
};

/// The maximum of `count` channels, kMost at most, over the taps of window (oy, ox) of the image
/// whose first pixel is at `x`.
template <int kMost, class Count, class T>
HOST_DEVICE void highest(const Lines& l, bool relu, int oy, int ox, Count count,
                         const T* __restrict x, T* __restrict y, std::uint8_t* __restrict argmax) {
  float best[kMost];
  std::int32_t which[kMost];
  for (int c = 0; c < kMost; ++c) {
    best[c] = -std::numeric_limits<float>::infinity();
    which[c] = 0;
  }
  // The bounds keep to the taps inside, because branches in these loops cost a GPU registers.
  const int top = l.h.origin(oy), left = l.w.origin(ox), right = l.w.end(ox);
  for (int iy = l.h.begin(oy); iy < l.h.end(oy); ++iy) {
    for (int ix = l.w.begin(ox); ix < right; ++ix) {
      const auto tap = read(x + (std::int64_t{iy} * l.w.in + ix) * l.channels, count);
      const std::int32_t index = (iy - top) * l.h.kernel + ix - left;
      for_columns(count, [&](int c) {
        const float value = tap[c];
        // A NaN wins and stays, so that a diverging run is seen and not hidden.
        const bool wins = (value > best[c]) | (value != value);
        best[c] = wins ? value : best[c];
        which[c] = wins ? index : which[c];
      });
    }
  }
  write(y, count, [&](int c) { return (relu & (best[c] <= 0)) ? 0.0f : best[c]; });
  write(argmax, count, [&](int c) {
    return static_cast<std::uint8_t>((relu & (best[c] <= 0)) ? kNoTap : which[c]);
  });
}

template <class T>
struct MaxForward {
  Lines l;
  bool relu;
  const T* x;
  T* y;
  std::uint8_t* argmax;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t line, Team team) const {
    const auto [image, oy] = Lines::place(line, l.h.out);
    const T* const from = x + l.in_line(image, 0);
    const std::int64_t to = l.out_line(image, oy);
    each_block<T>(team, l.w.out, l.channels, l.packed,
                  [&, oy = oy]<int kMost, class Count>(int ox, int c, Count count) {
                    const std::int64_t place = to + std::int64_t{ox} * l.channels + c;
                    highest<kMost>(l, relu, oy, ox, count, from + c, y + place, argmax + place);
                  });
  }
};

/// The taps that won. Bytes have no InMemory of their own, because they are numbers and not values.
template <class Count>
struct Taps {
  const std::uint8_t* at;
  HOST_DEVICE Taps(const std::uint8_t* from, Count) : at(from) {}
  HOST_DEVICE std::int32_t operator[](int k) const { return at[k]; }
};
template <int kCount>
struct Taps<std::integral_constant<int, kCount>> {
  using Bytes = Pack<std::uint8_t, kCount>;
  typename Bytes::Values values;
  HOST_DEVICE Taps(const std::uint8_t* from, std::integral_constant<int, kCount>)
      : values(Bytes::load(from)) {}
  HOST_DEVICE std::int32_t operator[](int k) const { return values[k]; }
};

/// The gradient of `count` channels, kMost at most, of input pixel (iy, ix): the sum over the
/// windows that it won. `dy` and `argmax` are at the first pixel of the image.
template <int kMost, class Count, class T>
HOST_DEVICE void gather(const Lines& l, int iy, int ix, Count count, const T* __restrict dy,
                        const std::uint8_t* __restrict argmax, T* __restrict dx) {
  float sum[kMost];
  for (int c = 0; c < kMost; ++c) sum[c] = 0;
  const int left = l.w.first(ix), right = l.w.after(ix);
  for (int oy = l.h.first(iy); oy < l.h.after(iy); ++oy) {
    for (int ox = left; ox < right; ++ox) {
      const std::int64_t place = (std::int64_t{oy} * l.w.out + ox) * l.channels;
      const auto gradient = read(dy + place, count);
      const auto won = Taps<Count>(argmax + place, count);
      const std::int32_t own = (iy - l.h.origin(oy)) * l.h.kernel + ix - l.w.origin(ox);
      for_columns(count, [&](int c) { sum[c] += won[c] == own ? gradient[c] : 0.0f; });
    }
  }
  write(dx, count, [&](int c) { return sum[c]; });
}

template <class T>
struct MaxBackward {
  Lines l;
  const T* dy;
  const std::uint8_t* argmax;
  T* dx;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t line, Team team) const {
    const auto [image, iy] = Lines::place(line, l.h.in);
    const std::int64_t from = l.out_line(image, 0), to = l.in_line(image, iy);
    each_block<T>(team, l.w.in, l.channels, l.packed,
                  [&, iy = iy]<int kMost, class Count>(int ix, int c, Count count) {
                    gather<kMost>(l, iy, ix, count, dy + from + c, argmax + from + c,
                                  dx + to + std::int64_t{ix} * l.channels + c);
                  });
  }
};

template <class T>
struct MeanForward {
  Lines l;
  const T* x;
  T* y;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t line, Team team) const {
    const auto [image, oy] = Lines::place(line, l.h.out);
    const T* const from = x + l.in_line(image, 0);
    T* const to = y + l.out_line(image, oy);
    each_block<T>(team, l.w.out, l.channels, l.packed,
                  [&, oy = oy]<int kMost, class Count>(int ox, int c, Count count) {
                    const auto size = static_cast<float>((l.h.end(oy) - l.h.begin(oy)) *
                                                         (l.w.end(ox) - l.w.begin(ox)));
                    float sum[kMost];
                    for (int k = 0; k < kMost; ++k) sum[k] = 0;
                    for (int iy = l.h.begin(oy); iy < l.h.end(oy); ++iy) {
                      for (int ix = l.w.begin(ox); ix < l.w.end(ox); ++ix) {
                        const auto tap =
                            read(from + (std::int64_t{iy} * l.w.in + ix) * l.channels + c, count);
                        for_columns(count, [&](int k) { sum[k] += tap[k]; });
                      }
                    }
                    write(to + std::int64_t{ox} * l.channels + c, count,
                          [&](int k) { return sum[k] / size; });
                  });
  }
};

template <class T>
struct MeanBackward {
  Lines l;
  const T* dy;
  T* dx;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t line, Team team) const {
    const auto [image, iy] = Lines::place(line, l.h.in);
    const T* const from = dy + l.out_line(image, 0);
    T* const to = dx + l.in_line(image, iy);
    each_block<T>(
        team, l.w.in, l.channels, l.packed,
        [&, iy = iy]<int kMost, class Count>(int ix, int c, Count count) {
          float sum[kMost];
          for (int k = 0; k < kMost; ++k) sum[k] = 0;
          for (int oy = l.h.first(iy); oy < l.h.after(iy); ++oy) {
            for (int ox = l.w.first(ix); ox < l.w.after(ix); ++ox) {
              const auto size =
                  static_cast<float>((l.h.end(oy) - l.h.begin(oy)) * (l.w.end(ox) - l.w.begin(ox)));
              const auto gradient =
                  read(from + (std::int64_t{oy} * l.w.out + ox) * l.channels + c, count);
              for_columns(count, [&](int k) { sum[k] += gradient[k] / size; });
            }
          }
          write(to + std::int64_t{ix} * l.channels + c, count, [&](int k) { return sum[k]; });
        });
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
    expect(std::max(w_.in, w_.out) * channels_ < 1 << 30, "a pool has shorter lines");
    in_lines_ = image[0] * h_.in;
    out_lines_ = image[0] * h_.out;
    setup.numbers = {{"kernel", kernel_},  {"stride", stride_},
                     {"pad_top", h_.pad},  {"pad_bottom", h_.pad_after()},
                     {"pad_left", w_.pad}, {"pad_right", w_.pad_after()}};
    return like(in, {image[0], h_.out, w_.out, channels_});
  }

 protected:
  std::int64_t kernel_, stride_;
  Padding padding_;
  std::int64_t channels_ = 0, in_lines_ = 0, out_lines_ = 0;
  Windows h_{}, w_{};

  /// `packed` if 16 bytes of channels may be accessed at a time at both addresses.
  template <class T>
  Lines lines(const T* one, const T* other) const {
    constexpr int kPack = 16 / sizeof(T);
    return {h_, w_, static_cast<int>(channels_),
            channels_ % kPack == 0 && aligned_for_packs<kPack>(one, other)};
  }
};

class MaxPoolLayer : public PoolLayer {
 public:
  MaxPoolLayer(std::int64_t kernel, std::int64_t stride, bool relu, Padding padding)
      : PoolLayer(kernel, stride, padding), relu_(relu) {
    // A tap is a byte in the saved memory, and the largest byte means none.
    expect(kernel * kernel <= kNoTap, "a pooling window has at most 255 elements");
  }

  Shape setup(Setup& setup, Shape in) override {
    const Shape out = PoolLayer::setup(setup, in);
    setup.numbers["relu"] = relu_;
    setup.save(out.count());
    return out;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(
          *call.stream, out_lines_, w_.out * channels_ * kernel_ * kernel_,
          MaxForward<T>{lines<T>(x.as<T>(), y.as<T>()), relu_, x.as<T>(), y.as<T>(), argmax(call)});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(
          *call.stream, in_lines_, w_.in * channels_ * kernel_,
          MaxBackward<T>{lines<T>(dy.as<T>(), dx.as<T>()), dy.as<T>(), argmax(call), dx.as<T>()});
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
      each_row(*call.stream, out_lines_, w_.out * kernel_ * kernel_ * channels_,
               MeanForward<T>{lines<T>(x.as<T>(), y.as<T>()), x.as<T>(), y.as<T>()});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(*call.stream, in_lines_, w_.in * channels_,
               MeanBackward<T>{lines<T>(dy.as<T>(), dx.as<T>()), dy.as<T>(), dx.as<T>()});
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
