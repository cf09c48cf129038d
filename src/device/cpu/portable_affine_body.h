// Convolutions and dense layers in fp32 as products of matrices in the canonical order of
// src/device/cpu/gemm_body.h. Part of src/device/cpu/kernels_body.h.
//
//   forward           y[pixel][filter] = the sum over tap, channel of x[pixel + tap] * w
//   backward data    dx[pixel][channel] = the sum over tap, filter of dy[pixel - tap] * w; the taps
//                                         in descending order
//   backward weights dw[filter][tap, channel] = the sum over image, pixel of dy * x[pixel + tap]
//
// Pixels outside an image are factors of 0. The biases are added after the sum. A dense layer is
// the convolution of images of one pixel.
//
// At stride s, pixels of dx whose places modulo s differ have different taps. They are s * s
// products, the phases.
namespace lockstep::KERNELS {
namespace {

/// Adds the biases, unless null, then ReLU.
inline void finish_row(float* __restrict row, std::int64_t count, const float* __restrict biases,
                       bool relu) {
  if (biases != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) row[i] += biases[i];
  }
  if (relu) {
    for (std::int64_t i = 0; i < count; ++i) row[i] = row[i] < 0 ? 0 : row[i];  // NaN stays
  }
}

/// The pixels of dx with the same taps.
struct Phase {
  PixelGrid grid;
  Windows windows;                 ///< of dy
  std::vector<std::int64_t> taps;  ///< of a filter, in the order of the sum
  std::optional<InPlaceProduct> in_place = {};
};

/// The windows of x for each pixel of y.
inline Windows windows_of(const ConvolutionSpec& spec) {
  const Shape in = spec.input.x, out = spec.output();
  Windows windows(in, in[3] / spec.groups, out[1], out[2], spec.stride);
  for (std::int64_t y = 0; y < spec.kernel_height(); ++y) {
    for (std::int64_t x = 0; x < spec.kernel; ++x)
      windows.add_tap(y * spec.dilation - spec.pad_height(), x * spec.dilation - spec.pad);
  }
  windows.finish();
  return windows;
}

/// The phase of pixel (y, x).
inline Phase phase_at(const ConvolutionSpec& spec, std::int64_t y, std::int64_t x) {
  const Shape in = spec.input.x;
  const std::int64_t stride = spec.stride, height = ceil_div(in[1] - y, stride),
                     width = ceil_div(in[2] - x, stride);
  Phase phase{{in[1], in[2], in[3], y, x, stride, height, width},
              Windows(spec.output(), spec.filters / spec.groups, height, width, 1),
              {}};
  for (std::int64_t ky = spec.kernel_height() - 1; ky >= 0; --ky) {
    const std::int64_t from_y = y + spec.pad_height() - ky * spec.dilation;
    if (from_y % stride != 0) continue;
    for (std::int64_t kx = spec.kernel - 1; kx >= 0; --kx) {
      const std::int64_t from_x = x + spec.pad - kx * spec.dilation;
      if (from_x % stride != 0) continue;
      phase.windows.add_tap(from_y / stride, from_x / stride);
      phase.taps.push_back(ky * spec.kernel + kx);
    }
  }
  phase.windows.finish();
  return phase;
}
inline std::vector<Phase> phases_of(const ConvolutionSpec& spec) {
  std::vector<Phase> phases;
  for (std::int64_t y = 0; y < std::min(spec.stride, spec.input.x[1]); ++y)
    for (std::int64_t x = 0; x < std::min(spec.stride, spec.input.x[2]); ++x)
      phases.push_back(phase_at(spec, y, x));
  return phases;
}

/// Sets `columns` numbers of each row to 0.
inline void set_to_zero(int threads, const Target& to, std::int64_t rows, std::int64_t columns) {
  parallel_for(threads, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* row;
      to.locate(0, r, 1, &row);
      std::fill_n(row, columns, 0.0f);
    }
  });
}

/// Multiplies windows of `data`, in place if there is a plan for that.
inline void multiply_windows(int threads, const float* data,
                             const std::optional<InPlaceProduct>& in_place, const Product& product,
                             const Packing& packing, float* scratch) {
  if (in_place)
    in_place->run(threads, data, product, packing, scratch);
  else
    ProductRun(product, packing, scratch).run(threads);
}

/// Floats of scratch for multiply_windows().
inline std::int64_t floats_of(const Packing& packing,
                              const std::optional<InPlaceProduct>& in_place) {
  return packing.floats() + (in_place ? in_place->room() : 0);
}

/// The forward pass of few pixels. The weights are the left factor, because it costs much to
/// transpose them. The sums are transposed instead.
class FewPixels {
 public:
  FewPixels(const Windows& windows, std::int64_t filters)
      : windows_(windows),
        filters_(filters),
        pixels_(windows.rows()),
        pitch_(round_up(pixels_, kLanes)),
        packing_(packing_of(1, pixels_, windows.depth())) {}

