// Products of matrices in fp32 with the same bits on every processor. Part of
// src/device/cpu/kernels_body.h.
//
// The canonical order of a sum over k of a[k] * b[k]:
//
//   chain i = fma(a[k], b[k], ...), from zero, over k = 256 i .. 256 i + 255, in ascending order
//   sum     = chain 0 + chain 1 + chain 2 + ..., from left to right
//
// Each step rounds once. The order depends neither on the width of registers nor on tiles, blocks
// or threads: these only share the sums among them. tests/unit/portable_kernels.cc defines it again
// with std::fma.
//
// A tile of kRows x 2 registers of sums stays in registers while k changes. Each number of the left
// factor is broadcast to a register. The right factor is packed into panels of two registers of
// columns, [panel][k][kPanel]. Both factors may come from any matrix (Source), and a chain is the
// same with its factors exchanged.
namespace lockstep::KERNELS {
namespace {

constexpr std::int64_t kChain = 256;
constexpr int kPanelRegisters = 2;
constexpr std::int64_t kPanel = kPanelRegisters * kLanes;
/// Floats from row to row of a packed left factor. An odd number of cache lines.
constexpr std::int64_t kPitch = kChain + 16;
constexpr int kLineFloats = 16;  ///< of a cache line
/// Rows whose left factor one thread packs at a time: 120 KB of second-level cache.
constexpr std::int64_t kGroupRows = 112 / kRows * kRows;

/// One tile of sums over a part of a chain's numbers.
struct Tile {
  const float* left;          ///< step d multiplies left[steps[d] + row * row_step]
  std::int64_t row_step;      ///< floats
  const std::int32_t* steps;  ///< `depth` of them, at most kChain
  const float* right;         ///< by right[d * right_pitch + column]
  std::int64_t right_pitch;
  /// Not 0: the numbers so far behind are read next. They are not in the cache yet.
  std::int64_t ahead;
  std::int64_t depth;
  float* const* to;      ///< the rows of the result
  std::int64_t column;   ///< the first one in these rows
  std::int64_t columns;  ///< the number to store
  bool add;              ///< the chain is not the first one of its sum
  /// The chain is the last one: add these to the columns, unless null, then apply ReLU.
  const float* biases;
  bool relu;
};

/// Stores or adds the first tile.columns of `width` sums of each row.
[[gnu::noinline]] inline void store_cut(const Tile& tile, std::int64_t rows, const float* sums,
                                        std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, sums += width) {
    float* const to = tile.to[r] + tile.column;
    for (std::int64_t i = 0; i < tile.columns; ++i) {
      float value = tile.add ? to[i] + sums[i] : sums[i];
      if (tile.biases != nullptr) value += tile.biases[i];
      to[i] = tile.relu && value < 0 ? 0 : value;  // NaN stays
    }
  }
}

template <int Rows, int Registers, bool Ahead>
[[gnu::noinline]] void chain_tile(const Tile& tile) {
  const float* const __restrict left = tile.left;
  const float* __restrict right = tile.right;
  const std::int32_t* const steps = tile.steps;
  const std::int64_t pitch = tile.right_pitch, depth = tile.depth, ahead = tile.ahead;
  // Addresses of a base and 1, 2, 3 or 4 steps need two registers for the steps.
  const std::int64_t step = tile.row_step * static_cast<std::int64_t>(sizeof(float)),
                     three = 3 * step;
  Vector sums[Rows][Registers];
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Registers; ++v) sums[r][v] = Vector{};
  for (int r = 0; r < Rows; ++r) {
    const float* const to = tile.to[r] + tile.column;
    for (int v = 0; v < Registers; ++v) __builtin_prefetch(to + v * kLanes, 1);
  }
  for (std::int64_t d = 0; d < depth; ++d) {
    Vector columns[Registers];
#pragma GCC unroll 8
    for (int v = 0; v < Registers; ++v) columns[v] = load(right + v * kLanes);
    if (Ahead) {
      for (int i = 0; i < Registers * kLanes; i += kLineFloats)
        __builtin_prefetch(right + ahead + i, 0, 2);
    }
    right += pitch;
    const char* from = reinterpret_cast<const char*>(left + steps[d]);
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r) {
      if (r > 0 && r % 5 == 0) from += step + 4 * step;
      const char* const place = from + (r % 5 == 3 ? three : r % 5 * step);
      const Vector factor = broadcast(word_at<float>(place));
#pragma GCC unroll 8
      for (int v = 0; v < Registers; ++v) sums[r][v] = fma(factor, columns[v], sums[r][v]);
    }
  }
  if (tile.columns < Registers * kLanes) {
    float cut[Rows][Registers * kLanes];
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < Registers; ++v) store(cut[r] + v * kLanes, sums[r][v]);
    return store_cut(tile, Rows, cut[0], Registers * kLanes);
  }
  Vector biases[Registers];
  for (int v = 0; v < Registers; ++v)
    biases[v] = tile.biases == nullptr ? Vector{} : load(tile.biases + v * kLanes);
