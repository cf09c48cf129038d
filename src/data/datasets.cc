// The registry of data sets. A data set is one file in src/data/sets and one word in the list here.

#include "src/base/registry.h"
#include "src/data/dataset.h"

// In the order of --list.
#define LOCKSTEP_DATASETS(row)                                                                \
  row(cifar10) row(synthetic) row(mnist) row(digits) row(reuters) row(topics) row(cifar10_32) \
      row(folder) row(packed) row(hdf5) row(texts)

namespace lockstep {

LOCKSTEP_OPEN_REGISTRY(DatasetEntry, datasets, register_dataset, LOCKSTEP_DATASETS)

const DatasetEntry* stand_in(std::string_view name) {
  for (const DatasetEntry& entry : datasets()) {
    if (entry.stands_for == name) return &entry;
  }
  return nullptr;
}

}  // namespace lockstep
