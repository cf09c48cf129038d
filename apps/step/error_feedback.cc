#include "apps/step/error_feedback.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>

#include "apps/step/rank_sum.h"
#include "apps/step/replica_check.h"
#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

std::string section_name(std::size_t number) { return fmt::format("wire/{}", number); }

/// The ranks that have a residual.
std::vector<int> keepers(const Comm& comm, bool residual) {
  const std::uint64_t own = residual ? 1 : 0;
  const std::vector<std::uint64_t> all = comm.all_gather(std::span(&own, 1));
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// The residual of one rank while the loss scale changes. It is in units of scaled gradients, so it
/// follows the scale. A skipped step does not change it.
class ErrorFeedback : public RankSum {
 public:
  ErrorFeedback(const Layout& layout, float* residual, bool dynamic)
      : layout_(layout), residual_(residual), before_(dynamic ? layout.count : 0) {}

  void begin_step() override {
    std::copy_n(residual_, before_.size(), before_.begin());
    pending_ = !before_.empty();
  }
  bool pending() const override { return pending_; }
  void commit_or_undo(const LossScale& scale) override {
    if (scale.skipped_last()) std::copy(before_.begin(), before_.end(), residual_);
    if (scale.scale != scale.last) scale_trained(layout_, scale.scale / scale.last, residual_);
    pending_ = false;
  }
  std::size_t bytes() const override { return before_.size() * sizeof(float); }
  std::vector<Section> sections() override { return {{"wire", residual_}}; }

 private:
  const Layout& layout_;
  float* residual_;
  std::vector<float> before_;  ///< before the last step; empty: the scale is constant
  bool pending_ = false;
};

}  // namespace

std::unique_ptr<RankSum> make_error_feedback(const SumContext& o) {
  float* const residual = o.reducer.traits().residual;
  if (residual == nullptr) return nullptr;
  return std::make_unique<ErrorFeedback>(o.layout, residual, o.dynamic);
}

std::vector<ConstSection> gather_residuals(const Comm& comm, bool here, const Layout& layout,
                                           const std::vector<Section>& own,
                                           std::vector<std::vector<float>>& memory) {
  const auto count = static_cast<std::size_t>(layout.count);
  const std::vector<int> ranks = keepers(comm, !own.empty());
  if (ranks.empty()) return {};
  memory.assign(here ? ranks.size() : 0, std::vector<float>(count));
  std::vector<float> passing(count);
  std::vector<ConstSection> sections;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (comm.rank() == ranks[i]) std::copy_n(own.front().arena, count, passing.begin());
    comm.broadcast(std::span(passing), ranks[i]);
    if (!here) continue;
    memory[i] = passing;
    sections.push_back({section_name(i), memory[i].data()});
  }
  return sections;
}

std::size_t residual_bytes(const Comm& comm, const Layout& layout, bool residual) {
  return keepers(comm, residual).size() * static_cast<std::size_t>(layout.count) * sizeof(float);
}

std::size_t gather_bytes(const Comm& comm, const Layout& layout, bool residual) {
  const std::size_t ranks = keepers(comm, residual).size();
  return ranks == 0 ? 0 : (2 * ranks + 1) * static_cast<std::size_t>(layout.count) * sizeof(float);
}

void scale_trained(const Layout& layout, float factor, float* values) {
  for (const Parameter& parameter : layout.parameters) {
    if (!parameter.trained()) continue;
    float* const first = values + parameter.range.begin;
    std::for_each_n(first, parameter.range.count, [factor](float& value) { value *= factor; });
  }
}

std::string SavedResiduals::text() const { return fmt::format("scale {}, ranks {}", scale, ranks); }

SavedResiduals SavedResiduals::from(const std::string& text) {
  SavedResiduals kept;
  long long ranks = 0;
  const bool read = std::sscanf(text.c_str(), "scale %f, ranks %lld", &kept.scale, &ranks) == 2;
  kept.ranks = ranks;
  require(read && kept.text() == text && kept.scale >= 1 && kept.scale <= LossScaling::kHighest &&
              ranks > 0,
          "\"{}\" does not describe residuals of --wire", text);
  return kept;
}

std::string restore_residuals(const Comm& comm, const Checkpoint* checkpoint,
                              const SavedResiduals& before, const Layout& layout, float scale,
                              const std::vector<Section>& own) {
  const auto count = static_cast<std::size_t>(layout.count);
  const std::vector<int> ranks = keepers(comm, !own.empty());
  agree(comm, [&] {
    if (!checkpoint) return;
    std::int64_t there = 0;
    while (checkpoint->has(section_name(there))) ++there;
    require(
        there == before.ranks,
        "{} is damaged: it contains the --wire residuals of {} instead of {}. Use another file.",
        checkpoint->file().string(), counted(there, "rank"), counted(before.ranks, "rank"));
  });
  if (before.ranks == 0) return "";
  if (ranks.empty()) return "the checkpoint's --wire residuals are dropped";
  const bool same = ranks.size() == static_cast<std::size_t>(before.ranks);
  std::vector<float> passing(count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(before.ranks); ++i) {
    load_on_all_ranks(comm, checkpoint, layout, {{section_name(i), passing.data()}});
    if (scale != before.scale) scale_trained(layout, scale / before.scale, passing.data());
    if (comm.rank() != (same ? ranks[i] : ranks.front())) continue;
    float* const residual = own.front().arena;
    std::transform(residual, residual + count, passing.begin(), residual, std::plus<>());
  }
  if (same) return "";
  return fmt::format(
      "one rank gets the --wire residuals of {}: this run differs from one that never stopped",
      counted(before.ranks, "rank"));
}

}  // namespace lockstep