#pragma GCC unroll 32
  for (int r = 0; r < Rows; ++r) {
    float* const to = tile.to[r] + tile.column;
#pragma GCC unroll 8
    for (int v = 0; v < Registers; ++v) {
      Vector value = sums[r][v];
      if (tile.add) value = load(to + v * kLanes) + value;
      if (tile.biases != nullptr) value += biases[v];
      if (tile.relu) value = value < 0 ? Vector{} : value;  // NaN stays
      store(to + v * kLanes, value);
    }
  }
}

/// chain_tile() for 1 .. sizeof...(R) rows.
template <int Registers, bool Ahead, int... R>
constexpr auto tile_functions(std::integer_sequence<int, R...>) {
  return std::array<void (*)(const Tile&), sizeof...(R)>{chain_tile<R + 1, Registers, Ahead>...};
}

/// The highest tile of so many columns.
constexpr std::int64_t tile_height(std::int64_t columns) {
  return columns > kLanes ? kRows : 2 * kRows;
}

/// `rows` is 1 .. tile_height(tile.columns); tile.columns is 1 .. kPanel.
inline void add_tile(std::int64_t rows, const Tile& tile) {
  constexpr auto kOnce = std::make_integer_sequence<int, kRows>();
  constexpr auto kTwice = std::make_integer_sequence<int, 2 * kRows>();
  static constexpr auto kNarrow = tile_functions<1, false>(kTwice);
  static constexpr auto kWide = tile_functions<2, false>(kOnce);
  static constexpr auto kWideAhead = tile_functions<2, true>(kOnce);
  const auto row = static_cast<std::size_t>(rows - 1);
  if (tile.columns <= kLanes) return kNarrow[row](tile);
  (tile.ahead == 0 ? kWide[row] : kWideAhead[row])(tile);
}

/// Calls f(tile, first row, rows) for tiles of nearly equal height.
template <class F>
void each_tile(std::int64_t rows, std::int64_t height, F f) {
  const std::int64_t tiles = ceil_div(rows, height);
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t begin = rows * i / tiles;
    f(i, begin, rows * (i + 1) / tiles - begin);
  }
}

