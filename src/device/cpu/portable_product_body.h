// The loops around the tiles of src/device/cpu/gemm_body.h, and products of matrices. Part of
// src/device/cpu/kernels_body.h.
namespace lockstep::KERNELS {
namespace {

/// A left factor that tiles read from a tensor, without a copy.
struct InPlace {
  /// The rows of one tile: row r, step k is at offset + r * row_step + steps[k].
  struct Piece {
    std::int64_t offset, first, count;
  };
  std::vector<Piece> pieces;  ///< in the order of the rows
  /// The first piece of each group of rows that one thread multiplies.
  std::vector<std::size_t> groups;
  std::int64_t row_step = 0;
  std::int64_t height = kRows;  ///< of a tile, at most
  std::vector<std::int32_t> steps;
  /// Not 0: `steps` has only one chain, and this is the distance of two chains.
  std::int64_t chain_step = 0;

  /// Adds rows `first` .. `first` + `count` - 1. `group`: they may not share a group with others.
  void add(std::int64_t offset, std::int64_t first, std::int64_t count, bool group) {
    const std::int64_t parts = ceil_div(count, kGroupRows);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t begin = count * part / parts, rows = count * (part + 1) / parts - begin;
      if (group || groups.empty() ||
          first + begin + rows - pieces[groups.back()].first > kGroupRows)
        groups.push_back(pieces.size());
      each_tile(rows, height, [&](std::int64_t, std::int64_t row, std::int64_t tile_rows) {
        pieces.push_back({offset + (begin + row) * row_step, first + begin + row, tile_rows});
      });
    }
  }
  std::int64_t first_row(std::size_t group) const { return pieces[groups[group]].first; }
};

/// to = left * right for `items` pairs of matrices: rows x depth by depth x columns. A transposed
/// factor comes from a source with exchanged extents.
struct Product {
  std::int64_t items, rows, columns, depth;
  const Source* left;  ///< null: `in_place`
  const Source* right;
  const Target* to;
  bool left_transposed = false, right_transposed = false;
  /// Added to the columns of item i, from biases[i * columns] on, after the sum. null: none.
  const float* biases = nullptr;
  bool relu = false;
  std::int64_t first_row = 0;  ///< of `to`
  std::int64_t first_k = 0;    ///< of `right`; a multiple of kChain. `to` has the sum before it
  const InPlace* in_place = nullptr;
  const float* in_place_data = nullptr;
  std::int64_t in_place_groups = 0;
};

/// The part of a right factor that is packed at a time. It does not change the bits.
struct Packing {
  std::int64_t items, columns, depth;

  std::int64_t floats() const { return items * round_up(columns, kPanel) * depth; }
};

/// Half of a large second-level cache.
constexpr std::int64_t kPackedFloats = 256 << 10;
/// Columns of a row that are read together.
constexpr std::int64_t kStrip = 256;

/// Long sums are cut into parts of several chains, so that the sums stay in the cache meanwhile.
inline Packing packing_of(std::int64_t items, std::int64_t columns, std::int64_t depth) {
  constexpr std::int64_t kChains = 4;
  depth = std::max<std::int64_t>(depth, 1);  // a phase may have no taps
  const std::int64_t length = std::min(depth, kChains * kChain);
  const std::int64_t width =
      std::min(round_up(columns, kPanel), kPackedFloats / length / kPanel * kPanel);
  const std::int64_t chains = std::max<std::int64_t>(kPackedFloats / (kChain * width), 1);
  const std::int64_t longest = std::min(depth, chains * kChain);
  return {std::clamp<std::int64_t>(kPackedFloats / (width * longest), 1, items), width, longest};
}

/// Steps of a left factor that is packed by rows, or by tiles as [k][kRows].
template <std::int32_t Distance>
constexpr auto kSteps = [] {
  std::array<std::int32_t, kChain> steps{};
  for (std::size_t d = 0; d < kChain; ++d) steps[d] = static_cast<std::int32_t>(d) * Distance;
  return steps;
}();

/// A part of a product: what is packed now.
struct Part {
  std::int64_t first_item, column, columns, k, depth;
};

/// A factor is packed for more sums than these. It is packed for short sums too.
constexpr std::int64_t kFewSums = 112, kShortSum = 128;

class ProductRun {
 public:
  /// `packed` has room for packing.floats().
  ProductRun(const Product& product, const Packing& packing, float* packed)
      : p_(product), packing_(packing), packed_(packed) {
    if (p_.left == nullptr || p_.depth < kShortSum) return;
    left_in_place_ =
        !p_.left_transposed && p_.columns <= kFewSums && p_.left->in_memory(0).data != nullptr;
    right_in_place_ = !p_.right_transposed && p_.rows <= kFewSums && p_.columns % kLanes == 0 &&
                      p_.right->in_memory(0).data != nullptr;
  }

