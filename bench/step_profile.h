// The training step by layer: processor time of the computing thread beside the machine's limits.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/step/training_step.h"

namespace lockstep {

/// The most that one thread can do in a second of processor time.
struct MachineLimits {
  double flops = 0;  ///< of a large matrix product
  double bytes = 0;  ///< read and written by a copy that no cache holds
};

/// Measures them on CPU cores. All ranks call it at once, because they share the memory.
MachineLimits machine_limits(Device& device, Type type);

/// Collects the times of the steps that run between start() and stop(). One thread.
class StepProfile : public LayerTimer {
 public:
  explicit StepProfile(TrainingStep& step);
  ~StepProfile() override { step_.time_layers(nullptr); }

  void start();
  void stop(int steps);

  void begin() override;
  void end(int layer, bool backward) override;

  /// One object for each layer in the order of forward, then one for each other part. Times are
  /// seconds per step, bytes the least that the kernels must move: x, y and weights in forward,
  /// these and their gradients in backward. `parts` are sums over the steps, `shards` those of this
  /// rank.
  nlohmann::ordered_json rows(const StepTimes& parts, int shards) const;
  /// The table of rows(), with the rate of each layer beside the limits.
  static void print(const nlohmann::ordered_json& rows, const MachineLimits& limits);

 private:
  struct Seconds {
    double forward = 0, backward = 0;
  };

  TrainingStep& step_;
  std::vector<Seconds> layers_;
  double began_ = 0, thread_ = 0, process_ = 0;  ///< processor seconds
  int steps_ = 0;
};

}  // namespace lockstep
