// The CPU back end: cores, threads and the plans of src/device/cpu.

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "src/base/check.h"
#include "src/base/floating_point.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/device/arena.h"
#include "src/device/cpu/arithmetic.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/cpu/library.h"
#include "src/device/cpu/other_passes.h"
#include "src/device/cpu/spin_control.h"
#include "src/device/host.h"
#include "src/device/stacked.h"

namespace lockstep {
namespace {

constexpr std::array kArithmetics{
    Arithmetic{kPortableArithmetic, "own kernels in fp32, with the same bits on every processor",
               true},
    Arithmetic{"fast", "oneDNN, whose bits depend on the processor", false},
};

/// Bytes of the calling thread's stack; 0: unknown.
std::size_t stack_bytes() {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return 0;
  std::size_t bytes = 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return bytes;
}

/// Kernels have 120 KB on the stack, and their callers a little.
constexpr std::size_t kLeastStack = 192 << 10;

/// Starts the calling thread's team and returns the ids of its threads. Throws the usage Error if
/// OpenMP starts fewer threads, because kernels with parts that wait for each other would hang.
std::vector<int> start_team(int threads) {
  constexpr long kMost = 1024, kPerProcessor = 8;  // tens of thousands overflow the caller's stack
  const long processors = std::max(sysconf(_SC_NPROCESSORS_CONF), 1L);
  const long most = std::min(kMost, kPerProcessor * processors);
  if (threads > most) {
    fail_usage(
        "{} threads per rank are too many for a machine of {} processors; use --threads {} or "
        "fewer",
        threads, processors, most);
  }
  omp_set_dynamic(0);            // OMP_DYNAMIC could start fewer threads
  omp_set_max_active_levels(1);  // OMP_MAX_ACTIVE_LEVELS and OMP_NESTED could allow 0 or 2 levels
  omp_set_num_threads(threads);
  leave_place();
  int size = 1;
  std::vector<int> ids(threads);
  std::atomic<std::size_t> small = 0;  // a stack that is too small
#pragma omp parallel
  {
    // Libraries may have set another state before the threads began.
    use_default_floating_point();
    if (const std::size_t bytes = stack_bytes(); bytes > 0 && bytes < kLeastStack) small = bytes;
    // SpinControl finds the threads' delays by their ids.
    ids[omp_get_thread_num()] = gettid();
#pragma omp single
    size = omp_get_num_threads();
  }
  if (small > 0) {
    fail_usage(
        "a thread's stack of {} KiB is too small. Unset OMP_STACKSIZE, and raise the limit with "
        "\"ulimit -s 8192\".",
        small >> 10);
  }
  if (size == threads) return ids;
  const char* limit = std::getenv("OMP_THREAD_LIMIT");
  fail_usage("OpenMP starts {} of {} threads per rank; {}use --threads {}", size, threads,
             limit ? fmt::format("unset OMP_THREAD_LIMIT ({}), or ", limit) : "", size);
}

/// The plan of a layer with frozen weights. The biases' gradient has the bits that it has beside a
/// gradient of the weights, because the same kernel computes both.
class FrozenWeights : public OtherPasses {
 public:
  FrozenWeights(std::unique_ptr<AffinePlan> others, Shape weights)
      : OtherPasses(std::move(others), ""),
        unwanted_{nullptr, weights, Type::f32},
        place_(Arena::aligned(others_->scratch_bytes())) {}

  void backward_weights(Stream& stream, View x, View dy, View, View db, void* scratch) override {
    if (!db) return;
    View unwanted = unwanted_;
    unwanted.data = static_cast<std::byte*>(scratch) + place_;
    others_->backward_weights(stream, x, dy, unwanted, db, scratch);
  }
  std::size_t scratch_bytes() const override { return place_ + unwanted_.bytes(); }

 private:
  View unwanted_;
  std::size_t place_;
};

class CpuDevice : public HostDevice {
 public:
  CpuDevice(int threads, const ConvolutionEntry& convolution, std::string_view isa,
            const Arithmetic& arithmetic)
      : HostDevice(threads > 0 ? threads : static_cast<int>(allowed_cores().size())),
        convolution_(convolution),
        arithmetic_(arithmetic),
        kernels_(use_instruction_set(isa).kernels()),
        spin_control_(start_team(threads_)) {
    traits_.description =
        fmt::format("cpu:{} ({}, {}{})", core_list(allowed_cores()), counted(threads_, "thread"),
                    library::set_in_use(), isa == "auto" ? "" : " by --isa");
    traits_.bf16 = library::computes_bf16();
  }

  std::string arithmetic(Type type) const override {
    if (portable(type))
      return fmt::format("{} {}, convolutions {}", kPortableArithmetic, kPortableVersion,
                         convolution_.name);
    return fmt::format("{} with {}, convolutions {}", library::name(), library::set_in_use(),
                       convolution_.name);
  }
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    auto plan = convolution_.plan({kernels_, arithmetic_.portable}, spec);
    if (!spec.input.frozen) return plan;
    return std::make_unique<FrozenWeights>(std::move(plan), spec.weights());
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    // No kernel for cores computes several layers at a time, so one plan serves each in turn.
    if (spec.layers > 1) {
      return std::make_unique<StackedDense>(dense(StackedDense::one_of(spec)), spec.layers);
    }
    auto plan = portable(spec.input.type) ? kernels_.portable_dense(spec) : library::dense(spec);
    if (!spec.input.frozen) return plan;
    return std::make_unique<FrozenWeights>(std::move(plan),
                                           Shape{spec.features, spec.input.x.row()});
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return kernels_.response_norm(spec);
  }
  std::unique_ptr<ProductPlan> product(const ProductSpec& spec) override {
    return portable(spec.type) && portable(spec.result) ? kernels_.portable_product(spec)
                                                        : library::product(spec);
  }

 private:
  bool portable(Type type) const { return arithmetic_.portable && type == Type::f32; }

  const ConvolutionEntry& convolution_;
  const Arithmetic& arithmetic_;
  const Kernels& kernels_;
  SpinControl spin_control_;
};

}  // namespace

std::span<const Arithmetic> arithmetics() {
  return std::span(kArithmetics).first(library::name().empty() ? 1 : kArithmetics.size());
}

std::unique_ptr<Device> make_cpu_device(int threads, std::string_view convolution,
                                        std::string_view isa, std::string_view arithmetic) {
  return std::make_unique<CpuDevice>(threads, find(convolutions(), convolution), isa,
                                     find(arithmetics(), arithmetic));
}

}  // namespace lockstep
