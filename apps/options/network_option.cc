#include "apps/options/network_option.h"

#include <filesystem>

#include "apps/options/run_folder.h"
#include "apps/run/provenance.h"
#include "apps/run/resumption.h"
#include "net/description/network_file.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The checkpoint that the run continues from; empty: none.
fs::path checkpoint_of(const Options& o) {
  const std::string& how = o.checkpoints.resume;
  if (how != "auto" && how != "never") return how;
  fs::path folder = o.checkpoints.dir;
  if (folder.empty() && !o.run.name.empty()) folder = named_folder(o.run.name) / "checkpoints";
  if (folder.empty() || how == "never") return {};
  const std::vector<fs::path> all = list_checkpoints(folder);
  return all.empty() ? fs::path() : all.front();
}

}  // namespace

void read_network(Options& o) {
  const fs::path file = o.model.given;
  o.model.name = one_line(file.stem().string());
  const fs::path checkpoint = is_gone(file) ? checkpoint_of(o) : fs::path();
  if (!checkpoint.empty()) o.model.network = text_of(read_metadata(checkpoint), kNetwork);
  if (o.model.network.empty()) {
    o.model.network = read_network_file(file);
  } else {
    o.notes.push_back(fmt::format("--model {} is gone, so {} gives the network", o.model.given,
                                  checkpoint.string()));
  }
}

}  // namespace lockstep
