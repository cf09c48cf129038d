// Newton and Schulz' iteration: brings a matrix near the orthogonal one next to it by products
// alone, which any device has as a dense layer.
//
// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, whose
// quintic polynomial and coefficients these are.
#pragma once

#include <cstdint>
#include <memory>

#include "src/device/arena.h"
#include "src/device/device.h"

namespace lockstep {

/// For matrices of one shape. One thread at a time.
class NewtonSchulz {
 public:
  NewtonSchulz(Device& device, std::int64_t rows, std::int64_t columns);

  /// What give() works in, which holds nothing between calls.
  std::size_t scratch_bytes() const { return places_.bytes; }
  /// Gives x <- 3.4445 x - 4.7750 (x x^T) x + 2.0315 (x x^T)^2 x, `iterations` times, for x in rows
  /// (fp32) of Frobenius norm 1 or less: its singular values come to lie about 1.
  void give(Stream& stream, float* x, int iterations, std::byte* scratch) const;

 private:
  struct Places {
    std::size_t gram = 0, square = 0, product = 0, zeros = 0, plan = 0, bytes = 0;
  };

  std::int64_t rows_, columns_, side_;
  bool wide_;  ///< x x^T is not larger than x^T x
  /// x with itself, and with the polynomial of that; the square of a symmetric matrix.
  std::unique_ptr<AffinePlan> plan_, square_;
  Places places_;
};

}  // namespace lockstep
