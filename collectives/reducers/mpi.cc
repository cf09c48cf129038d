// The reducer of the MPI library: MPI_Iallreduce in place. The order of addition is the library's.
// Most libraries move it on only inside MPI calls.
#include <algorithm>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

class MpiReducer : public HostReducer {
 public:
  explicit MpiReducer(const ReducerSpec& spec)
      : HostReducer(spec), gradients_(spec.device.allocate(gradient_bytes(), Place::host)) {
    const auto largest = static_cast<std::int64_t>(spec.comm.largest_message());
    for (const Range& bucket : spec.buckets) {
      first_.push_back(messages_.size());
      for (std::int64_t begin = bucket.begin; begin < bucket.end(); begin += largest) {
        messages_.push_back({begin, std::min(largest, bucket.end() - begin)});
      }
    }
    first_.push_back(messages_.size());
    requests_.assign(messages_.size(), MPI_REQUEST_NULL);
    completed_.resize(messages_.size());
    traits_ = {.name = "mpi",
               .description = fmt::format("mpi ({})", describe_ranks(spec)),
               .bytes = gradient_bytes(),
               .canonical = spec.comm.size() <= 2 && roots_of(spec).by_rank(),
               .calls_mpi = true};
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }

  void start(int bucket) override {
    for (std::size_t i = first(bucket); i < first(bucket + 1); ++i) {
      check(MPI_Iallreduce(MPI_IN_PLACE, gradients() + messages_[i].begin,
                           static_cast<int>(messages_[i].count), MPI_FLOAT, MPI_SUM,
                           raw(spec_.comm), &requests_[i]));
    }
  }

  bool advance() override {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                       completed_.data(), MPI_STATUSES_IGNORE));
    return std::any_of(requests_.begin(), requests_.end(), under_way);
  }

  bool done(int bucket) const override {
    return std::none_of(requests_.begin() + offset(bucket), requests_.begin() + offset(bucket + 1),
                        under_way);
  }

  void finish(int bucket) override {
    check(MPI_Waitall(static_cast<int>(first(bucket + 1) - first(bucket)),
                      requests_.data() + first(bucket), MPI_STATUSES_IGNORE));
  }

 private:
  static bool under_way(MPI_Request request) { return request != MPI_REQUEST_NULL; }
  std::size_t first(int bucket) const { return first_[bucket]; }
  std::ptrdiff_t offset(int bucket) const { return static_cast<std::ptrdiff_t>(first(bucket)); }

  Memory gradients_;
  std::vector<std::size_t> first_;     ///< first message of each bucket, then the number of all
  std::vector<Range> messages_;        ///< one MPI call each
  std::vector<MPI_Request> requests_;  ///< by message; MPI_REQUEST_NULL: not under way
  std::vector<int> completed_;
};

}  // namespace

std::unique_ptr<Reducer> make_mpi_reducer(const ReducerSpec& spec) {
  return std::make_unique<MpiReducer>(spec);
}

}  // namespace lockstep
