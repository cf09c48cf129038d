// The reducer of the MPI library: MPI_Iallreduce in place. What the library makes of it, and in
// which order it adds, is its own affair; most libraries move it on only inside of MPI calls.
#include <algorithm>
#include <climits>

#include "collectives/reducers.h"

namespace lockstep {
namespace {

class MpiReducer : public Reducer {
 public:
  explicit MpiReducer(const ReducerSpec& spec)
      : spec_(spec),
        gradients_(allocate_gradients(spec.count)),
        requests_(spec.buckets.size(), MPI_REQUEST_NULL) {
    completed_.resize(spec.buckets.size());
  }

  float* gradients() override { return gradients_.get(); }

  void start(int bucket) override {
    const Range range = spec_.buckets[static_cast<std::size_t>(bucket)];
    check(MPI_Iallreduce(MPI_IN_PLACE, gradients() + range.begin, static_cast<int>(range.count),
                         MPI_FLOAT, MPI_SUM, spec_.comm.raw(),
                         &requests_[static_cast<std::size_t>(bucket)]));
  }

  bool advance() override {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                       completed_.data(), MPI_STATUSES_IGNORE));
    return std::any_of(requests_.begin(), requests_.end(),
                       [](MPI_Request each) { return each != MPI_REQUEST_NULL; });
  }

  bool done(int bucket) const override {
    return requests_[static_cast<std::size_t>(bucket)] == MPI_REQUEST_NULL;
  }

  void finish(int bucket) override {
    check(MPI_Wait(&requests_[static_cast<std::size_t>(bucket)], MPI_STATUS_IGNORE));
  }

  bool canonical() const override { return spec_.comm.size() <= 2; }
  bool speaks_mpi() const override { return true; }
  std::size_t bytes() const override {
    return static_cast<std::size_t>(spec_.count) * sizeof(float);
  }
  std::string_view name() const override { return "mpi"; }
  std::string describe() const override { return fmt::format("mpi ({})", describe_ranks(spec_)); }

 private:
  ReducerSpec spec_;
  std::unique_ptr<float[], void (*)(float*)> gradients_;
  std::vector<MPI_Request> requests_;  ///< by bucket; null when it is not under way
  std::vector<int> completed_;
};

}  // namespace

std::unique_ptr<Reducer> make_mpi_reducer(const ReducerSpec& spec) {
  agree(spec.comm, [&] {
    for (const Range& bucket : spec.buckets) {
      require(bucket.count <= INT_MAX,
              "the reducer mpi cannot sum a bucket of {} elements: use a smaller --bucket-mb",
              bucket.count);
    }
  });
  return std::make_unique<MpiReducer>(spec);
}

}  // namespace lockstep
