#include "src/cpu/measured_convolutions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "src/arena.h"
#include "src/clock.h"
#include "src/machine.h"
#include "src/table.h"

namespace lockstep {
namespace {

/// Samples that a way is timed with, at most: more take longer alike.
constexpr std::int64_t kMostSamples = 64;
constexpr int kRuns = 5;

ConvolutionSpec shortened(ConvolutionSpec spec) {
  spec.input.x = spec.input.x.with_batch(std::min(spec.input.x[0], kMostSamples));
  return spec;
}

std::string text_of(const ConvolutionSpec& spec) {
  return fmt::format("{}{} {} {} {} pad {} stride {} dilation {} groups {}{}",
                     spec.one_dimensional ? "1-d " : "",
                     !spec.input.training        ? "inference"
                     : spec.input.input_gradient ? "training"
                                                 : "training of the first layer",
                     name_of(spec.input.type), spec.input.x.text(), spec.weights().text(), spec.pad,
                     spec.stride, spec.dilation, spec.groups, spec.relu ? " relu" : "");
}

/// The way that a line of the tuning names.
std::string_view way_of(std::string_view line) { return line.substr(0, line.find(':')); }

/// Median seconds of one call of each pass that `spec` asks for, on zeros.
double seconds_of(AffinePlan& plan, const ConvolutionSpec& spec, Stream& stream) {
  std::vector<Memory> memory;
  const auto zeros = [&](std::size_t bytes) {
    const bool fits = bytes <= available_memory_bytes();
    memory.push_back(fits ? allocate_pages(bytes) : Memory());
    require(memory.back() != nullptr,
            "out of memory: no {:.1f} MiB to time convolutions with; use a smaller --batch",
            static_cast<double>(bytes) / (1 << 20));
    return memory.back().get();
  };
  const auto tensor = [&](Shape shape, Type type) {
    return View{zeros(static_cast<std::size_t>(shape.count()) * size_of(type)), shape, type};
  };
  const Type type = spec.input.type;
  const View x = tensor(spec.input.x, type), y = tensor(spec.output(), type),
             dx = tensor(spec.input.x, type), w = tensor(spec.weights(), Type::f32),
             dw = tensor(spec.weights(), Type::f32), b = tensor({spec.filters}, Type::f32),
             db = tensor({spec.filters}, Type::f32);
  std::byte* const scratch = zeros(plan.scratch_bytes());
  std::vector<double> seconds;
  for (int run = 0; run <= kRuns; ++run) {  // the first touches the memory
    const double began = now_seconds();
    plan.forward(stream, x, w, b, y, scratch);
    if (spec.input.training) {
      if (spec.input.input_gradient) plan.backward_data(stream, y, w, dx, scratch);
      plan.backward_weights(stream, x, y, dw, db, scratch);
    }
    if (run > 0) seconds.push_back(now_seconds() - began);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

}  // namespace

MeasuredConvolutions::MeasuredConvolutions(const std::string& platform, int threads)
    : threads_(threads), tuning_(fmt::format("{}, {} threads", platform, threads)) {}

std::unique_ptr<AffinePlan> MeasuredConvolutions::plan(const CpuMeans& means,
                                                       const ConvolutionSpec& spec) {
  const ConvolutionSpec timed = shortened(spec);
  const std::string work = text_of(timed);
  if (const std::string* line = tuning_.find(work))
    return find(convolutions(), way_of(*line)).plan(means, spec);
  if (!measures_) return convolutions().front().plan(means, spec);

  struct Time {
    double seconds;
    std::string_view way;
  };
  std::vector<Time> times;
  std::vector<std::string> seen;
  HostStream stream(threads_);
  for (const ConvolutionEntry& entry : convolutions()) {
    if (!entry.algorithm) continue;
    const auto plan = entry.plan(means, timed);
    if (std::find(seen.begin(), seen.end(), plan->implementation()) != seen.end()) continue;
    seen.push_back(plan->implementation());
    times.push_back({seconds_of(*plan, timed, stream), entry.name});
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const Time& a, const Time& b) { return a.seconds < b.seconds; });
  std::string line(times.front().way);
  line += fmt::format(": {:.3g} ms", times.front().seconds * 1e3);
  for (std::size_t i = 1; i < times.size(); ++i)
    line += fmt::format(", {} {:.3g} ms", times[i].way, times[i].seconds * 1e3);
  tuning_.note(work, line);
  return find(convolutions(), times.front().way).plan(means, spec);
}

bool MeasuredConvolutions::take(std::string_view text) {
  Tuning told(tuning_.platform());
  if (!told.take(text)) return false;
  for (const auto& [work, line] : told.plans()) {
    const auto menu = convolutions();
    if (std::none_of(menu.begin(), menu.end(), [&](const ConvolutionEntry& entry) {
          return entry.algorithm && entry.name == way_of(line);
        }))
      return false;
  }
  tuning_ = std::move(told);
  return true;
}

std::string MeasuredConvolutions::choices() const {
  std::string text;
  for (const auto& [work, line] : tuning_.plans())
    text += fmt::format("{} = {}\n", work, way_of(line));
  return text;
}

}  // namespace lockstep
