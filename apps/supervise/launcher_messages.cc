#include "apps/supervise/launcher_messages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <utility>

#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {

std::string reason_of_launcher(const std::string& messages) {
  static const std::regex of_rank("xit code|exited on signal|MPI_ABORT");
  constexpr std::ptrdiff_t kMostLines = 8;
  std::string box;
  bool inside = false;
  for (const std::string& line : lines_of(messages)) {
    if (line.starts_with("-----")) {
      if (!box.empty() && !std::regex_search(box, of_rank)) return box;
      box.clear();
      inside = !inside;
    } else if (inside && !line.empty() && std::ranges::count(box, '\n') < kMostLines) {
      box += "mpirun: " + line + "\n";
    }
  }
  return "";
}

LauncherMessages::~LauncherMessages() {
  if (file_ >= 0) ::close(file_);
}

void LauncherMessages::collect(std::map<std::string, std::string>& environment,
                               std::vector<std::string>& words) {
  constexpr const char* kFile = "OPAL_OUTPUT_STDERR_FD";
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  // mpirun refuses -x beside this variable.
  if (std::getenv("OMPI_MCA_mca_base_env_list") != nullptr ||
      environment.erase("OMPI_MCA_orte_execute_quiet") == 0)
    return;
  file_ = ::memfd_create("mpirun", 0);  // mpirun inherits it, the ranks do not
  environment[kFile] = std::to_string(file_);
  words.insert(words.begin() + 1, {"-x", std::string(kFile) + "=2"});
}

std::string LauncherMessages::take_reason() {
  std::string text(std::size_t{1} << 16, '\0');
  const std::int64_t size = read_at(file_, 0, text);
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  return reason_of_launcher(text);
}

}  // namespace lockstep
