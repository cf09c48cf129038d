// Fast convolution by Winograd's algorithm on plain N, H, W, C activations. The transforms use fp32
// arithmetic. The products between them have factors of type F, fp32 or bf16. Sources:
// src/device/cpu/cook_toom.h. Part of src/device/cpu/kernels_body.h.
//
// With filters of R x R, a tile of M x M outputs costs T x T products per pair of channels, T = M +
// R - 1, instead of M R x M R: 64 instead of 400 for F(4x4,5x5), 36 instead of 144 for F(4x4,3x3).
// If M does not divide the size of the images, tiles at their ends have fewer outputs and points:
// 7 x 7 outputs of F(4x4,3x3) cost 121 products and not 144.
//
//   forward          y  = A^T [ sum over c of (G w G^T) * (B^T x B) ] A
//   backward data    the same with x = dy, rotated filters, and in and out exchanged
//   backward weights dw = G^T [ sum over tiles of (A dy A^T) * (B^T x B) ] G
//
// Each pass has three steps. Both factors are transformed, two matrices are multiplied for each of
// the T x T points, and the products are transformed back. Tiles are processed in blocks whose
// transforms fit the second-level cache, in the order of a Tiling, so that the tiles of a block
// that need a point are one range. All matrices are cut into columns of kBlock channels,
// [point][channel block][row][kBlock], as src/device/cpu/products_body.h multiplies them. Threads
// share tiles, points or channels, never a sum, so no bit depends on their number.
namespace lockstep::KERNELS {
namespace {

template <int M, int R, class F>
class Winograd : public AffinePlan {
 public:
  static constexpr int kOut = M;
  static constexpr std::size_t kEdge = kOut + R - 1;
  static constexpr std::int64_t kPoints = kEdge * kEdge;
  using Data = DataMatrix<M, R>;
  using Output = OutputMatrix<M, R>;
  using Filter = FilterMatrix<M, R>;
  static_assert(kRows % kPerWord<F> == 0 && kBlock % kPerWord<F> == 0, "blocks are whole words");

  explicit Winograd(const ConvolutionSpec& spec)
      : spec_(spec), in_(spec.input.x), out_(spec.output()) {}

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    run(stream, x, w, b.as<float>(), y, scratch, false);
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    run(stream, dy, w, nullptr, dx, scratch, true);
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    dispatch_vectors(x.type, [&]<class T>(T*) {
      stream.enqueue([=, this, threads = stream.threads()] {
        weights_gradient(threads, x.as<T>(), dy.as<T>(), dw.as<float>(), db.as<float>(),
                         static_cast<std::byte*>(scratch));
      });
    });
  }

  std::size_t scratch_bytes() const override {
    const Room forward(*this, in_[3], out_[3], false), backward(*this, out_[3], in_[3], false),
        weights(*this, in_[3], out_[3], true);
    return static_cast<std::size_t>(std::max({forward.total, backward.total, weights.total}));
  }
  std::string implementation() const override {
    return fmt::format("Winograd F({0}x{0},{1}x{1}){2}", M, R,
                       kPerWord<F> > 1 ? ", products of bf16" : "");
  }

 private:
  /// The layout of scratch, in bytes, for a pass from `in` channels to `out`. The factors are
  /// filters, which are first, and tiles. In a weights gradient both are tiles, and the sums are
  /// first.
  struct Room {
    std::int64_t tiles;  ///< of a block
    /// Elements from point to point.
    std::int64_t filter_point, in_point, out_point;
    std::int64_t in_tiles = 0, out_tiles = 0, zeros = 0, bias = 0, total = 0;

