// Batch normalisation over all extents except the last. The number of blocks of rows depends only
// on the shape and the kind of device, so sums have the same order on any number of threads. If
// shards train together, their totals are summed too.
//
// The passes wait for memory, so there are few. A block's squares are summed right after its
// values, while these are in a cache, around the block's own mean. Around a distant mean they would
// lose digits. They are moved to the mean of all later. An activation after the normalisation is
// part of it. Backward computes y before the activation again. Activations of lines cost little, so
// both passes compute them. The gradient of GELU replaces dy in the first pass. All values are
// rounded as those of an activation that is a layer of its own, so the bits are the same.
//
// Sources: Ioffe, Szegedy, "Batch normalization: accelerating deep network training by reducing
// internal covariate shift", ICML 2015; the running variance is the unbiased one, as PyTorch has
// it. Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979: squares moved from the means of parts to that of all.

#include <type_traits>

#include "net/block_sums.h"
#include "net/layers.h"
#include "net/layers/batch_norm_kernels.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

using namespace batch_norm_kernels;

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(BatchNormOptions options) : options_(options) {}

  Shape setup(Setup& setup, Shape in) override {
    channels_ = in.back();
    rows_ = in.count() / channels_;
    setup.numbers = {{"epsilon", options_.epsilon},
                     {"relu", options_.activation == Activation::relu},
                     {"gelu", options_.activation == Activation::gelu},
                     {"hard_swish", options_.activation == Activation::hard_swish}};
    const std::int64_t lanes = setup.device.traits().lanes;
    block_rows_ = ceil_div(rows_, row_blocks(rows_, channels_, lanes));
    blocks_ = ceil_div(rows_, block_rows_);
    apply_blocks_ = apply_blocks(rows_, channels_, lanes);
    if (options_.scale) setup.parameter("gamma", {channels_}, {Init::Kind::constant, 1});
    setup.parameter("beta", {channels_}, {Init::Kind::constant, 0});
    setup.statistic("mean", {channels_}, {Init::Kind::constant, 0}, options_.follow);
    setup.statistic("variance", {channels_}, {Init::Kind::constant, 1}, options_.follow);
    const std::size_t bytes = channels_ * sizeof(float);
    for (std::size_t* place : {&mean_, &inverse_, &variance_}) *place = setup.save(bytes);
    // Kernels always have a gamma. Without the parameter they read ones, and write a gradient that
    // is not used.
    if (!options_.scale) {
      for (std::size_t* place : {&ones_, &unwanted_}) *place = setup.save(bytes);
    }
    setup.scratch(2 * static_cast<std::size_t>(blocks_ + 1) * bytes);
    return in;
  }

  void forward(LayerCall& call, View x, View y) override {
    by_body(x, [&]<class T, class Unit>() {
      Stream& stream = *call.stream;
      Batch<T> b = batch<T>(call, x);
      if (call.batch != nullptr) {
        each_block(stream, blocks_, channels_, 2 * rows_ / blocks_, SumRows<T>{b});
        write_statistics(call, b);
      } else {
        b.mean = own(call.weights, kMean);
        each(stream, channels_,
             Running{own(call.weights, kVariance), b.inverse, options_.epsilon, ones(call)});
      }
      each_block(stream, apply_blocks_, channels_, rows_ / apply_blocks_,
                 Normalize<T, Unit>{b, apply_blocks_, y.as<T>()});
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    by_body(x, [&]<class T, class Unit>() {
      Stream& stream = *call.stream;
      const Batch<T> b = batch<T>(call, x);
      each_block(stream, blocks_, channels_, 2 * rows_ / blocks_,
                 SumGradients<T, Unit>{b, dy.as<T>()});
      float *gamma = options_.scale ? own(call.gradients, kGamma) : saved(call, unwanted_),
            *beta = own(call.gradients, kBeta);
      const float *product = gamma, *sum = beta;
      std::int64_t rows = rows_;
      // The sums over all shards come before WriteGradients: until the last sum other shards may
      // use the memory of the gradients. The gradients themselves are those of this shard, and are
      // summed later.
      if (AcrossShards* const across = call.batch->across; across != nullptr && dx) {
        float* sums = summed(call);
        each_column(stream, channels_, blocks_, SumOfBlocks{b.partial, sums, blocks_, channels_});
        each_column(
            stream, channels_, blocks_,
            SumOfBlocks{b.partial + blocks_ * channels_, sums + channels_, blocks_, channels_});
        across->sum(stream, sums, 2 * channels_);
        rows *= across->shards();
        sum = sums;
        product = sums + channels_;
      }
      each_column(
          stream, channels_, 2 * blocks_,
          WriteGradients<T>{b, saved(call, variance_), gamma, beta, own(call.gradients, kMean),
                            own(call.gradients, kVariance), call.batch->share});
      if (!dx) return;
      // If the first pass has replaced dy, it is already the gradient before the activation.
      using Left = std::conditional_t<kReplaces<Unit>, Linear, Unit>;
      each_block(stream, apply_blocks_, channels_, rows_ / apply_blocks_,
                 InputGradient<T, Left>{b, apply_blocks_, dy.as<T>(), dx.as<T>(), sum, product,
                                        1 / static_cast<float>(rows)});
    });
  }

  bool keeps_dy() const override { return options_.activation != Activation::gelu; }
  std::string implementation() const override {
    constexpr const char* kNames[] = {"batch_norm", "batch_norm + relu", "batch_norm + gelu",
                                      "batch_norm + hard_swish"};
    return kNames[static_cast<int>(options_.activation)];
  }
  std::string kind() const override { return "batch_norm"; }

 private:
  enum Own : std::size_t { kGamma, kBeta, kMean, kVariance };
  /// One of the layer's `arrays`. Without options_.scale there is no gamma.
  float* own(std::span<const View> arrays, Own which) const {
    return arrays[which - (options_.scale ? 0 : 1)].as<float>();
  }
  static float* saved(const LayerCall& call, std::size_t place) {
    return reinterpret_cast<float*>(call.saved + place);
  }
  /// The substitute for gamma; null if gamma is a parameter.
  float* ones(const LayerCall& call) const { return options_.scale ? nullptr : saved(call, ones_); }
  /// Calls f for the type of x and the activation.
  template <class F>
  void by_body(View x, F f) const {
    dispatch(x.type, [&]<class T>(T*) {
      if (options_.activation == Activation::relu) return f.template operator()<T, Relu>();
      if (options_.activation == Activation::gelu) return f.template operator()<T, Gelu>();
      if (options_.activation == Activation::hard_swish)
        return f.template operator()<T, HardSwish>();
      f.template operator()<T, Linear>();
    });
  }
  template <class T>
  Batch<T> batch(const LayerCall& call, View x) const {
    return {x.as<T>(),
            rows_,
            channels_,
            blocks_,
            block_rows_,
            saved(call, mean_),
            saved(call, inverse_),
            reinterpret_cast<float*>(call.scratch),
            options_.scale ? own(call.weights, kGamma) : saved(call, ones_),
            own(call.weights, kBeta)};
  }
  /// Mean and variance from the partial sums.
  template <class T>
  void write_statistics(LayerCall& call, const Batch<T>& b) {
    Stream& stream = *call.stream;
    Variance to{rows_, b.inverse, saved(call, variance_), options_.epsilon, ones(call)};
    AcrossShards* const across = call.batch->across;
    if (across == nullptr) {
      return each_column(stream, channels_, 2 * blocks_, Statistics<T>{b, to});
    }
    // Two sums one after another, because the squares are taken around the mean of all. Sums of x
    // and x^2 in one message would lose the digits of a variance that is small against the mean.
    to.rows *= across->shards();
    float *sums = summed(call), *squares = sums + channels_;
    each_column(stream, channels_, blocks_, SumOfBlocks{b.partial, sums, blocks_, channels_});
    across->sum(stream, sums, channels_);
    each_column(stream, channels_, blocks_, MeanAndSquares<T>{b, to.rows, sums, squares});
    across->sum(stream, squares, channels_);
    each(stream, channels_, WriteVariance{to, squares});
  }
  /// Two sums of each channel, after the partial sums.
  float* summed(const LayerCall& call) const {
    return reinterpret_cast<float*>(call.scratch) + 2 * blocks_ * channels_;
  }

  BatchNormOptions options_;
  std::int64_t rows_ = 0, channels_ = 0, blocks_ = 0, block_rows_ = 0, apply_blocks_ = 0;
  std::size_t mean_ = 0, inverse_ = 0, variance_ = 0;
  /// Without options_.scale: substitutes for gamma and its gradient.
  std::size_t ones_ = 0, unwanted_ = 0;
};

}  // namespace

std::unique_ptr<Layer> batch_norm(BatchNormOptions options) {
  return std::make_unique<BatchNormLayer>(options);
}

}  // namespace lockstep
