// The 32 threads of a warp, each with a stack of its own (a fiber).
//
// A thread runs until it ends or calls a shuffle. When all threads of the warp are there, each gets
// the word of its partner, and the next round begins. The order within a round is random. So a
// result that depends on the order of threads changes with EMULATOR_SEED. CUDA requires that all
// threads of the warp take part in a shuffle, in the same one. A thread that has ended, or waits in
// another shuffle, is reported. The other threads get NaN from it, or its word of the other one.
//
// Warps run one after the other. So nothing here tests kernels whose blocks wait for each other.
#pragma once

#include <cstdint>

#include "tests/emulator/cuda/races.h"

namespace emulator {

/// Runs `threads` threads of a warp. thread_idx.x is first + lane in the block of block_idx, and
/// `number` + lane is the thread's number in the grid. `parameters`: what each thread reads.
void run_warp(void (*kernel)(const std::uint8_t*), const std::uint8_t* parameters,
              std::uint32_t first, std::uint32_t number, std::uint32_t threads);

/// The memory of all stacks.
Range stacks_of_threads();

}  // namespace emulator
