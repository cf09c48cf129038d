// Squeeze and excitation: factors for the channels of an image, computed from the channels' means.
//
// Source: Hu, Shen, Sun, "Squeeze-and-excitation networks", CVPR 2018, with the hard sigmoid of
// MobileNetV3.

#include <cmath>

#include "net/layers/spatial.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// to[sample] = share * sum over the sample's pixels of x [* dy]. The sums are fp32.
template <class T, bool kProducts>
struct SumPixels {
  const T *x, *dy;
  float* sums;
  T* to;
  std::int64_t area, channels;
  float share;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t sample, Team team) const {
    float* sum = sums + sample * channels;
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) sum[c] = 0;
    for (std::int64_t row = sample * area; row < (sample + 1) * area; ++row) {
#pragma GCC ivdep
      for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
        const std::int64_t i = row * channels + c;
        const float value = x[i];
        sum[c] += kProducts ? value * static_cast<float>(dy[i]) : value;
      }
    }
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < channels; c += team.lanes)
      to[sample * channels + c] = share * sum[c];
  }
};

/// y = x * factor [+ share * term], with a factor and a term for each sample and channel.
template <class T, bool kTerm>
struct Scale {
  const T *x, *factors, *terms;
  T* y;
  std::int64_t area, channels;
  float share;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t sample = row / area * channels;
#pragma GCC ivdep
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      const std::int64_t i = row * channels + c;
      const float value = static_cast<float>(x[i]) * static_cast<float>(factors[sample + c]);
      y[i] = kTerm ? value + share * static_cast<float>(terms[sample + c]) : value;
    }
  }
};

/// As torchvision begins them: He et al., 2015, for gradients.
std::unique_ptr<Layer> gate_convolution(std::int64_t filters, bool relu) {
  return convolution(filters, 1, relu,
                     {.weight_deviation = std::sqrt(2 / static_cast<float>(filters))});
}

NamedLayers gate(std::int64_t channels, std::int64_t squeezed) {
  NamedLayers layers;
  layers.emplace_back("fc1", gate_convolution(squeezed, /*relu=*/true));
  layers.emplace_back("fc2", gate_convolution(channels, /*relu=*/false));
  layers.emplace_back("factors", hard_sigmoid());
  return layers;
}

class SqueezeExcitationLayer : public Layer {
 public:
  SqueezeExcitationLayer(std::int64_t channels, std::int64_t squeezed)
      : gate_("", std::make_unique<Chain>(gate(channels, squeezed))) {}

  Shape setup(Setup& setup, Shape in) override {
    const Shape image = as_image(in, "the squeeze and excitation " + setup.name);
    area_ = image[1] * image[2];
    means_ = {image[0], 1, 1, image[3]};
    const std::size_t bytes = Arena::aligned(means_.count() * size_of(setup.type));
    const Shape factors = gate_.setup(setup, means_, setup.input_gradient);
    if (factors != means_) {
      throw Error("the squeeze and excitation " + setup.name + " has " +
                  std::to_string(factors.back()) + " channels, and its input " +
                  std::to_string(means_.back()));
    }
    means_place_ = setup.save(bytes);
    factors_place_ = setup.save(bytes);
    terms_place_ = bytes;
    sums_place_ = 2 * bytes;
    gate_place_ = sums_place_ + Arena::aligned(means_.count() * sizeof(float));
    setup.scratch(gate_place_ + gate_.scratch_bytes());
    setup.layers.push_back({.name = setup.name.empty() ? "scale" : setup.name + "/scale",
                            .kind = "scale",
                            .implementation = "scale",
                            .output = in});
    return in;
  }

  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      const Places<T> at(*this, call);
      each_row(*call.stream, means_[0], area_ * means_[3],
               SumPixels<T, false>{x.as<T>(), nullptr, at.sums, at.means.template as<T>(), area_,
                                   means_[3], 1 / static_cast<float>(area_)});
      gate_.forward(at.inner, at.means, at.factors);
      each_row(*call.stream, means_[0] * area_, means_[3],
               Scale<T, false>{x.as<T>(), at.factors.template as<T>(), nullptr, y.as<T>(), area_,
                               means_[3], 0});
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    dispatch(x.type, [&]<class T>(T*) {
      const Places<T> at(*this, call);
      each_row(*call.stream, means_[0], area_ * means_[3],
               SumPixels<T, true>{x.as<T>(), dy.as<T>(), at.sums, at.slopes.template as<T>(), area_,
                                  means_[3], 1});
      gate_.backward(at.inner, at.means, at.factors, at.slopes, dx ? at.terms : View{});
      if (!dx) return;
      each_row(*call.stream, means_[0] * area_, means_[3],
               Scale<T, true>{dy.as<T>(), at.factors.template as<T>(), at.terms.template as<T>(),
                              dx.as<T>(), area_, means_[3], 1 / static_cast<float>(area_)});
    });
  }

  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "squeeze_excitation"; }

 private:
  /// The memory of one call: the means and the factors, the gradients of both, fp32 sums.
  template <class T>
  struct Places {
    Places(const SqueezeExcitationLayer& layer, const LayerCall& call)
        : inner(call),
          means(layer.view<T>(call.saved + layer.means_place_)),
          factors(layer.view<T>(call.saved + layer.factors_place_)),
          slopes(layer.view<T>(call.scratch)),
          terms(layer.view<T>(call.scratch + layer.terms_place_)),
          sums(reinterpret_cast<float*>(call.scratch + layer.sums_place_)) {
      inner.scratch += layer.gate_place_;
    }
    LayerCall inner;
    View means, factors, slopes, terms;
    float* sums;
  };
  template <class T>
  View view(std::byte* data) const {
    return {data, means_, type_of<T>};
  }

  Part gate_;
  Shape means_;
  std::int64_t area_ = 0;
  std::size_t means_place_ = 0, factors_place_ = 0, terms_place_ = 0, sums_place_ = 0,
              gate_place_ = 0;
};

}  // namespace

std::unique_ptr<Layer> squeeze_excitation(std::int64_t channels, std::int64_t squeezed) {
  return std::make_unique<SqueezeExcitationLayer>(channels, squeezed);
}

}  // namespace lockstep
