// The order of the start and of the end leaves no time unwatched. StartWatch covers MPI_Init and
// the exchange of the records. It ends after the watchdog has begun. The watchdog outlives
// MPI_Finalize, in which a rank may hang too.
#include "collectives/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/node/node_memory.h"
#include "collectives/watch/start_watch.h"
#include "collectives/watch/watchdog.h"
#include "src/base/floating_point.h"
#include "src/base/machine.h"
#include "src/base/text.h"
#include "src/device/host.h"

namespace lockstep {
void World::check_launch(int size) const {
  const std::string problem = launch_problem(::getenv, size, start_);
  if (!problem.empty()) throw Error(is_first_task(::getenv) ? problem : "", kExitUsage);
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
    // Both come before MPI_Init. There MPI reads its variables, and may end a process without its
    // launcher.
    check_launch(0);
    for (const auto& [name, value] : network_layers(::getenv, own_interfaces()))
      ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
    with_start_errors([&] { check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &granted)); });
  } else {
    check(MPI_Query_thread(&granted));
  }
  // The program's own communicator keeps its messages and its error handler.
  MPI_Comm all = MPI_COMM_WORLD;
  if (!owns_mpi_) check(MPI_Comm_dup(MPI_COMM_WORLD, &all));
  communicator_ = std::make_shared<const Communicator>(all, /*owned=*/!owns_mpi_);
  return granted;
}

World::World(int* argc, char*** argv, const std::string& program, Start start)
    : program_(program), start_(start) {
  std::optional<StartWatch> start_watch(std::in_place, program);
  threads_allowed_ = begin_mpi(argc, argv) >= MPI_THREAD_MULTIPLE;
  if (!on_one_host(::getenv)) start_watch->expect_messages();
  use_default_floating_point();  // MPI loads libraries
  const Comm all = comm(), node = all.node();
  try {
    agree(all, [&] {
      check_launch(all.size());
      heartbeat_wanted();
    });
    memory_ =
        std::make_unique<NodeMemory>(all, node, FlightRecorder::bytes(node.size()), "the start-up");
  } catch (const AgreedError& error) {
    std::string text = all.rank() == 0 ? error.what() : "";
    if (owns_mpi_) {  // printed first, because a rank that leaves ends the others
      if (!text.empty()) print_error(fmt::format("{}: {}\n", program, std::exchange(text, "")));
      MPI_Finalize();
    }
    throw Error(text, error.exit_code());
  }
  flight_recorder_ =
      std::make_unique<FlightRecorder>(memory_->data(), node.rank(), node.size(), all.rank());
  auto heartbeat = Heartbeat::make(all, node);
  node.barrier();  // from here on all records of the node can be read
  watchdog_ = std::make_unique<Watchdog>(*flight_recorder_, node.size() == all.size(), program,
                                         Watchdog::Pace(), std::move(heartbeat));
  start_watch.reset();
  Waiting::report_to(&flight_recorder_->mine());
  share_memory_claims(&flight_recorder_->memory_claims());
}

World::~World() {
  flight_recorder_->mine().waiting("the end of the run");
  Waiting::report_to(nullptr);
  share_memory_claims(nullptr);
  // The program's own MPI runs on after this object. The barrier takes the place of MPI_Finalize:
  // no rank leaves while another one may still fail.
  if (owns_mpi_)
    MPI_Finalize();
  else
    MPI_Barrier(communicator_->handle);
  communicator_.reset();
  watchdog_.reset();
}

Comm World::comm() const { return Comm(communicator_); }

void World::end_quietly(int exit_code) {
  if (!owns_mpi_ || !silence_abort(::getenv)) return;
  flight_recorder_->mine().waiting("the end of the run");
  std::fflush(nullptr);  // the first rank that aborts ends the others
  comm().barrier();      // the error is printed, and no rank still works
  watchdog_.reset();     // ranks now leave one after another
  end_all_ranks(exit_code);
}

int World::abort_all_on_error(const std::function<int()>& body) {
  const Comm all = comm();
  try {
    return body();
  } catch (const AgreedError&) {
    throw;
  } catch (...) {
    const Error error = current_error();
    if (all.size() == 1) throw error;
    if (flight_recorder_->first_failure()) {
      print_and_end_all_ranks(
          fmt::format("{}: rank {} ({}): {}", program_, all.rank(), host_name(), error.what()),
          error.exit_code());
    }
    // The rank that prints ends all ranks. If this one left first, the launcher could kill the
    // other before it prints.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    end_all_ranks(error.exit_code());
  }
}

int run_main(int argc, char** argv, const char* program, const std::function<int(World&)>& body,
             Start start) {
  hold_standard_files();
  try {
    World world(&argc, &argv, program, start);
    int exit_code = kExitFailure;
    try {
      exit_code = world.abort_all_on_error([&] { return body(world); });
    } catch (const Error& error) {  // identical on all ranks
      if (world.comm().rank() == 0) print_error(fmt::format("{}: {}\n", program, error.what()));
      exit_code = error.exit_code();
      world.end_quietly(exit_code);
    }
    std::fflush(nullptr);
    return exit_code;
  } catch (...) {  // without MPI
    const Error error = current_error();
    if (*error.what() != '\0') print_error(fmt::format("{}: {}\n", program, error.what()));
    return error.exit_code();
  }
}

}  // namespace lockstep