  static bool pays(const Windows& windows, std::int64_t filters) {
    constexpr std::int64_t kFew = 128;
    const std::int64_t pixels = windows.rows();
    return pixels < filters && pixels <= kFew && pixels >= kLanes / 2;
  }
  std::int64_t floats() const { return filters_ * pitch_ + packing_.floats(); }

  void run(int threads, const float* x, const float* w, const float* b, bool relu, float* y,
           float* scratch) const {
    float* const sums = scratch;  // [filter][pixel]
    const MatrixSource left(w, {windows_.depth(), 0});
    const WindowSource right(x, windows_);
    const MatrixTarget to(sums, {pitch_, 0});
    const Product product{.items = 1,
                          .rows = filters_,
                          .columns = pixels_,
                          .depth = windows_.depth(),
                          .left = &left,
                          .right = &right,
                          .to = &to,
                          .right_transposed = true};
    ProductRun(product, packing_, scratch + filters_ * pitch_).run(threads);
    parallel_for(threads, pixels_, 16, [=, this](std::int64_t begin, std::int64_t end) {
      float* const rows = y + begin * filters_;
      transpose(sums + begin, filters_, end - begin, pitch_, rows, filters_);
      for (std::int64_t r = 0; r < end - begin; ++r)
        finish_row(rows + r * filters_, filters_, b, relu);
    });
  }

 private:
  const Windows& windows_;
  std::int64_t filters_, pixels_, pitch_;
  Packing packing_;
};

