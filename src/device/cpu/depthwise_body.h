// The weights gradient of depthwise convolutions: each channel has one filter of its own. Part of
// src/device/cpu/kernels_body.h.
//
//   dw[tap][c] = the sum over images and output pixels of dy[pixel][c] * x[pixel + tap][c]
//
// A register contains neighbouring channels. The sums of a few lines of the filter stay in
// registers while the pixels of a few output lines change, so each product loads one number. Input
// lines are copied to fp32 with their zero padding once, into a ring of lines that fits the
// first-level cache.
//
// One core with AVX-512, batch 64, ms by oneDNN 2.6 and by Lockstep:
//                         fp32          bf16
//   56x56, 96, 7x7        43.0, 4.3     50.2, 3.2
//   14x14, 384, 7x7       10.3, 0.8     12.9, 0.8
//   28x28, 120, 5x5        6.0, 0.6     14.3, 0.6
// oneDNN is 1.3 to 2.9 times as fast with 3x3, so it keeps these.
//
// An item is a block of channels of a group of images. The number of groups does not depend on that
// of threads, and the groups are added in order, so no bit depends on the number of threads.
namespace lockstep::KERNELS {
namespace {

class Depthwise : public OtherPasses {
 public:
  Depthwise(std::unique_ptr<AffinePlan> others, const ConvolutionSpec& spec)
      : OtherPasses(std::move(others), "; depthwise weights gradient"),
        spec_(spec),
        in_(spec.input.x),
        out_(spec.output()),
        channels_(in_[3]),
        blocks_(ceil_div(channels_, std::int64_t{kLanes})),
        groups_(std::min<std::int64_t>(in_[0], kGroups)),
        parts_(std::min<std::int64_t>(blocks_ * groups_, kParts)),
        lines_(std::clamp<std::int64_t>(kPixels / out_[2], 1, out_[1])),
        ring_((lines_ - 1) * spec.stride + spec.kernel),
        pitch_(((out_[2] - 1) * spec.stride + spec.kernel) * kLanes) {}

  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    dispatch_vectors(x.type, [&]<class T>(T*) {
      stream.enqueue([=, this, threads = stream.threads()] {
        weights_gradient(threads, x.as<T>(), dy.as<T>(), dw.as<float>(), db.as<float>(),
                         static_cast<float*>(scratch));
      });
    });
  }
  std::size_t scratch_bytes() const override {
    const std::int64_t own = sums_count() + parts_ * ring_ * pitch_ + in_[0] * channels_;
    return std::max(others_->scratch_bytes(), static_cast<std::size_t>(own) * sizeof(float));
  }

 private:
  static constexpr std::int64_t kGroups = 16;  ///< of images, at most
  static constexpr std::int64_t kParts = 64;   ///< of the items, at most: each has a ring
  /// Output pixels between two loads of the sums.
  static constexpr std::int64_t kPixels = 56;

  std::int64_t taps() const { return spec_.kernel * spec_.kernel; }
  std::int64_t sums_count() const { return groups_ * blocks_ * taps() * kLanes; }
  /// The first channel of a block. The last block overlaps the one before it if it would not be
  /// full.
  std::int64_t channel_of(std::int64_t block) const {
    return std::min(block * kLanes, channels_ - kLanes);
  }

  /// Copies line `y` of a padded image to the ring. `image` begins at the block's first channel.
  template <class T>
  void copy_line(const T* image, std::int64_t y, float* line) const {
    const std::int64_t row = y - spec_.pad, width = pitch_ / kLanes;
    const bool inside = row >= 0 && row < in_[1];
    const T* from = image + row * in_[2] * channels_;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t column = i - spec_.pad;
      const bool is_pixel = inside && column >= 0 && column < in_[2];
      store(line + i * kLanes, is_pixel ? load(from + column * channels_) : Vector{});
    }
  }