    Room(const Winograd& plan, std::int64_t in, std::int64_t out, bool weights) {
      constexpr std::int64_t kFactor = sizeof(F), kSum = sizeof(float);
      const std::int64_t of_filter = weights ? kSum : kFactor, of_out = weights ? kFactor : kSum;
      // The transforms of a block fill three quarters of a megabyte of second-level cache. Filters
      // or sums, which all blocks share, may not fit beside them. Then a block must be larger to
      // pay for loading them: as large as the sums of a weights gradient, which are read and
      // written, or an eighth of the filters, which are prefetched.
      constexpr std::int64_t kCached = 768 << 10;
      const std::int64_t fitting =
          kCached / (kPoints * (blocks(in) * kFactor + blocks(out) * of_out) * kBlock);
      const std::int64_t shared = kPoints * in * out * of_filter, even = in * out / (in + out);
      const std::int64_t worth = weights ? (shared > kCached ? even * kSum / kFactor : 0)
                                         : (shared > 2 * kCached ? even / 4 : 0);
      tiles = std::clamp<std::int64_t>(std::max(fitting, worth) / kRows * kRows, kRows, 32 * kRows);
      // Odd numbers of cache lines, so that the points of a tile use different sets of the cache.
      const auto odd = [](std::int64_t count, std::int64_t size) {
        const std::int64_t line = kLine / size;
        return count / line % 2 ? count : count + line;
      };
      filter_point = odd(blocks(weights ? in : out) * (weights ? out : in) * kBlock, of_filter);
      in_point = odd(blocks(in) * tiles * kBlock, kFactor);
      out_point = odd(blocks(out) * tiles * kBlock, of_out);
      in_tiles = kPoints * filter_point * of_filter;
      out_tiles = in_tiles + kPoints * in_point * kFactor;
      zeros = out_tiles + kPoints * out_point * of_out;
      bias = zeros + std::max(in, out) * kSum + kLine;
      total = bias + (weights ? plan.in_[0] * out * kSum : 0);
    }
  };

  /// Zeros that replace pixels outside of an image.
  template <class T>
  static const T* make_zeros(std::byte* scratch, const Room& room) {
    std::fill(scratch + room.zeros, scratch + room.bias, std::byte{});
    return reinterpret_cast<const T*>(scratch + room.zeros);
  }

  void run(Stream& stream, View from, View w, const float* bias, View to, void* scratch,
           bool backward) {
    dispatch_vectors(from.type, [&]<class T>(T*) {
      stream.enqueue([=, this, threads = stream.threads()] {
        convolve(threads, from.as<T>(), w.as<float>(), bias, to.as<T>(),
                 static_cast<std::byte*>(scratch), backward);
      });
    });
  }

  /// Stores the points that each(0, write) passes to write(y, x, value) in a row. If `Count`
  /// numbers share a word, each(1, write) passes the second ones. Unless both pass `all` points,
  /// those that one of them does not pass become 0 there.
  template <std::int64_t Count, class Each>
  [[gnu::always_inline]] static void store_words(F* row, std::int64_t point, bool all, Each each) {
    const auto place = [=](std::size_t y, std::size_t x) {
      return row + static_cast<std::int64_t>(y * kEdge + x) * point;
    };
    if constexpr (Count == 1) {
      each(0,
           [=](std::size_t y, std::size_t x, Vector value) { store_factors(place(y, x), value); });
    } else {
      Vector both[Count][kEdge][kEdge];
      if (!all) std::memset(both, 0, sizeof both);
      for (std::int64_t which = 0; which < Count; ++which)
        each(which, [&](std::size_t y, std::size_t x, Vector value) { both[which][y][x] = value; });
      for (std::size_t y = 0; y < kEdge; ++y) {
        for (std::size_t x = 0; x < kEdge; ++x) {
          const Words words = pair_up(both[0][y][x], both[1][y][x]);
          std::memcpy(static_cast<void*>(place(y, x)), &words, sizeof words);
        }
      }
    }
  }

