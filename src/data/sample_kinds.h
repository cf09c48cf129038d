// Kinds of stored samples, and which value a network sees at each place: for the host and for
// kernels (src/data/samples.cc).
#pragma once

#include <cstdint>

#include "src/base/host_device.h"
#include "src/data/augment.h"
#include "src/data/dataset.h"

namespace lockstep::samples {

/// The part of a stored image that a network sees. It may reach beyond the image, which is
/// reflected at its edges.
struct Window {
  int height, width;   ///< of the stored image
  int lines, columns;  ///< of the window
  int top = 0, left = 0;
  bool mirror = false;  ///< left and right, after the window is cut

  /// The stored pixel that is seen at place `i`.
  HOST_DEVICE int operator()(int i) const {
    const int row = i / columns, column = i % columns;
    const int x = mirror ? columns - 1 - column : column;
    return reflected(top + row, height) * width + reflected(left + x, width);
  }
  bool is_whole() const {
    return top == 0 && left == 0 && !mirror && lines == height && columns == width;
  }
};

/// A window whose pixels are stored in its own order.
struct InOrder {
  HOST_DEVICE int operator()(int i) const { return i; }
};

/// The random choices for a sample.
struct ViewDraw {
  Window window;
  float contrast = 1;
};

// A kind of samples gives
//   int lines() const, columns() const, channels() const    of what a network sees
//   ViewDraw draw_view(Random*) const
//   PixelReader reader(const std::uint8_t* bytes, int plane, Pixels, const ViewDraw&, Team) const
// `Pixels` is the Window or InOrder, and a plane of `bytes` has `plane` pixels. The value that is
// seen at place i:
//   float operator()(int i, int channel) const

/// Crops with the augmentation of src/data/augment.h.
struct Crops {
  int padding;
  bool alternate;

  explicit Crops(const SampleFormat& format)
      : padding(format.padding), alternate(format.alternate) {}
  HOST_DEVICE static int lines() { return kCropSide; }
  HOST_DEVICE static int columns() { return kCropSide; }
  HOST_DEVICE static int channels() { return kChannels; }
  static constexpr int kChannels = kImageChannels;
  static constexpr int kWindowBytes = kCropSide * kCropSide * kChannels;
  static constexpr bool planes = true;

  // Inlined by force: a call keeps the state of `random` in memory, which costs 3 % of a sample.
  [[gnu::always_inline]] HOST_DEVICE ViewDraw draw_view(Random* random) const {
    Augmentation how;
    if (random != nullptr) how = Augmentation::draw(*random, padding, alternate);
    return {{kImageSide, kImageSide, kCropSide, kCropSide, how.top, how.left, how.flip},
            how.contrast};
  }

  template <class Pixels>
  struct PixelReader {
    const std::uint8_t* bytes;
    int plane;
    Pixels pixels;
    Standardisation standardised;
    HOST_DEVICE std::uint8_t at(int i, int channel) const {
      return bytes[channel * plane + pixels(i)];
    }
    HOST_DEVICE float operator()(int i, int channel) const {
      return standardised(at(i, channel), channel);
    }
  };
  template <class Pixels, class Team>
  HOST_DEVICE PixelReader<Pixels> reader(const std::uint8_t* bytes, int plane, const Pixels& pixels,
                                         const ViewDraw& view, Team team) const {
    PixelReader<Pixels> reader{bytes, plane, pixels, {}};
    std::int32_t sums[kImageChannels] = {}, squares[kImageChannels] = {};
    for (int i = team.lane; i < kCropSide * kCropSide; i += team.lanes) {
      for (int c = 0; c < kImageChannels; ++c) {
        const std::int32_t x = reader.at(i, c);
        sums[c] += x;
        squares[c] += x * x;
      }
    }
    for (int c = 0; c < kImageChannels; ++c) {
      sums[c] = team.sum(sums[c]);
      squares[c] = team.sum(squares[c]);
    }
    reader.standardised = Standardisation::of(sums, squares, view.contrast);
    return reader;
  }
};

/// Whole images, standardised by channel, and moved in training if their format says so. `kDepth`
/// is the number of channels if the compiler is to know it, else 0.
template <int kDepth>
struct Images {
  static constexpr int kChannels = kDepth, kWindowBytes = 0;
  int height, width, depth;
  bool planes, moved, alternate;
  int padding;
  float mean[4], factor[4];

  explicit Images(const SampleFormat& format)
      : height(format.size.height),
        width(format.size.width),
        depth(format.size.channels),
        planes(format.size.planes),
        moved(format.moved),
        alternate(format.alternate),
        padding(format.padding) {
    for (std::size_t c = 0; c < 4; ++c) {
      mean[c] = format.normalisation.mean[c];
      factor[c] = 1 / format.normalisation.deviation[c];
    }
  }
  HOST_DEVICE int lines() const { return height; }
  HOST_DEVICE int columns() const { return width; }
  HOST_DEVICE int channels() const { return kDepth > 0 ? kDepth : depth; }

  HOST_DEVICE ViewDraw draw_view(Random* random) const {
    Move move;
    if (moved && random != nullptr) move = Move::draw(*random, padding, alternate);
    return {{height, width, height, width, move.top, move.left, move.mirror}};
  }

  template <class Pixels>
  struct PixelReader {
    const std::uint8_t* bytes;
    int plane;
    Pixels pixels;
    const Images& of;
    HOST_DEVICE float operator()(int i, int c) const {
      const int pixel = pixels(i),
                place = of.planes ? c * plane + pixel : pixel * of.channels() + c;
      return (static_cast<float>(bytes[place]) - of.mean[c]) * of.factor[c];
    }
  };
  template <class Pixels, class Team>
  HOST_DEVICE PixelReader<Pixels> reader(const std::uint8_t* bytes, int plane, const Pixels& pixels,
                                         const ViewDraw&, Team) const {
    return {bytes, plane, pixels, *this};
  }
};

/// Values in fp32 that the data set has made itself.
struct Values {
  int height, width, depth;
  static constexpr int kChannels = 0, kWindowBytes = 0;
  static constexpr bool planes = false;

  explicit Values(const SampleFormat& format)
      : height(format.size.height), width(format.size.width), depth(format.size.channels) {}
  HOST_DEVICE int lines() const { return height; }
  HOST_DEVICE int columns() const { return width; }
  HOST_DEVICE int channels() const { return depth; }

  HOST_DEVICE ViewDraw draw_view(Random*) const { return {{height, width, height, width}}; }

  struct PixelReader {
    const float* values;
    int depth;
    HOST_DEVICE float operator()(int i, int c) const { return values[i * depth + c]; }
  };
  template <class Team>
  HOST_DEVICE PixelReader reader(const std::uint8_t* bytes, int, InOrder, const ViewDraw&,
                                 Team) const {
    return {reinterpret_cast<const float*>(bytes), depth};
  }
};

}  // namespace lockstep::samples
