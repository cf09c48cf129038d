// The matrices of fast convolution by Winograd's and Toom's and Cook's algorithms, at compile time.
//
// A correlation of T = M + R - 1 inputs d with R weights g gives M outputs
//   y = A^T [ (G g) * (B^T d) ]
// with T products instead of M R. It is the transpose of multiplying two polynomials by their
// values at T points, the last of them at infinity: G and A evaluate polynomials of R and M
// coefficients, B^T is the inverse of the evaluation of T coefficients, transposed. The rows of G
// and B^T are scaled to norm 1 and the columns of A^T take up the factors, which balances rounding
// errors.
//
// The last tile of an image may have fewer outputs. Each missing output saves one product. The tile
// uses the first points of a whole tile. G has the same rows for them, so tiles of all sizes share
// the transformed weights. Sources: S. Winograd, "Arithmetic complexity of computations",
// SIAM 1980; A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", 2016; B.
// Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution for deep
// neural networks", 2020.
#pragma once

#include <array>
#include <cstddef>

namespace lockstep {

template <std::size_t Rows, std::size_t Columns, class T = float>
using Matrix = std::array<std::array<T, Columns>, Rows>;

template <int M, int R>
struct CookToom {
  static constexpr std::size_t outputs = M, weights = R, points = M + R - 1;
  Matrix<points, points> data;     ///< B^T
  Matrix<points, weights> filter;  ///< G
  Matrix<outputs, points> output;  ///< A^T
};

namespace cook_toom_detail {

/// The finite points at which polynomials are evaluated.
constexpr std::array<double, 3> kShort{0, 1, -1};
constexpr std::array<double, 5> kFive{0, 2.0 / 3, -2.0 / 3, 1.5, -1.5};
constexpr std::array<double, 7> kSeven{0, 1, -1, 0.5, -0.5, 2, -2};

constexpr double root(double square) {
  double x = square > 1 ? square : 1;
  for (int i = 0; i < 100; ++i) x = (x + square / x) / 2;
  return x;
}

}  // namespace cook_toom_detail

/// `Full`: the outputs of a whole tile, at least M.
template <int M, int R, int Full = M>
constexpr CookToom<M, R> cook_toom() {
  using namespace cook_toom_detail;
  constexpr std::size_t points = M + R - 1, listed = Full + R - 2,
                        finite = points < listed ? points : listed;
  static_assert(listed == 3 || listed == 5 || listed == 7);
  Matrix<points, points, double> powers{};  // of each point
  for (std::size_t i = 0; i < finite; ++i) {
    const double more = listed == 5 ? kFive[i % 5] : kSeven[i % 7],
                 at = listed == 3 ? kShort[i % 3] : more;
    double power = 1;
    for (std::size_t j = 0; j < points; ++j, power *= at) powers[i][j] = power;
  }
  if (finite < points) powers[finite][points - 1] = 1;  // infinity

  // Gauss-Jordan elimination with row exchanges.
  Matrix<points, points, double> work = powers, inverse{};
  for (std::size_t i = 0; i < points; ++i) inverse[i][i] = 1;
  for (std::size_t column = 0; column < points; ++column) {
    std::size_t pivot = column;
    const auto size = [](double x) { return x < 0 ? -x : x; };
    for (std::size_t row = column; row < points; ++row)
      if (size(work[row][column]) > size(work[pivot][column])) pivot = row;
    for (std::size_t j = 0; j < points; ++j) {
      const double a = work[column][j], b = inverse[column][j];
      work[column][j] = work[pivot][j], work[pivot][j] = a;
      inverse[column][j] = inverse[pivot][j], inverse[pivot][j] = b;
    }
    const double scale = work[column][column];
    for (std::size_t j = 0; j < points; ++j) work[column][j] /= scale, inverse[column][j] /= scale;
    for (std::size_t row = 0; row < points; ++row) {
      if (row == column) continue;
      const double factor = work[row][column];
      for (std::size_t j = 0; j < points; ++j) {
        work[row][j] -= factor * work[column][j];
        inverse[row][j] -= factor * inverse[column][j];
      }
    }
  }

  CookToom<M, R> result{};
  for (std::size_t p = 0; p < points; ++p) {
    // The value at infinity is the polynomial's highest coefficient.
    const auto value = [&](std::size_t j, std::size_t count) {
      return p < finite ? powers[p][j] : static_cast<double>(j == count - 1);
    };
    double of_data = 0, of_filter = 0;
    for (std::size_t j = 0; j < points; ++j) of_data += inverse[j][p] * inverse[j][p];
    for (std::size_t j = 0; j < R; ++j) of_filter += value(j, R) * value(j, R);
    of_data = root(of_data), of_filter = root(of_filter);
    for (std::size_t j = 0; j < points; ++j) {
      const double entry = inverse[j][p] / of_data;  // the elimination rounds zeros
      result.data[p][j] = entry < 1e-12 && entry > -1e-12 ? 0.0f : static_cast<float>(entry);
    }
    for (std::size_t j = 0; j < R; ++j)
      result.filter[p][j] = static_cast<float>(value(j, R) / of_filter);
    for (std::size_t j = 0; j < M; ++j)
      result.output[j][p] = static_cast<float>(value(j, M) * of_data * of_filter);
  }
  return result;
}

}  // namespace lockstep
