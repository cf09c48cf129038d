#include "tests/support/device_pages.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <typeinfo>
#include <utility>

#include "src/base/round_up.h"

namespace lockstep {
namespace {

int access_to(bool open) { return open ? PROT_READ | PROT_WRITE : PROT_NONE; }

/// Whether this process has a page there. Pointers of a program lie above the lower bound. Pairs of
/// small integers lie below it, where AddressSanitizer maps everything.
bool is_mapped(std::uintptr_t address) {
  constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 45;
  if (address < kLowest) return false;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / kPageBytes * kPageBytes), 1, &resident) == 0;
}

bool is_kernel(const std::type_info& type) {
  const std::string_view name = type.name();  // mangled, so that most work costs nothing
  for (const char* call : {"12each_on_hostI", "16each_row_on_hostI", "10each_blockI"})
    if (name.find(std::string("8lockstep") + call) != name.npos) return true;
  return false;
}

/// The type of the work that this thread runs.
thread_local const char* running = nullptr;
struct sigaction before_segv, before_bus;

/// Names the work, and has the instruction fault again in the handler that was there before.
void name_work(int signal) {
  if (running != nullptr) {
    for (const char* text : {signal == SIGBUS ? "SIGBUS" : "SIGSEGV",
                             ": this work touches memory that is closed to it: ", running,
                             ". Pass memory of the device.\n"})
      static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
  }
  sigaction(signal, signal == SIGBUS ? &before_bus : &before_segv, nullptr);
}

/// Maps pages of an empty file there: any touch is SIGBUS, whatever mprotect() allows.
void close_for_good(std::byte* begin, std::size_t bytes) {
  static const int empty_file = memfd_create("no bytes", MFD_CLOEXEC);
  const void* data =
      mmap(begin, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, empty_file, 0);
  expect(data == begin, "no closed pages");
}

}  // namespace

DevicePages::DevicePages(bool guarded, bool checked) : guarded_(guarded), checked_(checked) {
  static const int installed = [] {
    struct sigaction action = {};
    action.sa_handler = name_work;
    return sigaction(SIGSEGV, &action, &before_segv) + sigaction(SIGBUS, &action, &before_bus);
  }();
  expect(installed == 0, "no handlers of SIGSEGV and SIGBUS");
}

DevicePages::~DevicePages() {
  if (region_ != nullptr) munmap(region_, kRegionBytes);
}

std::byte* DevicePages::reserve(std::size_t bytes) {
  if (region_ == nullptr) {
    void* data =
        mmap(nullptr, kRegionBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    expect(data != MAP_FAILED, "no addresses");
    region_ = static_cast<std::byte*>(data);
  }
  expect(bytes <= kRegionBytes - used_, "no addresses are left");
  return region_ + std::exchange(used_, used_ + bytes);
}

std::byte* DevicePages::allocate(std::size_t bytes, Place place) {
  const std::size_t pages = round_up(std::max<std::size_t>(bytes, 1), kPageBytes);
  const std::lock_guard lock(mutex_);
  std::byte* begin = nullptr;
  if (guarded_ && place == Place::device) {
    begin = reserve(pages + kPageBytes);
    close_for_good(begin + pages, kPageBytes);
    mprotect(begin, pages, access_to(working_ > 0));
  } else {
    void* data = mmap(nullptr, pages + kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(data != MAP_FAILED, "no memory");
    begin = static_cast<std::byte*>(data);
    mprotect(begin, pages, access_to(true));
  }
  blocks_[begin] = {bytes, pages, place};
  return begin;
}

void DevicePages::free(std::byte* data) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(data);
  if (guarded_ && block->second.place == Place::device)
    close_for_good(data, block->second.pages);
  else
    munmap(data, block->second.pages + kPageBytes);
  blocks_.erase(block);
}

void DevicePages::count(int change) {
  if (!guarded_) return;
  const std::lock_guard lock(mutex_);
  const bool was_open = working_ > 0;
  working_ += change;
  if (was_open == (working_ > 0) || used_ == 0) return;
  mprotect(region_, used_, access_to(working_ > 0));
}

std::optional<Place> DevicePages::place_of(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(begin);
  if (block == blocks_.begin()) return {};
  --block;
  const auto offset = static_cast<std::size_t>(begin - block->first);
  if (offset > block->second.bytes || bytes > block->second.bytes - offset) return {};
  return block->second.place;
}

void DevicePages::check(std::string_view what, const void* data, std::size_t bytes) {
  if (!checked_ || place_of(data, bytes) == Place::device) return;
  throw PointerFault(
      fmt::format("{} ({} bytes at {}) lies in no block of the device. Allocate it "
                  "on the device.",
                  what, bytes, data));
}

void DevicePages::hide_host(const std::function<void()>& work) {
  if (!checked_ || !is_kernel(work.target_type())) return;
  // libstdc++ keeps what a kernel has captured on the heap, because it exceeds two words. A
  // function begins with its address.
  std::uintptr_t* words = nullptr;
  std::memcpy(&words, &work, sizeof words);
  // A word can also be padding with the remains of a pointer. So finding one proves nothing, only
  // its use does. Of a word that is half a number, this bit is in the half that is padding.
  constexpr std::uintptr_t kInvalid = std::uintptr_t{1} << 52;
  for (std::size_t i = 0; i < malloc_usable_size(words) / sizeof *words; ++i) {
    if (is_mapped(words[i]) && !place_of(reinterpret_cast<const void*>(words[i]), 0))
      words[i] |= kInvalid;
  }
}

void DevicePages::run(const std::function<void()>& work) {
  running = work.target_type().name();
  work();
  running = nullptr;
}

}  // namespace lockstep
