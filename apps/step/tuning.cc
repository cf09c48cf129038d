#include "apps/step/tuning.h"

#include <fstream>
#include <sstream>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/machine.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

/// One file for each device and library, which the first line of the text names, and this very
/// program, because another one may not know these plans. None without a folder, and if the program
/// cannot be read.
std::filesystem::path file_of(const std::filesystem::path& folder, const std::string& text) {
  if (folder.empty()) return {};
  try {
    const std::string key = text.substr(0, text.find('\n')) + program_checksum();
    return folder / fmt::format("tuning-{:08x}.txt", crc32c(key));
  } catch (const Error&) {
    return {};
  }
}

/// As if it were not there, if it is damaged.
void read_earlier(Device& device, const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return;
  std::ostringstream text;
  text << in.rdbuf();
  try {
    device.set_tuning(text.str());
  } catch (const Error&) {
  }
}

void keep(const std::filesystem::path& file, const std::string& text) {
  try {
    make_directories(file.parent_path(), "cache directory");
    replace_file(file, text);
  } catch (const Error&) {
  }
}

void measure(Device& device, const std::filesystem::path& folder, const std::function<void()>& plan,
             const std::string& before) {
  const std::filesystem::path file = file_of(folder, device.tuning());
  const bool goes_on = !before.empty() && device.set_tuning(before);
  if (!goes_on && !file.empty()) read_earlier(device, file);
  const std::string known = device.tuning();
  device.tune(true);
  try {
    plan();
  } catch (...) {
    device.tune(false);
    throw;
  }
  device.tune(false);
  if (!goes_on && !file.empty() && device.tuning() != known) keep(file, device.tuning());
}

}  // namespace

void tune(const Comm& comm, Device& device, const std::filesystem::path& folder,
          const std::function<void()>& plan, const std::string& before) {
  if (comm.min(!device.tuning().empty()) == 0) return;
  agree(comm, [&] {
    if (comm.rank() == 0) measure(device, folder, plan, before);
  });
  const std::string text = comm.broadcast(device.tuning());
  agree(comm, [&] {
    if (comm.rank() != 0) device.set_tuning(text);
  });
}

}  // namespace lockstep
