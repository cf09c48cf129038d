// Layer normalisation over the last extent. The number of blocks of rows depends only on the shape,
// so sums over rows have the same order on any number of threads.
//
// Source: Ba, Kiros, Hinton, "Layer normalization", 2016.

#include <cmath>

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlocks = 64;

/// `rows` of `columns`, with the mean and the inverse deviation of each row.
template <class T>
struct Rows {
  const T* x;
  std::int64_t rows, columns;
  float *mean, *inverse;

  HOST_DEVICE float normalized(std::int64_t row, std::int64_t c) const {
    return (static_cast<float>(x[row * columns + c]) - mean[row]) * inverse[row];
  }
};

template <class T>
struct Forward {
  Rows<T> r;
  T* y;
  const float *gamma, *beta;
  float epsilon;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* x = r.x + row * r.columns;
    const auto count = static_cast<float>(r.columns);
    float sum = 0, squares = 0;
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes)
      sum += static_cast<float>(x[c]);
    const float mean = team.sum(sum) / count;
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes) {
      const float value = static_cast<float>(x[c]) - mean;
      squares += value * value;
    }
    const float inverse = 1 / std::sqrt(team.sum(squares) / count + epsilon);
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes) {
      y[row * r.columns + c] = (static_cast<float>(x[c]) - mean) * inverse * gamma[c] + beta[c];
    }
    if (team.lane != 0) return;
    r.mean[row] = mean;
    r.inverse[row] = inverse;
  }
};

/// partial[block] = the block's sums of dy * normalized x; partial[blocks + block] = those of dy.
template <class T>
struct SumGradients {
  Rows<T> r;
  const T* dy;
  float* partial;
  std::int64_t blocks;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    float *gamma = partial + block * r.columns, *beta = gamma + blocks * r.columns;
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes) gamma[c] = beta[c] = 0;
    for (std::int64_t row = r.rows * block / blocks; row < r.rows * (block + 1) / blocks; ++row) {
      for (std::int64_t c = team.lane; c < r.columns; c += team.lanes) {
        const float gradient = dy[row * r.columns + c];
        gamma[c] += gradient * r.normalized(row, c);
        beta[c] += gradient;
      }
    }
  }
};

struct AddBlocks {
  const float* partial;
  float* to;
  std::int64_t blocks, columns;
  HOST_DEVICE void operator()(std::int64_t c) const {
    double sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block * columns + c];
    to[c] = static_cast<float>(sum);
  }
};

template <class T>
struct InputGradient {
  Rows<T> r;
  const T* dy;
  T* dx;
  const float* gamma;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t begin = row * r.columns;
    float sum = 0, along = 0;
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes) {
      const float gradient = gamma[c] * static_cast<float>(dy[begin + c]);
      sum += gradient;
      along += gradient * r.normalized(row, c);
    }
    const float each = 1 / static_cast<float>(r.columns);
    sum = team.sum(sum) * each;
    along = team.sum(along) * each;
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes) {
      const float gradient = gamma[c] * static_cast<float>(dy[begin + c]);
      dx[begin + c] = r.inverse[row] * (gradient - sum - r.normalized(row, c) * along);
    }
  }
};

class LayerNormLayer : public Layer {
 public:
  explicit LayerNormLayer(float epsilon) : epsilon_(epsilon) {}

  Shape setup(Setup& setup, Shape in) override {
    columns_ = in.back();
    rows_ = in.count() / columns_;
    blocks_ = std::min(rows_, kBlocks);
    setup.parameter("gamma", {columns_}, {Init::Kind::constant, 1});
    setup.parameter("beta", {columns_}, {Init::Kind::constant, 0});
    for (std::size_t* place : {&mean_, &inverse_}) *place = setup.save(rows_ * sizeof(float));
    setup.scratch((2 * blocks_ * columns_) * sizeof(float));
    return in;
  }

  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, rows_, columns_,
               Forward<T>{rows<T>(call, x), y.as<T>(), call.weights[0].as<float>(),
                          call.weights[1].as<float>(), epsilon_});
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    dispatch(x.type, [&]<class T>(T*) {
      const Rows<T> r = rows<T>(call, x);
      auto* partial = reinterpret_cast<float*>(call.scratch);
      each_row(*call.stream, blocks_, rows_ / blocks_ * columns_,
               SumGradients<T>{r, dy.as<T>(), partial, blocks_});
      for (const std::size_t which : {0, 1}) {
        each(*call.stream, columns_,
             AddBlocks{partial + static_cast<std::int64_t>(which) * blocks_ * columns_,
                       call.gradients[which].as<float>(), blocks_, columns_});
      }
      if (!dx) return;
      each_row(*call.stream, rows_, columns_,
               InputGradient<T>{r, dy.as<T>(), dx.as<T>(), call.weights[0].as<float>()});
    });
  }

  std::string implementation() const override { return "layer_norm"; }

 private:
  template <class T>
  Rows<T> rows(const LayerCall& call, View x) const {
    return {x.as<T>(), rows_, columns_, reinterpret_cast<float*>(call.saved + mean_),
            reinterpret_cast<float*>(call.saved + inverse_)};
  }

  float epsilon_;
  std::int64_t rows_ = 0, columns_ = 0, blocks_ = 0;
  std::size_t mean_ = 0, inverse_ = 0;
};

}  // namespace

std::unique_ptr<Layer> layer_norm(float epsilon) {
  return std::make_unique<LayerNormLayer>(epsilon);
}

}  // namespace lockstep
