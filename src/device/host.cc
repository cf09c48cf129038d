#include "src/device/host.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

/// Work runs in the call that enqueues it, so each mark is reached at once.
class ReachedEvent : public Event {
 public:
  void record(Stream&) override {}
  void wait(Stream&) override {}
  bool done() const override { return true; }
};

std::atomic<std::uint64_t> own_claims = 0, *claims = &own_claims;

/// False if the host has less. Waits while other ranks touch memory that may be the last.
bool claim(std::size_t bytes) {
  for (;;) {
    // Memory counts as available until it is touched. Ranks that look at the same time would all
    // find it free. So a rank claims it first, and the claim ends when its pages exist.
    std::uint64_t others = *claims;
    const std::size_t available = available_memory_bytes();
    const bool fits = bytes <= available && others <= available - bytes;
    if (fits && claims->compare_exchange_strong(others, others + bytes)) return true;
    if (!fits && others == 0) return false;
    if (!fits) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

[[noreturn]] void fail_to_plan() { fail("HostDevice plans no layers. Use make_cpu_device()."); }

}  // namespace

void share_memory_claims(std::atomic<std::uint64_t>* shared) {
  claims = shared ? shared : &own_claims;
}

Memory allocate_pages(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t unit = bytes >= kHugePage ? kHugePage : kPageBytes;
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), unit);
  void* data = std::aligned_alloc(unit, size);
  if (!data) return {};
  if (unit == kHugePage) ask_for_huge_pages(data, size);
  // This touches all pages while the claim stands. Otherwise the kernel would find out in the
  // middle of a step that memory is short.
  std::memset(data, 0, size);
  return Memory(static_cast<std::byte*>(data), [](std::byte* p) { std::free(p); });
}

void ask_for_huge_pages(void* data, std::size_t bytes) { madvise(data, bytes, MADV_HUGEPAGE); }

std::unique_ptr<Event> HostDevice::event() { return std::make_unique<ReachedEvent>(); }

Memory HostDevice::allocate(std::size_t bytes, Place) {
  // The kernel would grant more memory than exists and kill a process that uses it.
  Memory memory;
  if (claim(bytes)) {
    memory = allocate_pages(bytes);
    *claims -= bytes;
  }
  if (memory == nullptr) {
    constexpr double kMebibyte = 1 << 20;
    const std::size_t free = available_memory_bytes();
    throw OutOfMemory(fmt::format(
        "out of memory: cannot allocate {:.1f} MiB, because {}; use a smaller --batch, or fewer "
        "ranks",
        static_cast<double>(bytes) / kMebibyte,
        free < bytes ? fmt::format("{:.1f} MiB of host {} are free",
                                   static_cast<double>(free) / kMebibyte, host_name())
                     : "other ranks or a limit (ulimit -v) take the rest"));
  }
  return memory;
}

void HostDevice::copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
  stream.enqueue([=] { std::memcpy(to, from, bytes); });
}

std::unique_ptr<AffinePlan> HostDevice::convolution(const ConvolutionSpec&) { fail_to_plan(); }
std::unique_ptr<AffinePlan> HostDevice::dense(const DenseSpec&) { fail_to_plan(); }
std::unique_ptr<ProductPlan> HostDevice::product(const ProductSpec&) { fail_to_plan(); }
std::unique_ptr<ResponseNormPlan> HostDevice::response_norm(const ResponseNormSpec&) {
  fail_to_plan();
}

}  // namespace lockstep
