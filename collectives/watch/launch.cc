#include "collectives/watch/launch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <regex>
#include <string_view>

#include "collectives/watch/host_address.h"
#include "src/base/process.h"

namespace lockstep {
namespace {

constexpr const char* kQuiet = "OMPI_MCA_orte_execute_quiet";

/// The variable of Open MPI 4 that MPI_Init sets from kQuiet. MPI has no function that changes it.
/// Null in other MPIs.
bool* quiet_of_library() { return static_cast<bool*>(::dlsym(RTLD_DEFAULT, "orte_execute_quiet")); }

/// The whole number in a variable, or 0.
int number(const Environment& environment, const char* name) {
  const char* const text = environment(name);
  const std::string_view digits = text == nullptr ? "" : text;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  return error == std::errc() && end == digits.end() ? value : 0;
}

/// The number of processes that torchrun started with this one, or 0. (Some containers set
/// WORLD_SIZE without a RANK.)
int torchrun_size(const Environment& environment) {
  const int size = number(environment, "WORLD_SIZE");
  const int rank = number(environment, "RANK");
  return environment("RANK") != nullptr && rank >= 0 && rank < size ? size : 0;
}

/// Why this process should be one of several ranks, but is alone; empty: it should not. `one`: one
/// process is useful, so that only processes that a launcher has started beside it count.
std::string missing_ranks(const Environment& environment, bool one) {
  // A step of srun counts the tasks that it has started. SLURM_NTASKS is also set in a batch
  // script, which runs as one process, so that it counts only outside of a step.
  const int step_tasks = number(environment, "SLURM_STEP_NUM_TASKS");
  if (step_tasks > 1) {
    return fmt::format(
        "srun started {} tasks that cannot find each other. Use \"srun --mpi=pmix\", or mpirun if "
        "\"srun --mpi=list\" does not list pmix.",
        step_tasks);
  }
  const bool in_step = environment("SLURM_STEP_ID") != nullptr;
  const int job_tasks = number(environment, "SLURM_NTASKS");
  if (!one && !in_step && job_tasks > 1) {
    return fmt::format(
        "this SLURM allocation has {} tasks, but the program was started as one. Use mpirun or "
        "\"srun --mpi=pmix\", or \"mpirun -np 1\" for one rank.",
        job_tasks);
  }
  const int launcher_size = number(environment, "PMI_SIZE");
  if (launcher_size > 1) {
    return fmt::format(
        "the launcher started {} processes that cannot find each other. Use the mpirun of the MPI "
        "that the program was built with.",
        launcher_size);
  }
  // Without a LOCAL_RANK each process is the only one of its container.
  const int torch_size = torchrun_size(environment);
  const bool beside = !one || environment("LOCAL_RANK") != nullptr;
  if (torch_size > 1 && beside && !has_launcher(environment)) {
    return fmt::format(
        "WORLD_SIZE={} is set, as by torchrun, but MPI connects no processes without mpirun. "
        "Start the program with \"mpirun -np {}\", or unset WORLD_SIZE to use one rank.",
        torch_size, torch_size);
  }
  return "";
}

constexpr int kAncestors = 8;     ///< searched, because scripts may start a rank
constexpr double kLook = 0.1;     ///< seconds; too short for another process to get the same pid
constexpr double kBetween = 0.3;  ///< seconds between signals; the launcher kills ranks after 1 s

// From here to the end of serve(): only functions that a signal handler may call, because this runs
// after fork() in a process with several threads.

/// Returns whether the process still runs, early if it ends.
bool outlives(int pid, double seconds) {
  for (; ::kill(pid, 0) == 0; seconds -= kLook) {
    if (seconds <= 0) return true;
    ::poll(nullptr, 0, static_cast<int>(kLook * 1e3));
  }
  return false;
}

[[noreturn]] void serve(int pid, double delay) {
  // The launcher signals its session, and waits until its output is closed.
  ::setsid();
  for (int file = 0, end = static_cast<int>(::sysconf(_SC_OPEN_MAX)); file < end && file < 65536;
       ++file)
    ::close(file);
  if (!outlives(pid, delay)) ::_exit(0);
  for (const int signal : {SIGTERM, SIGTERM, SIGKILL}) {
    ::kill(pid, signal);
    if (!outlives(pid, kBetween)) break;
  }
  ::_exit(0);
}

}  // namespace

void hold_standard_files() {
  int file;
  do {
    file = ::open("/dev/null", O_RDWR);
  } while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

void with_start_errors(const std::function<void()>& start) {
  const char* const variable = std::getenv(kQuiet);
  const std::string quiet = variable == nullptr ? "" : variable;
  ::unsetenv(kQuiet);
  start();
  bool* const of_library = quiet_of_library();
  if (of_library != nullptr && !quiet.empty() && quiet != "0") *of_library = true;
}

bool on_one_host(const Environment& environment) {
  const int ranks = number(environment, "OMPI_COMM_WORLD_SIZE");
  if (ranks > 0) return ranks == number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  return !has_launcher(environment) || number(environment, "SLURM_STEP_NUM_NODES") == 1;
}

std::map<std::string, std::string> network_layers(const Environment& environment,
                                                  const std::vector<Interface>& interfaces) {
  std::map<std::string, std::string> layers;
  if (on_one_host(environment)) {
    if (environment("OMPI_MCA_mtl") != nullptr) return {};
    // Only the pml ob1 without the btl ofi does not search libfabric's networks.
    layers = {{"OMPI_MCA_btl", "^tcp,ofi"}, {"OMPI_MCA_pml", "ob1"}};
  } else if (environment("OMPI_MCA_btl_tcp_if_include") == nullptr) {
    static const std::regex bridge(
        "(docker|podman|cni|virbr|lxc|lxdbr|incusbr|vboxnet|vmnet|tmfifo_net).*|br-[0-9a-f]{12}");
    std::string names;
    auto left = interfaces.size();
    for (const Interface& interface : interfaces) {
      if (!std::regex_match(interface.name, bridge)) continue;
      names += "," + interface.name;
      --left;
    }
    // The first two are Open MPI's default, which the list replaces.
    if (!names.empty() && left > 0)
      layers["OMPI_MCA_btl_tcp_if_exclude"] = "127.0.0.1/8,sppp" + names;
  }
  std::erase_if(layers,
                [&](const auto& layer) { return environment(layer.first.c_str()) != nullptr; });
  return layers;
}

bool silence_abort(const Environment& environment) {
  bool* quiet = quiet_of_library();
  if (quiet == nullptr || environment("OMPI_COMM_WORLD_SIZE") == nullptr) return false;
  *quiet = true;
  return true;
}

bool has_launcher(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_PORT"}) {
    if (environment(name) != nullptr) return true;
  }
  return false;
}

std::string launch_problem(const Environment& environment, int size, Start start) {
  // With Open MPI's mpirun, one rank is what the user asked for.
  if (environment("OMPI_COMM_WORLD_SIZE") != nullptr || size > 1) return "";
  if (size == 0 && has_launcher(environment)) return "";
  const std::string problem = missing_ranks(environment, start != Start::ranks);
  return start == Start::single && !problem.empty() ? kOneProcess : problem;
}

bool is_first_task(const Environment& environment) {
  const auto is_zero = [&](const char* name) { return std::string_view(environment(name)) == "0"; };
  for (const char* name : {"PMI_RANK", "PMIX_RANK"}) {
    if (environment(name) != nullptr) return is_zero(name);
  }
  // A process that is alone in its container has its own log.
  if (torchrun_size(environment) > 1 && environment("LOCAL_RANK") != nullptr)
    return is_zero("RANK");
  return environment("SLURM_PROCID") == nullptr || is_zero("SLURM_PROCID");
}

Launcher find_launcher() {
  int pid = ::getppid();
  for (int i = 0; i < kAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    std::string name = program_of(pid);
    name.resize(std::min(name.find('.'), name.size()));  // mpirun.openmpi
    if (name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "prterun")
      return {pid, true};
    if (name == "orted" || name == "prted") return {pid, false, name == "prted"};
  }
  return {};
}

void end_later(const Launcher& launcher, double delay) {
  if (launcher.pid == 0) return;
  if (::fork() == 0) serve(launcher.pid, delay);
}

}  // namespace lockstep
