// A program of a user of the library, right or wrong in one way. For tests/apps/own_program.sh.
// usage: library_user CASE
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/reducer.h"
#include "collectives/world.h"

namespace lockstep {
namespace {

struct Call {
  std::string reducer = "auto";
  std::int64_t count = 100;
  std::vector<Range> buckets = {{0, 50}, {50, 50}};
};

/// The call of make_reducer() on rank `rank` in the case `name`.
Call call_of(const std::string& name, int rank) {
  Call call;
  if (name == "count" && rank == 1) call.count = 200;
  if (name == "large_count" && rank == 1) call.count = 2000000;
  if (name == "bucket" && rank == 1) call.buckets = {{0, 40}, {40, 60}};
  if (name == "number_of_buckets" && rank == 1) call.buckets = {{0, 100}};
  if (name == "reducer") call.reducer = rank == 1 ? "ring" : "tree";
  if (name == "overlap") call.buckets = {{0, 80}, {50, 50}};
  if (name == "negative_bucket") call.buckets = {{-1, 10}};
  if (name == "long_bucket") call.buckets = {{50, 51}};
  if (name == "negative_count") call = {"auto", -1, {}};
  return call;
}

/// Sums 1 of each rank. The sum.
int sum(const World& world, const std::string& name) {
  const auto device = make_cpu_device(1);
  const Call call = call_of(name, world.comm().rank());
  const auto reducer =
      make_reducer(call.reducer, {world.comm().duplicate(), *device, call.count, call.buckets, {}});
  float* const values = reducer->gradients();
  for (std::int64_t i = 0; i < call.count; ++i) values[i] = 1;
  for (int bucket = 0; bucket < std::ssize(call.buckets); ++bucket) reducer->start(bucket);
  for (int bucket = 0; bucket < std::ssize(call.buckets); ++bucket) reducer->finish(bucket);
  return static_cast<int>(values[0]);
}

/// A program that has its own MPI and calls the library twice.
int with_own_mpi(const std::string& name, int wanted) {
  int granted = 0, rank = 0;
  MPI_Init_thread(nullptr, nullptr, wanted, &granted);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);

  int codes = 0, sums = 0;
  bool threads = false;
  for (int i = 0; i < 2; ++i) {
    codes += run_main(0, nullptr, "library_user", [&](World& world) {
      if (name == "own_mpi_agreed") throw AgreedError("all of us", 3);
      if (name == "own_mpi_lone" && rank == 1) fail("only here");
      threads = world.threads_allowed();
      sums += sum(world, name);
      return 0;
    });
  }
  // MPI is still the program's, and so are its errors.
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  int one = 1, ranks = 0;
  MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("codes %d, sums %d, ranks %d, threads %s, errors %s\n", codes, sums, ranks,
                threads == (granted >= MPI_THREAD_MULTIPLE) ? "as granted" : "wrong",
                handler == MPI_ERRORS_ARE_FATAL ? "as before" : "changed");
  }
  MPI_Finalize();
  if (name == "after_finalize")
    return run_main(0, nullptr, "library_user", [](World&) { return 0; });
  return codes;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "own_mpi_single") return with_own_mpi(name, MPI_THREAD_SINGLE);
  if (name.starts_with("own_mpi") || name == "after_finalize")
    return with_own_mpi(name, MPI_THREAD_MULTIPLE);
  return run_main(argc, argv, "library_user", [&](World& world) {
    if (name == "part") {  // ranks that fail without the others
      const int rank = world.comm().rank();
      MPI_Comm part = MPI_COMM_NULL;
      check(MPI_Comm_split(raw(world.comm()), rank / 2, rank, &part));
      const Comm half(std::make_shared<const Communicator>(part, /*owned=*/true));
      if (rank >= 2) agree(half, [] { fail("only in this half"); });
      world.comm().barrier();
    }
    if (name == "mpi") {
      int value = 0;
      check(MPI_Send(&value, 1, MPI_INT, world.comm().size(), 0, raw(world.comm())));
    }
    if (name == "agreed") {  // with output that is still in memory
      static std::vector<char> memory(8 << 20);
      std::setvbuf(stdout, memory.data(), _IOFBF, memory.size());
      for (int i = 0; i < (4 << 20); ++i) std::putchar('.');
      throw AgreedError("all of us", 3);
    }
    const int result = sum(world, name);
    if (world.comm().rank() == 0) std::printf("sum %d\n", result);
    return 0;
  });
}