class PortableAffine final : public AffinePlan {
 public:
  explicit PortableAffine(const ConvolutionSpec& spec)
      : spec_(spec),
        in_(spec.input.x),
        out_(spec.output()),
        channels_(in_[3] / spec.groups),
        filters_(spec.filters / spec.groups),
        windows_(windows_of(spec)),
        phases_(phases_of(spec)) {
    const PlanInput& input = spec.input;
    if (spec.groups == 1 && FewPixels::pays(windows_, filters_))
      few_pixels_.emplace(windows_, filters_);
    else if (rows_pay(windows_, filters_))
      forward_in_place_.emplace(windows_, false, filters_);
    if (!input.training) return;
    if (spec.groups == 1 && in_[3] <= kInPlace && floats_in_columns(windows_) <= kMostInPlace)
      weights_in_place_.emplace(windows_, true, filters_);
    for (Phase& phase : phases_) {
      if (input.input_gradient && rows_pay(phase.windows, channels_))
        phase.in_place.emplace(phase.windows, false, channels_);
    }
  }

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    stream.enqueue([=, this, x = x.as<float>(), w = w.as<float>(), b = b.as<float>(),
                    y = y.as<float>(), packed = static_cast<float*>(scratch),
                    threads = stream.threads()] {
      if (few_pixels_)
        few_pixels_->run(threads, x, w, b, spec_.relu, y, packed);
      else
        forward_by_pixels(threads, x, w, b, y, packed);
    });
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    stream.enqueue([=, this, dy = dy.as<float>(), w = w.as<float>(), dx = dx.as<float>(),
                    packed = static_cast<float*>(scratch), threads = stream.threads()] {
      for (const Phase& phase : phases_) data_gradient(threads, phase, dy, w, dx, packed);
    });
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    stream.enqueue([=, this, x = x.as<float>(), dy = dy.as<float>(), dw = dw.as<float>(),
                    db = db.as<float>(), packed = static_cast<float*>(scratch),
                    threads = stream.threads()] {
      if (dw != nullptr) weights_gradient(threads, x, dy, dw, packed);
      if (db != nullptr) bias_gradient(threads, dy, out_, db, packed);
    });
  }

  std::size_t scratch_bytes() const override {
    std::int64_t most =
        few_pixels_ ? few_pixels_->floats() : floats_of(forward_packing(), forward_in_place_);
    if (spec_.input.training) {
      const std::int64_t weights = weights_in_place_ ? filters_ * filter_size() : 0;
      most = std::max(
          {most, weights + floats_of(weights_packing(), weights_in_place_), out_[0] * out_[3]});
      if (spec_.input.input_gradient) {
        for (const Phase& phase : phases_)
          most = std::max(most, floats_of(data_packing(phase), phase.in_place));
      }
    }
    return static_cast<std::size_t>(most) * sizeof(float);
  }
  std::string implementation() const override { return "portable"; }

 private:
  std::int64_t taps() const { return spec_.kernel_height() * spec_.kernel; }
  std::int64_t filter_size() const { return taps() * channels_; }

  Packing forward_packing() const { return packing_of(spec_.groups, filters_, filter_size()); }
  Packing data_packing(const Phase& phase) const {
    return packing_of(spec_.groups, channels_, phase.windows.depth());
  }
  Packing weights_packing() const {
    const std::int64_t columns = weights_in_place_ ? filters_ : filter_size();
    return packing_of(spec_.groups, columns, windows_.rows());
  }

  /// Whether the sums of `columns` numbers per pixel are too few to copy the pixels for them.
  bool rows_pay(const Windows& windows, std::int64_t columns) const {
    return spec_.groups == 1 && !windows.taps().empty() && windows.grid_width() >= 7 &&
           windows.step() * windows.pitch() <= kInPlace && columns <= kInPlace;
  }

  void forward_by_pixels(int threads, const float* x, const float* w, const float* b, float* y,
                         float* packed) const {
    const WindowSource left(x, windows_);
    const MatrixSource right(w, {filter_size(), filters_ * filter_size()});
    const MatrixTarget to(y, {out_[3], filters_});
    const Product product{.items = spec_.groups,
                          .rows = windows_.rows(),
                          .columns = filters_,
                          .depth = windows_.depth(),
                          .left = &left,
                          .right = &right,
                          .to = &to,
                          .right_transposed = true,
                          .biases = b,
                          .relu = spec_.relu};
    multiply_windows(threads, x, forward_in_place_, product, forward_packing(), packed);
  }

  void data_gradient(int threads, const Phase& phase, const float* dy, const float* w, float* dx,
                     float* packed) const {
    const PixelTarget to(dx, channels_, phase.grid);
    const std::int64_t rows = phase.windows.rows();
    if (phase.taps.empty()) {
      set_to_zero(threads, to, in_[0] * phase.grid.height * phase.grid.width, in_[3]);
      return;
    }
    const WindowSource left(dy, phase.windows);
    const FilterSource right(w, taps(), filters_, channels_, phase.taps);
    const Product product{.items = spec_.groups,
                          .rows = rows,
                          .columns = channels_,
                          .depth = phase.windows.depth(),
                          .left = &left,
                          .right = &right,
                          .to = &to};
    multiply_windows(threads, dy, phase.in_place, product, data_packing(phase), packed);
  }
  void weights_gradient(int threads, const float* x, const float* dy, float* dw,
                        float* packed) const {
    if (weights_in_place_) return weights_gradient_in_place(threads, x, dy, dw, packed);
    const MatrixSource left(dy, {out_[3], filters_});
    const WindowSource right(x, windows_);
    const MatrixTarget to(dw, {filter_size(), filters_ * filter_size()});
    const Product product{.items = spec_.groups,
                          .rows = filters_,
                          .columns = filter_size(),
                          .depth = windows_.rows(),
                          .left = &left,
                          .right = &right,
                          .to = &to,
                          .left_transposed = true};
    ProductRun(product, weights_packing(), packed).run(threads);
  }

  void weights_gradient_in_place(int threads, const float* x, const float* dy, float* dw,
                                 float* scratch) const {
    const std::int64_t size = filter_size();
    float* const sums = scratch;  // [tap, channel][filter]
    const MatrixSource right(dy, {filters_, 0});
    const MatrixTarget to(sums, {filters_, 0});
    const Product product{.items = 1,
                          .rows = size,
                          .columns = filters_,
                          .depth = windows_.rows(),
                          .left = nullptr,
                          .right = &right,
                          .to = &to};
    weights_in_place_->run(threads, x, product, weights_packing(), scratch + size * filters_);
    transpose(sums, size, filters_, filters_, dw, size);
  }

  static constexpr std::int64_t kInPlace = 128;
  /// Floats of the images that fill whole chains.
  static constexpr std::int64_t kMostInPlace = 1 << 24;

  ConvolutionSpec spec_;
  Shape in_, out_;
  std::int64_t channels_, filters_;  ///< of a group
  Windows windows_;                  ///< of x
  std::vector<Phase> phases_;
  std::optional<FewPixels> few_pixels_;
  std::optional<InPlaceProduct> forward_in_place_, weights_in_place_;
};

std::unique_ptr<AffinePlan> make_portable_convolution(const ConvolutionSpec& spec) {
  expect(spec.input.type == Type::f32, "portable convolutions are fp32");
  return std::make_unique<PortableAffine>(spec);
}

std::unique_ptr<AffinePlan> make_portable_dense(const DenseSpec& spec) {
  ConvolutionSpec pixels{.input = spec.input,
                         .filters = spec.features,
                         .kernel = 1,
                         .relu = spec.relu,
                         .biases = spec.biases};
  pixels.input.x = Shape{spec.input.x[0], 1, 1, spec.input.x.row()};
  return make_portable_convolution(pixels);
}

}  // namespace
}  // namespace lockstep::KERNELS
