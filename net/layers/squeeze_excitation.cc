// Squeeze and excitation: factors for the channels of an image, computed from the channels' means.
//
// Source: Hu, Shen, Sun, "Squeeze-and-excitation networks", CVPR 2018, with the hard sigmoid of
// MobileNetV3.

#include <algorithm>
#include <cmath>

#include "net/block_sums.h"
#include "net/layers/spatial.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// to[sample] = share * the sum of the sample's parts.
template <class T>
struct AddParts {
  const float* partial;
  T* to;
  std::int64_t channels, parts;
  float share;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = quotient(i, channels), c = i - sample * channels;
    float sum = 0;
    for (std::int64_t part = 0; part < parts; ++part)
      sum += partial[(sample * parts + part) * channels + c];
    to[i] = share * sum;
  }
};

/// y = x * factor [+ share * term], with a factor and a term for each sample and channel. A block
/// is a pixel.
template <class T, bool kTerm>
struct Scale {
  static constexpr int kWidth = 16 / sizeof(T);
  const T *x, *factors, *terms;
  T* y;
  std::int64_t area, channels;
  float share;
  bool aligned() const { return aligned_for_packs<kWidth>(x, factors, kTerm ? terms : x, y); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const std::int64_t place = block * channels + c, own = quotient(block, area) * channels + c;
    const auto value = read(x + place, count), factor = read(factors + own, count);
    const auto term = read((kTerm ? terms : factors) + own, count);
    write(y + place, count, [&](int k) {
      const float product = value[k] * factor[k];
      return kTerm ? product + share * term[k] : product;
    });
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
    const std::string path = setup.name.empty() ? "" : setup.name + "/";
    // The mean and the product are rows of their own, because an export needs the inputs of each
    // layer. The gate reads the mean.
    setup.layers.push_back({.name = path + "mean",
                            .kind = "global_average_pool",
                            .implementation = "mean",
                            .output = means_,
                            .inputs = {LayerSummary::kInput}});
    setup.source = 0;
    const Shape factors = gate_.setup(setup, means_, setup.input_gradient);
    if (factors != means_) {
      throw Error("the squeeze and excitation " + setup.name + " has " +
                  std::to_string(factors.back()) + " channels, and its input " +
                  std::to_string(means_.back()));
    }
    means_place_ = setup.save(bytes);
    factors_place_ = setup.save(bytes);
    terms_place_ = bytes;
    partial_place_ = 2 * bytes;
    parts_ = parts_of(area_, means_.count(), setup.device.traits().lanes);
    gate_place_ = partial_place_ + Arena::aligned(means_.count() * parts_ * sizeof(float));
    setup.scratch(gate_place_ + gate_.scratch_bytes());
    setup.layers.push_back({.name = path + "scale",
                            .kind = "channel_scale",
                            .implementation = "scale",
                            .output = in,
                            .inputs = {LayerSummary::kInput, setup.source}});
    return in;
  }

  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      const Places<T> at(*this, call);
      sum_pixels<T, false>(call, x, {}, at, at.means, 1 / static_cast<float>(area_));
      gate_.forward(at.inner, at.means, at.factors);
      each_block(*call.stream, means_[0] * area_, means_[3], 1,
                 Scale<T, false>{x.as<T>(), at.factors.template as<T>(), nullptr, y.as<T>(), area_,
                                 means_[3], 0});
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    dispatch(x.type, [&]<class T>(T*) {
      const Places<T> at(*this, call);
      // x acts in two ways: y = x * factor, and factor = gate(mean of x). So dx = dy * factor +
      // terms / area, where `terms` is the gradient of the means.
      sum_pixels<T, true>(call, x, dy, at, at.slopes, 1);
      gate_.backward(at.inner, at.means, at.factors, at.slopes, dx ? at.terms : View{});
      if (!dx) return;
      each_block(*call.stream, means_[0] * area_, means_[3], 1,
                 Scale<T, true>{dy.as<T>(), at.factors.template as<T>(), at.terms.template as<T>(),
                                dx.as<T>(), area_, means_[3], 1 / static_cast<float>(area_)});
    });
  }

  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "squeeze_excitation"; }

 private:
  /// The memory of one call: the means and the factors, the gradients of both, sums of parts.
  template <class T>
  struct Places {
    Places(const SqueezeExcitationLayer& layer, const LayerCall& call)
        : inner(call),
          means(layer.view<T>(call.saved + layer.means_place_)),
          factors(layer.view<T>(call.saved + layer.factors_place_)),
          slopes(layer.view<T>(call.scratch)),
          terms(layer.view<T>(call.scratch + layer.terms_place_)),
          partial(reinterpret_cast<float*>(call.scratch + layer.partial_place_)) {
      inner.scratch += layer.gate_place_;
    }
    LayerCall inner;
    View means, factors, slopes, terms;
    float* partial;
  };
  template <class T>
  View view(std::byte* data) const {
    return {data, means_, type_of<T>};
  }
  /// Parts of a sample, of at least 16 pixels: enough for all lanes.
  static std::int64_t parts_of(std::int64_t area, std::int64_t sums, std::int64_t lanes) {
    return std::clamp<std::int64_t>(lanes / sums, 1, std::max<std::int64_t>(area / 16, 1));
  }
  template <class T, bool kProducts>
  void sum_pixels(LayerCall& call, View x, View dy, const Places<T>& at, View to,
                  float share) const {
    each_block(*call.stream, means_[0] * parts_, means_[3], area_ / parts_,
               SumParts<T, kProducts>{x.as<T>(), kProducts ? dy.as<T>() : nullptr, at.partial,
                                      area_, means_[3], parts_});
    each(*call.stream, means_.count(),
         AddParts<T>{at.partial, to.as<T>(), means_[3], parts_, share});
  }

  Part gate_;
  Shape means_;
  std::int64_t area_ = 0, parts_ = 1;
  std::size_t means_place_ = 0, factors_place_ = 0, terms_place_ = 0, partial_place_ = 0,
              gate_place_ = 0;
};

}  // namespace

std::unique_ptr<Layer> squeeze_excitation(std::int64_t channels, std::int64_t squeezed) {
  return std::make_unique<SqueezeExcitationLayer>(channels, squeezed);
}

}  // namespace lockstep
