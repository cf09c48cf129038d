#include "tests/support/peers_double.h"

#include <sched.h>

#include <atomic>

#include "collectives/node/node_memory.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

class PeersDouble : public Peers {
 public:
  PeersDouble(const ReducerSpec& spec, int marks)
      : comm_(spec.comm),
        marks_(marks),
        arena_(round_up(spec.count * sizeof(float), kPageBytes)),
        memory_(spec.comm, spec.comm,
                static_cast<std::size_t>(spec.comm.size()) * (arena_ + marks_bytes()),
                "the double of cuda_ipc") {}

  float* gradients(int rank) override {
    return reinterpret_cast<float*>(memory_.data() + static_cast<std::size_t>(rank) * arena_);
  }
  void record(int number, Stream& stream) override {
    Mark& mark = at(comm_.rank(), number);
    stream.give([&mark, record = ++mark.recorded] { mark.reached = record; });
  }
  void wait(int rank, int number, Stream& stream) override {
    const Mark& mark = at(rank, number);
    stream.give([&mark, record = mark.recorded.load()] {
      while (mark.reached < record) sched_yield();
    });
  }

 private:
  struct Mark {
    std::atomic<std::int64_t> recorded;  ///< calls of record()
    std::atomic<std::int64_t> reached;   ///< the last of them that its stream came to
  };

  std::size_t marks_bytes() const { return marks_ * sizeof(Mark); }
  Mark& at(int rank, int number) {
    auto* marks = memory_.data() + static_cast<std::size_t>(comm_.size()) * arena_ +
                  static_cast<std::size_t>(rank) * marks_bytes();
    return reinterpret_cast<Mark*>(marks)[number];
  }

  Comm comm_;
  int marks_;
  std::size_t arena_;  ///< bytes of each rank's gradients
  NodeMemory memory_;
};

}  // namespace

std::unique_ptr<Peers> make_peers_double(const ReducerSpec& spec, int marks) {
  return std::make_unique<PeersDouble>(spec, marks);
}

}  // namespace lockstep