  /// Writes G w G^T for w [filter][R][R][channel] as [point][block of out][words of in][kBlock].
  void transform_filters(int threads, const float* w, F* to, std::int64_t point,
                         bool backward) const {
    const std::int64_t channels = in_[3], filters = out_[3], size = R * R * channels;
    const std::int64_t in = backward ? filters : channels, out = backward ? channels : filters;
    const auto transform_group = [=](std::int64_t o) {
      F* const column = to + o / kBlock * in * kBlock + o % kBlock * kPerWord<F>;
      for (std::int64_t i = 0; i < in; i += kPerWord<F>) {
        const auto each = [=](std::int64_t which, auto write) {
          transform<Filter>(
              {1, 1},
              [=](std::size_t y, std::size_t x) {
                if (backward) {  // rotated; registers of channels are contiguous
                  return load(w + (i + which) * size +
                              static_cast<std::int64_t>((R - 1 - y) * R + (R - 1 - x)) * channels +
                              o);
                }
                Vector value;
                const float* first =
                    w + o * size + static_cast<std::int64_t>(y * R + x) * channels + i + which;
                for (int lane = 0; lane < kLanes; ++lane) value[lane] = first[lane * size];
                return value;
              },
              write);
        };
        store_words<kPerWord<F>>(column + i * kBlock, point, /*all=*/true, each);
      }
    };
    const std::int64_t groups = out / kLanes;
    parallel_for(threads, groups, 1, [=](std::int64_t begin, std::int64_t end) {
      // The last two registers may contain the same channels, so one thread computes both.
      const std::int64_t first = begin * kLanes, last = end == groups ? out : end * kLanes;
      each_register(last - first, [&](std::int64_t o) { transform_group(first + o); });
    });
  }

  /// The tiles of `outputs` in images of `shape`.
  template <class T>
  static Tiles<T> tiles_of(T* pixels, const Shape& shape, const Shape& outputs,
                           std::int64_t origin) {
    return {pixels, shape[1], shape[2], shape[3], origin, Tiling(outputs, kOut)};
  }

  /// Threads share the points and call f(point, begin, end). Of the `count` tiles from `first` on,
  /// begin .. end - 1 need the point. The points are taken by diagonals: those of the last lines
  /// and columns have fewer tiles, so each thread gets its share of them.
  template <class Call>
  static void each_point(int threads, const Tiling& tiling, std::int64_t first, std::int64_t count,
                         Call f) {
    constexpr std::int64_t kEach = kEdge;
    parallel_for(threads, kPoints, 1, [&](std::int64_t part, std::int64_t last) {
      for (std::int64_t i = part; i < last; ++i) {
        const std::int64_t p = i * (kEach + 1) % kPoints;
        const auto [begin, end] = tiling.range(p / kEach < tiling.rest.height + R - 1,
                                               p % kEach < tiling.rest.width + R - 1);
        f(p, std::clamp<std::int64_t>(begin - first, 0, count),
          std::clamp<std::int64_t>(end - first, 0, count));
      }
    });
  }

  /// Writes the transforms of tiles `first` + `begin` .. `first` + `end` - 1 as [point][channel
  /// block][tile][kBlock], or as [..][word][kBlock] if a word contains `Count` tiles. Then `begin`
  /// is the first tile of a word, and tiles from `end` on are 0. L: Data or Transpose<Output>.
  template <class L, std::int64_t Count, class T>
  static void transform_tiles(const Tiles<const T>& images, std::int64_t first, std::int64_t begin,
                              std::int64_t end, std::int64_t capacity, const T* zeros, F* to,
                              std::int64_t point) {
    struct Tile {
      TileSize size;
      std::array<std::array<const T*, L::from(M)>, L::from(M)> at;
      bool whole() const { return size.height == M && size.width == M; }
    };
    std::array<Tile, Count> now, next;
    const auto locate = [&](std::int64_t t) {
      for (std::int64_t which = 0; which < Count; ++which) {
        Tile& tile = next[which];
        if (t + which < end) {
          tile.size = images.locate(first + t + which, zeros, tile.at);
        } else {
          tile.size = {M, M};
          for (auto& line : tile.at) line.fill(zeros);
        }
      }
    };
    locate(begin);
    for (std::int64_t t = begin; t < end; t += Count) {
      now = next;
      const bool whole = std::ranges::all_of(now, &Tile::whole);
      locate(t + Count);
      each_register(images.channels, [&](std::int64_t c) {
        for (const Tile& tile : next) fetch(tile.at, c);
        F* const row = to + (c / kBlock * capacity + t) * kBlock + c % kBlock * Count;
        store_words<Count>(row, point, whole, [&](std::int64_t which, auto write) {
          transform<L>(
              now[which].size,
              [&](std::size_t y, std::size_t x) {
                const T* const pixel = now[which].at[y][x];
                return load(pixel + (pixel == zeros ? 0 : c));
              },
              write);
        });
      });
    }
  }

