#include "apps/step/gradient_sync.h"

#include <algorithm>

namespace lockstep {

// Each way of summing has its own file. A new one adds its name here and in the row below.
MakeSum make_error_feedback;

namespace {

constexpr MakeSum* kWays[] = {make_error_feedback};

}  // namespace

GradientSync::GradientSync(StepParts& parts, Device& device, const Layout& layout,
                           const RunPlan& plan, bool dynamic, Stream& computing,
                           GradientBuckets::Reduced reduced, RankRecorder& recorder,
                           Track* timeline)
    : policy_(parts.policy),
      reducer_(std::move(parts.reducer)),
      sync_bn_(std::move(parts.sync_bn)),
      dense_(std::make_unique<DenseSum>(device, *reducer_, std::move(parts.buckets), policy_,
                                        layout.count, plan.own(), plan.shards, slots(), computing,
                                        std::move(reduced), recorder, timeline)) {
  const SumContext context{parts.comm, device, layout, *reducer_, computing, recorder, dynamic};
  for (MakeSum* make : kWays) {
    if (auto way = make(context)) sums_.push_back(others_.emplace_back(std::move(way)).get());
  }
  if (sync_bn_) sums_.push_back(sync_bn_.get());
  sums_.push_back(dense_.get());
  for (const Parameter& parameter : layout.parameters) {
    const auto number = static_cast<std::size_t>(parameter.layer);
    if (ranges_.size() <= number) ranges_.resize(number + 1);
    ranges_[number] = layout.range_of(parameter.layer);
  }
  listeners_.resize(slots().count());
}

GradientListener& GradientSync::of(int shard, int slot) {
  Listener& listener = listeners_[slot];
  listener.sync = this;
  listener.shard = shard;
  listener.slot = slot;
  return listener;
}

RankSum& GradientSync::owner(Range range) const {
  const auto owns = [&](const RankSum* sum) { return sum->owns(range); };
  return **std::find_if(sums_.begin(), sums_.end(), owns);
}

void GradientSync::begin_step() {
  for (RankSum* sum : sums_) sum->begin_step();
}

void GradientSync::finish() {
  for (RankSum* sum : sums_) sum->finish();
}

bool GradientSync::pending() const {
  return std::any_of(sums_.begin(), sums_.end(), [](const RankSum* sum) { return sum->pending(); });
}

void GradientSync::commit_or_undo(const LossScale& scale) {
  for (RankSum* sum : sums_)
    if (sum->pending()) sum->commit_or_undo(scale);
}

void GradientSync::rethrow_errors() {
  for (RankSum* sum : sums_) sum->rethrow_errors();
}

void GradientSync::abort() noexcept {
  for (RankSum* sum : sums_) sum->abort();
}

double GradientSync::seconds() const {
  double total = 0;
  for (const RankSum* sum : sums_) total += sum->seconds();
  return total;
}

std::size_t GradientSync::bytes() const {
  std::size_t total = reducer_->traits().bytes;
  for (const RankSum* sum : sums_) total += sum->bytes();
  return total;
}

std::vector<Section> GradientSync::sections() {
  std::vector<Section> all;
  for (RankSum* sum : sums_) {
    for (Section& section : sum->sections()) all.push_back(std::move(section));
  }
  return all;
}

}  // namespace lockstep
