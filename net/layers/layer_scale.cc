// A trained factor for each channel. The number of blocks of rows depends only on the shape and the
// kind of device, so sums over rows have the same order on any number of threads.
//
// Source: Touvron et al., "Going deeper with image transformers", ICCV 2021.

#include "net/block_sums.h"
#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Scale {
  static constexpr int kWidth = 16 / sizeof(T);
  const T* from;
  T* to;
  const float* factors;
  std::int64_t rows, channels, blocks;
  bool aligned() const { return aligned_for_packs<kWidth>(from, to, factors); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const auto factor = read(factors + c, count);
    const auto load = [&](std::int64_t row) { return read(from + row * channels + c, count); };
    for_rows<4>(rows * block / blocks, rows * (block + 1) / blocks, count, load,
                [&](std::int64_t row, const auto& x) {
                  write(to + row * channels + c, count, [&](int k) { return factor[k] * x[k]; });
                });
  }
};

class LayerScaleLayer : public Layer {
 public:
  explicit LayerScaleLayer(float begin) : begin_(begin) {}

  Shape setup(Setup& setup, Shape in) override {
    channels_ = in.back();
    rows_ = in.count() / channels_;
    const std::int64_t lanes = setup.device.traits().lanes;
    blocks_ = row_blocks(rows_, channels_, lanes);
    scale_blocks_ = apply_blocks(rows_, channels_, lanes);
    setup.parameter("values", {channels_, 1, 1}, {Init::Kind::constant, begin_});
    setup.scratch(blocks_ * channels_ * sizeof(float));
    return in;
  }
  void forward(LayerCall& call, View x, View y) override { scale(call, x, y); }
  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    auto* partial = reinterpret_cast<float*>(call.scratch);
    dispatch(x.type, [&]<class T>(T*) {
      each_block(*call.stream, blocks_, channels_, rows_ / blocks_,
                 SumParts<T, true>{x.as<T>(), dy.as<T>(), partial, rows_, channels_, blocks_});
    });
    each_column(*call.stream, channels_, blocks_,
                SumOfBlocks{partial, call.gradients[0].as<float>(), blocks_, channels_});
    if (dx) scale(call, dy, dx);
  }
  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "layer_scale"; }

 private:
  void scale(LayerCall& call, View from, View to) const {
    dispatch(from.type, [&]<class T>(T*) {
      each_block(*call.stream, scale_blocks_, channels_, rows_ / scale_blocks_,
                 Scale<T>{from.as<T>(), to.as<T>(), call.weights[0].as<float>(), rows_, channels_,
                          scale_blocks_});
    });
  }

  float begin_;
  std::int64_t rows_ = 0, channels_ = 0, blocks_ = 0, scale_blocks_ = 0;
};

}  // namespace

std::unique_ptr<Layer> layer_scale(float begin) { return std::make_unique<LayerScaleLayer>(begin); }

}  // namespace lockstep