  template <class T>
  void convolve(int threads, const T* from, const float* w, const float* bias, T* to,
                std::byte* scratch, bool backward) const {
    const Shape &source = backward ? out_ : in_, &result = backward ? in_ : out_;
    const std::int64_t in = source[3], out = result[3];
    const Room room(*this, in, out, false);
    F* const filters = reinterpret_cast<F*>(scratch);
    const T* const zeros = make_zeros<T>(scratch, room);
    transform_filters(threads, w, filters, room.filter_point, backward);
    const std::int64_t pad = backward ? R - 1 - spec_.pad : spec_.pad;
    const Tiles<const T> sources = tiles_of(from, source, result, -pad);
    const Tiles<T> results = tiles_of(to, result, result, 0);
    const std::int64_t tiles = results.tiling.count();
    F* const data = reinterpret_cast<F*>(scratch + room.in_tiles);
    float* const sums = reinterpret_cast<float*>(scratch + room.out_tiles);
    for (std::int64_t first = 0; first < tiles; first += room.tiles) {
      const std::int64_t count = std::min(room.tiles, tiles - first);
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        transform_tiles<Data, 1>(sources, first, begin, end, room.tiles, zeros, data,
                                 room.in_point);
      });
      each_point(threads, results.tiling, first, count, [&](auto p, auto from_tile, auto to_tile) {
        for (std::int64_t o = 0; o < blocks(out); ++o) {
          for (std::int64_t c = 0; c < blocks(in); ++c) {
            multiply<false>(to_tile - from_tile, width_of(o, out), width_of(c, in) / kPerWord<F>,
                            data + p * room.in_point + (c * room.tiles + from_tile) * kBlock,
                            filters + p * room.filter_point + (o * in + c * kBlock) * kBlock,
                            sums + p * room.out_point + (o * room.tiles + from_tile) * kBlock,
                            c > 0);
          }
        }
      });
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        const bool relu = spec_.relu && !backward;
        std::array<std::array<T*, kOut>, kOut> at, next;
        TileSize size, next_size = results.template locate<kOut>(first + begin, nullptr, next);
        for (std::int64_t t = begin; t < end; ++t) {
          at = next;
          size = next_size;
          if (t + 1 < end) next_size = results.template locate<kOut>(first + t + 1, nullptr, next);
          each_register(out, [&](std::int64_t o) {
            fetch(next, o);
            const float* const column = sums + (o / kBlock * room.tiles + t) * kBlock + o % kBlock;
            const Vector shift = bias ? load(bias + o) : Vector{};
            transform<Output>(
                size,
                [&](std::size_t y, std::size_t x) {
                  return load(column + static_cast<std::int64_t>(y * kEdge + x) * room.out_point);
                },
                [&](std::size_t y, std::size_t x, Vector value) {
                  value += shift;
                  if (relu) value = value < 0 ? Vector{} : value;  // NaN stays
                  store(at[y][x] + o, value);
                });
          });
        }
      });
    }
  }

  template <class T>
  void weights_gradient(int threads, const T* x, const T* dy, float* dw, float* db,
                        std::byte* scratch) const {
    const std::int64_t channels = in_[3], filters = out_[3];
    const Room room(*this, channels, filters, true);
    float* const sums = reinterpret_cast<float*>(scratch);
    F* const data = reinterpret_cast<F*>(scratch + room.in_tiles);
    F* const gradients = reinterpret_cast<F*>(scratch + room.out_tiles);
    const T* const zeros = make_zeros<T>(scratch, room);
    const Tiles<const T> sources = tiles_of(x, in_, out_, -spec_.pad);
    const Tiles<const T> results = tiles_of(dy, out_, out_, 0);
    const std::int64_t tiles = results.tiling.count();
    for (std::int64_t first = 0; first < tiles; first += room.tiles) {
      const std::int64_t count = std::min(room.tiles, tiles - first);
      const std::int64_t words = ceil_div(count, kPerWord<F>);
      parallel_for(threads, words, 1, [&](std::int64_t part, std::int64_t last) {
        const std::int64_t begin = part * kPerWord<F>, end = std::min(last * kPerWord<F>, count);
        transform_tiles<Data, kPerWord<F>>(sources, first, begin, end, room.tiles, zeros, data,
                                           room.in_point);
        transform_tiles<Transpose<Output>, kPerWord<F>>(results, first, begin, end, room.tiles,
                                                        zeros, gradients, room.out_point);
      });
      // sums: [point][block of channels][filter][kBlock]
      each_point(threads, results.tiling, first, count, [&](auto p, auto from_tile, auto to_tile) {
        const std::int64_t from_word = from_tile / kPerWord<F>,
                           to_word = ceil_div(to_tile, kPerWord<F>), at = from_word * kPerWord<F>;
        if (first > 0 && from_tile == to_tile) return;
        for (std::int64_t c = 0; c < blocks(channels); ++c) {
          for (std::int64_t o = 0; o < blocks(filters); ++o) {
            multiply<true>(width_of(o, filters), width_of(c, channels), to_word - from_word,
                           gradients + p * room.out_point + (o * room.tiles + at) * kBlock,
                           data + p * room.in_point + (c * room.tiles + at) * kBlock,
                           sums + p * room.filter_point + (c * filters + o * kBlock) * kBlock,
                           first > 0);
          }
        }
      });
    }
    parallel_for(threads, filters, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        each_register(channels, [&](std::int64_t c) {
          const float* const column = sums + (c / kBlock * filters + o) * kBlock + c % kBlock;
          float* const to = dw + o * R * R * channels + c;
          transform<Transpose<Filter>>(
              {1, 1},
              [&](std::size_t i, std::size_t j) {
                return load(column + static_cast<std::int64_t>(i * kEdge + j) * room.filter_point);
              },
              [&](std::size_t i, std::size_t j, Vector value) {
                store(to + static_cast<std::int64_t>(i * R + j) * channels, value);
              });
        });
      }
    });
    if (db == nullptr) return;
    bias_gradient(threads, dy, out_, db, reinterpret_cast<float*>(scratch + room.bias));
  }

  ConvolutionSpec spec_;
  Shape in_, out_;
};

