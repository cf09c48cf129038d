// Races of plans: which plan is measured, which is left out, which wins. Free of CUDA, so that
// tests race plans of their own.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

/// Runs plans of one piece of work on random numbers. Calls throw Error.
class Track {
 public:
  virtual ~Track() = default;
  /// From now on all plans are of `work`.
  virtual void prepare(const Convolution& work) = 0;
  /// Runs `plan` once, on a result that is NaN before. `reference`: its result is the right one
  /// from now on. Returns the norm of the result minus the right one, in relation to the right
  /// one's. NaN if one of them contains NaN.
  virtual double run(const Plan& plan, bool reference) = 0;
  /// Milliseconds of one more run of the last plan. If it is clearly slower than `best`, it is
  /// measured only once.
  virtual float time_of(const Plan& plan, float best) = 0;
  /// Throws if the device is lost: CUDA reports a kernel's error at every later call.
  virtual void synchronize() = 0;
};

/// The track on a GPU, which outlives it. It keeps the memory of its largest work.
std::unique_ptr<Track> make_track(Device& device);

/// All races of a run.
class Race {
 public:
  /// The limit of all races together, in seconds. A plan takes about 30 ms, because its kernel is loaded, so
  /// this is enough for 80 pieces of work with 12 plans. The stages of tests/gpu.sh may take 60 s.
  static constexpr double kLimit = 30;

  explicit Race(std::unique_ptr<Track> track, double limit = kLimit)
      : track_(std::move(track)), limit_(limit) {}

  bool over() const { return std::chrono::steady_clock::now() - begin_ >= limit_; }
  /// The index of the fastest of `plans`, among those measured until the time was over. A plan that
  /// fails is left out, and so is one whose result differs from that of most plans. Throws Error
  /// with the plan and the work if the device is lost, and if all plans are left out.
  std::size_t winner(const Convolution& work, const Plans& plans);
  /// A sentence about each plan with a wrong result.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Heat;
  Heat heat(const Convolution& work, const Plans& plans, std::size_t reference);

  std::unique_ptr<Track> track_;
  std::chrono::duration<double> limit_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::set<std::string> wrong_;  ///< names
  std::vector<std::string> warnings_;
};

}  // namespace lockstep::cuda
