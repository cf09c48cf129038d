// Every layer against itself in double: forward against a plain reference, gradients against
// central differences of that reference.

#include "net/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/base/random.h"
#include "src/device/arena.h"
#include "tests/support/async_device.h"

namespace lockstep {
namespace {

using Values = std::vector<double>;

/// A layer's inputs in double: x and its parameters.
struct Inputs {
  Shape x_shape;
  Values x;
  std::vector<Values> parameters;
};
using Reference = std::function<Values(const Inputs&)>;

double relu_if(bool relu, double value) { return relu ? std::max(value, 0.0) : value; }

/// Extents of x as N, H, W, C: a sequence is an image of one row.
struct Image {
  explicit Image(Shape s)
      : flat(s.rank() == 3), n(s[0]), h(flat ? 1 : s[1]), w(s[s.rank() - 2]), c(s.back()) {}
  bool flat;
  std::int64_t n, h, w, c;
};

Reference reference_convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                ConvolutionOptions o = {}) {
  return [=](const Inputs& in) {
    const Image x(in.x_shape);
    const std::int64_t height = x.flat ? 1 : kernel, reach = (kernel - 1) * o.dilation,
                       pad = o.padding == Padding::same ? reach / 2 : 0, tall = x.flat ? 0 : pad,
                       channels = x.c / o.groups;
    const auto extent = [&](std::int64_t along) {
      return (along + 2 * pad - reach - 1) / o.stride + 1;
    };
    const std::int64_t rows = x.flat ? 1 : extent(x.h), columns = extent(x.w);
    Values y;
    for (std::int64_t i = 0; i < x.n; ++i)
      for (std::int64_t oy = 0; oy < rows; ++oy)
        for (std::int64_t ox = 0; ox < columns; ++ox)
          for (std::int64_t f = 0; f < filters; ++f) {
            double sum = in.parameters.size() > 1 ? in.parameters[1][f] : 0;
            const std::int64_t first = f / (filters / o.groups) * channels;
            for (std::int64_t ky = 0; ky < height; ++ky)
              for (std::int64_t kx = 0; kx < kernel; ++kx) {
                const std::int64_t iy = oy * o.stride + ky * o.dilation - tall,
                                   ix = ox * o.stride + kx * o.dilation - pad;
                if (iy < 0 || iy >= x.h || ix < 0 || ix >= x.w) continue;
                for (std::int64_t k = 0; k < channels; ++k)
                  sum += in.x[((i * x.h + iy) * x.w + ix) * x.c + first + k] *
                         in.parameters[0][((f * height + ky) * kernel + kx) * channels + k];
              }
            y.push_back(relu_if(relu, sum));
          }
    return y;
  };
}

Reference reference_dense(std::int64_t features, bool relu) {
  return [=](const Inputs& in) {
    const std::int64_t n = in.x_shape[0], m = in.x_shape.row();
    Values y;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t f = 0; f < features; ++f) {
        double sum = in.parameters[1][f];
        for (std::int64_t k = 0; k < m; ++k) sum += in.x[i * m + k] * in.parameters[0][f * m + k];
        y.push_back(relu_if(relu, sum));
      }
    return y;
  };
}

/// What `of` makes of all values of each window that lie in the image.
Reference reference_pool(std::int64_t kernel, std::int64_t stride, Padding padding,
                         std::function<double(const Values&)> of) {
  return [=](const Inputs& in) {
    const Image x(in.x_shape);
    const auto extent = [&](std::int64_t along) {
      return padding == Padding::same ? (along + stride - 1) / stride
                                      : (along - kernel) / stride + 1;
    };
    const std::int64_t oh = x.flat ? 1 : extent(x.h), ow = extent(x.w);
    const std::int64_t top = std::max<std::int64_t>((oh - 1) * stride + kernel - x.h, 0) / 2;
    const std::int64_t left = std::max<std::int64_t>((ow - 1) * stride + kernel - x.w, 0) / 2;
    Values y;
    for (std::int64_t i = 0; i < x.n; ++i)
      for (std::int64_t oy = 0; oy < oh; ++oy)
        for (std::int64_t ox = 0; ox < ow; ++ox)
          for (std::int64_t k = 0; k < x.c; ++k) {
            Values window;
            for (std::int64_t iy = oy * stride - top; iy < oy * stride - top + kernel; ++iy)
              for (std::int64_t ix = ox * stride - left; ix < ox * stride - left + kernel; ++ix)
                if (iy >= 0 && iy < x.h && ix >= 0 && ix < x.w)
                  window.push_back(in.x[((i * x.h + iy) * x.w + ix) * x.c + k]);
            y.push_back(of(window));
          }
    return y;
  };
}

