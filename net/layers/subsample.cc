// Every stride-th element along H and W, and zeros as further channels: the shortcut without
// parameters of He et al. 2015 (option A).

#include <algorithm>

#include "net/layers.h"
#include "src/base/round_up.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

struct Image {
  std::int64_t h, w, c;
};

/// From x to y, or in backward from dy to dx. A row is a pixel of `to`.
template <class T, bool kBackward>
struct Move {
  const T* from;
  T* to;
  Image source, target;
  std::int64_t stride;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t column = row % target.w, line = row / target.w % target.h,
                       image = row / (target.w * target.h);
    const bool skipped = kBackward && (column % stride != 0 || line % stride != 0);
    const std::int64_t copied = skipped ? 0 : std::min(source.c, target.c);
    const auto at = [&](std::int64_t i) { return kBackward ? i / stride : i * stride; };
    const T* const pixel =
        from + ((image * source.h + at(line)) * source.w + at(column)) * source.c;
    T* const own = to + row * target.c;
    for (std::int64_t c = team.lane; c < copied; c += team.lanes) own[c] = pixel[c];
    for (std::int64_t c = copied + team.lane; c < target.c; c += team.lanes) own[c] = 0.0f;
  }
};

class SubsampleLayer : public Layer {
 public:
  SubsampleLayer(std::int64_t stride, std::int64_t channels)
      : stride_(stride), channels_(channels) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 4 || in[3] > channels_) {
      throw Error("the shortcut " + setup.name + " needs N, H, W and at most " +
                  std::to_string(channels_) + " channels; its input is " + in.text());
    }
    setup.numbers = {{"stride", stride_}};
    x_ = {in[1], in[2], in[3]};
    y_ = {ceil_div(in[1], stride_), ceil_div(in[2], stride_), channels_};
    return {in[0], y_.h, y_.w, channels_};
  }
  void forward(LayerCall& call, View x, View y) override { move<false>(call, x, x_, y, y_); }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    move<true>(call, dy, y_, dx, x_);
  }
  std::string implementation() const override { return "subsample"; }

 private:
  template <bool kBackward>
  void move(LayerCall& call, View from, Image source, View to, Image target) const {
    dispatch(from.type, [&]<class T>(T*) {
      each_row(*call.stream, to.count() / target.c, target.c,
               Move<T, kBackward>{from.as<T>(), to.as<T>(), source, target, stride_});
    });
  }

  std::int64_t stride_, channels_;
  Image x_{}, y_{};
};

}  // namespace

std::unique_ptr<Layer> subsample(std::int64_t stride, std::int64_t channels) {
  return std::make_unique<SubsampleLayer>(stride, channels);
}

}  // namespace lockstep
