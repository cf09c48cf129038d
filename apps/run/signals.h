// Requests to stop: SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask for a checkpoint and an orderly end.
//
// NO HANDLER RUNS ON A STACK THAT KERNELS USE. oneDNN's kernels (2.6.3 and 3 were seen to) keep
// data below the 128 bytes under the stack pointer that a signal leaves alone; a handler's frame is
// laid over it, and the heap or, in silence, the weights are damaged. So these signals are blocked
// in all threads, and one thread that computes nothing takes them; nothing of ours installs a
// handler.
//
// Handlers of others meet the same kernels. Open MPI 4 and 5 leave none in a rank but those for
// crashes, which do not come back, and UCX's for SIGHUP, which is undone. A profiler that samples
// by SIGPROF (gprof, gperftools) does: an alternate stack (sigaltstack) would help only with
// handlers installed with SA_ONSTACK, which theirs are not, and each thread needs its own, OpenMP's
// too. So do not trust a run under such a profiler; perf samples without a signal.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

namespace lockstep {

/// While it lives, a thread of its own takes the signals, asleep until one comes. A second SIGINT
/// ends the process at once. A SIGHUP that the process was started to ignore (nohup) stays ignored.
/// Writing to a closed pipe or over the limit of a file's size (SIGPIPE, SIGXFSZ) is from here on
/// an error of write(2), which names the file.
///
/// Owner: main(), which makes it before MPI and any thread, so that all threads inherit the mask.
/// The signals stay blocked when it is gone: one that comes as late as that changes nothing.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Requests that have come so far. Any thread.
  std::int64_t taken() const { return taken_; }
  bool stop_requested() const { return taken_ > 0; }

 private:
  void take();

  sigset_t set_;
  std::atomic<std::int64_t> taken_ = 0;
  std::atomic<bool> leaving_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace lockstep
