// Filters that whiten windows of images: their principal components, each scaled to a mean square
// of 1. Source: Page, "How to train your ResNet 8: bag of tricks", 2019.
#pragma once

#include <cstdint>
#include <vector>

#include "net/parameters.h"
#include "src/data/dataset.h"

namespace lockstep {

/// Eigenvalues in falling order, and in row i of `vectors` the unit eigenvector of value i.
struct Eigen {
  std::vector<double> values, vectors;
};

/// The eigenvalues of a small symmetric matrix, n x n in rows, by Jacobi's rotations.
Eigen eigen_of(std::vector<double> symmetric, std::size_t n);

/// 2 n filters of n = kernel * kernel * channels weights each (kernel, kernel, channels): the
/// eigenvectors of the mean of p p^T over all windows p of the first `images` samples, as
/// evaluation sees them, each divided by sqrt(eigenvalue + epsilon), then the same ones negated.
/// Sums are in double in the order of the samples, so all ranks compute identical bits.
std::vector<float> whitening_filters(const Dataset& dataset, std::int64_t kernel,
                                     std::int64_t images, double epsilon);

/// Replaces the weights of the convolution `layer` in the arena `parameters` by the filters that
/// whiten the first 5000 images of `train`. Throws Error unless the convolution has 2 n filters.
void whiten(const Dataset& train, const Layout& layout, const std::string& layer,
            float* parameters);

}  // namespace lockstep
