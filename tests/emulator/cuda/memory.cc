#include "tests/emulator/cuda/memory.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "tests/emulator/cuda/report.h"
#include "tests/emulator/emulator.h"

namespace emulator {
namespace {

void* reserve(std::uintptr_t address, std::size_t bytes, int protection) {
  const int fixed = address == 0 ? 0 : MAP_FIXED_NOREPLACE;
  void* const data = mmap(reinterpret_cast<void*>(address), bytes, protection,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (data == MAP_FAILED) {
    stop("cannot reserve " + std::to_string(bytes >> 30) + " GiB of addresses (" +
         std::strerror(errno) + "). Raise the limit of the address space (ulimit -v).");
  }
  return data;
}

struct sigaction previous_action;

void on_fault(int signal, siginfo_t* info, void*) {
  char text[256];
  if (running_name != nullptr) {
    std::snprintf(text, sizeof text, "[%.180s] crashed at %p", running_name, info->si_addr);
    print(text);
  } else if (device_memory().has(info->si_addr)) {
    std::snprintf(text, sizeof text, "the host touched device memory at %p", info->si_addr);
    print(text);
  }
  // The instruction runs again, and this time the previous handler gets its fault.
  sigaction(signal, &previous_action, nullptr);
}

/// Not earlier than the first use: MPI_Init warns of a handler that is older than its own.
void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &previous_action);
}

using Ranges = std::map<const char*, std::size_t>;
Ranges& registered() {
  static auto* const ranges = new Ranges;
  return *ranges;
}

}  // namespace

Region::Region(const char* name, std::uintptr_t address, std::size_t bytes, bool guarded)
    : name_(name), bytes_(bytes), guarded_(guarded) {
  const int open = PROT_READ | PROT_WRITE;
  begin_ = static_cast<char*>(reserve(address, bytes, guarded ? PROT_NONE : open));
  pages_ = static_cast<Page*>(reserve(0, bytes / kPage * sizeof(Page), open));
  words_ = static_cast<std::uint64_t*>(reserve(0, bytes * 2 * sizeof(std::uint64_t), open));
}

std::map<std::size_t, Region::Block>::const_iterator Region::block_before(
    std::size_t offset) const {
  const auto next = blocks_.upper_bound(offset);
  return next == blocks_.begin() ? blocks_.end() : std::prev(next);
}

std::string Region::describe(std::size_t offset) const {
  const auto block = block_before(offset);
  if (block == blocks_.end()) return name_;
  return "byte " + std::to_string(offset - block->first) + " of a block of " +
         std::to_string(block->second.bytes) + " bytes, " + name_;
}

std::size_t Region::without_slack(const void* data, std::size_t bytes) const {
  const auto block = has(data) ? block_before(offset(data)) : blocks_.end();
  const bool whole = block != blocks_.end() && bytes > block->second.slack &&
                     offset(data) + bytes == block->first + block->second.bytes;
  return whole ? bytes - block->second.slack : bytes;
}

void* Region::allocate(std::size_t bytes, std::size_t slack, int device) {
  if (bytes > bytes_) return nullptr;
  const std::size_t size = (bytes / kPage + 2) * kPage, offset = used_, valid = bytes - slack;
  if (offset + size > bytes_) return nullptr;
  used_ += size;
  for (std::size_t i = 0; i < valid; i += kPage)
    page(offset + i).valid = static_cast<std::uint16_t>(std::min(kPage, valid - i));
  blocks_[offset] = {bytes, slack, device};
  allocated_[device] += bytes;
  const Accessible accessible;
  std::memset(begin_ + offset, 0xff, bytes);
  return begin_ + offset;
}

bool Region::release(void* data) {
  const auto block = blocks_.find(offset(data));
  if (block == blocks_.end()) return false;
  const std::size_t begin = block->first, pages = block->second.bytes / kPage + 1;
  for (std::size_t i = 0; i < pages; ++i) page(begin + i * kPage) = {.freed = true};
  madvise(data, pages * kPage, MADV_DONTNEED);
  madvise(words(begin), pages * kPage * 2 * sizeof(std::uint64_t), MADV_DONTNEED);
  allocated_[block->second.device] -= block->second.bytes;
  blocks_.erase(block);
  return true;
}

std::size_t Region::allocated(int device) const {
  const auto found = allocated_.find(device);
  return found == allocated_.end() ? 0 : found->second;
}

void Region::set_accessible(bool accessible) {
  if (!guarded_ || used_ == 0) return;
  if (mprotect(begin_, used_, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    stop(std::string("cannot protect ") + name_ + ": " + std::strerror(errno));
}

Region& device_memory() {
  static auto* const region = [] {
    const bool guarded = settings().order != Order::thread;
    install_handler();
    return new Region("device memory", 0x200000000000, std::size_t{1} << 38, guarded);
  }();
  return *region;
}

Region& pinned_memory() {
  static auto* const region =
      new Region("pinned memory", 0x300000000000, std::size_t{1} << 36, false);
  return *region;
}

static int accessible_count = 0;

Accessible::Accessible() {
  ++accessible_count;
  device_memory().set_accessible(true);  // each time, because there may be a new block
}
Accessible::~Accessible() {
  if (--accessible_count == 0) device_memory().set_accessible(false);
}

bool is_registered(const void* data, std::size_t bytes) {
  auto range = registered().upper_bound(static_cast<const char*>(data));
  if (range == registered().begin()) return false;
  --range;
  return static_cast<const char*>(data) + bytes <= range->first + range->second;
}

bool register_host(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const char*>(data);
  const auto next = registered().lower_bound(begin);
  if (is_registered(data, 1) || (next != registered().end() && next->first < begin + bytes))
    return false;
  registered()[begin] = bytes;
  return true;
}

bool unregister_host(const void* data) {
  return registered().erase(static_cast<const char*>(data)) == 1;
}

bool is_device_memory(const void* data) { return device_memory().has(data); }

}  // namespace emulator
