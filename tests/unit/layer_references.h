// Layers in double, as plain as their definitions, for tests/unit/layers.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "net/layers.h"

namespace lockstep {

using Values = std::vector<double>;

/// A layer's inputs in double: x and its parameters.
struct Inputs {
  Shape x_shape;
  Values x;
  std::vector<Values> parameters;
};
using Reference = std::function<Values(const Inputs&)>;

inline double relu_if(bool relu, double value) { return relu ? std::max(value, 0.0) : value; }

/// Extents of x as N, H, W, C: a sequence is an image of one row.
struct Image {
  explicit Image(Shape s)
      : flat(s.rank() == 3), n(s[0]), h(flat ? 1 : s[1]), w(s[s.rank() - 2]), c(s.back()) {}
  bool flat;
  std::int64_t n, h, w, c;
};

inline Reference reference_convolution(std::int64_t filters, std::int64_t kernel, bool relu,
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

inline Reference reference_dense(std::int64_t features, bool relu) {
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

/// `of` applied to all values of each window that lie in the image.
inline Reference reference_pool(std::int64_t kernel, std::int64_t stride, Padding padding,
                                std::function<double(const Values&)> of) {
  return [=](const Inputs& in) {
    const Image x(in.x_shape);
    const auto extent = [&](std::int64_t along) {
      if (padding == Padding::same) return (along + stride - 1) / stride;
      return (along + (padding == Padding::centred ? kernel - 1 : 0) - kernel) / stride + 1;
    };
    const std::int64_t oh = x.flat ? 1 : extent(x.h), ow = extent(x.w);
    const auto before = [&](std::int64_t windows, std::int64_t along) {
      return padding == Padding::centred
                 ? (kernel - 1) / 2
                 : std::max<std::int64_t>((windows - 1) * stride + kernel - along, 0) / 2;
    };
    const std::int64_t top = before(oh, x.h), left = before(ow, x.w);
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

inline double highest(const Values& values) {
  return *std::max_element(values.begin(), values.end());
}
inline double mean(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

inline Reference reference_max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                                    Padding padding = Padding::same) {
  return reference_pool(kernel, stride, padding,
                        [=](const Values& window) { return relu_if(relu, highest(window)); });
}

/// `of` applied to each channel of a sample.
inline Reference reference_global(double (*of)(const Values&)) {
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

inline Reference reference_response_norm(std::int64_t radius, double bias, double alpha,
                                         double beta) {
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

inline Reference reference_subsample(std::int64_t stride, std::int64_t channels) {
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

inline Reference reference_unit(double (*of)(double)) {
  return [=](const Inputs& in) {
    Values y = in.x;
    for (double& value : y) value = of(value);
    return y;
  };
}
inline double relu_of(double x) { return std::max(x, 0.0); }
inline double gelu_of(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }
inline double silu_of(double x) { return x / (1 + std::exp(-x)); }
inline Values reference_relu(const Inputs& in) { return reference_unit(relu_of)(in); }

inline double hard_sigmoid_of(double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }

/// A dense layer over the last extent.
inline Reference reference_linear(std::int64_t features) {
  return [=](const Inputs& in) {
    const std::int64_t inputs = in.x_shape.back();
    return reference_dense(features, false)(
        {{in.x_shape.count() / inputs, inputs}, in.x, in.parameters});
  };
}

/// Parameters: weights and biases of fc1, then of fc2.
inline Values reference_squeeze_excitation(const Inputs& in) {
  const std::int64_t n = in.x_shape[0], c = in.x_shape[3];
  const auto first = in.parameters.begin();
  const Values means = reference_global(mean)(in);
  const auto squeezed = static_cast<std::int64_t>(in.parameters[1].size());
  const Values few = reference_dense(squeezed, true)({{n, c}, means, {first, first + 2}}),
               factors = reference_dense(c, false)({{n, squeezed}, few, {first + 2, first + 4}});
  Values y = in.x;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    y[i] *= hard_sigmoid_of(factors[at / in.x_shape.row() * c + at % c]);
  }
  return y;
}

inline Values reference_layer_scale(const Inputs& in) {
  Values y = in.x;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= in.parameters[0][i % in.parameters[0].size()];
  return y;
}

inline Values reference_softmax(const Inputs& in) {
  const std::int64_t columns = in.x_shape.back();
  Values y;
  for (auto row = in.x.begin(); row != in.x.end(); row += columns) {
    double sum = 0;
    for (auto value = row; value != row + columns; ++value) sum += std::exp(*value);
    for (auto value = row; value != row + columns; ++value) y.push_back(std::exp(*value) / sum);
  }
  return y;
}

inline Reference reference_attention(std::int64_t heads) {
  return [=](const Inputs& in) {
    const std::int64_t length = in.x_shape[1], width = in.x_shape[2] / 3, size = width / heads;
    Values y(in.x.size() / 3);
    const auto at = [&](std::int64_t part, std::int64_t row, std::int64_t c) {
      return in.x[(3 * row + part) * width + c];
    };
    for (std::int64_t row = 0; row < in.x_shape[0] * length; ++row) {
      for (std::int64_t head = 0; head < width; head += size) {
        const std::int64_t first = row / length * length;
        Values scores;
        for (std::int64_t other = first; other < first + length; ++other) {
          double sum = 0;
          for (std::int64_t c = head; c < head + size; ++c) sum += at(0, row, c) * at(1, other, c);
          scores.push_back(sum / std::sqrt(static_cast<double>(size)));
        }
        const Values weights = reference_softmax({{1, length}, scores, {}});
        for (std::int64_t c = head; c < head + size; ++c)
          for (std::int64_t other = 0; other < length; ++other)
            y[row * width + c] += weights[other] * at(2, first + other, c);
      }
    }
    return y;
  };
}

inline Values reference_class_token(const Inputs& in) {
  Values y;
  for (auto sample = in.x.begin(); sample != in.x.end(); sample += in.x_shape.row()) {
    y.insert(y.end(), in.parameters[0].begin(), in.parameters[0].end());
    y.insert(y.end(), sample, sample + in.x_shape.row());
  }
  return y;
}

inline Values reference_first_token(const Inputs& in) {
  Values y;
  for (auto sample = in.x.begin(); sample != in.x.end(); sample += in.x_shape.row())
    y.insert(y.end(), sample, sample + in.x_shape[2]);
  return y;
}

inline Reference reference_layer_norm(double epsilon) {
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

inline Reference reference_batch_norm(double epsilon) {
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

inline Reference then_relu(Reference first) {
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
inline Reference reference_chain(std::vector<Inner> layers, std::size_t first = 0) {
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

inline Reference reference_sum(Reference a, Reference b) {
  return [=](const Inputs& in) {
    Values y = a(in);
    const Values other = b(in);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += other[i];
    return y;
  };
}

/// The layers with the names layer1, layer2 and so on.
template <class... Layers>
inline NamedLayers named(Layers... layers) {
  NamedLayers result;
  int number = 0;
  (result.emplace_back("layer" + std::to_string(++number), std::move(layers)), ...);
  return result;
}

}  // namespace lockstep
