// Snapshot: copies of the state of a run, which the ranks of a host make together. They can stay in
// a file of /dev/shm when the ranks are gone (apps/record/state_memory.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/node/node_memory.h"
#include "net/checkpoint.h"

namespace lockstep {

/// The places in memory with copies of a state: Marks, and then for each copy its text and its
/// arenas. A file of /dev/shm has the same form.
struct SnapshotPlaces {
  std::uint64_t text = 0;    ///< bytes for the text of a copy
  std::uint64_t arenas = 0;  ///< bytes of the arenas of a copy
  std::uint64_t copies = 1;

  static constexpr std::uint64_t kMostCopies = 2;

  std::uint64_t text_at(std::uint64_t copy) const;
  std::uint64_t arenas_at(std::uint64_t copy) const;
  std::uint64_t bytes() const { return text_at(copies); }
};

/// The beginning of the memory. A copy is whole while its order is not 0; the highest is the last.
struct SnapshotMarks {
  static constexpr std::uint64_t kMagic = 0x3265746174736b4c;  ///< "Lkstate2"

  struct Copy {
    std::uint64_t order = 0, text_bytes = 0;
    std::uint64_t print = 0;  ///< print_of() its arenas
  };
  std::uint64_t magic = 0;
  SnapshotPlaces places;
  Copy copy[SnapshotPlaces::kMostCopies];
};

/// One number for the arrays of `state`, which changes with any of their bits. `before`: sections
/// of the copy that stand before them.
std::uint64_t print_of(const Layout& layout, const std::vector<ConstSection>& state,
                       std::int64_t before = 0);

/// Belongs to the computing thread, except sections(), which another thread may read until the next
/// take() for another purpose than Purpose::spare.
class Snapshot {
 public:
  /// Collective. One copy of `arenas` bytes on rank 0's host; the ranks of others only compare.
  /// With `file` two copies on each host, in this new file of its /dev/shm, which stays. `threads`:
  /// that this rank may use. `text`: bytes for the text of a copy. Throws AgreedError if a host is
  /// short of memory.
  Snapshot(const Comm& comm, std::size_t arenas, int threads, std::size_t text = 0,
           const std::string& file = "");

  enum class Purpose {
    checkpoint,  ///< compares the ranks in the same pass: AgreedError as verify_mirror()
    state,
    spare,  ///< a state; leaves the copy of the last take() for another purpose. Needs two copies
  };
  /// Collective. Copies `state` (the sections of a checkpoint, the same on all ranks) after `step`:
  /// each rank of the host copies its part. Returns the name of the first section that is not
  /// finite, the same on all ranks; empty: all are. The copy is complete when it returns.
  std::string take(const Layout& layout, const std::vector<ConstSection>& state, std::int64_t step,
                   Purpose purpose = Purpose::checkpoint);
  /// Local, on the first rank of a host with a file. Adds `more` sections to the last copy, and
  /// marks it as whole. False: there is no room for `text` or for them, and nothing is done.
  bool seal(const Layout& layout, const std::vector<ConstSection>& more, const std::string& text);

  /// Bytes of all copies.
  std::size_t bytes() const { return memory_.bytes(); }
  /// The last copy. Only on hosts that keep one.
  const std::vector<ConstSection>& sections() const { return sections_; }

 private:
  SnapshotMarks& marks() const { return *reinterpret_cast<SnapshotMarks*>(memory_.data()); }
  float* arenas_of(std::uint64_t copy) const;

  const Comm comm_;
  const Comm node_;
  const SnapshotPlaces places_;
  const bool keeps_;
  const int threads_;
  NodeMemory memory_;
  std::uint64_t last_ = 0, spared_ = 0;  ///< numbers of copies
  std::uint64_t order_ = 0;
  std::uint64_t print_ = 0;  ///< of the last copy
  std::vector<ConstSection> sections_;
};

}  // namespace lockstep