  void run(int threads) const {
    for (std::int64_t item = 0; item < p_.items; item += packing_.items) {
      const std::int64_t items = std::min(packing_.items, p_.items - item);
      for (std::int64_t column = 0; column < p_.columns; column += packing_.columns) {
        const std::int64_t columns = std::min(packing_.columns, p_.columns - column);
        for (std::int64_t k = 0; k < p_.depth; k += packing_.depth) {
          const Part part{item, column, columns, k, std::min(packing_.depth, p_.depth - k)};
          if (!right_in_place_) pack(threads, items, part);
          multiply(threads, items, part);
        }
      }
    }
  }

 private:
  float* panel_at(const Part& part, std::int64_t item, std::int64_t panel) const {
    return packed_ + (item * ceil_div(part.columns, kPanel) + panel) * kPanel * part.depth;
  }

  /// A source by columns is read in strips of several panels, because short pieces of long rows
  /// defeat the prefetchers.
  void pack(int threads, std::int64_t items, const Part& part) const {
    const std::int64_t strip = p_.right_transposed ? kPanel : kStrip;
    const std::int64_t strips = ceil_div(part.columns, strip);
    const std::int64_t chains = ceil_div(part.depth, kChain);
    parallel_for(threads, items * strips * chains, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t k = i % chains * kChain, column = i / chains % strips * strip;
        pack_strip(part, i / chains / strips, k, std::min(kChain, part.depth - k), column,
                   std::min(strip, part.columns - column));
      }
    });
  }
  void pack_strip(const Part& part, std::int64_t item, std::int64_t k, std::int64_t depth,
                  std::int64_t begin, std::int64_t columns) const {
    constexpr std::int64_t kRowsAtATime = 32;
    const std::int64_t step = p_.right_transposed ? depth : kRowsAtATime;
    for (std::int64_t d = 0; d < depth; d += step) {
      for (std::int64_t column = begin; column < begin + columns; column += kPanel) {
        pack_panel(*p_.right, p_.right_transposed, part.first_item + item,
                   p_.first_k + part.k + k + d, std::min(step, depth - d), part.column + column,
                   std::min(kPanel, begin + columns - column),
                   panel_at(part, item, column / kPanel) + (k + d) * kPanel);
      }
    }
  }

  /// Threads share groups of rows and, if these are few, the panels too.
  void multiply(int threads, std::int64_t items, const Part& part) const {
    const std::int64_t panels = ceil_div(part.columns, kPanel);
    const std::int64_t groups =
        p_.left == nullptr ? p_.in_place_groups : ceil_div(p_.rows, kGroupRows);
    const std::int64_t cuts = std::min(panels, ceil_div(std::int64_t{threads}, items * groups));
    parallel_for(threads, items * groups * cuts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t cut = i % cuts, group = i / cuts % groups;
        multiply_group(part, i / cuts / groups, group, groups, panels * cut / cuts,
                       panels * (cut + 1) / cuts);
      }
    });
  }

  void pack_left(std::int64_t item, std::int64_t row, std::int64_t rows, std::int64_t k,
                 std::int64_t depth, float* to) const {
    if (!p_.left_transposed) {
      p_.left->copy(item, row, rows, k, depth, to, kPitch);
      return;
    }
    each_tile(rows, kRows, [&](std::int64_t tile, std::int64_t first, std::int64_t count) {
      p_.left->copy(item, k, depth, row + first, count, to + tile * kChain * kRows, kRows);
    });
  }

  /// One chain of a group of rows, in some panels.
  struct Chain {
    const Part& part;
    std::int64_t item;  ///< of the part
    std::int64_t group, begin, end;
    std::int64_t first_panel, last_panel;
    std::int64_t k, depth;  ///< of the part
    bool last;              ///< of the sum
    float* const* to;       ///< the group's rows
    const float* left;      ///< the packed rows
  };

  /// 120 KB of the stack.
  void multiply_group(const Part& part, std::int64_t item_of_part, std::int64_t group,
                      std::int64_t groups, std::int64_t first_panel,
                      std::int64_t last_panel) const {
    alignas(64) float left[kGroupRows * kPitch];
    float* rows[kGroupRows];
    const auto first_row = [&](std::int64_t g) {
      if (p_.left != nullptr) return p_.rows * g / groups;
      return g < groups ? p_.in_place->first_row(static_cast<std::size_t>(g)) : p_.rows;
    };
    const std::int64_t item = part.first_item + item_of_part, begin = first_row(group),
                       end = first_row(group + 1);
    p_.to->locate(item, p_.first_row + begin, end - begin, rows);
    for (std::int64_t k = 0; k < part.depth; k += kChain) {
      const std::int64_t depth = std::min(kChain, part.depth - k);
      const Chain chain{.part = part,
                        .item = item_of_part,
                        .group = group,
                        .begin = begin,
                        .end = end,
                        .first_panel = first_panel,
                        .last_panel = last_panel,
                        .k = k,
                        .depth = depth,
                        .last = part.k + k + depth == p_.depth,
                        .to = rows,
                        .left = left};
      if (p_.left == nullptr) {
        for (std::int64_t panel = first_panel; panel < last_panel; ++panel)
          add_in_place(chain, tile_of(chain, panel));
        continue;
      }
      if (!left_in_place_) pack_left(item, begin, end - begin, part.k + k, depth, left);
      add_tiles(chain);
    }
  }

  /// A tile of the panel, without its rows.
  Tile tile_of(const Chain& chain, std::int64_t panel) const {
    const Part& part = chain.part;
    const std::int64_t item = part.first_item + chain.item, column = panel * kPanel;
    Tile tile{.left = nullptr,
              .row_step = p_.left_transposed ? 1 : kPitch,
              .steps = p_.left_transposed ? kSteps<kRows>.data() : kSteps<1>.data(),
              .right = panel_at(part, chain.item, panel) + chain.k * kPanel,
              .right_pitch = kPanel,
              .ahead = 0,
              .depth = chain.depth,
              .to = nullptr,
              .column = part.column + column,
              .columns = std::min(kPanel, part.columns - column),
              .add = p_.first_k + part.k + chain.k > 0,
              .biases = chain.last && p_.biases != nullptr
                            ? p_.biases + item * p_.columns + part.column + column
                            : nullptr,
              .relu = chain.last && p_.relu};
    if (right_in_place_) {
      const InMemory source = p_.right->in_memory(item);
      tile.right = source.data + (p_.first_k + part.k + chain.k) * source.pitch + tile.column;
      tile.right_pitch = source.pitch;
    }
    return tile;
  }

  /// The rows of the result are written from left to right, because many short pieces of long rows
  /// defeat the prefetchers. A right factor in place is read panel by panel instead.
  void add_tiles(const Chain& chain) const {
    const std::int64_t rows = chain.end - chain.begin;
    const std::int64_t height = p_.left_transposed ? kRows : tile_height(chain.part.columns);
    if (right_in_place_) {
      for (std::int64_t panel = chain.first_panel; panel < chain.last_panel; ++panel) {
        each_tile(rows, height, [&](std::int64_t number, std::int64_t first, std::int64_t count) {
          add_one(chain, panel, number, first, count);
        });
      }
      return;
    }
    each_tile(rows, height, [&](std::int64_t number, std::int64_t first, std::int64_t count) {
      for (std::int64_t panel = chain.first_panel; panel < chain.last_panel; ++panel)
        add_one(chain, panel, number, first, count);
    });
  }

  /// Tile `number` of a panel: `rows` rows from row `first` of the group on.
  void add_one(const Chain& chain, std::int64_t panel, std::int64_t number, std::int64_t first,
               std::int64_t rows) const {
    Tile tile = tile_of(chain, panel);
    tile.to = chain.to + first;
    if (left_in_place_) {
      const InMemory source = p_.left->in_memory(chain.part.first_item + chain.item);
      tile.left = source.data + (chain.begin + first) * source.pitch + chain.part.k + chain.k;
      tile.row_step = source.pitch;
    } else {
      tile.left = chain.left + (p_.left_transposed ? number * kChain * kRows : first * kPitch);
    }
    if (right_in_place_ && number == 0) {
      if (panel + 1 < chain.last_panel)
        tile.ahead = kPanel;
      else if (!chain.last)
        tile.ahead = kChain * tile.right_pitch - (panel - chain.first_panel) * kPanel;
    }
    add_tile(rows, tile);
  }

  void add_in_place(const Chain& chain, Tile tile) const {
    const InPlace& in_place = *p_.in_place;
    const bool repeated = in_place.chain_step != 0;
    const std::int64_t k = chain.part.k + chain.k;
    const float* const data = p_.in_place_data + (repeated ? k / kChain * in_place.chain_step : 0);
    const auto group = static_cast<std::size_t>(chain.group);
    tile.row_step = in_place.row_step;
    tile.steps = in_place.steps.data() + (repeated ? 0 : k);
    const std::size_t last =
        group + 1 < in_place.groups.size() ? in_place.groups[group + 1] : in_place.pieces.size();
    for (std::size_t i = in_place.groups[group]; i < last; ++i) {
      const InPlace::Piece& piece = in_place.pieces[i];
      tile.left = data + piece.offset;
      tile.to = chain.to + (piece.first - chain.begin);
      add_tile(piece.count, tile);
    }
  }

  const Product& p_;
  const Packing packing_;
  float* const packed_;
  /// Tiles read the factor from its source. To pack it would cost more than a few sums gain.
  bool left_in_place_ = false, right_in_place_ = false;
};

