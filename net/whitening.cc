#include "net/whitening.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/base/check.h"

namespace lockstep {

Eigen eigen_of(std::vector<double> a, std::size_t n) {
  constexpr int kSweeps = 50;  // about five suffice
  std::vector<double> v(n * n);
  for (std::size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double beside = 0, all = 0;
    for (std::size_t i = 0; i < n * n; ++i) {
      all += a[i] * a[i];
      if (i / n != i % n) beside += a[i] * a[i];
    }
    // These are squares: what is left beside the diagonal is near the rounding of doubles.
    if (beside <= 1e-30 * all) break;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        // The rotation in the plane of p and q that makes a[p][q] zero. The smaller one of two such
        // angles, with which the iteration converges.
        const double ratio = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = std::copysign(1 / (std::abs(ratio) + std::sqrt(ratio * ratio + 1)), ratio);
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        const auto rotate = [&](double& x, double& y) {
          const double before = x;
          x = c * before - s * y;
          y = s * before + c * y;
        };
        for (std::size_t k = 0; k < n; ++k) rotate(a[k * n + p], a[k * n + q]);
        for (std::size_t k = 0; k < n; ++k) rotate(a[p * n + k], a[q * n + k]);
        // The rows of v become the eigenvectors.
        for (std::size_t k = 0; k < n; ++k) rotate(v[p * n + k], v[q * n + k]);
      }
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return a[i * n + i]; });
  Eigen eigen;
  for (const std::size_t i : order) {
    eigen.values.push_back(a[i * n + i]);
    for (std::size_t k = 0; k < n; ++k) eigen.vectors.push_back(v[i * n + k]);
  }
  return eigen;
}

std::vector<float> whitening_filters(const Dataset& dataset, std::int64_t kernel,
                                     std::int64_t images, double epsilon) {
  const Shape sample = dataset.sample_shape();
  const std::int64_t width = sample[2], channels = sample[3], line = kernel * channels,
                     rows = sample[1] - kernel + 1, columns = width - kernel + 1;
  const auto n = static_cast<std::size_t>(kernel * line);
  require(rows > 0 && columns > 0,
          "no window of {0} x {0} values fits an image. Use larger images.", kernel);
  images = std::min(images, dataset.size());
  std::vector<double> squares(n * n), window(n);
  std::vector<float> image(sample.count());
  for (std::int64_t index = 0; index < images; ++index) {
    dataset.read_whole(index, nullptr, image.data(), Type::f32);
    for (std::int64_t place = 0; place < rows * columns; ++place) {
      const float* corner = image.data() + (place / columns * width + place % columns) * channels;
      for (std::int64_t row = 0; row < kernel; ++row)
        std::copy_n(corner + row * width * channels, line, window.begin() + row * line);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) squares[i * n + j] += window[i] * window[j];
    }
  }
  for (double& value : squares) value /= static_cast<double>(images * rows * columns);
  const Eigen eigen = eigen_of(squares, n);
  std::vector<float> filters(2 * n * n);
  for (std::size_t i = 0; i < n * n; ++i) {
    filters[i] = static_cast<float>(eigen.vectors[i] / std::sqrt(eigen.values[i / n] + epsilon));
    filters[n * n + i] = -filters[i];
  }
  return filters;
}

void whiten(const Dataset& train, const Layout& layout, const std::string& layer,
            float* parameters) {
  constexpr std::int64_t kImages = 5000;
  constexpr double kEpsilon = 5e-4;
  const auto weights = std::ranges::find(layout.parameters, layer + "/weights", &Parameter::name);
  require(weights != layout.parameters.end() && weights->shape.rank() == 4,
          "the network's whitens = \"{}\" names no convolution. Correct it.", layer);
  require(weights->shape[0] == 2 * weights->shape.row(),
          "the convolution {} whitens windows of {} values and has {} filters. Pass filters = {}.",
          layer, weights->shape.row(), weights->shape[0], 2 * weights->shape.row());
  const std::vector<float> filters = whitening_filters(train, weights->shape[1], kImages, kEpsilon);
  require(
      std::ssize(filters) == weights->shape.count(),
      "the convolution {} does not see all channels of an image. Name the network's first layer.",
      layer);
  std::ranges::copy(filters, parameters + weights->range.begin);
}

}  // namespace lockstep
