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

// GCC does not see that transform() fills what it reads.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

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

/// The matrices of transform() for tiles of at most M x M outputs: B^T, A^T, and G.
template <int M, int R>
struct DataMatrix {
  static constexpr int kMost = M;
  static constexpr bool kTransposed = false;
  template <int Outputs>
  static constexpr auto matrix = cook_toom<Outputs, R, M>().data;
  static constexpr std::size_t to(int outputs) { return outputs + R - 1; }
  static constexpr std::size_t from(int outputs) { return outputs + R - 1; }
};
template <int M, int R>
struct OutputMatrix {
  static constexpr int kMost = M;
  static constexpr bool kTransposed = false;
  template <int Outputs>
  static constexpr auto matrix = cook_toom<Outputs, R, M>().output;
  static constexpr std::size_t to(int outputs) { return outputs; }
  static constexpr std::size_t from(int outputs) { return outputs + R - 1; }
};
/// G does not depend on the size of a tile.
template <int M, int R>
struct FilterMatrix {
  static constexpr int kMost = 1;
  static constexpr bool kTransposed = false;
  template <int>
  static constexpr auto matrix = cook_toom<M, R>().filter;
  static constexpr std::size_t to(int) { return M + R - 1; }
  static constexpr std::size_t from(int) { return R; }
};
template <class L>
struct Transpose {
  static constexpr int kMost = L::kMost;
  static constexpr bool kTransposed = true;
  template <int Outputs>
  static constexpr auto matrix = L::template matrix<Outputs>;
  static constexpr std::size_t to(int outputs) { return L::from(outputs); }
  static constexpr std::size_t from(int outputs) { return L::to(outputs); }
};

/// Calls f(std::integral_constant<int, count>()). `count` is 1 to Most.
template <int Most, class F>
[[gnu::always_inline]] inline void with_constant(int count, F f) {
  if constexpr (Most > 1) {
    if (count < Most) return with_constant<Most - 1>(count, f);
  }
  f(std::integral_constant<int, Most>());
}

/// The outputs of a tile.
struct TileSize {
  int height, width;
};

/// out = L in L^T for a register of channels at once. The left factor is L::matrix<height of the
/// tile> and the right one L::matrix<width>, or their transposes. L::to() is the number of their
/// rows, L::from() that of their columns. read(i, j) returns an element of in, write(i, j, value)
/// receives one of out.
template <class L, class Read, class Write>
[[gnu::always_inline]] inline void transform(TileSize tile, Read read, Write write) {
  constexpr int kMost = L::kMost;
  Vector half[L::to(kMost)][L::from(kMost)];
  with_constant<kMost>(tile.height, [&](auto outputs) {
    constexpr std::size_t kTo = L::to(outputs), kFrom = L::from(outputs);
    for (std::size_t j = 0; j < L::from(tile.width); ++j) {
      Vector in[kFrom], out[kTo];
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kFrom; ++i) in[i] = read(i, j);
      product<L::template matrix<outputs>, L::kTransposed, kFrom>(in, out,
                                                                  std::make_index_sequence<kTo>());
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kTo; ++i) half[i][j] = out[i];
    }
  });
  with_constant<kMost>(tile.width, [&](auto outputs) {
    constexpr std::size_t kTo = L::to(outputs), kFrom = L::from(outputs);
    for (std::size_t i = 0; i < L::to(tile.height); ++i) {
      Vector out[kTo];
      product<L::template matrix<outputs>, L::kTransposed, kFrom>(half[i], out,
                                                                  std::make_index_sequence<kTo>());
#pragma GCC unroll 8
      for (std::size_t j = 0; j < kTo; ++j) write(i, j, out[j]);
    }
  });
}
#pragma GCC diagnostic pop

/// The tiles of a batch in four groups: tiles of the last line with fewer rows, whole tiles, tiles
/// of the last column with fewer columns, and corners with fewer of both. In this order, the tiles
/// that need a point are one range.
struct Tiling {
  std::int64_t rows, columns;          ///< of whole tiles, per image
  int edge;                            ///< outputs of a whole tile, in both directions
  TileSize rest;                       ///< outputs of tiles with fewer; 0: there are none
  std::array<std::int64_t, 5> begins;  ///< of the groups; then the end

  Tiling(const Shape& outputs, int edge)
      : rows(outputs[1] / edge),
        columns(outputs[2] / edge),
        edge(edge),
        rest{static_cast<int>(outputs[1] % edge), static_cast<int>(outputs[2] % edge)},
        begins{} {
    const std::int64_t bottom = rest.height > 0, right = rest.width > 0,
                       counts[] = {bottom * columns, rows * columns, rows * right, bottom * right};
    for (std::size_t group = 0; group < 4; ++group)
      begins[group + 1] = begins[group] + outputs[0] * counts[group];
  }
  std::int64_t count() const { return begins[4]; }

  /// The range of tiles that need a point. `bottom`: tiles with fewer rows need it. `right`: tiles
  /// with fewer columns need it.
  std::pair<std::int64_t, std::int64_t> range(bool bottom, bool right) const {
    return {begins[bottom ? 0 : 1], begins[right ? (bottom ? 4 : 3) : 2]};
  }

  struct Place {
    std::int64_t image, y, x;  ///< of its first output
    TileSize size;
  };
  Place place(std::int64_t tile) const {
    const bool bottom = tile < begins[1] || tile >= begins[3], right = tile >= begins[2];
    const std::int64_t lines = bottom ? 1 : rows, in_line = right ? 1 : columns;  // of the group
    const std::int64_t number = tile - begins[right ? (bottom ? 3 : 2) : (bottom ? 0 : 1)];
    return {number / (lines * in_line),
            (bottom ? rows : number / in_line % lines) * edge,
            (right ? columns : number % in_line) * edge,
            {bottom ? rest.height : edge, right ? rest.width : edge}};
  }
};

/// The pixels of images that the tiles of a Tiling read or write.
template <class T>
struct Tiles {
  T* pixels;
  std::int64_t height, width, channels;
  std::int64_t origin;  ///< pixel in both directions at which the tile of output 0 begins
  Tiling tiling;

  /// Pointers to the pixels of tile number `tile`; `outside` for pixels outside of the image.
  template <std::size_t Extent>
  TileSize locate(std::int64_t tile, T* outside,
                  std::array<std::array<T*, Extent>, Extent>& at) const {
    const Tiling::Place place = tiling.place(tile);
    for (std::size_t i = 0; i < Extent; ++i) {
      const std::int64_t y = place.y + origin + static_cast<std::int64_t>(i);
      for (std::size_t j = 0; j < Extent; ++j) {
        const std::int64_t x = place.x + origin + static_cast<std::int64_t>(j);
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        at[i][j] = inside ? pixels + ((place.image * height + y) * width + x) * channels : outside;
      }
    }
    return place.size;
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
