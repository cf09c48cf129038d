#include "tests/emulator/cuda/warp.h"

#include <sys/mman.h>

#include <string>

#include "tests/emulator/cuda/report.h"
#include "tests/emulator/emulator.h"

// Saves the registers that a function must keep and its stack pointer in *save, and continues where
// the owner of the stack `load` did the same.
extern "C" void emulator_switch_stack(void** save, void* load);
asm(R"(
  .text
  .hidden emulator_switch_stack
  .globl emulator_switch_stack
  .type emulator_switch_stack, @function
emulator_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  .size emulator_switch_stack, . - emulator_switch_stack
)");

namespace emulator {
namespace {

constexpr std::uint32_t kLanes = 32;
constexpr std::size_t kStackBytes = 128 << 10;
/// A shuffle reads this from a thread that has ended.
constexpr std::uint32_t kNan = 0x7fffffff;

enum class State { runs, in_shuffle, ended };

struct Lane {
  void* stack = nullptr;  ///< its pointer while the lane does not run
  State state = State::ended;
  std::uint32_t word = 0, mask = 0;
};

struct Warp {
  Lane lanes[kLanes];
  std::uint32_t running_lane = 0;
  void* scheduler = nullptr;  ///< its stack pointer while a lane runs
  void (*kernel)(const std::uint8_t*) = nullptr;
  const std::uint8_t* parameters = nullptr;
  char* stacks = nullptr;
};

Warp warp;

void run_threads_for_ever();

void prepare_stacks() {
  void* const memory = mmap(nullptr, kLanes * kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) stop("cannot allocate the stacks of a warp. Free memory.");
  warp.stacks = static_cast<char*>(memory);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    // The first switch pops six registers and returns into the function, as if it were called
    // from an address at a multiple of 16.
    auto** const top = reinterpret_cast<void**>(warp.stacks + (lane + 1) * kStackBytes);
    top[-2] = reinterpret_cast<void*>(run_threads_for_ever);
    warp.lanes[lane].stack = top - 8;
  }
}

/// The lane that runs stops, with `state`, and the scheduler continues.
void leave(State state) {
  Lane& lane = warp.lanes[warp.running_lane];
  lane.state = state;
  emulator_switch_stack(&lane.stack, warp.scheduler);
}

void run_threads_for_ever() {
  for (;;) {
    warp.kernel(warp.parameters);
    leave(State::ended);
  }
}

void in_kernel(const std::string& kind, const std::string& detail = "") {
  report(kind + " in [" + *running.name + "]", detail);
}

/// All lanes have ended or are in a shuffle. Exchanges the words.
void exchange() {
  Lane* const lanes = warp.lanes;
  std::uint32_t words[kLanes], ended = 0, mask = 0;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    if (lanes[i].state == State::ended) {
      ++ended;
      lanes[i].word = kNan;
    } else {
      mask = lanes[i].mask;
    }
  }
  bool same = true;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    same = same && (lanes[i].state == State::ended || lanes[i].mask == mask);
    words[i] = lanes[(i ^ lanes[i].mask) % kLanes].word;
  }
  if (ended > 0) in_kernel("lanes ended before a shuffle", std::to_string(ended) + " of 32");
  if (!same) in_kernel("lanes in different shuffles");
  for (std::uint32_t i = 0; i < kLanes; ++i) lanes[i].word = words[i];
}

}  // namespace

Index thread_idx, block_idx, block_dim, grid_dim;

Range stacks_of_threads() {
  if (warp.stacks == nullptr) prepare_stacks();
  return {warp.stacks, warp.stacks + kLanes * kStackBytes};
}

void run_warp(void (*kernel)(const std::uint8_t*), const std::uint8_t* parameters,
              std::uint32_t first, std::uint32_t number, std::uint32_t threads) {
  warp.kernel = kernel;
  warp.parameters = parameters;
  for (std::uint32_t i = 0; i < threads; ++i) warp.lanes[i].state = State::runs;
  for (;;) {
    // A random order: an odd stride visits each of the 32 lanes once.
    const std::uint32_t begin = random_below(kLanes), stride = 2 * random_below(kLanes / 2) + 1;
    bool shuffles = false;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const std::uint32_t lane = (begin + i * stride) % kLanes;
      if (warp.lanes[lane].state == State::ended) continue;
      warp.running_lane = lane;
      thread_idx.x = first + lane;
      running.thread = number + lane;
      emulator_switch_stack(&warp.scheduler, warp.lanes[lane].stack);
      shuffles = shuffles || warp.lanes[lane].state == State::in_shuffle;
    }
    if (!shuffles) return;
    exchange();
  }
}

std::uint32_t shuffle_xor(std::uint32_t word, std::uint32_t mask, std::uint32_t clamp,
                          std::uint32_t members) {
  // PTX' clamp of a whole warp is 31.
  if (clamp != kLanes - 1 || members != ~0u) in_kernel("a shuffle of a part of a warp");
  Lane& lane = warp.lanes[warp.running_lane];
  lane.word = word;
  lane.mask = mask;
  leave(State::in_shuffle);
  return lane.word;
}

}  // namespace emulator
