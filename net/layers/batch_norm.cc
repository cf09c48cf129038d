// Batch normalisation over all extents except the last. The number of blocks of rows depends only
// on the shape, so sums have the same order on any number of threads. If shards train together,
// their totals are summed too.
//
// The passes wait for memory, so there are few. A block's squares are summed right after its
// values, while these are in a cache, around the block's own mean. Around a distant mean they would
// lose digits. They are moved to the mean of all later. A ReLU after the normalisation is part of
// it, and backward computes its mask again.
//
// Sources: Ioffe, Szegedy, "Batch normalization: accelerating deep network training by reducing
// internal covariate shift", ICML 2015; the running variance is the unbiased one, as PyTorch has
// it. Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979: squares moved from the means of parts to that of all.

#include <cmath>

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// The arguments of all bodies: x as `rows` of `channels`, arrays of `channels` elements, and
/// partial sums of 2 * `blocks` such arrays.
template <class T>
struct Batch {
  const T* x;
  std::int64_t rows, channels, blocks;
  float *mean, *inverse, *partial;
  const float *gamma, *beta;

  HOST_DEVICE std::int64_t begin(std::int64_t block) const { return rows * block / blocks; }
  HOST_DEVICE float normalized(std::int64_t i, std::int64_t c) const {
    return (static_cast<float>(x[i]) - mean[c]) * inverse[c];
  }
  /// y before the ReLU.
  HOST_DEVICE float scaled(float normalized, std::int64_t c) const {
    return normalized * gamma[c] + beta[c];
  }
};

/// partial[block] = sum of x over the block's rows; partial[blocks + block] = sum of the squares of
/// x minus the block's mean.
template <class T>
struct SumRows {
  Batch<T> b;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    float *sum = b.partial + block * b.channels, *squares = sum + b.blocks * b.channels;
    const float share = 1 / static_cast<float>(b.begin(block + 1) - b.begin(block));
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) sum[c] = squares[c] = 0;
    for (std::int64_t row = b.begin(block); row < b.begin(block + 1); ++row) {
      const T* x = b.x + row * b.channels;
#pragma GCC ivdep
      for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
        sum[c] += static_cast<float>(x[c]);
      }
    }
    for (std::int64_t row = b.begin(block); row < b.begin(block + 1); ++row) {
      const T* x = b.x + row * b.channels;
#pragma GCC ivdep
      for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
        const float distance = static_cast<float>(x[c]) - sum[c] * share;
        squares[c] += distance * distance;
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

/// This shard's sum of a channel from the sums of the blocks.
template <class T>
struct Total {
  Batch<T> b;
  const float* partial;
  float* to;
  HOST_DEVICE void operator()(std::int64_t c) const {
    to[c] = static_cast<float>(total(partial, b.blocks, b.channels, c));
  }
};

/// This shard's sum of squares around the mean of all.
template <class T>
struct TotalSquares {
  Batch<T> b;
  float* to;
  HOST_DEVICE void operator()(std::int64_t c) const {
    double sum = 0;
    for (std::int64_t block = 0; block < b.blocks; ++block) {
      const auto rows = static_cast<double>(b.begin(block + 1) - b.begin(block));
      const double apart = b.partial[block * b.channels + c] / rows - b.mean[c];
      sum += b.partial[(b.blocks + block) * b.channels + c] + rows * apart * apart;
    }
    to[c] = static_cast<float>(sum);
  }
};

template <class T>
struct Mean {
  Batch<T> b;
  const float* sum;
  HOST_DEVICE void operator()(std::int64_t c) const {
    b.mean[c] = sum[c] / static_cast<float>(b.rows);
  }
};

template <class T>
struct Variance {
  Batch<T> b;
  const float* squares;
  float* variance;
  float epsilon;
  HOST_DEVICE void operator()(std::int64_t c) const {
    const auto rows = static_cast<double>(b.rows);
    b.inverse[c] = static_cast<float>(1 / std::sqrt(squares[c] / rows + epsilon));
    variance[c] = static_cast<float>(squares[c] / (rows > 1 ? rows - 1 : 1));
  }
};

struct Running {
  const float* variance;
  float* inverse;
  float epsilon;
  HOST_DEVICE void operator()(std::int64_t c) const {
    inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
  }
};

struct Set {
  float* to;
  float value;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = value; }
};

template <class T, bool kRelu>
struct Normalize {
  Batch<T> b;
  T* y;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
      const std::int64_t i = row * b.channels + c;
      const float value = b.scaled(b.normalized(i, c), c);
      y[i] = kRelu && value <= 0 ? 0.0f : value;
    }
  }
};

