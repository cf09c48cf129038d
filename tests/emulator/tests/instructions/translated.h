// Runs translated kernels as functions, for tests of the translation. translated.cc stands in for
// the emulator, whose functions only write down what the kernels ask of it.
#pragma once

#include <string>
#include <vector>

#include "tests/emulator/emulator.h"

namespace emulator {

const Kernel& find_kernel(const std::string& name);
/// Runs one thread of a kernel with a block of parameters.
void run_kernel(const std::string& name, const std::vector<std::uint64_t>& parameters);
/// The bits of the result of an instruction for the bits of its sources.
std::uint64_t run(std::string instruction, const std::vector<std::uint64_t>& sources);

struct Access {
  const void* data;
  std::uint32_t bytes;
  bool writes, atomic;
  bool operator==(const Access&) const = default;
};
/// All that the last kernel has checked.
extern std::vector<Access> accesses;

}  // namespace emulator
