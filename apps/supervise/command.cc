#include "apps/supervise/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// Physical cores among these processors; each names the processors that share its core.
int count_cores(const std::vector<int>& processors) {
  std::set<std::string> cores;
  for (const int processor : processors) {
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
    std::string line = std::to_string(processor);  // unknown: a core of its own
    std::getline(file, line);
    cores.insert(line);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

int count_gpus() {
#ifdef LOCKSTEP_CUDA
  if (is_set("CUDA_VISIBLE_DEVICES")) {  // -1 hides itself and the rest of the list
    const auto visible = split(std::getenv("CUDA_VISIBLE_DEVICES"), ',');
    return static_cast<int>(std::ranges::find(visible, "-1") - visible.begin());
  }
  std::error_code none;
  const fs::directory_iterator gpus("/proc/driver/nvidia/gpus", none);
  return static_cast<int>(std::distance(begin(gpus), end(gpus)));
#else
  return 0;
#endif
}

/// Whether neither the user nor a batch system nor the installation names other hosts to mpirun.
bool is_one_host(const std::vector<HostRange>& shares) {
  if (shares.size() > 1) return false;
  if (!shares.empty() && !shares.front().host.empty()) return true;
  const char* const nodes = std::getenv("SLURM_JOB_NUM_NODES");
  if (nodes != nullptr && std::string_view(nodes) != "1") return false;
  for (const char* name : {"PBS_NODEFILE", "PE_HOSTFILE", "LSB_HOSTS", "LSB_DJOB_HOSTFILE",
                           "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"})
    if (is_set(name)) return false;
  for (const char* file :
       {"/etc/openmpi/openmpi-default-hostfile", "/etc/prte/prte-default-hostfile"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t word = line.find_first_not_of(" \t");
      if (word != line.npos && line[word] != '#') return false;
    }
  }
  return true;
}

}  // namespace

int usable_cores() {
  return static_cast<int>(std::clamp<double>(core_quota(), 1, count_cores(allowed_cores())));
}

bool owns_machine() {
  std::vector<int> all(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  std::iota(all.begin(), all.end(), 0);
  return usable_cores() == count_cores(all);
}

int default_ranks() {
  const int gpus = count_gpus();
  return gpus > 0 ? gpus : usable_cores();
}

int most_ranks(const std::vector<std::string>& words) {
  int most = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string value;
    if (words[i] == "--shards" && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with("--shards=")) value = words[i].substr(words[i].find('=') + 1);
    const int shards = std::atoi(value.c_str());  // the program refuses a wrong number
    // The last of several counts, as on the program's own command line.
    if (shards > 0) most = shards;
  }
  return most;
}

std::string hostfile_text(const std::vector<HostRange>& shares) {
  std::string text;
  for (const HostRange& share : shares)
    if (!share.host.empty()) text += fmt::format("{} slots={}\n", share.host, share.count);
  return text;
}

std::vector<std::string> mpirun_words(const Command& command, int ranks,
                                      const std::string& hostfile,
                                      const std::set<std::string>& names) {
  std::vector<std::string> words = {"mpirun", "-np", std::to_string(ranks)};
  if (!hostfile.empty()) {
    // Ranks fill a host before the next one, as HostStates::share() has numbered them. mpirun
    // passes the environment only to ranks of this host, so the others get these variables by -x.
    words.insert(words.end(), {"--hostfile", hostfile, "--map-by", "slot"});
    for (const std::string& name : names) words.insert(words.end(), {"-x", name});
  }
  words.insert(words.end(), command.mpirun.begin(), command.mpirun.end());
  words.insert(words.end(), command.words.begin(), command.words.end());
  return words;
}

std::map<std::string, std::string> mpirun_environment(const std::vector<HostRange>& shares,
                                                      int cores, bool fills) {
  // Open MPI 5 has other names for most variables. Both are set, because each version ignores those
  // of the other.
  std::map<std::string, std::string> all = {
      {"OMPI_MCA_orte_execute_quiet", "1"},  // no boxes of advice after the program's own error
      {"PRTE_MCA_prte_execute_quiet", "1"},
      {"OMPI_MCA_regx", "naive"},  // the default of Open MPI 4 refuses "_" and ":" in any name
      {"OMPI_MCA_odls_base_sigkill_timeout", "0"},
      {"PRTE_MCA_odls_base_sigkill_timeout", "0"}};
  if (::getuid() == 0) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      all[name] = "1";
  }
  const int ranks = rank_count(shares);
  const bool one = is_one_host(shares);
  // Open MPI binds each of one or two ranks to one core, for any number of threads. It counts from
  // core 0 even if other jobs use it. Both are right only if the ranks fill the machine.
  if (!one || ranks != cores || !fills) {
    all["OMPI_MCA_hwloc_base_binding_policy"] = "none";
    all["PRTE_MCA_hwloc_default_binding_policy"] = "none";
  }
  if (one && ranks > cores) {
    all["OMPI_MCA_rmaps_base_oversubscribe"] = "1";
    all["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe";
    all["OMPI_MCA_mpi_yield_when_idle"] = "1";
  }
  // Open MPI 4 cuts a name at its first dot.
  if (std::regex_search(hostfile_text(shares), std::regex("[.][^ ]*[^0-9. ]")))
    all["OMPI_MCA_orte_keep_fqdn_hostnames"] = "1";
  // These are only defaults, so what the user has set stays.
  std::erase_if(all, [](const auto& entry) { return is_set(entry.first.c_str()); });
  if (one && !shares.empty() && shares.front().host == kThisHost) {
    for (const char* layer :
         {"OMPI_MCA_oob_tcp", "OMPI_MCA_btl_tcp", "PRTE_MCA_prte", "PMIX_MCA_ptl_tcp"}) {
      const std::string include = fmt::format("{}_if_include", layer),
                        exclude = fmt::format("{}_if_exclude", layer);
      if (is_set(include.c_str())) all[include] = "lo";
      if (is_set(exclude.c_str())) all[exclude] = "";
    }
  }
  return all;
}

std::vector<std::string> remote_words(const std::string& host, const std::string& command) {
  for (const char* name :
       {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "OMPI_MCA_orte_rsh_agent"}) {
    if (!is_set(name)) continue;
    // Agents are separated by colons; the first that exists is used.
    std::istringstream agent(split(std::getenv(name), ':').front());
    std::vector<std::string> words{std::istream_iterator<std::string>(agent), {}};
    if (words.empty()) break;
    if (words.front().ends_with("ssh")) words.push_back("--");
    words.insert(words.end(), {host, command});
    return words;
  }
  // --overlap, because the ranks may have all resources of the job, and srun would wait for them.
  if (is_set("SLURM_JOB_ID")) {
    return {"srun", "--overlap", "--quiet", "--nodes=1", "--ntasks=1", "--nodelist=" + host,
            "sh",   "-c",        command};
  }
  // In batch mode ssh fails instead of asking for a password.
  return {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1", "--", host, command};
}

std::string silence_text(const std::string& host, const std::string& output) {
  const std::string text = output.substr(0, output.find_last_not_of("\r\n") + 1);
  const std::string reason = text.substr(text.rfind('\n') + 1);
  return fmt::format("host {} does not answer{}{}", host, reason.empty() ? "." : ": ", reason);
}

void collect_messages(int file, std::map<std::string, std::string>& environment,
                      std::vector<std::string>& words) {
  // mpirun refuses -x beside this variable.
  if (is_set("OMPI_MCA_mca_base_env_list") || environment.erase("OMPI_MCA_orte_execute_quiet") == 0)
    return;
  environment["OPAL_OUTPUT_STDERR_FD"] = std::to_string(file);
  words.insert(words.begin() + 1, {"-x", "OPAL_OUTPUT_STDERR_FD=2"});  // ranks do not inherit it
}

std::string take_reason(int file) {
  std::string text(1 << 16, '\0'), box;
  text.resize(std::max<std::int64_t>(0, read_at(file, 0, text)));
  ::lseek(file, ::ftruncate(file, 0), SEEK_SET);  // mpirun has the same position
  bool inside = false;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("-----")) {
      static const std::regex of_rank("xit code|exited on signal|MPI_ABORT");
      if (!box.empty() && !std::regex_search(box, of_rank)) return box;
      box.clear();
      inside = !inside;
    } else if (inside && !line.empty() && std::ranges::count(box, '\n') < 8) {
      box += "mpirun: " + line + "\n";
    }
  }
  return "";
}

}  // namespace lockstep
