// Depthwise convolutions: each channel has one filter of its own. Part of
// src/device/cpu/kernels_body.h.
//
//   forward            y[p][c]  = the sum over taps of x[p * stride - pad + tap][c] * w[tap][c]
//   backward data     dx[q][c]  = the sum over taps of dy[(q + pad - tap) / stride][c] * w[tap][c],
//                                 where the division has no remainder
//   backward weights dw[tap][c] = the sum over images and p of
//                                 dy[p][c] * x[p * stride - pad + tap][c]
//
// The order of sums is the same in every instruction set. Taps outside of the image are skipped.
//   y   a chain of FMAs from 0 over the taps, line by line; then the bias is added
//   dx  the same, from the last tap to the first, which is the order of the pixels of dy
//   dw  a chain of FMAs from 0 over the pixels, line by line, and images of a group of images; then
//       the groups' sums are added in order
//
// An item is a register of channels of an image or of a group of images. The number of groups does
// not depend on that of threads, so no bit depends on the number of threads.
namespace lockstep::KERNELS {
namespace {

template <class T>
class Depthwise : public AffinePlan {
 public:
  explicit Depthwise(const ConvolutionSpec& spec)
      : spec_(spec),
        in_(spec.input.x),
        out_(spec.output()),
        channels_(in_[3]),
        taps_(spec.kernel * spec.kernel),
        registers_(ceil_div(channels_, std::int64_t{kLanes})),
        groups_(std::min<std::int64_t>(in_[0], kGroups)),
        forward_{in_, out_, {forward_axis(1)}, {forward_axis(2)}, {}},
        backward_{out_, in_, backward_axes(1), backward_axes(2), {}} {
    for (Pass* pass : {&forward_, &backward_})
      for (const Axis& x : pass->x) pass->functions.push_back(line_function<T>(x));
  }

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    run(stream, forward_, x, w, b.as<float>(), y, static_cast<float*>(scratch));
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    run(stream, backward_, dy, w, nullptr, dx, static_cast<float*>(scratch));
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    stream.enqueue([=, this, threads = stream.threads()] {
      weights_gradient(threads, x.as<T>(), dy.as<T>(), dw.as<float>(), db.as<float>(),
                       static_cast<float*>(scratch));
    });
  }
  std::size_t scratch_bytes() const override {
    const std::int64_t gradient = sums_count() + in_[0] * channels_;
    return static_cast<std::size_t>(std::max(gradient, taps_ * channels_)) * sizeof(float);
  }
  std::string implementation() const override { return "depthwise"; }

 private:
  static constexpr std::int64_t kGroups = 16;        ///< of images, at most
  static constexpr std::int64_t kCachedSums = 4096;  ///< floats: a third of the first-level cache

  /// The axes of lines and of columns. Backward data has one for each remainder of an element of
  /// dx by the stride, because they read different taps.
  struct Pass {
    Shape from, to;
    std::vector<Axis> y, x;
    std::vector<LineFunction<T>> functions;  ///< for each of x
  };

  Axis forward_axis(int extent) const {
    return {.count = out_[extent],
            .inputs = in_[extent],
            .taps = static_cast<int>(spec_.kernel),
            .first = -spec_.pad,
            .step = spec_.stride};
  }
  std::vector<Axis> backward_axes(int extent) const {
    std::vector<Axis> axes;
    const std::int64_t stride = spec_.stride;
    for (std::int64_t rest = 0; rest < stride; ++rest) {
      const std::int64_t first = rest + spec_.pad - spec_.kernel + 1;  // times the stride
      const std::int64_t from = (stride - first % stride) % stride;
      axes.push_back({.count = ceil_div(in_[extent] - rest, stride),
                      .inputs = out_[extent],
                      .taps = static_cast<int>(ceil_div(spec_.kernel - from, stride)),
                      .first = (first + from) / stride,
                      .to = rest,
                      .to_step = stride,
                      .from = static_cast<int>(from),
                      .from_step = static_cast<int>(stride)});
    }
    return axes;
  }

  std::int64_t sums_count() const { return groups_ * registers_ * taps_ * kLanes; }

  void run(Stream& stream, const Pass& pass, View from, View w, const float* bias, View to,
           float* filter) const {
    stream.enqueue([=, this, &pass, threads = stream.threads()] {
      const bool backward = &pass == &backward_;
      transpose_filter(threads, w.as<float>(), filter, backward);
      convolve(threads, pass, from.as<T>(), filter, bias, to.as<T>(), spec_.relu && !backward);
    });
  }

