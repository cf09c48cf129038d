// Tiles of images in registers, and their transforms by constant matrices, for
// src/device/cpu/winograd_body.h. Part of src/device/cpu/kernels_body.h.
namespace lockstep::KERNELS {
namespace {

constexpr std::int64_t kLine = 64;  ///< bytes of a cache line

std::int64_t blocks(std::int64_t channels) { return ceil_div(channels, kBlock); }
std::int64_t width_of(std::int64_t block, std::int64_t channels) {
  return std::min(kBlock, channels - block * kBlock);
}

/// Whether registers that do not cross a block's border can cover `channels`, in every instruction
/// set.
bool in_registers(std::int64_t channels) {
  const std::int64_t rest = channels % kBlock;
  return rest % kServedLanes == 0 || rest > kServedLanes;
}
/// Calls f(first channel) for each of these registers. If `channels` do not fill the last register,
/// it overlaps the one before it, and the common channels are computed twice.
template <class F>
void each_register(std::int64_t channels, F f) {
  std::int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) f(c);
  if (c < channels) f(channels - kLanes);
}

/// One row of a constant matrix times a column of vectors; zeros cost nothing.
template <const auto& M, std::size_t Row, bool Transposed, std::size_t... J>
[[gnu::always_inline]] inline Vector product_row(const Vector* in, std::index_sequence<J...>) {
  Vector sum{};
  const auto add = [&]<std::size_t Column>(std::integral_constant<std::size_t, Column>) {
    constexpr float factor = Transposed ? M[Column][Row] : M[Row][Column];
    if constexpr (factor == 1) {
      sum += in[Column];
    } else if constexpr (factor == -1) {
      sum -= in[Column];
    } else if constexpr (factor != 0) {
      sum = fma(factor, in[Column], sum);
    }
  };
  (add(std::integral_constant<std::size_t, J>()), ...);
  return sum;
}
template <const auto& M, bool Transposed, std::size_t Columns, std::size_t... I>
[[gnu::always_inline]] inline void product(const Vector* in, Vector* out,
                                           std::index_sequence<I...>) {
  ((out[I] = product_row<M, I, Transposed>(in, std::make_index_sequence<Columns>())), ...);
}

/// out (To x To) = L in (From x From) L^T, with L = M or, Transposed, M^T: a register of channels
/// at once. read(i, j) returns an element of in, write(i, j, value) receives one of out.
template <const auto& M, std::size_t To, std::size_t From, bool Transposed = false, class Read,
          class Write>
[[gnu::always_inline]] inline void transform(Read read, Write write) {
  Vector half[To][From];
  for (std::size_t j = 0; j < From; ++j) {
    Vector in[From], out[To];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < From; ++i) in[i] = read(i, j);
    product<M, Transposed, From>(in, out, std::make_index_sequence<To>());
#pragma GCC unroll 8
    for (std::size_t i = 0; i < To; ++i) half[i][j] = out[i];
  }
  for (std::size_t i = 0; i < To; ++i) {
    Vector out[To];
    product<M, Transposed, From>(half[i], out, std::make_index_sequence<To>());
#pragma GCC unroll 8
    for (std::size_t j = 0; j < To; ++j) write(i, j, out[j]);
  }
}

/// Images as tiles: the pixels that a tile of Extent x Extent reads or writes.
template <class T>
struct Tiles {
  T* pixels;
  std::int64_t height, width, channels;
  std::int64_t rows, columns;  ///< of tiles, per image
  std::int64_t step, origin;   ///< tile t begins at t * step + origin

  /// Pointers to the pixels of tile number `tile`; `outside` for pixels outside of the image.
  template <std::size_t Extent>
  void locate(std::int64_t tile, T* outside, std::array<std::array<T*, Extent>, Extent>& at) const {
    const std::int64_t image = tile / (rows * columns);
    const std::int64_t top = tile / columns % rows * step + origin;
    const std::int64_t left = tile % columns * step + origin;
    for (std::size_t i = 0; i < Extent; ++i) {
      const std::int64_t y = top + static_cast<std::int64_t>(i);
      for (std::size_t j = 0; j < Extent; ++j) {
        const std::int64_t x = left + static_cast<std::int64_t>(j);
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        at[i][j] = inside ? pixels + ((image * height + y) * width + x) * channels : outside;
      }
    }
  }
};

/// Prefetches the cache lines that begin at channel `c` of the pixels of the next tile. They are
/// too many short pieces for the processor's own prefetcher.
template <class T, std::size_t Extent>
[[gnu::always_inline]] inline void fetch(const std::array<std::array<T*, Extent>, Extent>& at,
                                         std::int64_t c) {
  if (c * static_cast<std::int64_t>(sizeof(T)) % kLine != 0) return;
  for (const auto& line : at) {
    for (T* const pixel : line) {
      if (pixel) __builtin_prefetch(pixel + c, !std::is_const_v<T>, 2);
    }
  }
}

}  // namespace
}  // namespace lockstep::KERNELS