double highest(const Values& values) { return *std::max_element(values.begin(), values.end()); }
double mean(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

Reference reference_max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                             Padding padding = Padding::same) {
  return reference_pool(kernel, stride, padding,
                        [=](const Values& window) { return relu_if(relu, highest(window)); });
}

/// What `of` makes of each channel of a sample.
Reference reference_global(double (*of)(const Values&)) {
  return [=](const Inputs& in) {
    const Image x(in.x_shape);
    Values y;
    for (std::int64_t i = 0; i < x.n; ++i)
      for (std::int64_t k = 0; k < x.c; ++k) {
        Values channel;
        for (std::int64_t p = 0; p < x.h * x.w; ++p)
          channel.push_back(in.x[(i * x.h * x.w + p) * x.c + k]);
        y.push_back(of(channel));
      }
    return y;
  };
}

Reference reference_response_norm(std::int64_t radius, double bias, double alpha, double beta) {
  return [=](const Inputs& in) {
    const std::int64_t c = in.x_shape[3];
    Values y(in.x.size());
    for (std::size_t i = 0; i < in.x.size(); ++i) {
      const auto channel = static_cast<std::int64_t>(i) % c;
      double sum = 0;
      for (std::int64_t j = std::max<std::int64_t>(channel - radius, 0);
           j <= std::min(channel + radius, c - 1); ++j) {
        const double value = in.x[i - channel + j];
        sum += value * value;
      }
      y[i] = in.x[i] * std::pow(bias + alpha * sum, -beta);
    }
    return y;
  };
}

Reference reference_subsample(std::int64_t stride, std::int64_t channels) {
  return [=](const Inputs& in) {
    const Image x(in.x_shape);
    Values y;
    for (std::int64_t i = 0; i < x.n; ++i)
      for (std::int64_t iy = 0; iy < x.h; iy += stride)
        for (std::int64_t ix = 0; ix < x.w; ix += stride)
          for (std::int64_t k = 0; k < channels; ++k)
            y.push_back(k < x.c ? in.x[((i * x.h + iy) * x.w + ix) * x.c + k] : 0);
    return y;
  };
}

Reference reference_unit(double (*of)(double)) {
  return [=](const Inputs& in) {
    Values y = in.x;
    for (double& value : y) value = of(value);
    return y;
  };
}
double relu_of(double x) { return std::max(x, 0.0); }
double gelu_of(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }
double silu_of(double x) { return x / (1 + std::exp(-x)); }
Values reference_relu(const Inputs& in) { return reference_unit(relu_of)(in); }

Values reference_softmax(const Inputs& in) {
  const std::int64_t columns = in.x_shape.back();
  Values y;
  for (auto row = in.x.begin(); row != in.x.end(); row += columns) {
    double sum = 0;
    for (auto value = row; value != row + columns; ++value) sum += std::exp(*value);
    for (auto value = row; value != row + columns; ++value) y.push_back(std::exp(*value) / sum);
  }
  return y;
}

Reference reference_layer_norm(double epsilon) {
  return [=](const Inputs& in) {
    const std::size_t columns = in.parameters[0].size();
    Values y;
    for (std::size_t row = 0; row < in.x.size(); row += columns) {
      const auto begin = in.x.begin() + static_cast<std::ptrdiff_t>(row);
      const Values values(begin, begin + static_cast<std::ptrdiff_t>(columns));
      Values squares;
      for (const double value : values) squares.push_back(std::pow(value - mean(values), 2));
      for (std::size_t c = 0; c < columns; ++c) {
        y.push_back((values[c] - mean(values)) / std::sqrt(mean(squares) + epsilon) *
                        in.parameters[0][c] +
                    in.parameters[1][c]);
      }
    }
    return y;
  };
}

