#include "net/layers/elementwise.h"

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Copy {
  static constexpr int kWidth = 16 / sizeof(T);
  const T* from;
  T* to;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = from[i]; }
  HOST_DEVICE void pack(std::int64_t i) const {
    Pack<T, kWidth>::store(Pack<T, kWidth>::load(from + i), to + i);
  }
  bool aligned() const { return aligned_for_packs<kWidth>(from, to); }
};

struct Line {
  float factor, offset;
  HOST_DEVICE float operator()(float x) const { return factor * x + offset; }
};

class RescaleLayer : public Layer {
 public:
  RescaleLayer(float factor, float offset) : factor_(factor), offset_(offset) {}
  Shape setup(Setup& setup, Shape in) override {
    setup.numbers = {{"factor", factor_}, {"offset", offset_}};
    return in;
  }
  void forward(LayerCall& call, View x, View y) override { apply(call, x, y, offset_); }
  void backward(LayerCall& call, View, View, View dy, View dx) override { apply(call, dy, dx, 0); }
  std::string implementation() const override { return "rescale"; }

 private:
  void apply(LayerCall& call, View from, View to, float offset) const {
    dispatch(from.type, [&]<class T>(T*) {
      map(*call.stream, from.count(), Line{factor_, offset}, to.as<T>(), from.as<T>());
    });
  }

  float factor_, offset_;
};

class FlattenLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return {in[0], in.row()}; }
  void forward(LayerCall& call, View x, View y) override { copy(*call.stream, x, y); }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    copy(*call.stream, dy, dx);
  }
  std::string implementation() const override { return "flatten"; }
};

}  // namespace

void copy(Stream& stream, View from, View to) {
  dispatch(from.type, [&]<class T>(T*) {
    each(stream, from.count(), Copy<T>{from.as<T>(), to.as<T>()});
  });
}

std::unique_ptr<Layer> rescale(float factor, float offset) {
  return std::make_unique<RescaleLayer>(factor, offset);
}

std::unique_ptr<Layer> flatten() { return std::make_unique<FlattenLayer>(); }

}  // namespace lockstep
