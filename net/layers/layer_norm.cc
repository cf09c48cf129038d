// Layer normalisation over the last extent. The number of blocks of rows depends only on the shape
// and the kind of device, so sums over rows have the same order on any number of threads.
//
// Source: Ba, Kiros, Hinton, "Layer normalization", 2016.

#include <cmath>

#include "net/block_sums.h"
#include "net/layers.h"
#include "src/device/each.h"
#include "src/device/team_sums.h"

namespace lockstep {
namespace {

/// `rows` of `columns`, with the mean and the inverse deviation of each row.
template <class T>
struct Rows {
  const T* x;
  std::int64_t rows, columns;
  float *mean, *inverse;
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
    const float mean =
        sum_of(team, r.columns, [=](std::int64_t c) { return static_cast<float>(x[c]); }) / count;
    // Around the mean, because the squares of values far from 0 would lose the digits of the
    // variance.
    const float squares = sum_of(team, r.columns, [=](std::int64_t c) {
      const float value = static_cast<float>(x[c]) - mean;
      return value * value;
    });
    const float inverse = 1 / std::sqrt(squares / count + epsilon);
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
  static constexpr int kWidth = 4 / sizeof(T);
  Rows<T> r;
  const T* dy;
  float* partial;
  std::int64_t blocks;
  bool aligned() const { return aligned_for_packs<kWidth>(r.x, dy); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    float gamma[kMost], beta[kMost];
    for (int k = 0; k < count; ++k) gamma[k] = beta[k] = 0;
    using X = decltype(read(r.x, count));
    struct Row {
      X x, dy;
      float mean, inverse;
    };
    const auto load = [&](std::int64_t row) {
      const std::int64_t place = row * r.columns + c;
      return Row{read(r.x + place, count), read(dy + place, count), r.mean[row], r.inverse[row]};
    };
    for_rows<8>(r.rows * block / blocks, r.rows * (block + 1) / blocks, count, load,
                [&](std::int64_t, const Row& row) {
                  for_columns(count, [&](int k) {
                    gamma[k] += row.dy[k] * ((row.x[k] - row.mean) * row.inverse);
                    beta[k] += row.dy[k];
                  });
                });
    float* const to = partial + block * r.columns + c;
    write(to, count, [&](int k) { return gamma[k]; });
    write(to + blocks * r.columns, count, [&](int k) { return beta[k]; });
  }
};

/// With n the normalised x and g = gamma * dy: dx = inverse * (g - mean(g) - n * mean(g * n)). One
/// pass over the row sums both means.
template <class T>
struct InputGradient {
  Rows<T> r;
  const T* dy;
  T* dx;
  const float* gamma;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T *const x = r.x + row * r.columns, *const from = dy + row * r.columns;
    T* const to = dx + row * r.columns;
    const float mean = r.mean[row], inverse = r.inverse[row];
    const auto normalized = [=](std::int64_t c) {
      return (static_cast<float>(x[c]) - mean) * inverse;
    };
    const auto gradient = [=, gamma = gamma](std::int64_t c) {
      return gamma[c] * static_cast<float>(from[c]);
    };
    float sums[2];  // of the gradients: by themselves, and along x
    add_up(
        team, 0, r.columns,
        [=](std::int64_t c, float* terms) {
          terms[0] = gradient(c);
          terms[1] = terms[0] * normalized(c);
        },
        sums);
    const float each = 1 / static_cast<float>(r.columns), sum = sums[0] * each,
                along = sums[1] * each;
    for (std::int64_t c = team.lane; c < r.columns; c += team.lanes)
      to[c] = inverse * (gradient(c) - sum - normalized(c) * along);
  }
};

class LayerNormLayer : public Layer {
 public:
  explicit LayerNormLayer(float epsilon) : epsilon_(epsilon) {}

  Shape setup(Setup& setup, Shape in) override {
    columns_ = in.back();
    rows_ = in.count() / columns_;
    blocks_ = row_blocks(rows_, columns_, setup.device.traits().lanes);
    setup.numbers = {{"epsilon", epsilon_}};
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
      each_block(*call.stream, blocks_, columns_, rows_ / blocks_,
                 SumGradients<T>{r, dy.as<T>(), partial, blocks_});
      for (const int i : {0, 1}) {
        each_column(*call.stream, columns_, blocks_,
                    SumOfBlocks{partial + i * blocks_ * columns_, call.gradients[i].as<float>(),
                                blocks_, columns_});
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
