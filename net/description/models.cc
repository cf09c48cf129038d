// The registry of models: the files of apps/networks, which the build compiles in, and those that
// programs add.

#include "net/description/network_file.h"
#include "src/base/check.h"
#include "src/base/table.h"

namespace lockstep {

/// Names and texts, sorted by name; the last name is null. cmake/networks.cmake writes them.
extern const char* const kNetworks[][2];

namespace {

std::vector<ModelEntry> read_networks() {
  std::vector<ModelEntry> entries;
  for (int i = 0; kNetworks[i][0] != nullptr; ++i)
    entries.push_back(built_in_network(kNetworks[i][0], kNetworks[i][1]));
  return entries;
}

std::vector<ModelEntry>& entries() {
  static std::vector<ModelEntry> entries = read_networks();
  return entries;
}

}  // namespace

std::span<const ModelEntry> models() { return entries(); }

void register_model(ModelEntry entry) {
  require(!find_or_null(models(), entry.name), "the model {} exists already. Use another name.",
          entry.name);
  entry.own = true;
  entries().push_back(std::move(entry));
}

}  // namespace lockstep
