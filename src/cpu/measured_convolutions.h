// Convolutions by whichever way was fastest here when it was timed (--conv measure).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/cpu/convolution.h"
#include "src/tuning.h"

namespace lockstep {

class MeasuredConvolutions {
 public:
  /// For `platform`: library and instruction set. Plans are timed with `threads` threads.
  MeasuredConvolutions(const std::string& platform, int threads);

  /// By the way that tuning() says. Work that it does not know is timed by each way of the menu and
  /// noted while measuring; else it goes by "auto".
  std::unique_ptr<AffinePlan> plan(const CpuMeans& means, const ConvolutionSpec& spec);
  void measure(bool on) { measures_ = on; }

  /// A line is "training fp32 64x12x12x64 64x5x5x64 pad 2 = winograd4: 11.2 ms, direct 35.1 ms": the
  /// way, then the median times of one call of each pass, the fastest first.
  std::string tuning() const { return tuning_.text(); }
  /// Tuning::take; false too where the text names a way that is not on the menu.
  bool take(std::string_view text);
  /// What was chosen, without the times.
  std::string choices() const;

 private:
  int threads_;
  Tuning tuning_;
  bool measures_ = false;
};

}  // namespace lockstep
