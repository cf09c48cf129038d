// dw[tap] = the sum over all pixels q of dy[q]^T * x[q + shift of the tap]. A matrix unit
// multiplies a tile of 16 filters by 32 pixels with one of 32 pixels by 16 channels and adds in
// fp32. The image with its zero padding is one row of pixels, `pitch` per line, so a tap only
// changes the first pixel. dy has zeros at the pixels that a line of the output lacks.
//
//   dy  as tiles [16 filters][32 pixels], one after the other
//   x   as [16 channels][pair of pixels][channel, pixel of the pair]: once with pairs that begin at
//       even pixels, once with pairs that begin at odd pixels; a tap reads from any pair on
//
// If there are few channels (an image's three), a tap is a whole line of the filter. All channels
// that this line reads are contiguous.

#include "src/device/cpu/matrix_units.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/round_up.h"
#include "src/device/arena.h"
#include "src/device/cpu/bias_gradient.h"
#include "src/device/cpu/library.h"
#include "src/device/cpu/other_passes.h"
#include "src/device/parallel_for.h"

#define MATRIX_UNITS __attribute__((target("avx512f,amx-tile,amx-bf16")))

namespace lockstep {
namespace {

constexpr std::int64_t kTile = 16;  // rows of a tile, and words in a row
constexpr std::int64_t kWords = kTile * kTile;
constexpr std::int64_t kPixels = 2 * kTile;  // of one instruction's sum
constexpr std::int64_t kLine = 2 * kTile;    // bf16 numbers in a row of a tile
constexpr std::int64_t kLineBytes = 64;
/// Bytes of unpacked images at a time. Together with the sums they fit the second-level cache.
constexpr std::int64_t kCache = 1 << 20;

/// All eight tiles are 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  TileConfig() {
    std::fill_n(row_bytes, 8, static_cast<std::uint16_t>(kLineBytes));
    std::fill_n(rows, 8, static_cast<std::uint8_t>(kTile));
  }
};

using Halves = std::uint16_t __attribute__((vector_size(32)));
using Words = std::uint32_t __attribute__((vector_size(64)));

MATRIX_UNITS inline Words widen(const Bfloat16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  return __builtin_convertvector(bits, Words);
}
/// 16 channels of two pixels, interleaved.
MATRIX_UNITS inline Words pair(const Bfloat16* even, const Bfloat16* odd) {
  return widen(even) | widen(odd) << 16;
}
MATRIX_UNITS inline void store(Bfloat16* to, Words words) {
  std::memcpy(static_cast<void*>(to), &words, sizeof words);
}

