#include "tests/support/nccl_double.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/comm/communicator.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

// With a zero in it, as NCCL's own.
const std::string kId("double\0of NCCL", 14);

/// Sums of this process that never end by themselves.
std::atomic<int> stuck_sums = 0;

}  // namespace

class NcclDouble::Communicator : public NcclCommunicator {
 public:
  explicit Communicator(NcclDouble& library) : library_(library) {
    library_.alive_ = true;
    begin("connect");
  }
  ~Communicator() override {
    if (!left_) abort();
    log("destroy");
    library_.alive_ = false;
  }

  bool settled() override {
    if (library_.plan_.refuses) fail("NCCL: internal error (of the double)");
    if (fate_->stuck) fail("NCCL: unhandled cuda error (of the double)");
    if (!library_.plan_.connects) return false;
    return looks_-- <= 0;
  }

  Memory allocate(std::size_t bytes) override {
    expect(looks_ <= 0, "NCCL is called while a call is under way");
    log("allocate");
    Memory memory = library_.device_.allocate(bytes, Place::device);
    std::byte* data = memory.get();
    return Memory(data, [owner = std::make_shared<Memory>(std::move(memory)), this](std::byte*) {
      log("release");
      owner->reset();
    });
  }

  void sum(float* values, std::int64_t count, Stream& stream) override {
    expect(looks_ <= 0, "NCCL is called while a call is under way");
    if (asked_++ == library_.plan_.sums_until_refusal) fail("NCCL: refused (by the double)");
    looks_ = library_.plan_.looks;
    stream.enqueue([fate = fate_, last = library_.plan_.sums_until_error,
                    comm = raw(library_.comm_), values, count] {
      if (fate->sums++ == last) {
        ++stuck_sums;
        fate->stuck = true;
        while (!fate->aborted) sched_yield();
        --stuck_sums;
      }
      if (fate->aborted) return;
      // MPI may use it for ever if the other ranks do not sum. So it is leaked then.
      auto sum = std::make_unique<std::vector<float>>(values, values + count);
      MPI_Request request;
      check(MPI_Iallreduce(MPI_IN_PLACE, sum->data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                           comm, &request));
      for (int ended = 0;;) {
        check(MPI_Test(&request, &ended, MPI_STATUS_IGNORE));
        if (ended != 0) break;
        if (fate->aborted) return static_cast<void>(sum.release());
        std::this_thread::sleep_for(std::chrono::microseconds(20));  // others need the core
      }
      std::copy(sum->begin(), sum->end(), values);
    });
  }

  void finish() override {
    expect(looks_ <= 0, "NCCL is called while a call is under way");
    begin("finish");
    left_ = true;
  }
  void abort() noexcept override {
    log("abort");
    left_ = true;
    fate_->aborted = true;
    const double began = now_seconds();
    // Graphs and streams share the fate of the sums that they contain.
    while (fate_.use_count() > 1 || stuck_sums > 0) {
      if (now_seconds() - began > 5) {
        ADD_FAILURE() << "the abort hangs: "
                      << (stuck_sums > 0 ? "another sum is stuck" : "a graph contains a sum");
        break;
      }
      sched_yield();
    }
    while (now_seconds() - began < library_.plan_.abort_seconds) sched_yield();
  }

 private:
  void log(const char* call) { library_.calls_.emplace_back(call); }
  void begin(const char* call) {
    log(call);
    looks_ = library_.plan_.looks;
  }

  struct Fate {
    int sums = 0;  ///< the stream's
    std::atomic<bool> stuck = false, aborted = false;
  };

  NcclDouble& library_;
  int looks_ = 0, asked_ = 0;
  bool left_ = false;
  std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
};

std::string NcclDouble::unique_id() { return kId; }

std::unique_ptr<NcclCommunicator> NcclDouble::connect(const std::string& id,
                                                      const ReducerSpec& spec, Stream&) {
  expect(id == kId, "another's id");
  expect(spec.comm.size() == comm_.size() && spec.comm.rank() == comm_.rank(), "another's place");
  deterministic = spec.deterministic;
  max_ctas = spec.nccl_max_ctas;
  return std::make_unique<Communicator>(*this);
}

}  // namespace lockstep
