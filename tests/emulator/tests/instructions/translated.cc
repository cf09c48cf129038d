#include "tests/emulator/tests/instructions/translated.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace emulator {

std::vector<Access> accesses;
Index thread_idx{}, block_idx{}, block_dim{}, grid_dim{};

static std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> kernels;
  return kernels;
}

const Kernel& find_kernel(const std::string& name) { return kernels().at(name); }

void run_kernel(const std::string& name, const std::vector<std::uint64_t>& parameters) {
  accesses.clear();
  find_kernel(name).run(reinterpret_cast<const std::uint8_t*>(parameters.data()));
}

std::uint64_t run(std::string instruction, const std::vector<std::uint64_t>& sources) {
  std::replace(instruction.begin(), instruction.end(), '.', '_');
  std::uint64_t words[6] = {};
  std::copy(sources.begin(), sources.end(), words + 1);
  run_kernel(instruction, {reinterpret_cast<std::uint64_t>(words)});
  return words[0];
}

KnownKernel::KnownKernel(const Kernel& kernel) { kernels().emplace(kernel.name, kernel); }

void check_access(const void* data, std::uint32_t bytes, bool writes, bool atomic) {
  accesses.push_back({data, bytes, writes, atomic});
}

/// For words that are lanes.
std::uint32_t shuffle_xor(std::uint32_t word, std::uint32_t mask, std::uint32_t, std::uint32_t) {
  return word ^ mask;
}

void stop_at_unknown(const char* kernel, const char* instruction) {
  throw std::runtime_error(std::string(kernel) + ": " + instruction);
}

}  // namespace emulator
