// Requests to stop: SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask for a checkpoint and an orderly end.
//
// NO HANDLER RUNS ON A STACK THAT KERNELS USE. oneDNN's kernels (seen in 2.6.3 and 3) keep data
// below the red zone, the 128 bytes under the stack pointer that a signal does not touch. A
// handler's frame overwrites that data, and damages the heap or silently the weights. So all
// threads block these signals, and one thread that computes nothing receives them by sigwait().
// Lockstep installs no handler.
//
// Handlers of other libraries meet the same kernels. Open MPI 4 and 5 install only handlers for
// crashes, which do not return, and UCX one for SIGHUP, which Signals removes. A profiler that
// samples by SIGPROF (gprof, gperftools) damages a run: do not trust it. perf samples without a
// signal.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

namespace lockstep {

/// While it lives, a thread of its own waits for the signals. A second SIGINT ends the process at
/// once. A SIGHUP that the process was started to ignore (nohup) stays ignored. From now on, a
/// write to a closed pipe or beyond the limit of a file's size (SIGPIPE, SIGXFSZ) is an error of
/// write(2).
///
/// Owner: main(), which constructs it before MPI and any thread, so that all threads inherit the
/// mask. The signals stay blocked after it: one that comes so late has no effect.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals& operator=(Signals&&) = delete;  ///< neither copied nor moved

  /// Requests that have come so far. Any thread.
  std::int64_t received() const { return received_; }
  bool stop_requested() const { return received_ > 0; }

 private:
  void receive();

  sigset_t set_;
  std::atomic<std::int64_t> received_ = 0;
  std::atomic<bool> leaving_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace lockstep
