// The reducer for gradients in memory that the host may not touch. It copies each bucket to a
// reducer of the host, and the sum back, so that every reducer supports every device.
//
//   compute    writes the bucket | ready
//   out_                               | copies it to the host | here
//   the host                                                          | sums it over the ranks
//   stream()                                                            copies it back | update
#include <sched.h>

#include <utility>

#include "collectives/reducers/reducers.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

class StagedReducer : public Reducer {
 public:
  StagedReducer(const ReducerSpec& spec, std::unique_ptr<Reducer> inner)
      : spec_(spec), inner_(std::move(inner)), out_(spec.device.stream()) {
    for (const Range& range : spec.buckets)
      buckets_.push_back({range, spec.device.event(), spec.device.event(), State::done});
    traits_ = inner_->traits();
    traits_.description += ", staged in host memory";
    on_host_ = traits_.rows;
    try {  // else the host waits in every copy from the device
      for (float* row : on_host_)
        pinned_.push_back(spec.device.pin(reinterpret_cast<std::byte*>(row), arena_bytes()));
    } catch (const Error& error) {
      traits_.description += fmt::format(" (not pinned: {})", error.what());
    }
    // The caller sees rows of the device. Those of inner_ stay in on_host_, at the same offsets.
    traits_.rows.clear();
    for (std::size_t row = 0; row < on_host_.size(); ++row) {
      memory_.push_back(spec.device.allocate(arena_bytes(), Place::device));
      traits_.rows.push_back(reinterpret_cast<float*>(memory_.back().get()));
    }
    traits_.bytes += on_host_.size() * arena_bytes();
  }
  ~StagedReducer() override {
    try {
      out_->synchronize();
      stream().synchronize();
    } catch (...) {  // finish() has thrown it
    }
  }

  float* gradients() override { return traits_.rows.back(); }

  void written(int bucket, Stream& writer) override { at(bucket).ready->record(writer); }

  void start(int number) override {
    Bucket& bucket = at(number);
    bucket.ready->wait(*out_);
    for (std::size_t row = 0; row < on_host_.size(); ++row)
      copy(*out_, on_host_[row], traits_.rows[row], bucket.range);
    bucket.here->record(*out_);
    bucket.state = State::leaving;
  }

  bool advance() override {
    // In order, because all ranks start the inner sums in the same order.
    for (std::size_t next = 0; next < buckets_.size(); ++next) {
      if (buckets_[next].state != State::leaving) continue;
      if (!buckets_[next].here->done()) break;
      inner_->start(static_cast<int>(next));
      buckets_[next].state = State::summed;
    }
    inner_->advance();
    bool busy = false;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      Bucket& bucket = buckets_[i];
      // Done means that the copy back is enqueued. Work that reads the sum follows it in stream().
      if (bucket.state == State::summed && inner_->done(static_cast<int>(i))) {
        copy(stream(), gradients(), inner_->gradients(), bucket.range);
        bucket.state = State::done;
      }
      busy |= bucket.state != State::done;
    }
    return busy;
  }

  bool done(int bucket) const override { return buckets_[bucket].state == State::done; }

  void finish(int number) override {
    for (advance(); !done(number); advance()) {
      if (at(number).state == State::summed) {
        inner_->finish(number);
      } else {
        sched_yield();  // the copy is under way
      }
    }
  }

  Stream& stream() override { return inner_->stream(); }

 private:
  enum class State {
    leaving,  ///< to the host
    summed,   ///< there, by the inner reducer
    done,
  };
  struct Bucket {
    Range range;
    std::unique_ptr<Event> ready, here;
    State state;
  };

  Bucket& at(int bucket) { return buckets_[bucket]; }
  std::size_t arena_bytes() const { return spec_.count * sizeof(float); }
  void copy(Stream& stream, float* to, const float* from, Range range) {
    spec_.device.copy(stream, to + range.begin, from + range.begin, range.count * sizeof(float));
  }

  ReducerSpec spec_;
  std::unique_ptr<Reducer> inner_;
  std::vector<Memory> memory_;   ///< of the device, by row
  std::vector<float*> on_host_;  ///< rows of inner_
  std::vector<Memory> pinned_;   ///< after inner_, whose memory it refers to
  std::unique_ptr<Stream> out_;
  std::vector<Bucket> buckets_;
};

}  // namespace

std::unique_ptr<Reducer> make_staged_reducer(const ReducerSpec& spec,
                                             std::unique_ptr<Reducer> inner) {
  return std::make_unique<StagedReducer>(spec, std::move(inner));
}

}  // namespace lockstep