/// partial[block] = sum of the gradients of y; partial[blocks + block] = sum of these times the
/// normalized x.
template <class T, bool kRelu>
struct SumGradients {
  Batch<T> b;
  const T* dy;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    float *beta = b.partial + block * b.channels, *gamma = beta + b.blocks * b.channels;
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) beta[c] = gamma[c] = 0;
    for (std::int64_t row = b.begin(block); row < b.begin(block + 1); ++row) {
#pragma GCC ivdep
      for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
        const std::int64_t i = row * b.channels + c;
        const float normalized = b.normalized(i, c), upstream = dy[i];
        const float gradient = !kRelu || b.scaled(normalized, c) > 0 ? upstream : 0.0f;
        beta[c] += gradient;
        gamma[c] += gradient * normalized;
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

/// Needs the sums over all rows of the gradients, and of these times the normalized x.
template <class T, bool kRelu>
struct InputGradient {
  Batch<T> b;
  const T* dy;
  T* dx;
  const float *sum, *product;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const float share = 1 / static_cast<float>(b.rows);
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < b.channels; c += team.lanes) {
      const std::int64_t i = row * b.channels + c;
      const float normalized = b.normalized(i, c), upstream = dy[i];
      const float gradient = !kRelu || b.scaled(normalized, c) > 0 ? upstream : 0.0f;
      dx[i] = b.gamma[c] * b.inverse[c] * (gradient - share * (sum[c] + normalized * product[c]));
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
    by_body(x, [&]<class T, bool kRelu>() {
      Stream& stream = *call.stream;
      Batch<T> b = batch<T>(call, x);
      if (!options_.scale) each(stream, channels_, Set{saved(call, ones_), 1});
      if (call.batch != nullptr) {
        AcrossShards* const across = call.batch->across;
        float* sums = summed(call);
        Batch<T> all = b;
        if (across != nullptr) all.rows *= across->shards();
        each_row(stream, blocks_, 2 * block_size(), SumRows<T>{b});
        each(stream, channels_, Total<T>{b, b.partial, sums});
        if (across != nullptr) across->sum(stream, sums, channels_);
        each(stream, channels_, Mean<T>{all, sums});
        each(stream, channels_, TotalSquares<T>{b, sums});
        if (across != nullptr) across->sum(stream, sums, channels_);
        each(stream, channels_, Variance<T>{all, sums, saved(call, variance_), options_.epsilon});
      } else {
        b.mean = own(call.weights, kMean);
        each(stream, channels_, Running{own(call.weights, kVariance), b.inverse, options_.epsilon});
      }
      each_row(stream, rows_, channels_, Normalize<T, kRelu>{b, y.as<T>()});
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    by_body(x, [&]<class T, bool kRelu>() {
      Stream& stream = *call.stream;
      const Batch<T> b = batch<T>(call, x);
      each_row(stream, blocks_, 2 * block_size(), SumGradients<T, kRelu>{b, dy.as<T>()});
      float *gamma = options_.scale ? own(call.gradients, kGamma) : saved(call, unwanted_),
            *beta = own(call.gradients, kBeta);
      const float *product = gamma, *sum = beta;
      Batch<T> all = b;
      if (AcrossShards* const across = call.batch->across; across != nullptr && dx) {
        float* sums = summed(call);
        each(stream, channels_, Total<T>{b, b.partial, sums});
        each(stream, channels_, Total<T>{b, b.partial + blocks_ * channels_, sums + channels_});
        across->sum(stream, sums, 2 * channels_);
        all.rows *= across->shards();
        sum = sums;
        product = sums + channels_;
      }
      each(stream, channels_,
           WriteGradients<T>{b, saved(call, variance_), gamma, beta, own(call.gradients, kMean),
                             own(call.gradients, kVariance), call.batch->share});
      if (!dx) return;
      each_row(stream, rows_, channels_,
               InputGradient<T, kRelu>{all, dy.as<T>(), dx.as<T>(), sum, product});
    });
  }

  bool keeps_dy() const override { return true; }
  std::string implementation() const override {
    return options_.relu ? "batch_norm + relu" : "batch_norm";
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
  /// Calls f for the type of x and with or without the ReLU.
  template <class F>
  void by_body(View x, F f) const {
    dispatch(x.type, [&]<class T>(T*) {
      if (options_.relu) return f.template operator()<T, true>();
      f.template operator()<T, false>();
    });
  }
  template <class T>
  Batch<T> batch(const LayerCall& call, View x) const {
    return {x.as<T>(),
            rows_,
            channels_,
            blocks_,
            saved(call, mean_),
            saved(call, inverse_),
            reinterpret_cast<float*>(call.scratch),
            options_.scale ? own(call.weights, kGamma) : saved(call, ones_),
            own(call.weights, kBeta)};
  }
  std::int64_t block_size() const { return rows_ / blocks_ * channels_; }
  /// The channels' sums, after the partial sums.
  float* summed(const LayerCall& call) const {
    return reinterpret_cast<float*>(call.scratch) + 2 * blocks_ * channels_;
  }

  BatchNormOptions options_;
  std::int64_t rows_ = 0, channels_ = 0, blocks_ = 0;
  std::size_t mean_ = 0, inverse_ = 0, variance_ = 0;
  /// Without options_.scale: substitutes for gamma and its gradient.
  std::size_t ones_ = 0, unwanted_ = 0;
};

}  // namespace

std::unique_ptr<Layer> batch_norm(BatchNormOptions options) {
  return std::make_unique<BatchNormLayer>(options);
}

}  // namespace lockstep