/// Copies `count` floats and no more. The ranges do not overlap.
[[gnu::always_inline]] inline void copy_floats(const float* from, std::int64_t count, float* to) {
  if (count >= kLanes) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
    if (i < count) store(to + count - kLanes, load(from + count - kLanes));
    return;
  }
  if (count >= 8) {
    std::memcpy(to, from, 8 * sizeof(float));
    std::memcpy(to + count - 8, from + count - 8, 8 * sizeof(float));
  } else if (count >= 4) {
    std::memcpy(to, from, 4 * sizeof(float));
    std::memcpy(to + count - 4, from + count - 4, 4 * sizeof(float));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

/// The rows of a matrix in memory.
struct InMemory {
  const float* data;   ///< null: they have no constant distance
  std::int64_t pitch;  ///< floats from row to row
};

/// A matrix, or `items` of equal shape, of which a product reads any part.
class Source {
 public:
  virtual ~Source() = default;
  /// Writes `rows` x `columns` numbers, from (row, column) on, to `to` with `pitch` floats from row
  /// to row. It writes nothing between the rows.
  virtual void copy(std::int64_t item, std::int64_t row, std::int64_t rows, std::int64_t column,
                    std::int64_t columns, float* to, std::int64_t pitch) const = 0;
  virtual InMemory in_memory(std::int64_t item) const {
    static_cast<void>(item);
    return {nullptr, 0};
  }
};

/// The rows of a result.
class Target {
 public:
  virtual ~Target() = default;
  /// The addresses of rows `first` .. `first` + `count` - 1.
  virtual void locate(std::int64_t item, std::int64_t first, std::int64_t count,
                      float** rows) const = 0;
};

/// Matrices in memory.
struct Matrix {
  std::int64_t pitch;  ///< floats from row to row
  std::int64_t item;   ///< floats from matrix to matrix
};

class MatrixSource final : public Source {
 public:
  MatrixSource(const float* data, Matrix matrix) : data_(data), matrix_(matrix) {}
  void copy(std::int64_t item, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns, float* to, std::int64_t pitch) const override {
    const float* from = data_ + item * matrix_.item + row * matrix_.pitch + column;
    for (std::int64_t r = 0; r < rows; ++r)
      copy_floats(from + r * matrix_.pitch, columns, to + r * pitch);
  }
  InMemory in_memory(std::int64_t item) const override {
    return {data_ + item * matrix_.item, matrix_.pitch};
  }

 private:
  const float* data_;
  Matrix matrix_;
};

class MatrixTarget final : public Target {
 public:
  MatrixTarget(float* data, Matrix matrix) : data_(data), matrix_(matrix) {}
  void locate(std::int64_t item, std::int64_t first, std::int64_t count,
              float** rows) const override {
    float* const begin = data_ + item * matrix_.item + first * matrix_.pitch;
    for (std::int64_t r = 0; r < count; ++r) rows[r] = begin + r * matrix_.pitch;
  }

 private:
  float* data_;
  Matrix matrix_;
};

using Four = float __attribute__((vector_size(16)));

/// Writes the transpose of 4 x 4 floats.
[[gnu::always_inline]] inline void transpose_four(const float* from, std::int64_t from_pitch,
                                                  float* to, std::int64_t to_pitch) {
  Four a, b, c, d;
  std::memcpy(&a, from, sizeof a);
  std::memcpy(&b, from + from_pitch, sizeof b);
  std::memcpy(&c, from + 2 * from_pitch, sizeof c);
  std::memcpy(&d, from + 3 * from_pitch, sizeof d);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
             ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
             cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
             cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four columns[] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                          __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                          __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                          __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_pitch, &columns[i], sizeof(Four));
}

/// to [columns][rows] = the transpose of from [rows][columns].
inline void transpose(const float* from, std::int64_t rows, std::int64_t columns,
                      std::int64_t from_pitch, float* to, std::int64_t to_pitch) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* const line = from + r * from_pitch;
    std::int64_t c = 0;
    for (; c + 4 <= columns; c += 4)
      transpose_four(line + c, from_pitch, to + c * to_pitch + r, to_pitch);
    for (; c < columns; ++c)
      for (int i = 0; i < 4; ++i) to[c * to_pitch + r + i] = line[i * from_pitch + c];
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) to[c * to_pitch + r] = from[r * from_pitch + c];
}

/// Writes one chain of one panel, [k][kPanel]. Columns behind the last one are 0. `transposed`: the
/// rows of `right` are the panel's columns.
inline void pack_panel(const Source& right, bool transposed, std::int64_t item, std::int64_t k,
                       std::int64_t depth, std::int64_t column, std::int64_t columns, float* to) {
  if (columns < kPanel) std::fill_n(to, depth * kPanel, 0.0f);
  if (!transposed) {
    right.copy(item, k, depth, column, columns, to, kPanel);
    return;
  }
  float rows[kPanel * kPitch];
  right.copy(item, column, columns, k, depth, rows, kPitch);
  transpose(rows, columns, depth, kPitch, to, kPanel);
}

}  // namespace
}  // namespace lockstep::KERNELS
