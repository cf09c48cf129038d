// The interface of a GPU's libraries to affine layers: work in, plans out. Free of CUDA, so that
// tests need neither a GPU nor its libraries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/device/device.h"

namespace lockstep::cuda {

/// DeviceTraits::lanes: half of the threads that 132 multiprocessors hold.
inline constexpr std::int64_t kLanes = 1 << 17;

enum class Pass { forward, backward_data, backward_weights };

/// One pass of a convolution. All tensors have the same type, and sums are fp32. A dense layer is a
/// convolution of 1x1 images with 1x1 filters.
struct Convolution {
  Pass pass = Pass::forward;
  Type type = Type::f32;
  /// N, H, W, C; filters out, height, width, in. With groups w has fewer channels than x.
  Shape x, w, y;
  /// Height, width.
  std::array<std::int64_t, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};
  /// Only in the forward pass: y = max(0, x * w + b).
  bool bias = false, relu = false;
  /// Dense layers of these shapes. Their tensors follow each other in memory.
  std::int64_t layers = 1;
  /// Numerics::tf32 for this work.
  bool tf32 = false;
  /// The pass writes fp32, whatever `type`.
  bool fp32_result = false;

  /// Whether this is a dense layer.
  bool dense() const;
  /// "forward bf16 128x24x24x3 64x5x5x3 128x24x24x64 stride 1x1 pad 2x2 dilation 1x1 bias relu".
  std::string text() const;
};

/// Addresses of the tensors or of their gradients, aligned to 16 bytes.
struct Tensors {
  void *x = nullptr, *w = nullptr, *b = nullptr, *y = nullptr;
};

/// One kernel of a library with its settings, ready to run. One thread at a time.
class Plan {
 public:
  virtual ~Plan() = default;
  /// Enqueues the work. `workspace` is aligned to 256 bytes; its contents need not survive.
  virtual void run(Stream& stream, const Tensors& tensors, void* workspace) const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// The kernel and its settings: "cuDNN eng41_k2=4_k13=1".
  virtual const std::string& name() const = 0;
};

/// The kernels that are allowed.
struct Numerics {
  /// Only kernels whose results are bitwise identical in every run.
  bool deterministic = false;
  /// fp32 products with 10 bits of mantissa, on tensor cores.
  bool tf32 = false;
};

/// A library on one device. Created and used by one thread; outlives its plans.
class Library {
 public:
  virtual ~Library() = default;
  /// The plan that the library prefers for `work`. null: the library does not support the work.
  virtual std::shared_ptr<const Plan> plan(const Convolution& work) const = 0;
};

/// cuDNN on the calling thread's device, without engines that are compiled at run time, which takes
/// up to a second each, and without those whose workspace exceeds 1 GiB. With `properties`, cuDNN's
/// JSON of a device that this machine lacks, everything works except Plan::run(). Throws Error with
/// cuDNN's reason.
std::unique_ptr<Library> make_cudnn(Numerics numerics, const std::string& properties = {});

/// cuBLASLt on the calling thread's device: only Convolution::dense() without ReLU, also in layers,
/// with fused bias. Throws Error with cuBLAS' reason.
std::unique_ptr<Library> make_cublaslt(Numerics numerics);

/// They must outlive the plans.
using Libraries = std::vector<const Library*>;

/// The plan of the first library that supports the work. null: none does.
std::shared_ptr<const Plan> choose(const Libraries& libraries, const Convolution& work);

}  // namespace lockstep::cuda
