// HostDevice: the host's memory as a Device, without a library of kernels. The CPU back end
// (src/device/cpu) adds plans of layers. Programs that only reduce gradients need none.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/device/device.h"

namespace lockstep {

/// Bytes that ranks of this host allocate at this moment. `claims`: in memory that they share; null:
/// this process is alone. Not while another thread allocates.
void share_memory_claims(std::atomic<std::uint64_t>* claims);

/// Work runs in the call that enqueues it, on teams of `threads`. Calls that plan layers throw
/// Error.
class HostDevice : public Device {
 public:
  explicit HostDevice(int threads = 1) : threads_(threads) { traits_.description = "host memory"; }

  std::string arithmetic(Type) const override { return ""; }
  std::unique_ptr<Stream> stream(Priority = Priority::normal) override {
    return std::make_unique<HostStream>(threads_);
  }
  std::unique_ptr<Event> event() override;
  /// Throws OutOfMemory if the host has less, besides what its ranks allocate at this moment.
  Memory allocate(std::size_t bytes, Place) override;
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override { return {}; }
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec&) override;
  std::unique_ptr<AffinePlan> dense(const DenseSpec&) override;
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec&) override;
  std::unique_ptr<ProductPlan> product(const ProductSpec&) override;

 protected:
  const int threads_;
};

}  // namespace lockstep
