// Batch normalisation over all but the last extent. Sums go by blocks of rows whose number depends
// on the shape alone, so that their order is the same on any number of threads. Where shards train
// together, the total of each takes part in one more sum, after which there is one block, of all
// rows.
//
// Mean and variance are two such sums: a variance around anything but the mean of all loses digits
// where the mean is large.
//
// Source: Ioffe, Szegedy, "Batch normalization: accelerating deep network training by reducing
// internal covariate shift", ICML 2015; the running variance is the unbiased one, as PyTorch has
// it.

#include <cmath>

#include "net/layers.h"
#include "src/each.h"

namespace lockstep {
namespace {

/// What the bodies of one layer work on: x as `rows` of `channels`, and channel-long arrays.
template <class T>
struct Batch {
  const T* x;
  std::int64_t rows, channels, blocks;
  float *mean, *inverse, *partial;

  HOST_DEVICE std::int64_t begin(std::int64_t block) const { return rows * block / blocks; }
};

/// partial[block] = sum of x - mean, or of its square, over the block's rows.
template <class T, bool kSquare>
struct SumRows {
  Batch<T> b;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    float* sum = b.partial + block * b.channels;
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) sum[c] = 0;
    for (std::int64_t row = b.begin(block); row < b.begin(block + 1); ++row) {
      const T* x = b.x + row * b.channels;
      for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
        const float value = static_cast<float>(x[c]) - b.mean[c];
        sum[c] += kSquare ? value * value : value;
      }
    }
  }
};

/// The blocks' sums of a channel, in double.
HOST_DEVICE constexpr double total(const float* partial, std::int64_t blocks, std::int64_t channels,
                                   std::int64_t c) {
  double sum = 0;
  for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block * channels + c];
  return sum;
}

/// This shard's total of each channel, for the sum over shards.
template <class T>
struct Total {
  Batch<T> b;
  float* to;
  HOST_DEVICE void operator()(std::int64_t c) const {
    to[c] = static_cast<float>(total(b.partial, b.blocks, b.channels, c));
  }
};

struct Set {
  float* to;
  float value;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = value; }
};

template <class T>
struct Mean {
  Batch<T> b;
  HOST_DEVICE void operator()(std::int64_t c) const {
    b.mean[c] =
        static_cast<float>(total(b.partial, b.blocks, b.channels, c) / static_cast<double>(b.rows));
  }
};

template <class T>
struct Variance {
  Batch<T> b;
  float* variance;
  float epsilon;
  HOST_DEVICE void operator()(std::int64_t c) const {
    const auto rows = static_cast<double>(b.rows);
    const double squares = total(b.partial, b.blocks, b.channels, c);
    b.inverse[c] = static_cast<float>(1 / std::sqrt(squares / rows + epsilon));
    variance[c] = static_cast<float>(squares / (rows > 1 ? rows - 1 : 1));
  }
};

struct Running {
  const float *mean, *variance;
  float* inverse;
  float epsilon;
  HOST_DEVICE void operator()(std::int64_t c) const {
    inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
  }
};

template <class T>
struct Normalize {
  const T* x;
  T* y;
  std::int64_t channels;
  const float *mean, *inverse, *gamma, *beta;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      const std::int64_t i = row * channels + c;
      y[i] = (static_cast<float>(x[i]) - mean[c]) * inverse[c] * gamma[c] + beta[c];
    }
  }
};

/// partial[block] = sum of dy, and behind all of them sum of dy * normalized x.
template <class T>
struct SumGradients {
  Batch<T> b;
  const T* dy;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    float *beta = b.partial + block * b.channels, *gamma = beta + b.blocks * b.channels;
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) beta[c] = gamma[c] = 0;
    for (std::int64_t row = b.begin(block); row < b.begin(block + 1); ++row) {
      for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
        const std::int64_t i = row * b.channels + c;
        const float gradient = dy[i], x = b.x[i];
        beta[c] += gradient;
        gamma[c] += gradient * ((x - b.mean[c]) * b.inverse[c]);
      }
    }
  }
};

template <class T>
struct WriteGradients {
  Batch<T> b;
  const float* batch_variance;
  float *gamma, *beta, *mean, *variance;
  float share;
  HOST_DEVICE void operator()(std::int64_t c) const {
    beta[c] = static_cast<float>(total(b.partial, b.blocks, b.channels, c));
    gamma[c] =
        static_cast<float>(total(b.partial + b.blocks * b.channels, b.blocks, b.channels, c));
    mean[c] = share * b.mean[c];
    variance[c] = share * batch_variance[c];
  }
};

