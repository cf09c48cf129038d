#include "collectives/comm/comm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/node/node_memory.h"
#include "collectives/watch/launch.h"
#include "collectives/watch/start_watch.h"
#include "collectives/watch/watchdog.h"
#include "src/base/place.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

std::atomic<Record*> own_record = nullptr;  ///< the World's, while there is one

void tell(bool inside) {
  if (Record* record = own_record) record->collective(inside);
}

std::int64_t reduce(const Comm& comm, std::int64_t value, MPI_Op operation) {
  const Waiting waiting;
  std::int64_t result = 0;
  check(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, operation, raw(comm)));
  return result;
}

MPI_Datatype type_of(std::span<const char>) { return MPI_CHAR; }
MPI_Datatype type_of(std::span<const std::int64_t>) { return MPI_INT64_T; }
MPI_Datatype type_of(std::span<const std::uint64_t>) { return MPI_UINT64_T; }
MPI_Datatype type_of(std::span<const float>) { return MPI_FLOAT; }
MPI_Datatype type_of(std::span<const double>) { return MPI_DOUBLE; }

template <class T>
int int_size(std::span<T> part) {
  return static_cast<int>(part.size());
}

template <class T, class Visit>
void for_each_message(std::span<T> values, std::size_t largest, Visit visit) {
  for (std::size_t begin = 0; begin < values.size(); begin += largest) {
    visit(values.subspan(begin, std::min(largest, values.size() - begin)));
  }
}

const char* variable(const char* name) { return std::getenv(name); }

void check_launch(int size) {
  const std::string problem = launch_problem(variable, size);
  if (!problem.empty()) throw Error(is_first_task(variable) ? problem : "", kExitUsage);
}

/// A name that stands in a file may hold anything.
std::string one_line(std::string text) {
  text = printable(text);
  std::replace(text.begin(), text.end(), '\n', '?');
  return text;
}

/// The exception in flight as the line that a user reads.
Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return Error(one_line(error.what()), error.exit_code());
  } catch (const std::bad_alloc&) {
    return Error("out of memory: use a smaller batch or fewer ranks per host");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      return Error(one_line(fmt::format("unexpected error: {}", error.what())));
    }
    return Error(
        "cannot start a thread: raise the limit of processes (ulimit -u, pids.max) or of memory");
  } catch (const std::exception& error) {
    return Error(one_line(fmt::format("unexpected error: {}", error.what())));
  } catch (...) {
    return Error("unexpected error of an unknown kind");
  }
}

/// A report that cannot be written (fmt::print would throw) changes no exit code.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

Waiting::Waiting() { tell(true); }
Waiting::~Waiting() { tell(false); }

void check(int code, std::source_location at) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("MPI failed in {} with \"{}\". Another rank may be gone. Look for an earlier message.",
       place_of(at), text);
}

Communicator::Communicator(MPI_Comm handle, bool owned) : handle(handle), owned(owned) {
  check(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN));
}

Communicator::~Communicator() {
  // An error here has no cure and harms nobody.
  if (owned && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle);
}

Comm::Comm(std::shared_ptr<const Communicator> communicator)
    : communicator_(std::move(communicator)) {
  check(MPI_Comm_rank(raw(*this), &rank_));
  check(MPI_Comm_size(raw(*this), &size_));
}

Comm Comm::duplicate() const {
  const Waiting waiting;
  MPI_Comm copy;
  check(MPI_Comm_dup(raw(*this), &copy));
  return Comm(std::make_shared<Communicator>(copy, true)).with_largest_message(largest_message_);
}

