// One all-reduce in simulated time, for bench/simulate.sh. SimGrid's smpicxx builds it and smpirun
// runs it, with the schedules and messages of collectives/.
//   simulated_allreduce ALGORITHM BYTES LATENCY BANDWIDTH
// prints ALGORITHM RANKS BYTES SECONDS COST. COST is by cost() for a link with that latency in
// seconds and that bandwidth in bytes per second.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/comm/communicator.h"
#include "collectives/schedule_run.h"
#include "src/base/table.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  MPI_Init(&argc, &argv);
  if (argc != 5) {
    std::fprintf(stderr, "usage: simulated_allreduce ALGORITHM BYTES LATENCY BANDWIDTH\n");
    return 2;
  }
  int failed = 0;
  try {
    const Comm comm(std::make_shared<const Communicator>(MPI_COMM_WORLD, /*owned=*/false));
    const AlgorithmEntry& entry = find(algorithms(), argv[1]);
    const std::int64_t count = std::atoll(argv[2]) / static_cast<std::int64_t>(sizeof(float));
    std::vector<float> bucket(count, static_cast<float>(comm.rank() + 1));
    ScheduleRun run(comm, entry.algorithm(comm.rank(), comm.size(), count), kChunkBetweenHosts, 0);
    // Ranks leave a barrier one after another, but can sleep until the same time.
    double now = MPI_Wtime(), begin = 0;
    MPI_Allreduce(&now, &begin, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    begin += 0.01;
    const auto ns = std::llround((begin - MPI_Wtime()) * 1e9);
    const timespec pause{0, static_cast<long>(ns)};
    nanosleep(&pause, nullptr);
    run.start(bucket.data());
    while (run.advance(/*wait=*/true)) continue;
    double own = MPI_Wtime() - begin, seconds = 0;
    MPI_Reduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    // A wrong sum would mean that the simulated schedule is not the real one.
    const auto sum = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
    for (const float value : bucket) failed |= value != sum;
    // Computing takes no simulated time (bench/simulate.sh), so additions cost nothing here either.
    const Link link{std::atof(argv[3]), std::atof(argv[4]), 1e30};
    if (comm.rank() == 0) {
      std::printf("%s %d %s %.9f %.9f\n", argv[1], comm.size(), argv[2], seconds,
                  cost(entry.algorithm, comm.size(), count, link));
    }
    if (failed) std::fprintf(stderr, "rank %d has a wrong sum\n", comm.rank());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    failed = 1;
  }
  MPI_Finalize();
  return failed;
}
