// The reducer of NCCL. start() enqueues the wait for this rank's part of the bucket and the sum in
// a stream. advance() only checks whether NCCL has reported an error.
//
// Communicators are non-blocking, so that a missing rank meets a deadline. A call may therefore
// still be under way when it returns.
//
// An abort of NCCL waits until no graph contains a sum, so only the owner of the graph aborts. It
// also frees memory, and so waits for the sums of other communicators: each abort has a thread.
#include "collectives/reducers/nccl.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "collectives/reducers/reducers.h"
#include "src/base/clock.h"
#include "src/base/plural.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

class NcclReducer : public StreamReducer {
 public:
  NcclReducer(const ReducerSpec& spec, NcclLibrary& library) : StreamReducer(spec), spec_(spec) {
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
            "nccl ({}; NCCL {}{}{})", describe_ranks(spec), nccl_version_name(library.version()),
            spec.deterministic ? ", deterministic" : "",
            spec.nccl_max_ctas > 0 ? fmt::format(", at most {} CTAs", spec.nccl_max_ctas) : ""),
        .bytes = spec.count * sizeof(float),
        .canonical = spec.comm.size() == 1,  // NCCL promises no order of adding
        .rows = {gradients()},
        .in_stream = true};
  }

  ~NcclReducer() override {
    try {
      // A rank that fails must not wait for the others.
      expect(!failed_ && std::uncaught_exceptions() == 0, "the run ends early");
      stream_->synchronize();
      gradients_.reset();
      communicator_->finish();
      settle("leave");
    } catch (...) {  // an earlier call has thrown it
      abort();
      ended_.wait_for(std::chrono::duration<double>(deadline_ - now_seconds()));
    }
    stream_.reset();  // its work ends before the members are destroyed
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }

  void start(int bucket) override {
    const Range range = spec_.buckets[bucket];
    if (range.count == 0) return;
    StreamReducer::start(bucket);
    or_fail([&] { communicator_->sum(gradients() + range.begin, range.count, *stream_); });
    settle("start a sum");
  }

  bool advance() override {
    or_fail([&] { communicator_->settled(); });
    return false;
  }

  void abort() noexcept override {
    failed_ = true;
    if (ended_.valid()) return;
    std::promise<void> end;
    ended_ = end.get_future();
    deadline_ = now_seconds() + spec_.timeout_seconds;
    std::thread([communicator = communicator_, end = std::move(end)]() mutable {
      communicator->abort();
      communicator.reset();  // the reducer has the last one, unless it no longer waits
      end.set_value();
    }).detach();
  }

 private:
  /// If the call throws, failed_ stays set, and only abort() may follow.
  template <class Call>
  void or_fail(Call call) {
    expect(!failed_, "NCCL is used after an error");
    failed_ = true;
    call();
    failed_ = false;
  }

  /// Waits until this rank's calls are complete.
  void settle(const char* what) {
    const double began = now_seconds();
    or_fail([&] {
      while (!communicator_->settled()) {
        require(now_seconds() - began < spec_.timeout_seconds,
                "NCCL did not {} within {:g} s. Set NCCL_DEBUG=INFO to see why, or pass a longer "
                "--timeout.",
                what, spec_.timeout_seconds);
        sched_yield();
      }
    });
  }

  /// Waits until all ranks are connected. If one fails, all throw its error. The ranks compare
  /// their states in each turn, also those that are connected. So they leave the loop in the same
  /// turn, and a rank whose NCCL has failed ends the wait of the others.
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
      communicator_->abort();
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
  std::shared_ptr<NcclCommunicator> communicator_;
  bool failed_ = false;      ///< a call has thrown, or the sums are aborted
  std::future<void> ended_;  ///< the abort; valid after abort()
  double deadline_ = 0;      ///< to wait for it
  Memory gradients_;         ///< the communicator's, which is destroyed later
};

/// The number of the first rank for which `holds` is true, or -1.
template <class Holds>
int first(std::span<const RankGpu> gpus, Holds holds) {
  const auto found = std::find_if(gpus.begin(), gpus.end(), holds);
  return found == gpus.end() ? -1 : static_cast<int>(found - gpus.begin());
}

}  // namespace

std::string nccl_version_name(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<Reducer> make_nccl_reducer(const ReducerSpec& spec, NcclLibrary& library) {
  return std::make_unique<NcclReducer>(spec, library);
}

std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own) {
  std::string all;
  for (const std::string& text :
       comm.gather(fmt::format("{}\n{}\n{}\n{}\n", own.host, own.uuid, own.nccl, own.pci)))
    all += text;
  const std::vector<std::string> lines = lines_of(comm.broadcast(std::move(all)));
  std::vector<RankGpu> gpus;
  for (std::size_t i = 0; i < lines.size(); i += 4)
    gpus.push_back({lines[i], lines[i + 1], std::stoi(lines[i + 2]), lines[i + 3]});
  return gpus;
}

std::string nccl_refusal(std::span<const RankGpu> gpus, bool canonical) {
  const int missing = first(gpus, [](const RankGpu& gpu) { return gpu.uuid.empty(); });
  if (missing >= 0)
    return fmt::format("rank {} ({}) has no CUDA device", missing, gpus[missing].host);
  const int without = first(gpus, [](const RankGpu& gpu) { return gpu.nccl == 0; });
  if (without >= 0) return fmt::format("rank {} ({}) has no NCCL", without, gpus[without].host);
  const std::string version = nccl_version_name(gpus.front().nccl);
  const int other = first(gpus, [&](const RankGpu& gpu) { return gpu.nccl != gpus.front().nccl; });
  if (other >= 0) {
    return fmt::format("rank 0 has NCCL {} and rank {} ({}) has {}", version, other,
                       gpus[other].host, nccl_version_name(gpus[other].nccl));
  }
  std::set<std::string> devices, addresses;
  for (const RankGpu& gpu : gpus) {
    devices.insert(gpu.uuid);
    addresses.insert(gpu.host + " " + (gpu.pci.empty() ? gpu.uuid : gpu.pci));
  }
  if (addresses.size() < gpus.size()) {
    const bool slices = devices.size() == gpus.size();
    return fmt::format("{} share {}, and NCCL {} refuses {}", counted(gpus.size(), "rank"),
                       counted(addresses.size(), "GPU"), version,
                       slices ? "slices (MIG) of one GPU" : "shared GPUs");
  }
  if (!canonical || gpus.size() == 1) return "";
  return "--shards asks for the canonical order, and NCCL has its own order";
}

}  // namespace lockstep
