// Softmax over the last extent.

#include <cmath>

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* y;
  std::int64_t columns;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* from = x + row * columns;
    float highest = from[0], sum = 0;
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) {
      const float value = from[c];
      highest = value > highest ? value : highest;
    }
    highest = team.max(highest);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      sum += std::exp(static_cast<float>(from[c]) - highest);
    sum = team.sum(sum);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      y[row * columns + c] = std::exp(static_cast<float>(from[c]) - highest) / sum;
  }
};

template <class T>
struct Backward {
  const T *y, *dy;
  T* dx;
  std::int64_t columns;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t begin = row * columns;
    float sum = 0;
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      sum += static_cast<float>(y[begin + c]) * static_cast<float>(dy[begin + c]);
    sum = team.sum(sum);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) {
      dx[begin + c] = static_cast<float>(y[begin + c]) * (static_cast<float>(dy[begin + c]) - sum);
    }
  }
};

class SoftmaxLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override {
    columns_ = in.back();
    return in;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, x.count() / columns_, columns_,
               Forward<T>{x.as<T>(), y.as<T>(), columns_});
    });
  }
  void backward(LayerCall& call, View, View y, View dy, View dx) override {
    dispatch(y.type, [&]<class T>(T*) {
      each_row(*call.stream, y.count() / columns_, columns_,
               Backward<T>{y.as<T>(), dy.as<T>(), dx.as<T>(), columns_});
    });
  }
  std::string implementation() const override { return "softmax"; }

 private:
  std::int64_t columns_ = 1;
};

}  // namespace

std::unique_ptr<Layer> softmax() { return std::make_unique<SoftmaxLayer>(); }

}  // namespace lockstep