Comm Comm::node() const {
  const Waiting waiting;
  MPI_Comm node;
  check(MPI_Comm_split_type(raw(*this), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
  return Comm(std::make_shared<Communicator>(node, true)).with_largest_message(largest_message_);
}

Comm Comm::with_largest_message(std::size_t elements) const {
  Comm comm = *this;
  comm.largest_message_ = elements;
  return comm;
}

void Comm::barrier() const {
  const Waiting waiting;
  check(MPI_Barrier(raw(*this)));
}

std::string Comm::broadcast(std::string text, int root) const {
  std::uint64_t length = text.size();
  broadcast(std::span(&length, 1), root);
  text.resize(length);
  broadcast(std::span(text), root);
  return text;
}

std::int64_t Comm::sum(std::int64_t value) const { return reduce(*this, value, MPI_SUM); }
std::int64_t Comm::min(std::int64_t value) const { return reduce(*this, value, MPI_MIN); }
std::int64_t Comm::max(std::int64_t value) const { return reduce(*this, value, MPI_MAX); }

void Comm::sum(std::span<std::int64_t> values) const {
  const Waiting waiting;
  for_each_message(values, largest_message_, [&](std::span<std::int64_t> part) {
    check(
        MPI_Allreduce(MPI_IN_PLACE, part.data(), int_size(part), MPI_INT64_T, MPI_SUM, raw(*this)));
  });
}

template <class T>
void Comm::broadcast(std::span<T> values, int root) const {
  const Waiting waiting;
  for_each_message(values, largest_message_, [&](std::span<T> part) {
    check(MPI_Bcast(part.data(), int_size(part), type_of(part), root, raw(*this)));
  });
}
template void Comm::broadcast(std::span<char>, int) const;
template void Comm::broadcast(std::span<std::int64_t>, int) const;
template void Comm::broadcast(std::span<std::uint64_t>, int) const;
template void Comm::broadcast(std::span<float>, int) const;
template void Comm::broadcast(std::span<double>, int) const;

template <class T>
std::vector<T> Comm::all_gather(std::span<const T> values) const {
  const Waiting waiting;
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<T> all(values.size() * ranks), parts;
  T* place = all.data();
  for_each_message(values, largest_message_, [&](std::span<const T> part) {
    parts.resize(part.size() * ranks);
    check(MPI_Allgather(part.data(), int_size(part), type_of(part), parts.data(), int_size(part),
                        type_of(part), raw(*this)));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::copy_n(parts.data() + rank * part.size(), part.size(), place + rank * values.size());
    }
    place += part.size();
  });
  return all;
}
template std::vector<std::uint64_t> Comm::all_gather(std::span<const std::uint64_t>) const;

std::vector<std::string> Comm::gather(const std::string& text) const {
  const auto own = static_cast<std::int64_t>(text.size());
  const std::int64_t longest = max(own);
  const Waiting waiting;
  const std::size_t ranks = rank_ == 0 ? static_cast<std::size_t>(size_) : 0;
  std::vector<std::int64_t> lengths(ranks);
  check(MPI_Gather(&own, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, 0, raw(*this)));

  // MPI counts the bytes of all ranks together in an int. Each call takes a piece of every text.
  const std::int64_t piece = std::max<std::int64_t>(1, largest_message_ / size_);
  std::vector<std::string> result(ranks);
  std::vector<int> counts(ranks), offsets(ranks);
  std::string all;
  for (std::int64_t begin = 0; begin < longest; begin += piece) {
    const auto part = [&](std::int64_t length) {
      return static_cast<int>(std::clamp<std::int64_t>(length - begin, 0, piece));
    };
    int total = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      counts[i] = part(lengths[i]);
      offsets[i] = std::exchange(total, total + counts[i]);
    }
    all.resize(total);
    check(MPI_Gatherv(text.data() + std::min(begin, own), part(own), MPI_CHAR, all.data(),
                      counts.data(), offsets.data(), MPI_CHAR, 0, raw(*this)));
    for (std::size_t i = 0; i < ranks; ++i) result[i].append(all, offsets[i], counts[i]);
  }
  return result;
}

int World::begin_mpi(int* argc, char*** argv) {
  int initialized = 0, finalized = 0, granted = MPI_THREAD_SINGLE;
  check(MPI_Initialized(&initialized));
  check(MPI_Finalized(&finalized));
  if (finalized) {
    fail_usage(
        "MPI_Finalize was called before Lockstep started. Call it after run_main() or World.");
  }
  owns_mpi_ = !initialized;
  if (owns_mpi_) {
    check_launch(0);
    const WordsOfStart words;
    check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &granted));
  } else {
    check(MPI_Query_thread(&granted));
  }
  // The program's own communicator keeps its messages and its way to handle errors.
  MPI_Comm all = MPI_COMM_WORLD;
  if (!owns_mpi_) check(MPI_Comm_dup(MPI_COMM_WORLD, &all));
  communicator_ = std::make_shared<const Communicator>(all, /*owned=*/!owns_mpi_);
  return granted;
}

