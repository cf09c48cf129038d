// RunSetup: the parts that a run computes with, on all ranks. The trainer and the benchmark of its
// step share it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "apps/options/run_options.h"
#include "apps/step/placement.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"
#include "collectives/world.h"
#include "src/data/dataset.h"
#include "src/device/device.h"

namespace lockstep {

/// For the watchdog: the limit in seconds of a phase that waits for a file system.
inline constexpr double kSlowFiles = 600;

/// All calls are collective and throw AgreedError; call them in this order. Owner: train() or
/// main()'s body, which keeps `world` and `options` alive. Everything made from it is destroyed
/// before it. Thread: the computing one.
class RunSetup {
 public:
  /// Places the ranks and opens the data. `shape`.threads may be 0. `end_if_stopped` is called for
  /// each image file that is checked, by any thread. What it throws ends the check.
  RunSetup(
      World& world, const Options& options, const RunShape& shape,
      const std::function<void()>& end_if_stopped = [] {});

  void plan_steps(const Position& start = {});
  /// `given`: outlives this; null: the device of the options.
  void choose_device(Device* given = nullptr);
  /// `timeline`: outlives the step; null: none is kept.
  TrainingStep make_step(Timeline* timeline = nullptr) const;
  /// From the first sample of step number `done` on.
  std::unique_ptr<Loader> make_loader(const TrainingStep& step, std::int64_t done) const;

  World& world;
  const Options& options;
  const ModelEntry& entry;
  RankRecorder& recorder;  ///< of this rank
  Comm comm;
  RunShape shape;
  Placement placement;
  OpenedData data;
  RunPlan plan;
  Device* device = nullptr;

 private:
  std::unique_ptr<Device> own_device_;
};

/// Collective. The ranks of this rank's host, which open a data set together.
HostRanks host_ranks(const Comm& comm);

/// Throws a usage Error if `device` has no activations of `type`.
void require_precision(const Device& device, Type type);

}  // namespace lockstep
