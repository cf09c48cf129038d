// The registry of data sets. A data set is one file in src/data/sets and two words here.

#include <array>

#include "src/data/dataset.h"

namespace lockstep {

DatasetEntry cifar10();
DatasetEntry cifar10_32();
DatasetEntry synthetic();
DatasetEntry mnist();
DatasetEntry digits();
DatasetEntry reuters();
DatasetEntry topics();
DatasetEntry folder();
DatasetEntry hdf5();

std::span<const DatasetEntry> datasets() {
  static const std::array entries{cifar10(), synthetic(),  mnist(),  digits(), reuters(),
                                  topics(),  cifar10_32(), folder(), hdf5()};
  return entries;
}

const DatasetEntry* stand_in(std::string_view name) {
  for (const DatasetEntry& entry : datasets()) {
    if (entry.stands_for == name) return &entry;
  }
  return nullptr;
}

}  // namespace lockstep
