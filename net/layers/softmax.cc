// Softmax over the last extent.

#include "net/exponential.h"
#include "net/layers.h"
#include "src/device/each.h"
#include "src/device/team_sums.h"

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
    // Less the highest value, so that no exponential overflows.
    const float highest = highest_of(team, columns, static_cast<float>(from[0]),
                                     [=](std::int64_t c) { return static_cast<float>(from[c]); });
    const auto power = [=](std::int64_t c) {
      return exponential(static_cast<float>(from[c]) - highest);
    };
    const float sum = sum_of(team, columns, power);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      y[row * columns + c] = power(c) / sum;
  }
};

template <class T>
struct Backward {
  const T *y, *dy;
  T* dx;
  std::int64_t columns;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T *const weight = y + row * columns, *const slope = dy + row * columns;
    const float sum = sum_of(team, columns, [=](std::int64_t c) {
      return static_cast<float>(weight[c]) * static_cast<float>(slope[c]);
    });
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      dx[row * columns + c] = static_cast<float>(weight[c]) * (static_cast<float>(slope[c]) - sum);
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
