#include "collectives/comm.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "collectives/launch.h"
#include "collectives/node_memory.h"
#include "collectives/records.h"

namespace lockstep {
namespace {

std::int64_t reduce(const Comm& comm, std::int64_t value, MPI_Op operation) {
  std::int64_t result = 0;
  check(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, operation, comm.raw()));
  return result;
}

void check_launch(int size) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  const std::string problem = launch_problem(environment, size);
  if (!problem.empty()) throw Error(is_first_task(environment) ? problem : "", kExitUsage);
}

/// The first line in which `here` and `there` differ, one text each; "(nothing)" where one has
/// ended.
std::pair<std::string, std::string> first_difference(const std::string& here,
                                                     const std::string& there) {
  std::istringstream left(here), right(there);
  for (;;) {
    std::string a, b;
    if (!std::getline(left, a)) a = "(nothing)";
    if (!std::getline(right, b)) b = "(nothing)";
    if (a != b || (!left && !right)) return {a, b};
  }
}

}  // namespace

void check(int code, std::source_location at) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(
      "MPI failed with \"{}\" ({}:{}): another rank or the network may be gone; look for an "
      "earlier message",
      text, at.file_name(), at.line());
}

Comm::Comm(MPI_Comm raw) : raw_(raw) {
  check(MPI_Comm_set_errhandler(raw_, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(raw_, &rank_));
  check(MPI_Comm_size(raw_, &size_));
}

Comm Comm::duplicate() const {
  MPI_Comm raw;
  check(MPI_Comm_dup(raw_, &raw));
  return Comm(raw);
}

Comm Comm::node() const {
  MPI_Comm raw;
  check(MPI_Comm_split_type(raw_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &raw));
  return Comm(raw);
}

void Comm::free() { MPI_Comm_free(&raw_); }  // an error here has no cure and harms nobody

void Comm::barrier() const { check(MPI_Barrier(raw_)); }

std::string Comm::broadcast(std::string text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  check(MPI_Bcast(&length, 1, MPI_INT64_T, root, raw_));
  text.resize(static_cast<std::size_t>(length));
  check(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, root, raw_));
  return text;
}

std::int64_t Comm::sum(std::int64_t value) const { return reduce(*this, value, MPI_SUM); }
std::int64_t Comm::min(std::int64_t value) const { return reduce(*this, value, MPI_MIN); }
std::int64_t Comm::max(std::int64_t value) const { return reduce(*this, value, MPI_MAX); }

std::vector<std::string> Comm::gather(const std::string& text) const {
  const int length = static_cast<int>(text.size());
  const std::size_t ranks = rank_ == 0 ? static_cast<std::size_t>(size_) : 0;
  std::vector<int> lengths(ranks), offsets(ranks);
  check(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, raw_));
  int total = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    offsets[i] = total;
    total += lengths[i];
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  check(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                    MPI_CHAR, 0, raw_));
  std::vector<std::string> result;
  for (std::size_t i = 0; i < ranks; ++i) {
    result.push_back(
        all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return result;
}

World::World(int* argc, char*** argv) {
  check_launch(0);
  int granted = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &granted));
  threads_allowed_ = granted >= MPI_THREAD_MULTIPLE;
  const Comm all = comm();
  try {
    check_launch(all.size());
  } catch (const Error&) {
    MPI_Finalize();
    throw;
  }
  Comm node = all.node();
  memory_ = std::make_unique<NodeMemory>(node, Records::bytes(node.size()), "the start-up");
  records_ = std::make_unique<Records>(memory_->data(), node.rank(), node.size(), all.rank());
  node.barrier();  // whoever reads the records from here on sees who everybody is
  node.free();
}

World::~World() {
  records_->mine().goodbye();
  records_.reset();
  memory_.reset();
  MPI_Finalize();
}

Comm World::comm() const { return Comm(MPI_COMM_WORLD); }

void agree(const Comm& comm, const std::function<void()>& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (const Error& caught) {
    error = caught;
  } catch (const std::exception& caught) {
    error = Error(caught.what());
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
  const std::int64_t exit_code = comm.max(comm.rank() == root ? error->exit_code() : 0);
  throw AgreedError(line, static_cast<int>(exit_code));
}

void expect_same(const Comm& comm, const std::string& what, const std::string& text) {
  const std::string reference = comm.broadcast(text);
  agree(comm, [&] {
    if (text == reference) return;
    const auto [here, there] = first_difference(text, reference);
    fail_usage(
        "{} differ: \"{}\" here, \"{}\" on rank 0; start all ranks with the same build, options "
        "and files",
        what, here, there);
  });
}

void end_all_ranks(int exit_code) {
  std::fflush(nullptr);
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(exit_code);
  }).detach();
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

namespace {

/// The body inside its World: an AgreedError leaves in order, anything else does not leave at all
/// where others would wait.
int run_body(World& world, const char* program, const std::function<int(World&)>& body) {
  const Comm comm = world.comm();
  std::string line;
  int exit_code = kExitFailure;
  try {
    return body(world);
  } catch (const AgreedError& error) {
    if (comm.rank() == 0) fmt::print(stderr, "{}: {}\n", program, error.what());
    return error.exit_code();
  } catch (const Error& error) {
    line = error.what();
    exit_code = error.exit_code();
  } catch (const std::bad_alloc&) {
    line = "out of memory: use a smaller batch or fewer ranks per host";
  } catch (const std::exception& error) {
    line = fmt::format("unexpected error: {}", error.what());
  }
  if (comm.size() == 1) {
    fmt::print(stderr, "{}: {}\n", program, line);
    return exit_code;
  }
  if (world.records().first_failure()) {
    fmt::print(stderr, "{}: rank {} ({}): {}\n", program, comm.rank(), host_name(), line);
  } else {
    // The one that speaks ends us all; leaving first would let the launcher kill it before it has
    // spoken.
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  end_all_ranks(exit_code);
}

}  // namespace

int run_main(int argc, char** argv, const char* program, const std::function<int(World&)>& body) {
  try {
    World world(&argc, &argv);
    const int exit_code = run_body(world, program, body);
    std::fflush(nullptr);
    return exit_code;
  } catch (const Error& error) {
    if (*error.what() != '\0') fmt::print(stderr, "{}: {}\n", program, error.what());
    return error.exit_code();
  }
}

}  // namespace lockstep
