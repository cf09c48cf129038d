// The sum of a branch and a shortcut or the identity.
//
// Source: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016.
//
// The branch and the shortcut read the same dy. The branch comes first in backward. If it
// overwrites dy, it gets a copy. The shortcut comes last, so that it may overwrite dy itself.

#include <optional>
#include <utility>

#include "net/layers.h"
#include "net/layers/elementwise.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <bool kRelu>
struct Sum {
  HOST_DEVICE float operator()(float a, float b) const {
    const float sum = a + b;
    return kRelu && sum <= 0 ? 0.0f : sum;
  }
};

void sum(Stream& stream, View a, View b, View y, bool relu) {
  dispatch(y.type, [&]<class T>(T*) {
    const auto enqueue = [&](auto f) {
      map(stream, y.count(), f, y.as<T>(), a.as<T>(), b.as<T>());
    };
    relu ? enqueue(Sum<true>{}) : enqueue(Sum<false>{});
  });
}

class ResidualLayer : public Layer {
 public:
  ResidualLayer(NamedLayers branch, NamedLayers shortcut, bool relu, std::string name)
      : branch_("", std::make_unique<Chain>(std::move(branch))), relu_(relu) {
    if (!shortcut.empty())
      shortcut_.emplace(std::move(name), std::make_unique<Chain>(std::move(shortcut)));
  }

  Shape setup(Setup& setup, Shape in) override {
    in_ = in;
    type_ = setup.type;
    training_ = setup.training;
    // The shortcut first, because backward has the opposite order (Part).
    const Shape beside = shortcut_ ? shortcut_->setup(setup, in, setup.input_gradient) : in;
    const int beside_source = std::exchange(setup.source, LayerSummary::kInput);
    out_ = branch_.setup(setup, in, setup.input_gradient);
    if (beside != out_) {
      throw Error(setup.name + ": the branch returns " + out_.text() + " and the shortcut " +
                  beside.text() + "; pass residual() a shortcut of the branch's shape");
    }
    first_ = training_ && branch_.keeps_dy() ? 0 : Arena::aligned(bytes(out_));
    own_ = first_ + (shortcut_ ? Arena::aligned(bytes(training_ ? in_ : out_)) : 0);
    if (training_) {
      branch_place_ = setup.save(bytes(out_));
      if (shortcut_) shortcut_place_ = setup.save(bytes(out_));
    }
    setup.scratch(own_ + std::max(branch_.scratch_bytes(),
                                  shortcut_ ? shortcut_->scratch_bytes() : std::size_t{0}));
    setup.layers.push_back({.name = setup.name.empty() ? "sum" : setup.name + "/sum",
                            .kind = "sum",
                            .implementation = relu_ ? "sum + relu" : "sum",
                            .output = out_,
                            .inputs = {setup.source, beside_source},
                            .numbers = {{"relu", relu_}}});
    return out_;
  }

  void forward(LayerCall& call, View x, View y) override {
    const LayerCall inner = for_parts(call);
    const View branch = output(call, branch_place_, 0),
               beside = output(call, shortcut_place_, first_);
    branch_.forward(inner, x, branch);
    if (shortcut_) shortcut_->forward(inner, x, beside);
    sum(*call.stream, branch, shortcut_ ? beside : x, y, relu_);
  }

  void backward(LayerCall& call, View x, View y, View dy, View dx) override {
    const LayerCall inner = for_parts(call);
    const View other_dx = scratch(call, first_, in_);
    View branch_dy = dy;
    if (relu_) mask_relu(*call.stream, y, dy, dy);
    if (!branch_.keeps_dy()) {
      branch_dy = scratch(call, 0, out_);
      copy(*call.stream, dy, branch_dy);
    }
    branch_.backward(inner, x, output(call, branch_place_, 0), branch_dy, dx);
    if (shortcut_) {
      shortcut_->backward(inner, x, output(call, shortcut_place_, first_), dy,
                          dx ? other_dx : View{});
    }
    if (dx) sum(*call.stream, dx, shortcut_ ? other_dx : dy, dx, /*relu=*/false);
  }

  bool keeps_dy() const override { return !relu_ && !(shortcut_ && !shortcut_->keeps_dy()); }
  std::string implementation() const override { return "residual"; }

 private:
  std::size_t bytes(Shape shape) const { return shape.count() * size_of(type_); }
  /// There are at most two places: for the branch's y or a copy of its gradient, and from `first_`
  /// on for the shortcut's y or dx.
  View scratch(const LayerCall& call, std::size_t place, Shape shape) const {
    return {call.scratch + place, shape, type_};
  }
  View output(const LayerCall& call, std::size_t saved, std::size_t place) const {
    return training_ ? View{call.saved + saved, out_, type_} : scratch(call, place, out_);
  }
  LayerCall for_parts(const LayerCall& call) const {
    LayerCall inner = call;
    inner.scratch += own_;
    return inner;
  }

  Part branch_;
  std::optional<Part> shortcut_;
  Shape in_, out_;
  Type type_ = Type::f32;
  bool relu_, training_ = false;
  std::size_t own_ = 0, first_ = 0, branch_place_ = 0, shortcut_place_ = 0;
};

}  // namespace

std::unique_ptr<Layer> residual(NamedLayers branch, NamedLayers shortcut, bool relu,
                                std::string name) {
  return std::make_unique<ResidualLayer>(std::move(branch), std::move(shortcut), relu,
                                         std::move(name));
}

}  // namespace lockstep
