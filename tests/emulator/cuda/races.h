// The detector of races, by vector clocks.
//
// Each operation belongs to a lane: a stream, or a branch of a graph. The operations of a lane are
// ordered and numbered. The clock of an operation has one number for each lane: all operations of
// that lane up to this number come before it, by stream order, events, edges of a graph, or because
// the host waited for them before it enqueued the operation. Two operations that touch the same
// byte, one of them writing, race unless the clock of the later contains the earlier. It does not
// matter in which order they happen to run. So a missing event is found in each order.
//
// Each byte has two words: its last write and its last read, each an operation and a thread. A page
// has two more, for copies and libraries, which touch whole pages. A byte's last write is the newer
// of both, and the older one comes before it, or a race was reported already. So both are checked.
// If unordered operations read a byte, only one fits in the word: chance decides which.
//
// Threads of a kernel are not ordered at all, not even those of a warp by a shuffle: CUDA promises
// that a shuffle exchanges registers, and nothing about memory. So a thread is ordered only with
// itself, and atomic accesses with each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

using Clock = std::vector<std::uint32_t>;

/// to = the later of both, for each lane.
void join(Clock& to, const Clock& from);

/// The same text, stored once and for ever.
const std::string* stored(const std::string& name);

/// A lane without operations that the host has not waited for.
std::uint32_t new_lane();
/// No operation is added to it any more.
void release_lane(std::uint32_t lane);

/// All that the host has waited for.
Clock& host_clock();
/// The host has waited for all operations.
void host_waited_for_all();

/// A new operation of the lane after all of `clock`, which becomes its own. Returns its number.
std::uint32_t add_to_lane(std::uint32_t lane, const std::string* name, Clock& clock);

/// Memory that each thread of a kernel may use freely.
struct Range {
  const char *begin = nullptr, *end = nullptr;
  bool has(const void* data) const { return data >= begin && data < end; }
};

/// The operation that runs now. Its accesses are checked by check_access() and check_range().
struct Running {
  std::uint32_t operation = 0;
  std::uint32_t thread = 0;  ///< from 1
  const std::string* name = nullptr;
  const Clock* clock = nullptr;
  Range stacks = {}, parameters = {};
};
extern Running running;
void begin_running(std::uint32_t operation, const Clock& clock);
void end_running();

/// Checks an access of a copy or a library: its bounds and races.
void check_range(const void* data, std::size_t bytes, bool writes);

}  // namespace emulator
