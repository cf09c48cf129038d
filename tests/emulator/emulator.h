// The emulator of CUDA: the parts that stand-ins of libraries, translated kernels and tests use. A
// program that links it instead of CUDA's runtime runs on the CPU with the kernels that nvcc
// compiled (ptx.py), and each mistake of the program that a GPU would forgive is reported.
//
// The environment sets it up:
//   EMULATOR_ORDER    late (default): work runs only when the host waits for it
//                     eager: work runs as soon as it is enqueued
//                     random: any work that is ready, at once or later
//                     thread: a thread runs ready work at random, for several ranks; the host's
//                     accesses to device memory are then not noticed
//   EMULATOR_SEED     of all random choices (default: 1)
//   EMULATOR_DEVICES  GPUs of this process (default: 1)
//   EMULATOR_FAIL     "cudaMalloc 7": the seventh call of cudaMalloc fails, and only this one;
//                     "kernel 40": the 40th kernel leaves the sticky error of an illegal address
//   EMULATOR_RELU_OF_NAN  nan (default) or zero: what cuDNN's fused ReLU makes of NaN
//   EMULATOR_NCCL_FAIL  3: the third sum of NCCL never ends, and an error is reported
//   EMULATOR_MEMSET   off: cudaMemset does nothing, so new memory is NaN (for tests of layers)
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace emulator {

/// Reports a mistake of the program, such as "race of streams [Update] / [copy]". The first of
/// each kind is printed at once with its detail, and the end of the process prints all counts and
/// makes the exit code kExitReported. Thread-safe.
void report(const std::string& kind, const std::string& detail = "");
inline constexpr int kExitReported = 86;

/// How many mistakes have been reported, and takes them back: for tests that make mistakes.
std::vector<std::string> take_reports();

/// A number in [0, n), from EMULATOR_SEED. n > 0.
std::uint32_t random_below(std::uint32_t n);

/// Memory that a piece of work reads or writes.
struct Touch {
  const void* data;
  std::size_t bytes;
  bool writes;
};

/// Enqueues work of a library in `stream`, or adds it to the stream's capture. `run` may be called
/// several times: it returns false if it has to wait for another process. All of `touches` are
/// checked for races and bounds each time that the work begins. The work must run with the values
/// of its captured variables, and as often as a graph repeats it.
void enqueue(const std::string& name, cudaStream_t stream, std::vector<Touch> touches,
             std::function<bool()> run);

/// Whether EMULATOR_FAIL names this call of `function`. Counts the calls.
bool is_to_fail(const char* function);

/// After this each call of CUDA fails with `error`, and no work runs any more.
void set_sticky_error(cudaError_t error);

/// Whether `stream` is being captured.
bool is_captured(cudaStream_t stream);

/// Graphs that exist and contain work with this name: NCCL's abort waits for them.
int graphs_with(const std::string& name);

/// Memory of the device, aligned to 256 bytes; null: there is too little.
void* allocate_device(std::size_t bytes);
/// false: no block begins there.
bool free_device(void* data);
bool is_device_memory(const void* data);

// --- for translated kernels (ptx.h) -------------------------------------------------------------

struct Index {
  std::uint32_t x;
};
/// The indices of the thread that runs. A kernel runs in one thread of the CPU at a time.
extern Index thread_idx, block_idx, block_dim, grid_dim;

/// All 32 lanes of a warp call it; each receives the word of lane ^ mask.
std::uint32_t shuffle_xor(std::uint32_t word, std::uint32_t mask, std::uint32_t clamp,
                          std::uint32_t members);
/// Checks an access of the running thread: bounds, alignment, races.
void check_access(const void* data, std::uint32_t bytes, bool writes, bool atomic);
/// Ends the process, because a kernel contains an instruction that ptx.py does not know.
[[noreturn]] void stop_at_unknown(const char* kernel, const char* instruction);

/// A kernel that the translator has made. `layout`: offset and size of each of its `count`
/// parameters in the block of `bytes` bytes that `run` reads. The name is nvcc's mangled one.
struct Kernel {
  const char* name;
  void (*run)(const std::uint8_t* parameters);
  const std::uint32_t (*layout)[2];
  std::uint32_t count, bytes;
};
/// Makes a kernel known; a static object of each translated file.
struct KnownKernel {
  explicit KnownKernel(const Kernel& kernel);
};

}  // namespace emulator