  /// Adds `count` output lines to Rows lines of the filter. lines[y * stride + r] are those of the
  /// input; dy begins at the block's first channel.
  template <int K, int Rows, class T>
  void add_lines(std::int64_t count, const float* const* lines, const T* dy, float* sums) const {
    Vector sum[Rows][K];
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < K; ++k) sum[r][k] = load(sums + (r * K + k) * kLanes);
    const std::int64_t step = spec_.stride * kLanes;
    for (std::int64_t y = 0; y < count; ++y) {
      const float* from[Rows];
      for (int r = 0; r < Rows; ++r) from[r] = lines[y * spec_.stride + r];
      for (std::int64_t i = 0; i < out_[2]; ++i) {
        const Vector gradient = load(dy);
        dy += channels_;
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
          for (int k = 0; k < K; ++k) sum[r][k] += gradient * load(from[r] + i * step + k * kLanes);
        }
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < K; ++k) store(sums + (r * K + k) * kLanes, sum[r][k]);
  }

  /// Adds `count` output lines to the filter's lines from `First` on.
  template <int K, int First, class T>
  void add_filter(std::int64_t count, const float* const* lines, const T* dy, float* sums) const {
    constexpr int kMost = std::min(K, (kRegisters - 2) / K), kPasses = (K + kMost - 1) / kMost;
    constexpr int kRowsOf = std::min((K + kPasses - 1) / kPasses, K - First);
    add_lines<K, kRowsOf>(count, lines + First, dy, sums + First * K * kLanes);
    if constexpr (First + kRowsOf < K) add_filter<K, First + kRowsOf>(count, lines, dy, sums);
  }

  /// Adds one image to the sums of a block.
  template <int K, class T>
  void add_image(const T* x, const T* dy, float* ring, const float** lines, float* sums) const {
    std::int64_t copied = 0;  // lines of the padded image
    for (std::int64_t y = 0; y < out_[1]; y += lines_) {
      const std::int64_t count = std::min(lines_, out_[1] - y), first = y * spec_.stride;
      const std::int64_t needed = (count - 1) * spec_.stride + K;
      for (copied = std::max(copied, first); copied < first + needed; ++copied)
        copy_line(x, copied, ring + copied % ring_ * pitch_);
      for (std::int64_t i = 0; i < needed; ++i) lines[i] = ring + (first + i) % ring_ * pitch_;
      add_filter<K, 0>(count, lines, dy + y * out_[2] * channels_, sums);
    }
  }

  template <int K, class T>
  void add_items(int threads, const T* x, const T* dy, float* sums, float* rings) const {
    const std::int64_t items = groups_ * blocks_, size = taps() * kLanes;
    parallel_for(threads, parts_, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<const float*> lines(static_cast<std::size_t>(ring_));
      for (std::int64_t part = begin; part < end; ++part) {
        for (std::int64_t item = items * part / parts_; item < items * (part + 1) / parts_;
             ++item) {
          const std::int64_t group = item / blocks_, channel = channel_of(item % blocks_);
          float* const to = sums + item * size;
          std::fill_n(to, size, 0.0f);
          for (std::int64_t n = in_[0] * group / groups_; n < in_[0] * (group + 1) / groups_; ++n) {
            add_image<K>(x + n * in_.row() + channel, dy + n * out_.row() + channel,
                         rings + part * ring_ * pitch_, lines.data(), to);
          }
        }
      }
    });
  }

  /// dw [channel][tap] = the sum of the groups' sums [group][block][tap][kLanes].
  void add_groups(const float* sums, float* dw) const {
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t channel = channel_of(block);
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        Vector sum{};
        for (std::int64_t group = 0; group < groups_; ++group)
          sum += load(sums + ((group * blocks_ + block) * taps() + tap) * kLanes);
        for (int lane = 0; lane < kLanes; ++lane) dw[(channel + lane) * taps() + tap] = sum[lane];
      }
    }
  }

  template <class T>
  void weights_gradient(int threads, const T* x, const T* dy, float* dw, float* db,
                        float* sums) const {
    float* const rings = sums + sums_count();
    if (spec_.kernel == 5) add_items<5>(threads, x, dy, sums, rings);
    if (spec_.kernel == 7) add_items<7>(threads, x, dy, sums, rings);
    add_groups(sums, dw);
    if (db != nullptr) bias_gradient(threads, dy, out_, db, rings + parts_ * ring_ * pitch_);
  }

  ConvolutionSpec spec_;
  Shape in_, out_;
  std::int64_t channels_, blocks_, groups_, parts_;
  std::int64_t lines_;         ///< of the output, added at a time
  std::int64_t ring_, pitch_;  ///< lines of a ring, and floats of a line
};

std::unique_ptr<AffinePlan> make_depthwise(std::unique_ptr<AffinePlan> others,
                                           const ConvolutionSpec& spec) {
  const std::int64_t k = spec.kernel;
  const bool serves = spec.input.training && spec.input.type != Type::f16 &&
                      spec.groups == spec.filters && spec.groups == spec.input.x[3] &&
                      spec.filters >= kLanes && spec.dilation == 1 && !spec.one_dimensional &&
                      (k == 5 || k == 7);
  if (!serves) return others;
  return std::make_unique<Depthwise>(std::move(others), spec);
}

}  // namespace
}  // namespace lockstep::KERNELS
