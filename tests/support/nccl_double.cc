#include "tests/support/nccl_double.h"

#include <sched.h>

#include <atomic>

#include "collectives/comm/communicator.h"

namespace lockstep {
namespace {

// With a zero in it, as NCCL's own.
const std::string kId("double\0of NCCL", 14);

}  // namespace

class NcclDouble::Communicator : public NcclCommunicator {
 public:
  explicit Communicator(NcclDouble& library) : library_(library) { begin("connect"); }
  ~Communicator() override {
    if (!left_) abort();
    log("destroy");
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
    looks_ = library_.plan_.looks;
    stream.enqueue([fate = fate_, last = library_.plan_.sums_until_error,
                    comm = raw(library_.comm_), values, count] {
      if (fate->sums++ == last) {
        fate->stuck = true;
        while (!fate->aborted) sched_yield();
      }
      if (fate->aborted) return;
      check(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm));
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
  int looks_ = 0;
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
