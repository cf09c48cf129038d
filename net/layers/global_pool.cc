// The mean, or the largest value, of each channel over an image or a sequence. Among equal values
// the first receives the gradient. A NaN wins, so that a diverging run is seen.

#include "net/layers/spatial.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// A block is a sample.
template <class T>
struct MeanForward {
  static constexpr int kWidth = 4 / sizeof(T);
  const T* x;
  T* y;
  std::int64_t area, channels;
  bool aligned() const { return aligned_for_packs<kWidth>(x, y); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t sample, std::int64_t c, Count count) const {
    const T* const from = x + sample * area * channels + c;
    float sum[kMost];
    for (int k = 0; k < count; ++k) sum[k] = 0;
    for_rows<8>(
        0, area, count, [&](std::int64_t i) { return read(from + i * channels, count); },
        [&](std::int64_t, const auto& value) {
          for_columns(count, [&](int k) { sum[k] += value[k]; });
        });
    write(y + sample * channels + c, count,
          [&](int k) { return sum[k] / static_cast<float>(area); });
  }
};

/// A block is a pixel.
template <class T>
struct MeanBackward {
  static constexpr int kWidth = 16 / sizeof(T);
  const T* dy;
  T* dx;
  std::int64_t area, channels;
  bool aligned() const { return aligned_for_packs<kWidth>(dy, dx); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t row, std::int64_t c, Count count) const {
    const auto slope = read(dy + quotient(row, area) * channels + c, count);
    write(dx + row * channels + c, count,
          [&](int k) { return slope[k] / static_cast<float>(area); });
  }
};

template <class T>
struct MaxForward {
  const T* x;
  T* y;
  std::int32_t* which;
  std::int64_t area, channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t sample, Team team) const {
    const T* from = x + sample * area * channels;
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      float best = from[c];
      std::int32_t place = 0;
      for (std::int64_t i = 1; i < area; ++i) {
        const float value = from[i * channels + c];
        // The first NaN wins and stays.
        const bool wins = value > best || (value != value && best == best);
        best = wins ? value : best;
        place = wins ? static_cast<std::int32_t>(i) : place;
      }
      y[sample * channels + c] = best;
      which[sample * channels + c] = place;
    }
  }
};

template <class T>
struct MaxBackward {
  const T* dy;
  const std::int32_t* which;
  T* dx;
  std::int64_t area, channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t sample = row / area, place = row % area;
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      const std::int64_t from = sample * channels + c;
      dx[row * channels + c] = which[from] == place ? static_cast<float>(dy[from]) : 0.0f;
    }
  }
};

class GlobalPoolLayer : public Layer {
 public:
  Shape setup(Setup& setup, Shape in) override {
    const Shape image = as_image(in, "the global pool " + setup.name);
    samples_ = image[0];
    area_ = image[1] * image[2];
    channels_ = image[3];
    return {samples_, channels_};
  }

 protected:
  std::int64_t samples_ = 0, area_ = 0, channels_ = 0;
};

class GlobalAveragePoolLayer : public GlobalPoolLayer {
 public:
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_block(*call.stream, samples_, channels_, area_,
                 MeanForward<T>{x.as<T>(), y.as<T>(), area_, channels_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_block(*call.stream, samples_ * area_, channels_, 1,
                 MeanBackward<T>{dy.as<T>(), dx.as<T>(), area_, channels_});
    });
  }
  std::string implementation() const override { return "global_average_pool"; }
};

class GlobalMaxPoolLayer : public GlobalPoolLayer {
 public:
  Shape setup(Setup& setup, Shape in) override {
    const Shape out = GlobalPoolLayer::setup(setup, in);
    setup.save(out.count() * sizeof(std::int32_t));
    return out;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, samples_, area_ * channels_,
               MaxForward<T>{x.as<T>(), y.as<T>(), which(call), area_, channels_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(*call.stream, samples_ * area_, channels_,
               MaxBackward<T>{dy.as<T>(), which(call), dx.as<T>(), area_, channels_});
    });
  }
  std::string implementation() const override { return "global_max_pool"; }

 private:
  static std::int32_t* which(const LayerCall& call) {
    return reinterpret_cast<std::int32_t*>(call.saved);
  }
};

}  // namespace

std::unique_ptr<Layer> global_average_pool() { return std::make_unique<GlobalAveragePoolLayer>(); }
std::unique_ptr<Layer> global_max_pool() { return std::make_unique<GlobalMaxPoolLayer>(); }

}  // namespace lockstep
