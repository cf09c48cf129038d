// The weights gradient of convolutions of few channels, such as an image's three, in fp32. Part of
// src/device/cpu/kernels_body.h.
//
// The inputs that a pixel of the output reads from a line of the input, with all channels, are
// contiguous: a piece. A line of the filter is contiguous too. So
//
//   dw[line of the filter] = the sum over all pixels of (piece of x) times (dy of the pixel)
//
// is a matrix. A block of its sums stays in registers while the pixels change: a few numbers of the
// piece, each broadcast to a register, by two registers of filters. oneDNN fills registers with
// channels and has too few of them here.
//
// Threads share blocks of sums, never a sum, so no bit depends on their number.
namespace lockstep::KERNELS {
namespace {

class Lines : public OtherPasses {
 public:
  Lines(std::unique_ptr<AffinePlan> others, const ConvolutionSpec& spec)
      : OtherPasses(std::move(others), "; weights gradient by lines"),
        in_(spec.input.x),
        out_(spec.output()),
        taps_(spec.kernel_height()),
        piece_(spec.kernel * in_[3]),
        pad_y_(spec.pad_height()),
        pad_x_(spec.pad),
        height_(out_[1] + taps_ - 1),
        pitch_((out_[2] + spec.kernel - 1) * in_[3]),
        images_(std::clamp<std::int64_t>(kCached / (height_ * pitch_ + out_[1] * out_[2] * out_[3]),
                                         1, in_[0])) {}

  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    stream.enqueue([=, this, threads = stream.threads()] {
      weights_gradient(threads, x.as<float>(), dy.as<float>(), dw.as<float>(), db.as<float>(),
                       static_cast<float*>(scratch));
    });
  }
  std::size_t scratch_bytes() const override {
    const std::int64_t own = sums_count() + padded_count() + in_[0] * out_[3];
    return std::max(others_->scratch_bytes(), static_cast<std::size_t>(own) * sizeof(float));
  }

 private:
  /// Floats of the images that all blocks of sums read again: half of the second-level cache.
  static constexpr std::int64_t kCached = 65536;
  /// Pixels of a block of sums. Each needs one cache line of gradients, and with many filters these
  /// lines share few sets of the first-level cache.
  static constexpr std::int64_t kPixels = 96;
  static constexpr int kColumns = 2;  ///< registers of filters in a block

  std::int64_t sums_count() const { return taps_ * piece_ * out_[3]; }
  std::int64_t padded_count() const { return images_ * height_ * pitch_; }

  /// Writes one image with its zero padding.
  void unpack(const float* x, float* padded) const {
    const std::int64_t channels = in_[3], line = in_[2] * channels;
    std::fill_n(padded, height_ * pitch_, 0.0f);
    for (std::int64_t y = 0; y < in_[1]; ++y)
      std::copy_n(x + y * line, line, padded + (y + pad_y_) * pitch_ + pad_x_ * channels);
  }

  /// sums [Rows numbers of the piece][filter] += x * dy, over `lines` of the output.
  template <int Rows, int Columns>
  void add_block(std::int64_t lines, const float* __restrict x, const float* __restrict dy,
                 float* __restrict sums) const {
    Vector sum[Rows][Columns] = {};
    for (std::int64_t y = 0; y < lines; ++y) {
      const float* from = x + y * pitch_;
      for (std::int64_t i = 0; i < out_[2]; ++i) {
        Vector gradient[Columns];
#pragma GCC unroll 8
        for (int v = 0; v < Columns; ++v) gradient[v] = load(dy + v * kLanes);
#pragma GCC unroll 32
        for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
          for (int v = 0; v < Columns; ++v) sum[r][v] = fma(from[r], gradient[v], sum[r][v]);
        }
        from += in_[3];
        dy += out_[3];
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < Columns; ++v) {
        float* const to = sums + r * out_[3] + v * kLanes;
        store(to, load(to) + sum[r][v]);
      }
    }
  }
  template <int Columns, int Rows = kRows>
  void add_rows(std::int64_t rows, std::int64_t lines, const float* x, const float* dy,
                float* sums) const {
    if (rows == Rows)
      add_block<Rows, Columns>(lines, x, dy, sums);
    else if constexpr (Rows > 1)
      add_rows<Columns, Rows - 1>(rows, lines, x, dy, sums);
  }

  /// Adds one image to a line of the filter, for the filters of a block.
  template <int Columns>
  void add_line(const float* x, const float* dy, float* sums) const {
    const std::int64_t blocks = ceil_div(piece_, std::int64_t{kRows});
    const std::int64_t lines = std::max<std::int64_t>(kPixels / out_[2], 1);
    for (std::int64_t y = 0; y < out_[1]; y += lines) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t begin = piece_ * block / blocks, end = piece_ * (block + 1) / blocks;
        add_rows<Columns>(end - begin, std::min(lines, out_[1] - y), x + y * pitch_ + begin,
                          dy + y * out_[2] * out_[3], sums + begin * out_[3]);
      }
    }
  }

  void weights_gradient(int threads, const float* x, const float* dy, float* dw, float* db,
                        float* scratch) const {
    const std::int64_t filters = out_[3], x_image = in_.row(), dy_image = out_.row();
    const std::int64_t group = kColumns * kLanes, groups = ceil_div(filters, group);
    float* const sums = scratch;  // [tap][piece][filter]
    float* const padded = scratch + sums_count();
    float* const bias = padded + padded_count();  // [image][filter]
    std::fill_n(sums, sums_count(), 0.0f);
    for (std::int64_t first = 0; first < in_[0]; first += images_) {
      const std::int64_t count = std::min(images_, in_[0] - first);
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          unpack(x + (first + n) * x_image, padded + n * height_ * pitch_);
          // This also loads the image's gradients into the cache.
          if (db != nullptr) {
            bias_gradient_of_image(dy + (first + n) * dy_image, out_[1] * out_[2], filters,
                                   bias + (first + n) * filters);
          }
        }
      });
      parallel_for(threads, taps_ * groups, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t tap = item / groups, filter = item % groups * group;
          float* const to = sums + tap * piece_ * filters + filter;
          for (std::int64_t n = 0; n < count; ++n) {
            const float* const image = padded + (n * height_ + tap) * pitch_;
            const float* const gradient = dy + (first + n) * dy_image + filter;
            if (filter + group <= filters)
              add_line<kColumns>(image, gradient, to);
            else
              add_line<1>(image, gradient, to);
          }
        }
      });
    }
    if (db != nullptr) add_images(bias, in_[0], filters, db);
    for (std::int64_t row = 0; row < taps_ * piece_; ++row) {
      for (std::int64_t filter = 0; filter < filters; ++filter)
        dw[filter * taps_ * piece_ + row] = sums[row * filters + filter];
    }
  }

  Shape in_, out_;
  std::int64_t taps_;            ///< lines of the filter
  std::int64_t piece_;           ///< floats of one
  std::int64_t pad_y_, pad_x_;   ///< pixels
  std::int64_t height_, pitch_;  ///< of a padded image: lines, and floats of a line
  std::int64_t images_;          ///< unpacked at a time
};

std::unique_ptr<AffinePlan> make_lines(std::unique_ptr<AffinePlan> others,
                                       const ConvolutionSpec& spec) {
  const bool serves = spec.input.training && spec.input.type == Type::f32 && spec.stride == 1 &&
                      spec.dilation == 1 && spec.groups == 1 && spec.filters % kServedLanes == 0;
  if (!serves) return others;
  return std::make_unique<Lines>(std::move(others), spec);
}

}  // namespace
}  // namespace lockstep::KERNELS
