#include "apps/step/error_feedback.h"

#include <algorithm>
#include <span>

#include "apps/step/replica_check.h"
#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

std::string section_name(std::size_t number) { return fmt::format("wire/{}", number); }

/// The ranks that have a residual.
std::vector<int> keepers(const Comm& comm, const std::vector<Section>& own) {
  const std::vector<std::size_t> all = comm.of_all(own.size());
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] > 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

std::vector<ConstSection> gather_residuals(const Comm& comm, bool here, const Layout& layout,
                                           const std::vector<Section>& own,
                                           std::vector<std::vector<float>>& memory) {
  const std::int64_t count = layout.count;
  const std::vector<int> ranks = keepers(comm, own);
  if (ranks.empty()) return {};
  std::vector<float> passing(count);
  std::vector<ConstSection> sections;
  // One rank after the other, so that ranks which keep no residual need memory for only one.
  // Sections refer to the floats of a vector, which do not move when `memory` grows.
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (comm.rank() == ranks[i]) std::copy_n(own.front().arena, count, passing.begin());
    comm.broadcast(std::span(passing), ranks[i]);
    if (!here) continue;
    memory.push_back(passing);
    sections.push_back({section_name(i), memory.back().data()});
  }
  return sections;
}

std::size_t residual_bytes(const Comm& comm, const Layout& layout,
                           const std::vector<Section>& own) {
  return comm.sum(std::ssize(own)) * layout.count * sizeof(float);
}

std::string restore_residuals(const Comm& comm, const Checkpoint* checkpoint, std::int64_t before,
                              const Layout& layout, const std::vector<Section>& own) {
  const std::int64_t count = layout.count;
  const std::vector<int> ranks = keepers(comm, own);
  agree(comm, [&] {
    if (!checkpoint) return;
    std::int64_t there = 0;
    while (checkpoint->has(section_name(there))) ++there;
    require(
        there == before,
        "{} is damaged: it contains the --wire residuals of {} instead of {}. Use another file.",
        checkpoint->file().string(), counted(there, "rank"), counted(before, "rank"));
  });
  if (before == 0) return "";
  if (ranks.empty()) return "the checkpoint's --wire residuals are dropped";
  const bool same = std::ssize(ranks) == before;
  std::vector<float> passing(count);
  for (std::int64_t i = 0; i < before; ++i) {
    load_on_all_ranks(comm, checkpoint, layout, {{section_name(i), passing.data()}});
    // Every rank takes part in the load, which is collective. Only one rank adds the values.
    if (comm.rank() != (same ? ranks[i] : ranks.front())) continue;
    float* const residual = own.front().arena;
    for (std::int64_t k = 0; k < count; ++k) residual[k] += passing[k];
  }
  if (same) return "";
  return fmt::format(
      "one rank gets the --wire residuals of {}: this run differs from one that never stopped",
      counted(before, "rank"));
}

}  // namespace lockstep
