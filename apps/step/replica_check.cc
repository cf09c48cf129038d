#include "apps/step/replica_check.h"

#include <array>
#include <bit>
#include <map>

#include "src/base/check.h"

namespace lockstep {

std::vector<std::uint64_t> fingerprints(const Layout& layout, const float* arena) {
  std::vector<std::uint64_t> result;
  for (const Parameter& parameter : layout.parameters) {
    // Eight lanes of multiply-and-add: each step is a bijection of the lane, so that no single
    // changed word can go unseen.
    std::array<std::uint64_t, 8> lanes{1, 2, 3, 4, 5, 6, 7, 8};
    const float* from = arena + parameter.range.begin;
    for (std::int64_t i = 0; i < parameter.range.count; ++i) {
      std::uint64_t& lane = lanes[i % 8];
      lane = (lane ^ std::bit_cast<std::uint32_t>(from[i])) * 0x9E3779B97F4A7C15u;
      lane ^= lane >> 32;
    }
    std::uint64_t hash = 0;
    for (const std::uint64_t lane : lanes) hash = (std::rotl(hash, 7) ^ lane) * 0x9E3779B97F4A7C15u;
    result.push_back(hash);
  }
  return result;
}

void verify_mirror(const Comm& comm, const Layout& layout, const std::vector<ConstSection>& state,
                   std::int64_t step) {
  std::vector<std::uint64_t> own;
  for (const ConstSection& section : state) {
    const std::vector<std::uint64_t> more = fingerprints(layout, section.arena);
    own.insert(own.end(), more.begin(), more.end());
  }
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::vector<std::uint64_t> all = comm.all_gather(std::span<const std::uint64_t>(own));
  for (std::size_t p = 0; p < own.size(); ++p) {
    std::map<std::uint64_t, std::size_t> votes;
    for (std::size_t rank = 0; rank < ranks; ++rank) ++votes[all[rank * own.size() + p]];
    if (votes.size() == 1) continue;
    const auto value = [&](std::size_t rank) { return all[rank * own.size() + p]; };
    std::size_t odd = 0;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const auto fewer = votes[value(rank)] <=> votes[value(odd)];
      if (fewer < 0 || (fewer == 0 && odd == 0 && value(rank) != value(0))) odd = rank;
    }
    throw AgreedError(
        fmt::format("after step {} rank {} holds other values of {} than the others: its memory or "
                    "its network is not to be trusted; "
                    "take its node out and go on from the last checkpoint",
                    step, odd,
                    state[p / layout.parameters.size()].name + "/" +
                        layout.parameters[p % layout.parameters.size()].name));
  }
}

}  // namespace lockstep
