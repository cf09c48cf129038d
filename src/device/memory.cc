#include "src/device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/base/round_up.h"

namespace lockstep {

Memory allocate_pages(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t unit = bytes >= kHugePage ? kHugePage : kPageBytes;
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), unit);
  void* data = std::aligned_alloc(unit, size);
  if (!data) return {};
  if (unit == kHugePage) ask_for_huge_pages(data, size);
  std::memset(data, 0, size);
  return Memory(static_cast<std::byte*>(data), [](std::byte* p) { std::free(p); });
}

void ask_for_huge_pages(void* data, std::size_t bytes) { madvise(data, bytes, MADV_HUGEPAGE); }

}  // namespace lockstep