class PortableProduct final : public ProductPlan {
 public:
  explicit PortableProduct(const ProductSpec& spec)
      : spec_(spec), packing_(packing_of(spec.count, spec.columns, spec.inner)) {}

  void run(Stream& stream, View a, View b, View c, void* scratch) override {
    stream.enqueue([=, this, a = a.as<float>(), b = b.as<float>(), c = c.as<float>(),
                    packed = static_cast<float*>(scratch), threads = stream.threads()] {
      const std::int64_t rows = spec_.rows, columns = spec_.columns, inner = spec_.inner;
      const MatrixSource left(a, {spec_.transposed_a ? rows : inner, rows * inner}),
          right(b, {spec_.transposed_b ? inner : columns, inner * columns});
      const MatrixTarget to(c, {columns, rows * columns});
      ProductRun({.items = spec_.count,
                  .rows = rows,
                  .columns = columns,
                  .depth = inner,
                  .left = &left,
                  .right = &right,
                  .to = &to,
                  .left_transposed = spec_.transposed_a,
                  .right_transposed = spec_.transposed_b},
                 packing_, packed)
          .run(threads);
    });
  }
  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(packing_.floats()) * sizeof(float);
  }
  std::string implementation() const override { return "portable"; }

 private:
  ProductSpec spec_;
  Packing packing_;
};

std::unique_ptr<ProductPlan> make_portable_product(const ProductSpec& spec) {
  expect(spec.type == Type::f32 && spec.result == Type::f32, "portable products are fp32");
  return std::make_unique<PortableProduct>(spec);
}

}  // namespace
}  // namespace lockstep::KERNELS
