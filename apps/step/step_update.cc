#include "apps/step/step_update.h"

#include <algorithm>

#include "src/base/clock.h"

namespace lockstep {

StepUpdate::StepUpdate(Device& device, Reducer& reducer, const std::vector<Range>& buckets,
                       const Optimizer& optimizer, const StepMemory& memory,
                       const UpdateOptions& options, Track* timeline)
    : stream_(reducer.stream()),
      layout_(memory.layout()),
      optimizer_(optimizer),
      state_(memory.state()),
      timeline_(timeline),
      ema_(options.ema),
      // Clipping needs the norm of all gradients. A layerwise optimizer needs all buckets of a
      // parameter. Only sums in a stream arrive in order, so that the last bucket proves the others
      // complete.
      waits_for_all_(options.clip_norm > 0 ||
                     (optimizer.layerwise() && !reducer.traits().in_stream)) {
  if (options.clip_norm > 0)
    clip_ = std::make_unique<GradientClip>(device, layout_, options.clip_norm);
  if (optimizer.layerwise() && !waits_for_all_) {
    beside_ = device.stream(Priority::high);
    summed_ = device.event();
    stepped_ = device.event();
  }
  plan_spans(waits_for_all_ ? std::vector<Range>{{0, layout_.count}} : buckets);
}

void StepUpdate::synchronize() {
  try {
    if (beside_) beside_->synchronize();
  } catch (...) {  // TrainingStep::collect() has thrown it
  }
}

/// A layerwise optimizer steps a parameter when the last of its buckets is in order.
void StepUpdate::plan_spans(const std::vector<Range>& buckets) {
  std::int64_t begin = 0;
  for (const Range& bucket : buckets) {
    Range range = bucket;
    if (optimizer_.layerwise()) {
      std::int64_t end = begin;
      for (const Parameter& parameter : layout_.parameters) {
        const std::int64_t aligned = Layout::aligned(parameter.range.end());
        if (aligned <= bucket.end()) end = std::max(end, aligned);
      }
      // The range ends with the last parameter that is complete. The rest of the bucket joins the
      // range of the next one.
      range = {begin, end - begin};
      begin = end;
    }
    spans_.push_back(plan_update(layout_, range, optimizer_));
  }
}

UpdateRates StepUpdate::rates_at(const RunPlan& plan, std::int64_t step, float rate) const {
  UpdateRates rates{.rate = rate,
                    .average_decay = average_decay(ema_, step),
                    .corrections = optimizer_.corrections(step)};
  const double epoch = plan.epoch_at(step);
  for (std::size_t n = 0; n < layout_.epochs.size(); ++n) {
    const double end = layout_.epochs[n];
    const double own = epoch < end ? learning_rate(plan.rate, epoch, end) : 0;
    // Kernels multiply the step's rate by it. It is 0 when the group's epochs are over, which
    // freezes its parameters.
    rates.shares[n + 1] = rate > 0 ? static_cast<float>(own / rate) : 0.0f;
  }
  return rates;
}

void StepUpdate::reduced(std::size_t bucket, StepInput* now) {
  if (!waits_for_all_) apply(spans_[bucket], now);
}

void StepUpdate::finish(StepInput* now) {
  if (clip_) clip_->enqueue(stream_, state_.gradients, &now->rates);
  if (waits_for_all_) apply(spans_.front(), now);
  // Work that follows in the reducer's stream finds the weights of this other stream too.
  if (!beside_) return;
  stepped_->record(*beside_);
  stepped_->wait(stream_);
}

void StepUpdate::apply(const std::vector<UpdateSpan>& spans, const StepInput* now) {
  if (spans.empty()) return;  // no parameter ends in this bucket
  const double start = now_seconds();
  const TimedSpan span(timeline_, "update");
  if (beside_) {
    summed_->record(stream_);
    summed_->wait(*beside_);
  }
  update(beside_ ? *beside_ : stream_, spans, optimizer_, state_, &now->rates);
  const double seconds = now_seconds() - start;
  all_ns_ += static_cast<std::int64_t>(seconds * 1e9);
  if (std::this_thread::get_id() == computes_) own_seconds_ += seconds;
}

}  // namespace lockstep
