#include "tests/emulator/libraries/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/emulator/emulator.h"

namespace emulator {

thread_local std::string last_error;

ncclResult_t fail(ncclResult_t result, const std::string& text) {
  last_error = text;
  return result;
}

ncclResult_t refuse(ncclResult_t result, const std::string& rule, const std::string& detail) {
  report(rule, detail);
  return fail(result, rule);
}

bool is_of_device(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  return data != nullptr && is_device_memory(begin) && is_device_memory(begin + bytes - 1);
}

}  // namespace emulator

namespace {

using emulator::fail, emulator::refuse;

std::mutex mutex;  // of `communicators`; not held during calls of the emulator
std::vector<std::unique_ptr<ncclComm>> communicators;
std::atomic<int> sums = 0;

/// NCCL would wait without end.
void wait_while(const std::string& what, const std::function<bool()>& busy) {
  constexpr std::chrono::seconds kMost(20);
  for (const auto begin = std::chrono::steady_clock::now(); busy();) {
    if (std::chrono::steady_clock::now() - begin > kMost) return emulator::report(what);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

ncclResult_t ncclComm::admit(ncclComm* comm, const std::string& call) {
  const auto after = [&](const char* earlier) {
    return refuse(ncclInvalidArgument, call + " after " + earlier);
  };
  if (emulator::is_to_fail(call.c_str())) return fail(ncclSystemError, call + " is to fail");
  if (comm == nullptr) return refuse(ncclInvalidArgument, call + " without a communicator");
  const Phase phase = comm->phase;
  if (phase == Phase::aborted) return after("ncclCommAbort");
  if (phase == Phase::destroyed) return after("ncclCommDestroy");
  if (call == "ncclCommAbort") return ncclSuccess;
  if (phase == Phase::finalizing)
    return refuse(ncclInvalidArgument, call + " before ncclCommFinalize has settled");
  if (comm->error_ != ncclSuccess) return comm->error_;
  if (!comm->settled_)
    return refuse(ncclInvalidArgument, call + " before the previous call has settled");
  if (phase == Phase::finalized && call != "ncclCommDestroy") return after("ncclCommFinalize");
  return ncclSuccess;
}

ncclComm* ncclComm::add(std::unique_ptr<ncclComm> comm) {
  const std::scoped_lock lock(mutex);
  communicators.push_back(std::move(comm));
  communicators.back()->name =
      "ncclAllReduce of communicator " + std::to_string(communicators.size());
  return communicators.back().get();
}

ncclResult_t ncclComm::settle_later(std::function<void()> done) {
  settled_ = false;
  looks_ = static_cast<int>(emulator::random_below(3));
  done_ = std::move(done);
  return ncclInProgress;
}

ncclResult_t ncclComm::connect() {
  if (!ranks.all_joined()) return ncclInProgress;
  const int rank = ranks.rank_on_used_device();
  if (rank < 0) return ncclSuccess;
  return fail(ncclInvalidUsage,
              "Duplicate GPU detected: rank " + std::to_string(rank) + " shares its device");
}

ncclResult_t ncclComm::look() {
  if (failed_) {
    error_ = fail(ncclRemoteError, "a remote rank has closed its connection");
  } else if (phase == Phase::connecting && error_ == ncclSuccess) {
    const ncclResult_t result = connect();
    if (result == ncclInProgress) return result;
    error_ = result;
  }
  if (error_ != ncclSuccess || settled_) return error_;
  if (looks_-- > 0) return ncclInProgress;
  if (phase == Phase::finalizing && emulator::graphs_with(name) > 0) {
    emulator::report("ncclCommFinalize waits for a graph that still exists");
    return ncclInProgress;
  }
  settled_ = true;
  if (phase == Phase::connecting) phase = Phase::open;
  if (phase == Phase::finalizing) phase = Phase::finalized;
  if (done_) std::exchange(done_, nullptr)();
  return ncclSuccess;
}

bool ncclComm::advance(const float* from, float* to, std::size_t count) {
  static const char* const to_fail = std::getenv("EMULATOR_NCCL_FAIL");
  if (aborted_) return true;
  if (!begun_.exchange(true) && ++sums == (to_fail != nullptr ? std::atoi(to_fail) : 0))
    failed_ = true;
  if (failed_ || !ranks.advance(from, to, count)) return false;
  if (ranks.counts_differed())
    emulator::report("ncclAllReduce: ranks pass different counts", std::to_string(count));
  begun_ = false;
  return true;
}

void ncclComm::wait_for_graphs(const std::string& call) const {
  wait_while(call + " waits for a graph that still exists",
             [&] { return emulator::graphs_with(name) > 0; });
}

void ncclComm::abort() {
  aborted_ = true;
  wait_for_graphs("ncclCommAbort");
  // It frees memory, which waits for all work of the device.
  wait_while("ncclCommAbort waits for a sum of another communicator", [&] {
    const std::scoped_lock lock(mutex);
    return std::any_of(communicators.begin(), communicators.end(),
                       [](const auto& other) { return other->begun_ && !other->aborted_; });
  });
  phase = Phase::aborted;  // `place` stays, because its sums may still be in streams
}

ncclResult_t ncclComm::register_memory(void* data, std::size_t bytes, void** handle,
                                       const std::string& call) {
  if (!emulator::is_of_device(data, bytes))
    return refuse(ncclInvalidArgument, call + " of memory that is not the device's");
  registrations_.push_back(std::make_unique<Registration>(data));
  *handle = registrations_.back().get();
  return ncclSuccess;
}

ncclResult_t ncclComm::deregister(const void* handle, const std::string& call) {
  const auto gone =
      std::erase_if(registrations_, [&](const auto& known) { return known.get() == handle; });
  return gone == 1 ? ncclSuccess : refuse(ncclInvalidArgument, call + " of an unknown handle");
}

bool ncclComm::is_registered(const void* data) {
  const std::scoped_lock lock(mutex);
  return std::any_of(communicators.begin(), communicators.end(), [&](const auto& comm) {
    const auto& known = comm->registrations_;
    return comm->phase < Phase::destroyed &&
           std::any_of(known.begin(), known.end(),
                       [&](const auto& registration) { return registration->data == data; });
  });
}
