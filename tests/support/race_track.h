// Plans and a track without a device: each plan has a time, a result and a way to fail.
#pragma once

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/device/cuda/race.h"

namespace lockstep::cuda {

/// A plan that never computes.
class PaperPlan : public Plan {
 public:
  enum class Fault {
    none,
    refuses,      ///< to run at all
    fails_later,  ///< when it is timed
    pauses,       ///< for kPause when it is timed
    kills         ///< the device
  };

  PaperPlan(std::string name, float milliseconds, double result = 1, Fault fault = Fault::none)
      : milliseconds(milliseconds), result(result), fault(fault), name_(std::move(name)) {}
  void run(Stream&, const Tensors&, void*) const override { fail("a plan on paper runs"); }
  std::size_t workspace_bytes() const override { return 0; }
  const std::string& name() const override { return name_; }

  const float milliseconds;
  const double result;  ///< all that its kernel would write
  const Fault fault;

 private:
  std::string name_;
};

/// Takes times and results from PaperPlan.
class PaperTrack : public Track {
 public:
  using Fault = PaperPlan::Fault;

  void prepare(const Convolution&) override { right_ = std::nan(""); }
  double run(const Plan& plan, bool reference) override {
    const auto& own = paper(plan);
    runs.push_back(own.name());
    dead_ |= own.fault == Fault::kills;
    require(own.fault != Fault::kills && own.fault != Fault::refuses, "an illegal address");
    if (reference) right_ = own.result;
    return std::abs(own.result - right_) / std::abs(right_);
  }
  float time_of(const Plan& plan, float) override {
    require(paper(plan).fault != Fault::fails_later, "it is refused now");
    if (paper(plan).fault == Fault::pauses) std::this_thread::sleep_for(kPause);
    return paper(plan).milliseconds;
  }
  void synchronize() override { require(!dead_, "the device is lost"); }

  static constexpr std::chrono::milliseconds kPause{600};
  std::vector<std::string> runs;  ///< the names of all plans that ran

 private:
  static const PaperPlan& paper(const Plan& plan) { return dynamic_cast<const PaperPlan&>(plan); }

  double right_ = 0;
  bool dead_ = false;
};

}  // namespace lockstep::cuda