World::World(int* argc, char*** argv, const std::string& program) : program_(program) {
  std::optional<StartWatch> start(std::in_place, program);
  threads_allowed_ = begin_mpi(argc, argv) >= MPI_THREAD_MULTIPLE;
  const Comm all = comm(), node = all.node();
  try {
    agree(all, [&] { check_launch(all.size()); });
    memory_ =
        std::make_unique<NodeMemory>(all, node, FlightRecorder::bytes(node.size()), "the start-up");
  } catch (const AgreedError& error) {
    std::string text = all.rank() == 0 ? error.what() : "";
    if (owns_mpi_) {  // a rank that leaves ends the others: the line is printed before
      if (!text.empty()) say(fmt::format("{}: {}\n", program, std::exchange(text, "")));
      MPI_Finalize();
    }
    throw Error(text, error.exit_code());
  }
  flight_recorder_ =
      std::make_unique<FlightRecorder>(memory_->data(), node.rank(), node.size(), all.rank());
  auto heartbeat = Heartbeat::make(all, node);
  node.barrier();  // whoever reads the records from here on sees who everybody is
  watchdog_ = std::make_unique<Watchdog>(*flight_recorder_, node.size() == all.size(), program,
                                         Watchdog::Pace(), std::move(heartbeat));
  start.reset();
  own_record = &flight_recorder_->mine();
}

World::~World() {
  flight_recorder_->mine().waiting("the end of the run");
  own_record = nullptr;
  if (owns_mpi_)
    MPI_Finalize();
  else
    MPI_Barrier(communicator_->handle);
  communicator_.reset();
  watchdog_.reset();
}

Comm World::comm() const { return Comm(communicator_); }

void agree(const Comm& comm, const std::function<void()>& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (...) {
    error = current_error();
  }
  const std::int64_t first = comm.min(error ? comm.rank() : comm.size());
  if (first == comm.size()) return;

  const int root = static_cast<int>(first);
  std::string line;
  if (comm.rank() == root) {
    line = root == 0 ? error->what()
                     : fmt::format("rank {} ({}): {}", root, host_name(), error->what());
  }
  line = comm.broadcast(line, root);
  const int code = static_cast<int>(comm.max(comm.rank() == root ? error->exit_code() : 0));
  int everybody = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &everybody));
  if (comm.size() < everybody) throw Error(line, code);  // the other ranks do not know
  throw AgreedError(line, code);
}

namespace {

/// Whatever this process still waits for, 3 s from now it is gone.
void leave_soon(int exit_code) {
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(exit_code);
  }).detach();
}

[[noreturn]] void abort_all(int exit_code) {
  std::fflush(nullptr);
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  silence_abort(variable);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace

void end_all_ranks(int exit_code) {
  leave_soon(exit_code);
  abort_all(exit_code);
}

void say_and_end_all_ranks(const std::string& line, int exit_code) {
  leave_soon(exit_code);
  // A bar or half a remark of the MPI's may stand there, the launcher's boxes follow.
  say(fmt::format("{}{}\n", has_launcher(variable) ? "\n" : "", line));
  abort_all(exit_code);
}

void World::end_quietly(int exit_code) {
  if (!owns_mpi_ || !silence_abort(variable)) return;
  flight_recorder_->mine().waiting("the end of the run");
  std::fflush(nullptr);  // the first rank that aborts ends the others
  comm().barrier();      // the error is printed, and no rank still works
  watchdog_.reset();     // says goodbye: ranks now leave one after the other
  end_all_ranks(exit_code);
}

int World::or_end_all(const std::function<int()>& body) {
  const Comm all = comm();
  try {
    return body();
  } catch (const AgreedError&) {
    throw;
  } catch (...) {
    const Error error = current_error();
    if (all.size() == 1) throw error;
    if (flight_recorder_->first_failure()) {
      say_and_end_all_ranks(
          fmt::format("{}: rank {} ({}): {}", program_, all.rank(), host_name(), error.what()),
          error.exit_code());
    }
    // The one that speaks ends us all; leaving first would let the launcher kill it before it has
    // spoken.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    end_all_ranks(error.exit_code());
  }
}

int run_main(int argc, char** argv, const char* program, const std::function<int(World&)>& body) {
  hold_standard_files();
  try {
    World world(&argc, &argv, program);
    int exit_code = kExitFailure;
    try {
      exit_code = world.or_end_all([&] { return body(world); });
    } catch (const Error& error) {  // the same on all ranks
      if (world.comm().rank() == 0) say(fmt::format("{}: {}\n", program, error.what()));
      exit_code = error.exit_code();
      world.end_quietly(exit_code);
    }
    std::fflush(nullptr);
    return exit_code;
  } catch (...) {  // MPI has not come up
    const Error error = current_error();
    if (*error.what() != '\0') say(fmt::format("{}: {}\n", program, error.what()));
    return error.exit_code();
  }
}

}  // namespace lockstep
