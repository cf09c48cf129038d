// The reducer of NCCL. start() enqueues the wait for this rank's part of the bucket and the sum in
// a stream. advance() only checks whether NCCL has reported an error.
//
// Communicators are non-blocking, so that a missing rank meets a deadline. A call may therefore
// still be under way when it returns.
#include "collectives/reducers/nccl.h"

#include <sched.h>

#include <exception>
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
      if (!communicator_ || aborted_) return;
      // A rank that fails must not wait for the others.
      expect(std::uncaught_exceptions() == 0, "the run ends early");
      stream_->synchronize();
      gradients_.reset();
      communicator_->finish();
      settle("leave");
    } catch (...) {  // an earlier call has thrown it
      abort();
    }
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }
  void written(int bucket, Stream& writer) override { ready(bucket).record(writer); }

  void start(int bucket) override {
    const Range range = spec_.buckets[bucket];
    if (range.count == 0) return;
    ready(bucket).wait(*stream_);
    or_abort([&] { communicator_->sum(gradients() + range.begin, range.count, *stream_); });
    settle("start a sum");
  }

  bool advance() override {
    or_abort([&] { communicator_->settled(); });
    return false;
  }
  bool done(int) const override { return true; }
  void finish(int) override {}
  Stream& stream() override { return *stream_; }

 private:
  Event& ready(int bucket) { return *ready_[bucket]; }

  void abort() noexcept {
    if (communicator_ && !std::exchange(aborted_, true)) communicator_->abort();
  }

  template <class Call>
  void or_abort(Call call) {
    try {
      expect(!aborted_, "NCCL is used after an error");
      call();
    } catch (...) {
      abort();
      throw;
    }
  }

  /// Waits until this rank's calls are complete.
  void settle(const char* what) {
    const double began = now_seconds();
    or_abort([&] {
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
      abort();
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
  std::unique_ptr<NcclCommunicator> communicator_;
  bool aborted_ = false;
  Memory gradients_;  ///< the communicator's
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
