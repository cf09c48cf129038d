#include "apps/step/error_feedback.h"

#include <algorithm>
#include <functional>
#include <span>

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

}  // namespace

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

std::string restore_residuals(const Comm& comm, const Checkpoint* checkpoint, std::int64_t before,
                              const Layout& layout, const std::vector<Section>& own) {
  const auto count = static_cast<std::size_t>(layout.count);
  const std::vector<int> ranks = keepers(comm, !own.empty());
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
  const bool same = ranks.size() == static_cast<std::size_t>(before);
  std::vector<float> passing(count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(before); ++i) {
    load_on_all_ranks(comm, checkpoint, layout, {{section_name(i), passing.data()}});
    if (comm.rank() != (same ? ranks[i] : ranks.front())) continue;
    float* const residual = own.front().arena;
    std::transform(residual, residual + count, passing.begin(), residual, std::plus<>());
  }
  if (same) return "";
  return fmt::format(
      "one rank gets the --wire residuals of {}: this run differs from one that never stopped",
      counted(before, "rank"));
}

}  // namespace lockstep