Reference reference_batch_norm(double epsilon) {
  return [=](const Inputs& in) {
    const auto channels = in.parameters[0].size(), rows = in.x.size() / channels;
    Values y(in.x.size());
    for (std::size_t c = 0; c < channels; ++c) {
      double mean = 0, variance = 0;
      for (std::size_t i = c; i < in.x.size(); i += channels) mean += in.x[i];
      mean /= static_cast<double>(rows);
      for (std::size_t i = c; i < in.x.size(); i += channels)
        variance += (in.x[i] - mean) * (in.x[i] - mean);
      variance /= static_cast<double>(rows);
      for (std::size_t i = c; i < in.x.size(); i += channels) {
        y[i] = (in.x[i] - mean) / std::sqrt(variance + epsilon) * in.parameters[0][c] +
               in.parameters[1][c];
      }
    }
    return y;
  };
}

Reference then_relu(Reference first) {
  return [=](const Inputs& in) {
    Values y = first(in);
    for (double& value : y) value = relu_of(value);
    return y;
  };
}

/// A layer within another: how many parameters and statistics it has, and the shape of its y.
struct Inner {
  Reference reference;
  std::size_t parameters;
  Shape y;
};

/// One after the other; the first one's parameters begin at `first`.
Reference reference_chain(std::vector<Inner> layers, std::size_t first = 0) {
  return [=](const Inputs& in) {
    Inputs now{in.x_shape, in.x, {}};
    auto next = in.parameters.begin() + static_cast<std::ptrdiff_t>(first);
    for (const Inner& layer : layers) {
      const auto end = next + static_cast<std::ptrdiff_t>(layer.parameters);
      now.parameters.assign(next, end);
      next = end;
      now.x = layer.reference(now);
      now.x_shape = layer.y;
    }
    return now.x;
  };
}

Reference reference_sum(Reference a, Reference b) {
  return [=](const Inputs& in) {
    Values y = a(in);
    const Values other = b(in);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += other[i];
    return y;
  };
}

/// What each pair of arguments names.
template <class... Layers>
NamedLayers named(Layers... layers) {
  NamedLayers result;
  int number = 0;
  (result.emplace_back("layer" + std::to_string(++number), std::move(layers)), ...);
  return result;
}

/// Of convolutions by Winograd's algorithm: see tests/unit/convolutions.cc.
constexpr double kFastTolerance = 1e-5;