bool winograd_serves(const ConvolutionSpec& spec) {
  return spec.stride == 1 && spec.dilation == 1 && spec.groups == 1 && !spec.one_dimensional &&
         (spec.kernel == 3 || spec.kernel == 5) && spec.pad < spec.kernel &&
         in_registers(spec.input.x[3]) && in_registers(spec.filters);
}

/// Whether factors may be rounded to bf16. With 3x3 filters the error of results is then 0.4 %
/// (tiles of 2x2) and 1.1 % (4x4), while rounding them to bf16 causes 0.2 %. With 5x5 filters it
/// would be 1.1 % and 3.8 %.
[[maybe_unused]] bool bf16_factors_serve(const ConvolutionSpec& spec) {
  return spec.input.type == Type::bf16 && spec.kernel == 3 && spec.input.x[3] % 2 == 0 &&
         spec.filters % 2 == 0;
}

template <int M>
std::unique_ptr<AffinePlan> make_winograd(const ConvolutionSpec& spec) {
  if (!winograd_serves(spec)) return nullptr;
  if constexpr (kBf16Products) {
    if (bf16_factors_serve(spec)) return std::make_unique<Winograd<M, 3, Bfloat16>>(spec);
  }
  if (spec.kernel == 3) return std::make_unique<Winograd<M, 3, float>>(spec);
  return std::make_unique<Winograd<M, 5, float>>(spec);
}

}  // namespace
}  // namespace lockstep::KERNELS
