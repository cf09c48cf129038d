#include "tests/emulator/cuda/races.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_set>

#include "tests/emulator/cuda/memory.h"
#include "tests/emulator/emulator.h"

namespace emulator {
namespace {

/// Threads of the words. They differ from the number of each thread.
constexpr std::uint32_t kAtomic = 1u << 31, kThread = kAtomic - 1, kSeveral = kThread;

struct Origin {
  const std::string* name;
  std::uint32_t lane, step;
};

struct Lanes {
  Clock last;                       ///< the number of operations of each lane
  std::vector<std::uint32_t> free;  ///< lanes that were released
  std::vector<Origin> operations{1};
  Clock host;
};
Lanes& lanes() {
  static auto* const all = new Lanes;
  return *all;
}

/// Operations that are known to come before the running one.
std::array<std::uint32_t, 64> known_before;

bool comes_before_running(std::uint32_t operation) {
  std::uint32_t& known = known_before[operation % known_before.size()];
  if (known == operation) return true;
  const Origin& origin = lanes().operations[operation];
  const Clock& clock = *running.clock;
  if (origin.lane >= clock.size() || clock[origin.lane] < origin.step) return false;
  known = operation;
  return true;
}

std::string bracketed(const std::string& name) { return "[" + name + "]"; }

/// One access, or a piece of it within a page.
struct Access {
  Region& region;
  std::size_t offset, bytes;
  bool writes, atomic;
  std::uint64_t own =
      std::uint64_t{running.operation} << 32 | (running.thread | (atomic ? kAtomic : 0));

  const char* verb() const { return writes ? "write" : "read"; }
  std::string verb_to() const { return writes ? "write to" : "read of"; }

  void check_bounds() const {
    const Page& page = region.page(offset);
    if (offset % kPage + bytes <= page.valid) [[likely]]
      return;
    const std::string kind = page.freed ? verb_to() + " freed memory by "
                                        : verb() + std::string(" outside of a block by ");
    report(kind + bracketed(*running.name),
           std::to_string(bytes) + " bytes at " + region.describe(offset));
  }

  void conflict(std::uint64_t other, const char* verb_of_other, std::size_t at) const {
    const auto operation = static_cast<std::uint32_t>(other >> 32);
    const std::string detail =
        std::string(verb()) + " after a " + verb_of_other + ", " + region.describe(at);
    if (operation == running.operation) {
      report("race of threads in " + bracketed(*running.name), detail);
    } else {
      report("race of streams " + bracketed(*lanes().operations[operation].name) + " / " +
                 bracketed(*running.name),
             detail);
    }
  }

  /// Whether the access in `word` does not conflict with this one, if one of them writes.
  bool ordered(std::uint64_t word) const {
    if (word == 0 || word == own) return true;
    const auto operation = static_cast<std::uint32_t>(word >> 32),
               thread = static_cast<std::uint32_t>(word);
    if (operation != running.operation) return comes_before_running(operation);
    if (atomic && (thread & kAtomic) != 0) return true;
    return (thread & kThread) == running.thread;
  }

  /// `words`: the last write and the last read of the byte at `at`, or of its page.
  void check(const std::uint64_t* words, std::size_t at) const {
    if (!ordered(words[0])) conflict(words[0], "write", at);
    if (writes && !ordered(words[1])) conflict(words[1], "read", at);
  }

  void store(std::uint64_t* words) const {
    if (writes) {
      words[0] = own;
      return;
    }
    std::uint64_t& read = words[1];
    if (ordered(read)) {
      read = own;
    } else if (read >> 32 == running.operation) {
      read = own | kSeveral;
    } else if (random_below(2) == 0) {
      read = own;
    }
  }

  void check_bytes() const {
    Page& page = region.page(offset);
    page.fine = true;
    check(&page.write, offset);
    std::uint64_t* words = region.words(offset);
    for (std::size_t i = 0; i < bytes; ++i, words += 2) {
      check(words, offset + i);
      store(words);
    }
  }

  void check_whole_page() const {
    Page& page = region.page(offset);
    check(&page.write, offset);
    if (page.fine) {
      std::uint64_t* const words = region.words(offset);
      for (std::size_t i = 0; i < bytes; ++i) check(words + 2 * i, offset + i);
      page.fine = !writes;  // what comes after this write comes after the bytes' accesses too
    }
    store(&page.write);
  }
};

/// The region of the address; null: other memory of the host.
Region* region_of(const void* data) {
  if (device_memory().has(data)) return &device_memory();
  if (pinned_memory().has(data)) return &pinned_memory();
  return nullptr;
}

}  // namespace

Running running;

void join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

const std::string* stored(const std::string& name) {
  static auto* const names = new std::unordered_set<std::string>;
  return &*names->insert(name).first;
}

std::uint32_t new_lane() {
  Lanes& all = lanes();
  all.host.resize(all.last.size());
  const auto reusable = std::find_if(all.free.begin(), all.free.end(), [&](std::uint32_t lane) {
    return all.host[lane] == all.last[lane];
  });
  if (reusable != all.free.end()) {
    const std::uint32_t lane = *reusable;
    all.free.erase(reusable);
    return lane;
  }
  all.last.push_back(0);
  return static_cast<std::uint32_t>(all.last.size() - 1);
}

void release_lane(std::uint32_t lane) { lanes().free.push_back(lane); }

Clock& host_clock() { return lanes().host; }
void host_waited_for_all() { lanes().host = lanes().last; }

std::uint32_t add_to_lane(std::uint32_t lane, const std::string* name, Clock& clock) {
  Lanes& all = lanes();
  if (clock.size() <= lane) clock.resize(lane + 1);
  clock[lane] = ++all.last[lane];
  all.operations.push_back({name, lane, clock[lane]});
  return static_cast<std::uint32_t>(all.operations.size() - 1);
}

void begin_running(std::uint32_t operation, const Clock& clock) {
  running = {.operation = operation,
             .thread = 1,
             .name = lanes().operations[operation].name,
             .clock = &clock};
  running_name = running.name->c_str();
  known_before.fill(0);
}

void end_running() { running_name = nullptr; }

void check_range(const void* data, std::size_t bytes, bool writes) {
  Region* const region = region_of(data);
  if (region == nullptr) {
    if (!is_registered(data, bytes))
      report((writes ? "write to" : "read of") + (" host memory by " + bracketed(*running.name)));
    return;
  }
  for (std::size_t offset = region->offset(data), end = offset + bytes; offset < end;) {
    const std::size_t next = std::min(end, (offset / kPage + 1) * kPage);
    const Access access{*region, offset, next - offset, writes, false};
    access.check_bounds();
    if (next - offset == kPage) {
      access.check_whole_page();
    } else {
      access.check_bytes();
    }
    offset = next;
  }
}

void check_access(const void* data, std::uint32_t bytes, bool writes, bool atomic) {
  if (running.stacks.has(data)) return;
  Region* const region = region_of(data);
  if ((reinterpret_cast<std::uintptr_t>(data) & (bytes - 1)) != 0)
    report("misaligned access by " + bracketed(*running.name), std::to_string(bytes) + " bytes");
  if (region != nullptr) {
    const Access access{*region, region->offset(data), bytes, writes, atomic};
    access.check_bounds();
    access.check_bytes();
  } else if (!is_registered(data, bytes) && (writes || !running.parameters.has(data))) {
    char address[32];
    std::snprintf(address, sizeof address, "at %p", data);
    report((writes ? "write to" : "read of") + (" host memory by " + bracketed(*running.name)),
           address);
  }
}

}  // namespace emulator
