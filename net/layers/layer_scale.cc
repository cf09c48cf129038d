// A trained factor for each channel. The number of blocks of rows depends only on the shape, so
// sums over rows have the same order on any number of threads.
//
// Source: Touvron et al., "Going deeper with image transformers", ICCV 2021.

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlocks = 64;

template <class T>
struct Scale {
  const T* from;
  T* to;
  const float* factors;
  std::int64_t channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      const std::int64_t i = row * channels + c;
      to[i] = factors[c] * static_cast<float>(from[i]);
    }
  }
};

/// partial[block] = the block's sums of x * dy.
template <class T>
struct SumProducts {
  const T *x, *dy;
  float* partial;
  std::int64_t rows, channels, blocks;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    float* sum = partial + block * channels;
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) sum[c] = 0;
    for (std::int64_t row = rows * block / blocks; row < rows * (block + 1) / blocks; ++row) {
#pragma GCC ivdep
      for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
        const std::int64_t i = row * channels + c;
        sum[c] += static_cast<float>(x[i]) * static_cast<float>(dy[i]);
      }
    }
  }
};

struct AddBlocks {
  const float* partial;
  float* to;
  std::int64_t blocks, channels;
  HOST_DEVICE void operator()(std::int64_t c) const {
    double sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block * channels + c];
    to[c] = static_cast<float>(sum);
  }
};

class LayerScaleLayer : public Layer {
 public:
  explicit LayerScaleLayer(float begin) : begin_(begin) {}

  Shape setup(Setup& setup, Shape in) override {
    channels_ = in.back();
    rows_ = in.count() / channels_;
    blocks_ = std::min(rows_, kBlocks);
    setup.parameter("values", {channels_, 1, 1}, {Init::Kind::constant, begin_});
    setup.scratch(blocks_ * channels_ * sizeof(float));
    return in;
  }
  void forward(LayerCall& call, View x, View y) override { scale(call, x, y); }
  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    auto* partial = reinterpret_cast<float*>(call.scratch);
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, blocks_, rows_ / blocks_ * channels_,
               SumProducts<T>{x.as<T>(), dy.as<T>(), partial, rows_, channels_, blocks_});
    });
    each(*call.stream, channels_,
         AddBlocks{partial, call.gradients[0].as<float>(), blocks_, channels_});
    if (dx) scale(call, dy, dx);
  }
  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "layer_scale"; }

 private:
  void scale(LayerCall& call, View from, View to) const {
    dispatch(from.type, [&]<class T>(T*) {
      each_row(*call.stream, rows_, channels_,
               Scale<T>{from.as<T>(), to.as<T>(), call.weights[0].as<float>(), channels_});
    });
  }

  float begin_;
  std::int64_t rows_ = 0, channels_ = 0, blocks_ = 0;
};

}  // namespace

std::unique_ptr<Layer> layer_scale(float begin) { return std::make_unique<LayerScaleLayer>(begin); }

}  // namespace lockstep
