// The reducer of the MPI library: MPI_Iallreduce in place. The order of addition is the library's.
// Most libraries move it on only inside MPI calls.
//
// MPI matches collective calls by their order on a communicator. All ranks start the buckets in the
// same order (reducer.h), so that the buckets need neither tags nor communicators of their own.
#include <algorithm>

#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

class MpiAllReduce : public Exchange {
 public:
  MpiAllReduce(const Comm& comm, std::int64_t count)
      : Exchange(comm, /*chunk=*/0, /*tag=*/0), count_(count) {}

  using Exchange::start;
  void start(std::span<float* const>, float* sum) override {
    const auto largest = static_cast<std::int64_t>(comm_.largest_message());
    for (std::int64_t begin = 0; begin < count_; begin += largest) {
      check(MPI_Iallreduce(MPI_IN_PLACE, sum + begin,
                           static_cast<int>(std::min(largest, count_ - begin)), MPI_FLOAT, MPI_SUM,
                           raw(comm_), message()));
    }
    done_ = false;
  }
  bool done() const override { return done_; }
  std::size_t bytes() const override { return 0; }

 private:
  void end_round() override { done_ = true; }

  std::int64_t count_;
  bool done_ = true;
};

}  // namespace

std::unique_ptr<Reducer> make_mpi_reducer(const ReducerSpec& spec) {
  const bool canonical = spec.comm.size() <= 2 && roots_of(spec).by_rank();
  return make_exchange_reducer(
      spec, "mpi", canonical, Roots::one_each(spec.comm.size()), [spec](const Roots&) {
        Exchanges sums;
        for (const Range& bucket : spec.buckets)
          sums.push_back(std::make_unique<MpiAllReduce>(spec.comm, bucket.count));
        return sums;
      });
}

}  // namespace lockstep
