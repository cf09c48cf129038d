// The state of a run on all ranks: loaded from a checkpoint that rank 0 reads, and compared bit for
// bit to prove that the ranks are in lockstep.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "src/device/device.h"

namespace lockstep {

/// Collective. Fills the arenas of `sections` (Checkpoint::load) from `checkpoint`, which rank 0
/// has open; other ranks pass null. Throws AgreedError that names the file, also if a number is not
/// finite.
void load_on_all_ranks(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::vector<Section>& sections);

/// Collective. Copies the arenas of `sections` from rank 0 to all ranks. Throws AgreedError that
/// names `file`, where rank 0 read them, if a number is not finite.
void copy_to_all_ranks(const Comm& comm, const std::string& file, const Layout& layout,
                       const std::vector<Section>& sections);

/// Whether all values of the section are finite.
bool all_finite(const Layout& layout, const Section& section);

/// Collective. load_on_all_ranks() of one section into new memory of `device`.
Memory load_on_devices(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::string& section, Device& device);

/// A number of an array that changes with any bit of it, and whether the array is finite. As fast
/// as memory.
class Fingerprint {
 public:
  Fingerprint();
  /// The next `count` values: a multiple of kBlock except in the last call.
  void add(const float* values, std::int64_t count);
  std::uint64_t value() const;
  bool finite() const { return (exponents_ >> 31) == 0; }

  static constexpr std::int64_t kBlock = 64;

 private:
  std::array<std::uint32_t, kBlock> lanes_;
  std::uint32_t exponents_ = 0;  ///< the highest bit is set by Inf and NaN
};

/// Collective. verify_mirror() with the `own` fingerprints of this rank, by section of `state` and
/// then by parameter of `layout`.
void compare_fingerprints(const Comm& comm, const Layout& layout,
                          const std::vector<ConstSection>& state,
                          std::span<const std::uint64_t> own, std::int64_t step);

/// Collective; `state` is weights, optimizer slots and average. Throws AgreedError that names the
/// first array that differs between ranks (in the order of `state`, then of the arena), and the
/// rank whose values are the rarest. If no values are rarer, it names the first rank that differs
/// from rank 0.
void verify_mirror(const Comm& comm, const Layout& layout, const std::vector<ConstSection>& state,
                   std::int64_t step);

}  // namespace lockstep
