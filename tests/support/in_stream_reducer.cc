#include "tests/support/in_stream_reducer.h"

#include "collectives/communicator.h"

namespace lockstep {
namespace {

class InStreamReducer : public Reducer {
 public:
  explicit InStreamReducer(const ReducerSpec& spec)
      : spec_(spec),
        gradients_(spec.device.allocate(bytes(), Place::device)),
        stream_(spec.device.stream()) {
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) ready_.push_back(spec.device.event());
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }
  void written(int bucket, Stream& writer) override { ready(bucket).record(writer); }
  void start(int bucket) override {
    ready(bucket).wait(*stream_);
    const Range range = spec_.buckets[static_cast<std::size_t>(bucket)];
    stream_->give([comm = raw(spec_.comm), range, values = gradients() + range.begin] {
      check(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(range.count), MPI_FLOAT, MPI_SUM,
                          comm));
    });
  }
  bool advance() override { return false; }
  bool done(int) const override { return true; }
  void finish(int) override {}
  Stream& stream() override { return *stream_; }
  bool in_stream() const override { return true; }
  bool canonical() const override { return spec_.comm.size() <= 2; }
  bool speaks_mpi() const override { return true; }
  std::size_t bytes() const override {
    return static_cast<std::size_t>(spec_.count) * sizeof(float);
  }
  std::string_view name() const override { return "in_stream"; }
  std::string describe() const override { return "in_stream"; }

 private:
  Event& ready(int bucket) { return *ready_[static_cast<std::size_t>(bucket)]; }

  ReducerSpec spec_;
  Memory gradients_;
  std::vector<std::unique_ptr<Event>> ready_;
  std::unique_ptr<Stream> stream_;  ///< last: its work ends before what it uses goes
};

}  // namespace

std::unique_ptr<Reducer> make_in_stream_reducer(const ReducerSpec& spec) {
  return std::make_unique<InStreamReducer>(spec);
}

}  // namespace lockstep
