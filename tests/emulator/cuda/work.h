// The order of work: which operations run, and when.
//
// A Work is what runs: a kernel, a copy, a call of a library. An Operation is one run of it. An
// operation may run as soon as all operations before it are done. A Point is a set of operations to
// wait for: a stream has the point after its last operation, an event is a copy of that point, and
// a stream that waits for an event adds the event's point to its own. Work of a graph follows the
// points of its nodes.
//
// The order (emulator.h) decides what runs. Each operation counts the operations that it still
// waits for, and operations that wait for none are in a list. So the cost of an operation does not
// depend on how many others are pending. A wait of the host first collects the pending operations
// that its point needs.
//
// One lock protects all of the emulator, also while work runs.
#pragma once

#include <driver_types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/emulator/cuda/races.h"
#include "tests/emulator/emulator.h"

namespace emulator {

struct Work {
  const std::string* name;  ///< of stored()
  std::vector<Touch> touches;
  std::function<bool()> run;
};

struct Operation {
  std::shared_ptr<const Work> work;
  std::uint32_t number = 0;
  Clock clock;
  std::vector<std::shared_ptr<Operation>> before, after;  ///< empty when it is done
  std::size_t missing = 0;                                ///< operations before it, not yet done
  std::size_t place = 0;                                  ///< in the list of those that may run
  std::uint64_t needed_by = 0;                            ///< the number of a wait
  bool begun = false, done = false;
};

struct Point {
  Clock clock;
  std::vector<std::shared_ptr<Operation>> open;
  void add(const Point& other);
  bool done() const;
};

/// The lock. A call of CUDA holds it once, so that waits can release it.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

/// Enqueues `work` in `lane` after `point`, which becomes the point after it.
void add_operation(const std::shared_ptr<const Work>& work, std::uint32_t lane, Point& point);
/// Runs what the order lets run as soon as work up to `point` is enqueued.
void after_enqueue(const Point& point);

/// Returns when all of the point is done.
void host_waits_for(const Point& point);
void host_waits_for_all();
/// Whether all of the point is done. A program that polls makes progress.
bool host_polls(const Point& point);

cudaError_t sticky_error();

}  // namespace emulator