/// Transposes 16 x 16 words. Each round moves the first bit of a word's row number to the end of
/// its column number, and the first bit of the column number to the end of the row number.
MATRIX_UNITS inline void transpose(Words (&rows)[kTile]) {
  for (int round = 0; round < 4; ++round) {
    Words next[kTile];
    for (int i = 0; i < kTile / 2; ++i) {
      const Words a = rows[i], b = rows[i + kTile / 2];
      next[2 * i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
    }
    std::copy_n(next, kTile, rows);
  }
}

/// The inputs of a block of sums: its first tiles of dy and x, and the distances to the next
/// filters and channels.
struct Operands {
  const Bfloat16 *dy, *x;
  std::int64_t dy_stride, x_stride;
  std::int64_t chunks;  ///< of kPixels
};

/// sums += dy^T * x for a block of kRows x kColumns tiles; a row has `columns` tiles.
template <int kRows, int kColumns>
MATRIX_UNITS void multiply(const Operands& of, float* sums, std::int64_t columns) {
  constexpr bool two_rows = kRows == 2, two_columns = kColumns == 2;
  float* const below = sums + columns * kWords;
  // Four tiles of sums stay in registers for all pixels of the image. Each tile of dy and x that is
  // loaded serves two of them. So a product needs one load in place of two. The eight registers are
  // used up: 0 to 3 for sums, 4 and 5 for dy, 6 and 7 for x.
  _tile_loadd(0, sums, kLineBytes);
  if constexpr (two_columns) _tile_loadd(1, sums + kWords, kLineBytes);
  if constexpr (two_rows) _tile_loadd(2, below, kLineBytes);
  if constexpr (two_rows && two_columns) _tile_loadd(3, below + kWords, kLineBytes);
  const Bfloat16 *dy = of.dy, *x = of.x;
  for (std::int64_t chunk = 0; chunk < of.chunks; ++chunk) {
    _tile_loadd(4, dy, kLineBytes);
    _tile_loadd(6, x, kLineBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (two_columns) {
      _tile_loadd(7, x + of.x_stride, kLineBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (two_rows) {
      _tile_loadd(5, dy + of.dy_stride, kLineBytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
    dy += kTile * kLine;
    x += kTile * kLine;
  }
  _tile_stored(0, sums, kLineBytes);
  if constexpr (two_columns) _tile_stored(1, sums + kWords, kLineBytes);
  if constexpr (two_rows) _tile_stored(2, below, kLineBytes);
  if constexpr (two_rows && two_columns) _tile_stored(3, below + kWords, kLineBytes);
}

MATRIX_UNITS void configure() {
  static const TileConfig config;
  _tile_loadconfig(&config);
}
MATRIX_UNITS void release() { _tile_release(); }

class MatrixUnitsConvolution : public OtherPasses {
 public:
  MatrixUnitsConvolution(std::unique_ptr<AffinePlan> others, const ConvolutionSpec& spec)
      : OtherPasses(std::move(others), "; weights gradient by matrix units"),
        in_(spec.input.x),
        out_(spec.output()),
        pad_(spec.pad),
        pitch_(in_[2] + 2 * spec.pad),
        chunks_(ceil_div(out_[1] * pitch_, kPixels)) {
    const bool lines = in_[3] < kTile;
    columns_ = in_[3] * (lines ? spec.kernel : 1);
    for (std::int64_t y = 0; y < spec.kernel; ++y) {
      for (std::int64_t x = 0; x < (lines ? 1 : spec.kernel); ++x)
        shifts_.push_back(y * pitch_ + x);
    }
    column_tiles_ = ceil_div(columns_, kTile);
    filter_tiles_ = ceil_div(out_[3], kTile);
    odd_ = std::any_of(shifts_.begin(), shifts_.end(), [](auto shift) { return shift % 2 != 0; });
    // The last tap reads pairs beyond those of the output's pixels.
    pairs_ = chunks_ * kTile + shifts_.back() / 2;

    for (std::int64_t q = 0; q < chunks_ * kPixels; ++q) {
      const std::int64_t y = q / pitch_, x = q % pitch_;
      dy_places_.push_back(y < out_[1] && x < out_[2] ? (y * out_[2] + x) * out_[3] : -1);
    }

    x_image_ = (odd_ ? 2 : 1) * column_tiles_ * x_stride();
    dy_image_ = filter_tiles_ * dy_stride();
    images_ = std::clamp<std::int64_t>(kCache / (2 * (x_image_ + dy_image_)), 1, in_[0]);
    // All pairs with both pixels, then the columns of one more tile.
    padded_count_ = std::max((2 * pairs_ + 1) * in_[3] + columns_ + kTile,
                             (in_[1] + 2 * pad_) * pitch_ * in_[3]);
    Arena places;
    const auto reserve = [&](std::int64_t count, std::size_t size) {
      return places.reserve(static_cast<std::size_t>(count) * size);
    };
    sums_ = reserve(sums_count(), sizeof(float));
    bias_ = reserve(in_[0] * out_[3], sizeof(float));
    x_ = reserve(images_ * x_image_, sizeof(Bfloat16));
    dy_ = reserve(images_ * dy_image_, sizeof(Bfloat16));
    padded_ = reserve(images_ * padded_count_, sizeof(Bfloat16));
    scratch_ = places.bytes();
  }

  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    stream.enqueue([=, this, threads = stream.threads()] {
      auto* const places = static_cast<std::byte*>(scratch);
      weights_gradient(threads, x.as<Bfloat16>(), dy.as<Bfloat16>(), dw.as<float>(), places);
      if (!db) return;
      bias_gradient(threads, dy.as<Bfloat16>(), out_, db.as<float>(),
                    reinterpret_cast<float*>(places + bias_));
    });
  }
  std::size_t scratch_bytes() const override {
    return std::max(others_->scratch_bytes(), scratch_);
  }

 private:
  std::int64_t taps() const { return std::ssize(shifts_); }
  std::int64_t dy_stride() const { return chunks_ * kTile * kLine; }
  std::int64_t x_stride() const { return pairs_ * kLine; }
  std::int64_t sums_count() const { return taps() * filter_tiles_ * column_tiles_ * kWords; }
  /// The offset of a tile's sums.
  std::int64_t place(std::int64_t tap, std::int64_t filter_tile, std::int64_t column_tile) const {
    return ((tap * filter_tiles_ + filter_tile) * column_tiles_ + column_tile) * kWords;
  }

  void weights_gradient(int threads, const Bfloat16* x, const Bfloat16* dy, float* dw,
                        std::byte* scratch) const {
    float* const sums = reinterpret_cast<float*>(scratch + sums_);
    auto* const x_pairs = reinterpret_cast<Bfloat16*>(scratch + x_);
    auto* const dy_tiles = reinterpret_cast<Bfloat16*>(scratch + dy_);
    auto* const padded = reinterpret_cast<Bfloat16*>(scratch + padded_);
    std::fill_n(sums, sums_count(), 0.0f);
    for (std::int64_t first = 0; first < in_[0]; first += images_) {
      const std::int64_t count = std::min(images_, in_[0] - first);
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          unpack_x(x + (first + n) * in_.row(), padded + n * padded_count_, x_pairs + n * x_image_);
          unpack_dy(dy + (first + n) * out_.row(), dy_tiles + n * dy_image_);
        }
      });
      // A block of sums belongs to one thread, which adds the images in order. So the bits do not
      // depend on the number of threads.
      const std::int64_t across = ceil_div(column_tiles_, 2), down = ceil_div(filter_tiles_, 2);
      parallel_for(threads, down * across * taps(), 1, [&](std::int64_t begin, std::int64_t end) {
        // The tile registers belong to a thread, and release() lets the kernel save less at a
        // switch of threads.
        configure();
        for (std::int64_t n = 0; n < count; ++n) {
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t block = item / taps();
            add_block(item % taps(), block / across * 2, block % across * 2,
                      dy_tiles + n * dy_image_, x_pairs + n * x_image_, sums);
          }
        }
        release();
      });
    }
    parallel_for(threads, out_[3], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        for (std::int64_t tap = 0; tap < taps(); ++tap) {
          for (std::int64_t c = 0; c < columns_; c += kTile) {
            std::copy_n(sums + place(tap, o / kTile, c / kTile) + o % kTile * kTile,
                        std::min(kTile, columns_ - c), dw + (o * taps() + tap) * columns_ + c);
          }
        }
      }
    });
  }

  /// Adds one image to up to 2 x 2 tiles of one tap.
  void add_block(std::int64_t tap, std::int64_t filter, std::int64_t column, const Bfloat16* dy,
                 const Bfloat16* x, float* sums) const {
    const std::int64_t shift = shifts_[tap];
    const Operands of{dy + filter * dy_stride(),
                      x + (shift % 2 * column_tiles_ + column) * x_stride() + shift / 2 * kLine,
                      dy_stride(), x_stride(), chunks_};
    float* const to = sums + place(tap, filter, column);
    const bool two_rows = filter + 1 < filter_tiles_, two_columns = column + 1 < column_tiles_;
    if (two_rows && two_columns) return multiply<2, 2>(of, to, column_tiles_);
    if (two_rows) return multiply<2, 1>(of, to, column_tiles_);
    if (two_columns) return multiply<1, 2>(of, to, column_tiles_);
    multiply<1, 1>(of, to, column_tiles_);
  }

  /// Writes one image with its zero padding, then its pairs of pixels. A last tile also reads
  /// channels of the next pixel; they end in columns that are never read.
  MATRIX_UNITS void unpack_x(const Bfloat16* x, Bfloat16* padded, Bfloat16* pairs) const {
    const std::int64_t channels = in_[3];
    std::memset(static_cast<void*>(padded), 0,
                sizeof *padded * static_cast<std::size_t>(padded_count_));
    for (std::int64_t y = 0; y < in_[1]; ++y) {
      std::copy_n(x + y * in_[2] * channels, in_[2] * channels,
                  padded + ((y + pad_) * pitch_ + pad_) * channels);
    }
    for (std::int64_t odd = 0; odd < (odd_ ? 2 : 1); ++odd) {
      for (std::int64_t c = 0; c < columns_; c += kTile) {
        const Bfloat16* from = padded + odd * channels + c;
        for (std::int64_t i = 0; i < pairs_; ++i, from += 2 * channels, pairs += kLine)
          store(pairs, pair(from, from + channels));
      }
    }
  }

  /// Writes one image's gradients, tile by tile.
  MATRIX_UNITS void unpack_dy(const Bfloat16* dy, Bfloat16* tiles) const {
    alignas(64) static constexpr Bfloat16 kZeros[kTile] = {};
    for (std::int64_t o = 0; o < out_[3]; o += kTile) {
      const std::int64_t here = std::min(kTile, out_[3] - o);
      // A load of the last tile must not read past the end of the tensor.
      const auto at = [&](std::int64_t pixel, Bfloat16* copy) {
        const std::int64_t place = dy_places_[pixel];
        if (place < 0) return kZeros;
        if (here == kTile) return dy + place + o;
        std::fill(std::copy_n(dy + place + o, here, copy), copy + kTile, Bfloat16());
        return static_cast<const Bfloat16*>(copy);
      };
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk, tiles += kTile * kLine) {
        Words rows[kTile];
        for (std::int64_t i = 0; i < kTile; ++i) {
          const std::int64_t pixel = chunk * kPixels + 2 * i;
          alignas(64) Bfloat16 even[kTile], odd[kTile];
          rows[i] = pair(at(pixel, even), at(pixel + 1, odd));
        }
        transpose(rows);
        for (std::int64_t i = 0; i < kTile; ++i) store(tiles + i * kLine, rows[i]);
      }
    }
  }

  Shape in_, out_;
  std::int64_t pad_, pitch_, chunks_;
  std::int64_t columns_, column_tiles_, filter_tiles_;
  std::vector<std::int64_t> shifts_;     ///< of the taps, in pixels
  std::vector<std::int64_t> dy_places_;  ///< offsets of pixels in an image of dy; -1: a zero
  bool odd_;                             ///< a tap begins at an odd pixel
  std::int64_t pairs_;                   ///< of an image
  std::int64_t images_, x_image_, dy_image_, padded_count_;
  std::size_t sums_, bias_, x_, dy_, padded_, scratch_;
};

/// Linux grants the tiles' registers only on request, to all threads of the process.
bool tiles_granted() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return granted;
}

}  // namespace

bool has_matrix_units() { return library::uses("amx") && tiles_granted(); }

std::unique_ptr<AffinePlan> make_matrix_units_convolution(std::unique_ptr<AffinePlan> others,
                                                          const ConvolutionSpec& spec) {
  expect(matrix_units_serve(spec) && has_matrix_units(), "no matrix units for this convolution");
  return std::make_unique<MatrixUnitsConvolution>(std::move(others), spec);
}

}  // namespace lockstep