  /// to [tap][channel] = w [channel][tap], or its taps in reverse order.
  void transpose_filter(int threads, const float* w, float* to, bool turned) const {
    parallel_for(threads, channels_, 64, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tap = 0; tap < taps_; ++tap) {
        const float* const from = w + (turned ? taps_ - 1 - tap : tap);
        for (std::int64_t c = begin; c < end; ++c) to[tap * channels_ + c] = from[c * taps_];
      }
    });
  }

  void convolve(int threads, const Pass& pass, const T* x, const float* w, const float* bias, T* y,
                bool relu) const {
    const std::int64_t x_pitch = pass.from[2] * channels_, y_pitch = pass.to[2] * channels_,
                       w_pitch = spec_.kernel * channels_;
    const std::int64_t rows = pass.to[1], phases = std::ssize(pass.y);
    parallel_for(threads, in_[0] * rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t image = item / rows, row = item % rows, i = row / phases;
        const Axis& axis = pass.y[static_cast<std::size_t>(row % phases)];
        const int tap = axis.begin(i);
        DepthwiseLine<T> line{
            .axis = nullptr,
            .registers = {0, registers_, channels_},
            .x = x + image * pass.from.row() + (axis.first + i * axis.step + tap) * x_pitch,
            .w = w + (axis.from + tap * axis.from_step) * w_pitch,
            .lines = std::max(axis.end(i) - tap, 0),
            .x_pitch = x_pitch,
            .w_pitch = axis.from_step * w_pitch,
            .bias = bias,
            .relu = relu,
            .y = y + image * pass.to.row() + row * y_pitch};
        for (std::size_t phase = 0; phase < pass.x.size(); ++phase) {
          line.axis = &pass.x[phase];
          pass.functions[phase](line);
        }
      }
    });
  }

  /// Adds one image to the sums of some registers.
  void add_image(const T* x, const T* dy, const Registers& registers, float* sums,
                 SumsFunction<T> add) const {
    const Axis& axis = forward_.y[0];
    const std::int64_t x_pitch = in_[2] * channels_;
    for (std::int64_t row = 0; row < out_[1]; ++row) {
      const int tap = axis.begin(row);
      add({.axis = &forward_.x[0],
           .registers = registers,
           .x = x + (axis.first + row * axis.step + tap) * x_pitch,
           .dy = dy + row * out_[2] * channels_,
           .lines = std::max(axis.end(row) - tap, 0),
           .x_pitch = x_pitch,
           .sums = sums + tap * spec_.kernel * kLanes,
           .sums_pitch = taps_ * kLanes});
    }
  }

  /// dw [channel][tap] = the sum of the groups' sums [group][register][tap][kLanes].
  void add_groups(const float* sums, float* dw) const {
    const Registers all{0, registers_, channels_};
    for (std::int64_t r = 0; r < registers_; ++r) {
      const std::int64_t channel = all.channel_of(r);
      for (std::int64_t tap = 0; tap < taps_; ++tap) {
        Vector sum{};
        for (std::int64_t group = 0; group < groups_; ++group)
          sum += load(sums + ((group * registers_ + r) * taps_ + tap) * kLanes);
        for (int lane = 0; lane < kLanes; ++lane) dw[(channel + lane) * taps_ + tap] = sum[lane];
      }
    }
  }

  void weights_gradient(int threads, const T* x, const T* dy, float* dw, float* db,
                        float* sums) const {
    const std::int64_t images = in_[0];
    const SumsFunction<T> add = sums_function<T>(forward_.x[0]);
    const std::int64_t parts = ceil_div(sums_count() / groups_, kCachedSums);
    parallel_for(threads, groups_ * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t group = item / parts, part = item % parts;
        const Registers registers{registers_ * part / parts, registers_ * (part + 1) / parts,
                                  channels_};
        float* const to = sums + (group * registers_ + registers.begin) * taps_ * kLanes;
        std::fill_n(to, (registers.end - registers.begin) * taps_ * kLanes, 0.0f);
        for (std::int64_t n = images * group / groups_; n < images * (group + 1) / groups_; ++n)
          add_image(x + n * in_.row(), dy + n * out_.row(), registers, to, add);
      }
    });
    add_groups(sums, dw);
    if (db != nullptr) bias_gradient(threads, dy, out_, db, sums + sums_count());
  }

  ConvolutionSpec spec_;
  Shape in_, out_;
  std::int64_t channels_, taps_, registers_, groups_;
  Pass forward_, backward_;
};

bool depthwise_serves(const ConvolutionSpec& spec) {
  const std::int64_t k = spec.kernel;
  return spec.groups == spec.filters && spec.groups == spec.input.x[3] &&
         spec.filters >= kServedLanes && spec.dilation == 1 && !spec.one_dimensional &&
         (k == 3 || k == 5 || k == 7) && spec.stride <= k;
}

std::unique_ptr<AffinePlan> make_depthwise(const ConvolutionSpec& spec) {
  if (!depthwise_serves(spec)) return nullptr;
  if (spec.input.type == Type::f32) return std::make_unique<Depthwise<float>>(spec);
  if (spec.input.type == Type::bf16) return std::make_unique<Depthwise<Bfloat16>>(spec);
  return nullptr;
}

}  // namespace
}  // namespace lockstep::KERNELS
