// What an affine layer asks of a GPU's libraries, and what they answer with: pieces of work in,
// plans that can do them out. Free of CUDA, so that all but the libraries is tested without.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/device.h"

namespace lockstep::cuda {

enum class Pass { forward, backward_data, backward_weights };

/// One pass of a convolution whose tensors all have one type, sums being fp32. A dense layer is a
/// convolution of 1x1 images with 1x1 filters.
struct Convolution {
  Pass pass = Pass::forward;
  Type type = Type::f32;
  /// N, H, W, C; filters out, height, width, in: where w has fewer channels than x, of groups.
  Shape x, w, y;
  /// Height, width.
  std::array<std::int64_t, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};
  /// Of forward alone: y = max(0, x * w + b).
  bool bias = false, relu = false;

  /// Of 1x1 images with 1x1 filters.
  bool dense() const;
  /// "forward bf16 128x24x24x3 64x5x5x3 128x24x24x64 stride 1x1 pad 2x2 dilation 1x1 bias relu":
  /// equal for equal work, in one line, without '='.
  std::string text() const;
};

/// Where its tensors are, aligned to 16 bytes; a gradient stands where its tensor would.
struct Tensors {
  void *x = nullptr, *w = nullptr, *b = nullptr, *y = nullptr;
};

/// One kernel of a library with its settings, ready to run. One thread at a time.
class Plan {
 public:
  virtual ~Plan() = default;
  /// Gives the work to `stream`; `workspace` (aligned to 256 bytes) holds nothing between calls.
  virtual void run(Stream& stream, const Tensors& tensors, void* workspace) const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// "cuDNN eng41_k2=4_k13=1": the same kernel and settings wherever library and device are the
  /// same.
  virtual const std::string& name() const = 0;
};

using Plans = std::vector<std::shared_ptr<const Plan>>;

/// Which kernels count.
struct Numerics {
  /// Those alone that give the same bits in every run.
  bool deterministic = false;
  /// fp32 products with 10 bits of mantissa, on tensor cores.
  bool tf32 = false;
};

/// A library on one device. Made and used by one thread; outlives its plans.
class Library {
 public:
  virtual ~Library() = default;
  /// The plans for `work` in the order in which the library likes them, `most` at most; empty where
  /// it cannot do it.
  virtual Plans plans(const Convolution& work, std::size_t most) const = 0;
  /// The one of that name; null where it is not offered.
  virtual std::shared_ptr<const Plan> plan(const Convolution& work, std::string_view name) const;
  /// "cuDNN 9.19.0"
  virtual std::string version() const = 0;
};

}  // namespace lockstep::cuda
