// The reducer of the MPI library: MPI_Iallreduce in place. The order of addition is the library's.
// Most libraries move it on only inside MPI calls.
#include <algorithm>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

class MpiAllReduce : public Exchange {
 public:
  MpiAllReduce(const Comm& comm, std::int64_t count) : comm_(comm), count_(count) {}

  void start(float* bucket) override {
    const auto largest = static_cast<std::int64_t>(comm_.largest_message());
    for (std::int64_t begin = 0; begin < count_; begin += largest) {
      const int length = static_cast<int>(std::min(largest, count_ - begin));
      check(MPI_Iallreduce(MPI_IN_PLACE, bucket + begin, length, MPI_FLOAT, MPI_SUM, raw(comm_),
                           &requests_.emplace_back()));
    }
  }

  bool advance(bool wait) override {
    if (done()) return false;
    const int calls = static_cast<int>(requests_.size());
    int complete = 1;
    check(wait ? MPI_Waitall(calls, requests_.data(), MPI_STATUSES_IGNORE)
               : MPI_Testall(calls, requests_.data(), &complete, MPI_STATUSES_IGNORE));
    if (complete != 0) requests_.clear();
    return !done();
  }
  bool done() const override { return requests_.empty(); }
  std::size_t bytes() const override { return 0; }

 private:
  Comm comm_;
  std::int64_t count_;
  std::vector<MPI_Request> requests_;  ///< one for each call that is under way
};

}  // namespace

std::unique_ptr<Reducer> make_mpi_reducer(const ReducerSpec& spec) {
  Exchanges sums;
  for (const Range& bucket : spec.buckets)
    sums.push_back(std::make_unique<MpiAllReduce>(spec.comm, bucket.count));
  return make_exchange_reducer(spec, "mpi", spec.comm.size() <= 2, std::move(sums));
}

}  // namespace lockstep