template <class T>
struct InputGradient {
  Batch<T> b;
  const T* dy;
  T* dx;
  const float *weight, *gamma, *beta;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const float each = 1 / static_cast<float>(b.rows);
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
      const std::int64_t i = row * b.channels + c;
      const float normalized = (static_cast<float>(b.x[i]) - b.mean[c]) * b.inverse[c];
      dx[i] = weight[c] * b.inverse[c] *
              (static_cast<float>(dy[i]) - each * (beta[c] + normalized * gamma[c]));
    }
  }
};

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(BatchNormOptions options) : options_(options) {}

  Shape setup(Setup& setup, Shape in) override {
    constexpr std::int64_t kBlocks = 64;
    channels_ = in.back();
    rows_ = in.count() / channels_;
    blocks_ = std::min(rows_, kBlocks);
    if (options_.scale) setup.parameter("gamma", {channels_}, {Init::Kind::constant, 1});
    setup.parameter("beta", {channels_}, {Init::Kind::constant, 0});
    setup.statistic("mean", {channels_}, {Init::Kind::constant, 0}, options_.follow);
    setup.statistic("variance", {channels_}, {Init::Kind::constant, 1}, options_.follow);
    const std::size_t bytes = channels_ * sizeof(float);
    for (std::size_t* place : {&mean_, &inverse_, &variance_}) *place = setup.save(bytes);
    if (!options_.scale) {
      for (std::size_t* place : {&ones_, &unwanted_}) *place = setup.save(bytes);
    }
    setup.scratch(2 * static_cast<std::size_t>(blocks_ + 1) * bytes);
    return in;
  }

  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      Stream& stream = *call.stream;
      const Batch<T> b = batch<T>(call, x);
      const float* mean = own(call.weights, kMean);
      if (call.batch != nullptr) {
        mean = b.mean;
        each(stream, channels_, Set{b.mean, 0});
        each_row(stream, blocks_, block_size(), SumRows<T, false>{b});
        each(stream, channels_, Mean<T>{of_all(call, b)});
        each_row(stream, blocks_, block_size(), SumRows<T, true>{b});
        each(stream, channels_,
             Variance<T>{of_all(call, b), saved(call, variance_), options_.epsilon});
      } else {
        const float* variance = own(call.weights, kVariance);
        each(stream, channels_, Running{mean, variance, b.inverse, options_.epsilon});
      }
      if (!options_.scale) each(stream, channels_, Set{saved(call, ones_), 1});
      each_row(stream, rows_, channels_,
               Normalize<T>{b.x, y.as<T>(), channels_, mean, b.inverse, gamma(call),
                            own(call.weights, kBeta)});
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      Stream& stream = *call.stream;
      const Batch<T> b = batch<T>(call, x);
      each_row(stream, blocks_, 2 * block_size(), SumGradients<T>{b, dy.as<T>()});
      float *gamma = options_.scale ? own(call.gradients, kGamma) : saved(call, unwanted_),
            *beta = own(call.gradients, kBeta);
      const float *all_gamma = gamma, *all_beta = beta;
      Batch<T> all = b;
      if (AcrossShards* const across = call.batch->across; across != nullptr && dx) {
        float* sums = summed(call);
        Batch<T> gammas = b;
        gammas.partial += blocks_ * channels_;
        each(stream, channels_, Total<T>{b, sums});
        each(stream, channels_, Total<T>{gammas, sums + channels_});
        across->sum(stream, sums, 2 * channels_);
        all.rows *= across->shards();
        all_beta = sums;
        all_gamma = sums + channels_;
      }
      each(stream, channels_,
           WriteGradients<T>{b, saved(call, variance_), gamma, beta, own(call.gradients, kMean),
                             own(call.gradients, kVariance), call.batch->share});
      if (!dx) return;
      each_row(
          stream, rows_, channels_,
          InputGradient<T>{all, dy.as<T>(), dx.as<T>(), this->gamma(call), all_gamma, all_beta});
    });
  }

  std::string implementation() const override { return "batch_norm"; }

 private:
  enum Own : std::size_t { kGamma, kBeta, kMean, kVariance };
  /// One of the layer's `arrays`; not gamma where there is none.
  float* own(std::span<const View> arrays, Own which) const {
    return arrays[which - (options_.scale ? 0 : 1)].as<float>();
  }
  const float* gamma(const LayerCall& call) const {
    return options_.scale ? own(call.weights, kGamma) : saved(call, ones_);
  }
  static float* saved(const LayerCall& call, std::size_t place) {
    return reinterpret_cast<float*>(call.saved + place);
  }
  template <class T>
  Batch<T> batch(const LayerCall& call, View x) const {
    return {x.as<T>(),
            rows_,
            channels_,
            blocks_,
            saved(call, mean_),
            saved(call, inverse_),
            reinterpret_cast<float*>(call.scratch)};
  }
  std::int64_t block_size() const { return rows_ / blocks_ * channels_; }
  /// For the sums over shards, behind the partial ones of this shard.
  float* summed(const LayerCall& call) const {
    return reinterpret_cast<float*>(call.scratch) + 2 * blocks_ * channels_;
  }
  /// What the rows of all shards that train together come to, once each has its partial sums.
  template <class T>
  Batch<T> of_all(const LayerCall& call, Batch<T> b) const {
    AcrossShards* const across = call.batch->across;
    if (across == nullptr) return b;
    float* sums = summed(call);
    each(*call.stream, channels_, Total<T>{b, sums});
    across->sum(*call.stream, sums, channels_);
    b.partial = sums;
    b.blocks = 1;
    b.rows *= across->shards();
    return b;
  }

  BatchNormOptions options_;
  std::int64_t rows_ = 0, channels_ = 0, blocks_ = 0;
  std::size_t mean_ = 0, inverse_ = 0, variance_ = 0;
  /// Where there is no gamma: what stands for it, and for its gradient.
  std::size_t ones_ = 0, unwanted_ = 0;
};

}  // namespace

std::unique_ptr<Layer> batch_norm(BatchNormOptions options) {
  return std::make_unique<BatchNormLayer>(options);
}

}  // namespace lockstep