/// One row of the sweep.
struct Case {
  const char* name;
  std::function<std::unique_ptr<Layer>()> make;
  Reference reference;
  Shape x;
  /// Relative errors in fp32, and of bf16 against it: half a unit in the last of 8 bits, with some
  /// room; more where one layer's rounding goes through the next.
  double tolerance = 2e-6, narrow = 4e-3;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  const AffineInit init{.weight_deviation = 0.3f, .bias = 0.1f};
  return {
      {"convolution",
       [=] { return convolution(5, 3, false, init); },
       reference_convolution(5, 3, false),
       {2, 6, 5, 3}},
      {"convolution_relu",
       [=] { return convolution(16, 5, true, init); },
       reference_convolution(16, 5, true),
       {2, 7, 6, 8}},
      {"convolution_wide",
       [=] { return convolution(32, 5, true, init); },
       reference_convolution(32, 5, true),
       {1, 5, 5, 32},
       kFastTolerance},
      {"dense", [=] { return dense(7, false, init); }, reference_dense(7, false), {3, 11}},
      {"dense_relu_of_images",
       [=] { return dense(10, true, init); },
       reference_dense(10, true),
       {4, 2, 3, 5}},
      {"max_pool",
       [] { return max_pool(3, 2, false); },
       reference_max_pool(3, 2, false),
       {2, 6, 7, 5}},
      {"max_pool_relu",
       [] { return max_pool(3, 2, true); },
       reference_max_pool(3, 2, true),
       {2, 8, 8, 70}},
      {"max_pool_2",
       [] { return max_pool(2, 2, false); },
       reference_max_pool(2, 2, false),
       {1, 4, 4, 3}},
      {"response_norm",
       [] { return response_norm(4, 1, 0.3f, 0.75f); },
       reference_response_norm(4, 1, 0.3f, 0.75),
       {2, 3, 3, 20}},
      {"response_norm_root",
       [] { return response_norm(1, 2, 0.5f, 0.5f); },
       reference_response_norm(1, 2, 0.5, 0.5),
       {1, 2, 3, 5}},
      {"response_norm_many",
       [] { return response_norm(4, 1, 0.01f, 0.75f); },
       reference_response_norm(4, 1, 0.01f, 0.75),
       {3, 3, 3, 64}},
      {"convolution_without_biases",
       [] { return convolution(5, 3, true, {.biases = false}); },
       reference_convolution(5, 3, true),
       {2, 6, 5, 3}},
      {"convolution_stride",
       [=] { return convolution(6, 3, true, init, {.stride = 2}); },
       reference_convolution(6, 3, true, {.stride = 2}),
       {2, 8, 7, 4}},
      {"convolution_1x1_stride",
       [=] { return convolution(6, 1, false, init, {.stride = 2}); },
       reference_convolution(6, 1, false, {.stride = 2}),
       {2, 6, 6, 3}},
      {"convolution_valid",
       [=] { return convolution(5, 4, false, init, {.padding = Padding::valid}); },
       reference_convolution(5, 4, false, {.padding = Padding::valid}),
       {2, 7, 6, 3}},
      {"convolution_dilated",
       [=] { return convolution(5, 3, true, init, {.dilation = 2}); },
       reference_convolution(5, 3, true, {.dilation = 2}),
       {2, 7, 8, 3}},
      {"convolution_of_all_options",
       [=] {
         return convolution(6, 3, false, init,
                            {.stride = 2, .dilation = 2, .groups = 2, .padding = Padding::valid});
       },
       reference_convolution(6, 3, false,
                             {.stride = 2, .dilation = 2, .groups = 2, .padding = Padding::valid}),
       {2, 9, 10, 4}},
      {"convolution_groups",
       [=] { return convolution(6, 3, true, init, {.groups = 2}); },
       reference_convolution(6, 3, true, {.groups = 2}),
       {2, 5, 6, 8}},
      {"convolution_depthwise",
       [=] { return convolution(16, 3, false, init, {.groups = 16}); },
       reference_convolution(16, 3, false, {.groups = 16}),
       {2, 5, 5, 16}},
      {"convolution_1d",
       [=] { return convolution(6, 5, true, init); },
       reference_convolution(6, 5, true),
       {3, 11, 7}},
      {"convolution_1d_valid",
       [=] { return convolution(8, 5, true, init, {.stride = 2, .padding = Padding::valid}); },
       reference_convolution(8, 5, true, {.stride = 2, .padding = Padding::valid}),
       {2, 16, 7}},
      {"max_pool_valid",
       [] { return max_pool(3, 2, false, Padding::valid); },
       reference_max_pool(3, 2, false, Padding::valid),
       {2, 8, 6, 5}},
      {"max_pool_1d",
       [] { return max_pool(2, 2, false); },
       reference_max_pool(2, 2, false),
       {3, 7, 5}},
      {"max_pool_1d_valid",
       [] { return max_pool(3, 2, true, Padding::valid); },
       reference_max_pool(3, 2, true, Padding::valid),
       {3, 8, 5}},
      {"average_pool",
       [] { return average_pool(3, 2); },
       reference_pool(3, 2, Padding::same, mean),
       {2, 6, 7, 5}},
      {"average_pool_valid",
       [] { return average_pool(3, 1, Padding::valid); },
       reference_pool(3, 1, Padding::valid, mean),
       {2, 6, 5, 3}},
      {"average_pool_1d",
       [] { return average_pool(4, 3); },
       reference_pool(4, 3, Padding::same, mean),
       {2, 11, 5}},
      {"global_average_pool", global_average_pool, reference_global(mean), {3, 4, 5, 6}},
      {"global_average_pool_1d", global_average_pool, reference_global(mean), {3, 9, 6}},
      {"global_max_pool", global_max_pool, reference_global(highest), {3, 4, 5, 6}},
      {"global_max_pool_1d", global_max_pool, reference_global(highest), {3, 9, 6}},
      {"rescale",
       [] { return rescale(0.75f, -0.5f); },
       reference_unit([](double x) { return 0.75 * x - 0.5; }),
       {2, 3, 3, 5}},
      {"flatten", flatten, [](const Inputs& in) { return in.x; }, {2, 3, 4, 5}},
      {"subsample", [] { return subsample(2, 8); }, reference_subsample(2, 8), {2, 5, 6, 3}},
      {"gelu", gelu, reference_unit(gelu_of), {2, 3, 3, 5}},
      {"silu", silu, reference_unit(silu_of), {2, 3, 3, 5}},
      {"softmax", softmax, reference_softmax, {5, 7}},
      {"layer_norm", [] { return layer_norm(0.25f); }, reference_layer_norm(0.25), {3, 4, 5, 6}},
      {"layer_norm_of_features",
       [] { return layer_norm(0.25f); },
       reference_layer_norm(0.25),
       {150, 9}},
      {"relu", [] { return relu(); }, reference_relu, {2, 3, 3, 5}},
      {"batch_norm",
       [] { return batch_norm({.epsilon = 0.25f}); },
       reference_batch_norm(0.25),
       {4, 5, 3, 6}},
      {"batch_norm_without_scale",
       [] { return batch_norm({.epsilon = 0.25f, .scale = false}); },
       [](const Inputs& in) {
         Inputs scaled = in;
         scaled.parameters.insert(scaled.parameters.begin(), Values(in.parameters[0].size(), 1));
         return reference_batch_norm(0.25)(scaled);
       },
       {4, 5, 3, 6}},
      {"batch_norm_of_features",
       [] { return batch_norm({.epsilon = 0.25f}); },
       reference_batch_norm(0.25),
       {7, 5}},
      {"batch_norm_relu",
       [] { return batch_norm({.epsilon = 0.25f, .relu = true}); },
       then_relu(reference_batch_norm(0.25)),
       {3, 10, 7, 6}},
      {"chain",
       [=] { return chain(named(dense(9, true, init), relu(), dense(4, false, init))); },
       reference_chain({{reference_dense(9, true), 2, {3, 9}},
                        {reference_relu, 0, {3, 9}},
                        {reference_dense(4, false), 2, {3, 4}}}),
       {3, 11},
       1e-5,
       2e-2},
      {"residual",
       [=] {
         return residual(named(batch_norm({.epsilon = 0.25f}), convolution(5, 3, true, init),
                               convolution(3, 3, true, init)));
       },
       reference_sum([](const Inputs& in) { return in.x; },
                     reference_chain({{reference_batch_norm(0.25), 4, {2, 4, 4, 3}},
                                      {reference_convolution(5, 3, true), 2, {2, 4, 4, 5}},
                                      {reference_convolution(3, 3, true), 2, {2, 4, 4, 3}}})),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
      {"residual_with_shortcut",
       [=] {
         return residual(named(convolution(4, 3, true, init), convolution(5, 3, false, init)),
                         named(convolution(5, 1, true, init)));
       },
       reference_sum(reference_chain({{reference_convolution(5, 1, true), 2, {2, 4, 4, 5}}}),
                     reference_chain({{reference_convolution(4, 3, true), 2, {2, 4, 4, 4}},
                                      {reference_convolution(5, 3, false), 2, {2, 4, 4, 5}}},
                                     2)),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
      {"residual_relu",
       [=] { return residual(named(convolution(3, 3, false, init)), {}, /*relu=*/true); },
       then_relu(
           reference_sum([](const Inputs& in) { return in.x; },
                         reference_chain({{reference_convolution(3, 3, false), 2, {2, 4, 4, 3}}}))),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
      {"residual_relu_with_shortcut",
       [=] {
         return residual(named(convolution(5, 3, true, init)), named(convolution(5, 1, true, init)),
                         /*relu=*/true);
       },
       then_relu(reference_sum(
           reference_chain({{reference_convolution(5, 1, true), 2, {2, 4, 4, 5}}}),
           reference_chain({{reference_convolution(5, 3, true), 2, {2, 4, 4, 5}}}, 2))),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
  };
}

/// Values in memory of a device, of type `type`, and the doubles that they exactly are.
class Tensor {
 public:
  Tensor(Device& device, Shape shape, Type type)
      : device_(&device),
        stream_(device.stream()),
        view{nullptr, shape, type},
        memory_(device.allocate(view.bytes(), Place::device)),
        host_(device.allocate(view.bytes(), Place::host)) {
    view.data = memory_.get();
  }

  /// Uniform in [-scale, scale); `coarse`: rounded to what bf16 holds.
  void fill(Random& random, double scale, bool coarse) {
    for (std::int64_t i = 0; i < view.count(); ++i) {
      const float value = random.uniform(-1, 1) * static_cast<float>(scale);
      put(i, coarse ? static_cast<float>(Bfloat16(value)) : value);
    }
    upload();
  }
  void poison() {
    for (std::int64_t i = 0; i < view.count(); ++i) put(i, std::numeric_limits<float>::quiet_NaN());
    upload();
  }
  void set(std::int64_t i, double value) {
    put(i, static_cast<float>(value));
    upload();
  }
  Values values() {
    device_->copy(*stream_, host_.get(), view.data, view.bytes());
    stream_->synchronize();
    Values result;
    dispatch(view.type, [&]<class T>(T*) {
      const auto* from = reinterpret_cast<const T*>(host_.get());
      for (std::int64_t i = 0; i < view.count(); ++i) result.push_back(static_cast<float>(from[i]));
    });
    return result;
  }

 private:
  void put(std::int64_t i, float value) {
    dispatch(view.type, [&]<class T>(T*) { reinterpret_cast<T*>(host_.get())[i] = value; });
  }
  void upload() {
    device_->copy(*stream_, view.data, host_.get(), view.bytes());
    stream_->synchronize();
  }

  Device* device_;
  std::unique_ptr<Stream> stream_;

 public:
  View view;

 private:
  Memory memory_, host_;
};

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// |a - b| / |b|, in the Euclidean norm.
double distance(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

/// d(dy . y) / d(values), by central differences of the reference, at every `stride`-th place;
/// `values` is a part of `in`.
Values numeric_gradient(const Reference& reference, Inputs& in, Values& values, const Values& dy,
                        std::size_t stride) {
  constexpr double kStep = 1e-6;
  Values gradient;
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double middle = values[i];
    values[i] = middle + kStep;
    const double above = dot(reference(in), dy);
    values[i] = middle - kStep;
    const double below = dot(reference(in), dy);
    values[i] = middle;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

Values every(const Values& values, std::size_t stride) {
  Values result;
  for (std::size_t i = 0; i < values.size(); i += stride) result.push_back(values[i]);
  return result;
}

/// One forward and backward of a case on random values.
struct Outcome {
  Inputs in;
  Values upstream, y, dx;
  std::vector<std::string> names;
  std::vector<bool> trained;
  std::vector<Values> gradients;
};

Outcome run_case(const Case& c, Type type, Device* device, bool coarse) {
  const std::unique_ptr<Stream> stream = device->stream();
  Random random(7, Purpose::generate, 0, 0);
  Setup setup(*device, type, true, true, "");
  const auto layer = c.make();
  const Shape y_shape = layer->setup(setup, c.x);

  Tensor x(*device, c.x, type), y(*device, y_shape, type), dy(*device, y_shape, type),
      dx(*device, c.x, type);
  x.fill(random, 1, coarse);
  dy.fill(random, 1, coarse);
  Outcome outcome;
  std::vector<Tensor> weights, gradients;
  std::vector<View> weight_views, gradient_views;
  const Memory position = device->allocate(sizeof(std::int64_t), Place::device);  // of 0
  const TrainingBatch batch{.seed = 1,
                            .position = reinterpret_cast<const std::int64_t*>(position.get())};
  LayerCall call;
  call.stream = stream.get();
  call.batch = &batch;
  for (const Parameter& parameter : setup.parameters) {
    weights.emplace_back(*device, parameter.shape, Type::f32);
    weights.back().fill(random, 0.5, coarse);
    gradients.emplace_back(*device, parameter.shape, Type::f32);
    gradients.back().poison();
    weight_views.push_back(weights.back().view);
    gradient_views.push_back(gradients.back().view);
    outcome.names.push_back(parameter.name);
    outcome.trained.push_back(parameter.trained());
  }
  call.weights = weight_views;
  call.gradients = gradient_views;
  const Memory saved = device->allocate(setup.saved_bytes + 1, Place::device),
               scratch = device->allocate(setup.scratch_bytes + 1, Place::device);
  call.saved = saved.get();
  call.scratch = scratch.get();
  dx.poison();
  y.poison();

  outcome.in = {c.x, x.values(), {}};
  for (Tensor& weight : weights) outcome.in.parameters.push_back(weight.values());
  outcome.upstream = dy.values();
  layer->forward(call, x.view, y.view);
  stream->synchronize();
  outcome.y = y.values();
  layer->backward(call, x.view, y.view, dy.view, dx.view);
  stream->synchronize();
  outcome.dx = dx.values();
  if (layer->keeps_dy()) {
    EXPECT_EQ(dy.values(), outcome.upstream);
  }
  for (Tensor& gradient : gradients) outcome.gradients.push_back(gradient.values());
  return outcome;
}

Outcome run_case(const Case& c, Type type, int threads, bool coarse) {
  return run_case(c, type, make_cpu_device(threads).get(), coarse);
}

class EveryLayer : public testing::TestWithParam<Case> {};

void check_against_double(const Case& c, int threads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "skipped: ThreadSanitizer does not see how OpenMP orders its team";
#endif
  Outcome o = run_case(c, Type::f32, threads, false);
  EXPECT_LT(distance(o.y, c.reference(o.in)), c.tolerance) << "forward";
  const auto compare = [&](const char* what, const Values& gradient, Values& values) {
    const std::size_t stride = values.size() / 150 + 1;
    EXPECT_LT(distance(every(gradient, stride),
                       numeric_gradient(c.reference, o.in, values, o.upstream, stride)),
              c.tolerance)
        << what;
  };
  compare("dx", o.dx, o.in.x);
  for (std::size_t p = 0; p < o.names.size(); ++p) {
    if (o.trained[p]) compare(o.names[p].c_str(), o.gradients[p], o.in.parameters[p]);
  }
}

TEST_P(EveryLayer, GradientsMatchCentralDifferencesInDouble) {
  check_against_double(GetParam(), 1);
}

TEST_P(EveryLayer, GradientsMatchWithSeveralThreads) { check_against_double(GetParam(), 3); }

TEST_P(EveryLayer, Bfloat16IsWithinItsRounding) {
  const double tolerance = GetParam().narrow;
  Outcome narrow;
  try {
    narrow = run_case(GetParam(), Type::bf16, 1, true);
  } catch (const std::exception& error) {
    GTEST_SKIP() << "skipped: no bf16 kernel on this processor (" << error.what() << ")";
  }
  const Outcome wide = run_case(GetParam(), Type::f32, 1, true);
  EXPECT_LT(distance(narrow.y, wide.y), tolerance);
  EXPECT_LT(distance(narrow.dx, wide.dx), tolerance);
  for (std::size_t p = 0; p < wide.names.size(); ++p) {
    EXPECT_LT(distance(narrow.gradients[p], wide.gradients[p]), tolerance) << wide.names[p];
  }
}

/// Three bits of mantissa more than bf16 has. For CPU cores there is no plan of linear layers.
TEST_P(EveryLayer, HalfIsWithinItsRounding) {
  const double tolerance = GetParam().narrow / 8;
  Outcome narrow;
  try {
    narrow = run_case(GetParam(), Type::f16, 1, true);
  } catch (const std::exception& error) {
    GTEST_SKIP() << "skipped: " << error.what();
  }
  const Outcome wide = run_case(GetParam(), Type::f32, 1, true);
  EXPECT_LT(distance(narrow.y, wide.y), tolerance);
  EXPECT_LT(distance(narrow.dx, wide.dx), tolerance);
  for (std::size_t p = 0; p < wide.names.size(); ++p) {
    EXPECT_LT(distance(narrow.gradients[p], wide.gradients[p]), tolerance) << wide.names[p];
  }
}

TEST_P(EveryLayer, DoneLaterGivesTheSameBits) {
  for (const Type type : {Type::f32, Type::bf16}) {
    Outcome at_once;
    try {
      at_once = run_case(GetParam(), type, 1, true);
    } catch (const std::exception& error) {
      GTEST_SKIP() << "skipped: no bf16 kernel on this processor (" << error.what() << ")";
    }
    const Outcome later = run_case(GetParam(), type, make_async_device().get(), true);
    EXPECT_EQ(later.y, at_once.y);
    EXPECT_EQ(later.dx, at_once.dx);
    EXPECT_EQ(later.gradients, at_once.gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Layers, PoolOfReluIsReluOfPool) {
  // The tutorial network relies on it: maximum and ReLU commute, gradients included.
  const auto device = make_cpu_device(1);
  const Reference pool = reference_max_pool(3, 2, false), fused = reference_max_pool(3, 2, true);
  Random random(3, Purpose::generate, 0, 0);
  Inputs in{{1, 6, 6, 4}, {}, {}};
  for (int i = 0; i < 144; ++i) in.x.push_back(random.uniform(-1, 0.2f));
  Inputs first_relu = in;
  for (double& value : first_relu.x) value = std::max(value, 0.0);
  EXPECT_EQ(pool(first_relu), fused(in));
}

/// y of a layer without a backward pass; its parameters come from `random` and go to `in`.
Values forward_of(Layer& layer, Tensor& x, Inputs& in, Random& random, const TrainingBatch* batch) {
  const auto device = make_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->stream();
  Setup setup(*device, Type::f32, false, false, "");
  Tensor y(*device, layer.setup(setup, x.view.shape), Type::f32);
  std::vector<Tensor> weights;
  std::vector<View> views;
  for (const Parameter& parameter : setup.parameters) {
    weights.emplace_back(*device, parameter.shape, Type::f32).fill(random, 1, false);
    views.push_back(weights.back().view);
    in.parameters.push_back(weights.back().values());
  }
  const Memory saved = device->allocate(setup.saved_bytes + 1, Place::device),
               scratch = device->allocate(setup.scratch_bytes + 1, Place::device);
  LayerCall call;
  call.stream = stream.get();
  call.weights = views;
  call.saved = saved.get();
  call.scratch = scratch.get();
  call.batch = batch;
  layer.forward(call, x.view, y.view);
  return y.values();
}

TEST(Layers, VarianceOfValuesFarFromZero) {
  // Squares around 0 would leave no digit of it.
  const auto device = make_cpu_device(1);
  Tensor x(*device, {4, 16, 16, 3}, Type::f32);
  Random random(5, Purpose::generate, 0, 0);
  for (std::int64_t i = 0; i < x.view.count(); ++i) x.set(i, 5000 + random.uniform(-1, 1));
  Inputs in{x.view.shape, x.values(), {}};
  const TrainingBatch batch;
  const Values y = forward_of(*batch_norm({.epsilon = 1e-12f}), x, in, random, &batch);
  EXPECT_LT(distance(y, reference_batch_norm(1e-12)(in)), 1e-3);
}

TEST(Layers, NanPassesRelu) {
  const auto device = make_cpu_device(1);
  Tensor x(*device, {1, 40}, Type::f32);
  Random random(1, Purpose::generate, 0, 0);
  x.fill(random, 1, false);
  x.set(0, std::numeric_limits<double>::quiet_NaN());
  const std::unique_ptr<Layer> layers[] = {
      relu(), residual(named(rescale(1, 0)), {}, /*relu=*/true), batch_norm({.relu = true})};
  for (const auto& layer : layers) {
    Inputs in;
    EXPECT_TRUE(std::isnan(forward_of(*layer, x, in, random, nullptr)[0]))
        << layer->implementation();
  }
}

TEST(Layers, NanPassesThePool) {
  const auto device = make_cpu_device(1);
  Tensor x(*device, {1, 4, 4, 1}, Type::f32);
  Random random(1, Purpose::generate, 0, 0);
  x.fill(random, 1, false);
  x.set(0, std::numeric_limits<double>::quiet_NaN());
  Inputs in;
  EXPECT_TRUE(std::isnan(forward_of(*max_pool(2, 2, /*relu=*/true), x, in, random, nullptr)[0]));
}

}  // namespace
}  // namespace lockstep
