// The reducer of NCCL. start() enqueues the wait for this rank's part of the bucket and the sum in
// a stream. advance() only checks whether NCCL has reported an error.
//
// Communicators are non-blocking, so that a missing rank meets a deadline. A call may therefore
// still be under way when it returns.
//
// An abort of NCCL waits until no graph contains a sum, so only the owner of the graph aborts. It
// also frees memory, and so waits for the sums of other communicators: each abort has a thread.
#include "collectives/reducers/nccl.h"

#include <sched.h>

#include <chrono>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "collectives/reducers/reducers.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

class NcclReducer : public Reducer {
 public:
  NcclReducer(const ReducerSpec& spec, NcclLibrary& library)
      : spec_(spec), stream_(spec.device.stream(Priority::high)) {
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) ready_.push_back(spec.device.event());
    const std::string version = nccl_version_name(library.version());
    expect_same(spec.comm, "versions of NCCL", "nccl = " + version,
                "Use the same NCCL on all hosts");
    std::string id;
    agree(spec.comm, [&] {
      if (spec.comm.rank() == 0) id = library.unique_id();
    });
    id = spec.comm.broadcast(std::move(id));
    agree(spec.comm, [&] { communicator_ = library.connect(id, spec, *stream_); });
    connect();
    agree(spec.comm, [&] {
      gradients_ = communicator_->allocate(spec.count * sizeof(float));
      settle("register memory");
    });
    traits_ = {
        .name = "nccl",
        .description = fmt::format(
            "nccl ({}; NCCL {}{}{})", describe_ranks(spec), version,
            spec.deterministic ? ", deterministic" : "",
            spec.nccl_max_ctas > 0 ? fmt::format(", at most {} CTAs", spec.nccl_max_ctas) : ""),
        .bytes = spec.count * sizeof(float),
        .canonical = spec.comm.size() == 1,  // NCCL promises no order of adding
        .in_stream = true};
  }

  ~NcclReducer() override {
    try {
      // A rank that fails must not wait for the others.
      expect(!failed_ && std::uncaught_exceptions() == 0, "the run ends early");
      stream_->synchronize();
      gradients_.reset();
      communicator_->finish();
      settle("leave");
    } catch (...) {  // an earlier call has thrown it
      abort();
      ended_.wait_for(std::chrono::duration<double>(deadline_ - now_seconds()));
    }
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }
  void written(int bucket, Stream& writer) override { ready(bucket).record(writer); }

  void start(int bucket) override {
    const Range range = spec_.buckets[bucket];
    if (range.count == 0) return;
    ready(bucket).wait(*stream_);
    or_fail([&] { communicator_->sum(gradients() + range.begin, range.count, *stream_); });
    settle("start a sum");
  }

  bool advance() override {
    or_fail([&] { communicator_->settled(); });
    return false;
  }
  bool done(int) const override { return true; }
  void finish(int) override {}
  Stream& stream() override { return *stream_; }

  void abort() noexcept override {
    failed_ = true;
    if (ended_.valid()) return;
    std::promise<void> end;
    ended_ = end.get_future();
    deadline_ = now_seconds() + spec_.timeout_seconds;
    std::thread([communicator = communicator_, end = std::move(end)]() mutable {
      communicator->abort();
      communicator.reset();  // the reducer has the last one, unless it no longer waits
      end.set_value();
    }).detach();
  }

 private:
  Event& ready(int bucket) { return *ready_[bucket]; }

  template <class Call>
  void or_fail(Call call) {
    expect(!failed_, "NCCL is used after an error");
    failed_ = true;
    call();
    failed_ = false;
  }

  /// Waits until this rank's calls are complete.
  void settle(const char* what) {
    const double began = now_seconds();
    or_fail([&] {
      while (!communicator_->settled()) {
        require(now_seconds() - began < spec_.timeout_seconds,
                "NCCL did not {} within {:g} s. Set NCCL_DEBUG=INFO to see why, or pass a longer "
                "--timeout.",
                what, spec_.timeout_seconds);
        sched_yield();
      }
    });
  }

  /// Waits until all ranks are connected. If one fails, all throw its error.
  void connect() {
    enum : std::int64_t { connected, under_way, late, failed };
    const double began = now_seconds();
    for (;;) {
      std::exception_ptr error;
      std::int64_t state = failed;
      try {
        state = communicator_->settled() ? connected : under_way;
        if (state == under_way && now_seconds() - began > spec_.timeout_seconds) state = late;
      } catch (...) {
        error = std::current_exception();
      }
      const std::int64_t worst = spec_.comm.max(state);
      if (worst == connected) return;
      if (worst == under_way) {
        sched_yield();
        continue;
      }
      communicator_->abort();
      agree(spec_.comm, [&] {
        if (error) std::rethrow_exception(error);
        if (worst == late && state == late) {
          fail(
              "NCCL has not connected {} ranks within {:g} s. Set NCCL_DEBUG=INFO to see why, or "
              "pass a longer --timeout or --reducer tree.",
              spec_.comm.size(), spec_.timeout_seconds);
        }
      });
    }
  }

  ReducerSpec spec_;
  std::shared_ptr<NcclCommunicator> communicator_;
  bool failed_ = false;      ///< a call has thrown, or the sums are aborted
  std::future<void> ended_;  ///< the abort; valid after abort()
  double deadline_ = 0;      ///< to wait for it
  Memory gradients_;         ///< the communicator's
  std::vector<std::unique_ptr<Event>> ready_;
  std::unique_ptr<Stream> stream_;  ///< last: its work ends before the other members are destroyed
};

}  // namespace

std::string nccl_version_name(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<Reducer> make_nccl_reducer(const ReducerSpec& spec, NcclLibrary& library) {
  return std::make_unique<NcclReducer>(spec, library);
}

}  // namespace lockstep
