// The functions of the CUDA runtime for streams, events, graphs and launches.
#include <cuda_runtime_api.h>

#include "tests/emulator/cuda/call.h"
#include "tests/emulator/cuda/kernels.h"
#include "tests/emulator/cuda/report.h"

namespace emulator {
namespace {

/// Why the host cannot ask for the state of the event; success: it can.
cudaError_t refusal_of(const CUevent_st& event, const char* function) {
  if (event.capture == nullptr)
    return is_barred(function) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
  report(std::string(function) + " of an event of a capture");
  if (!event.capture->ended) event.capture->invalid = true;
  return cudaErrorCapturedEvent;
}

}  // namespace

}  // namespace emulator

using emulator::call;
using emulator::call_in_stream;

extern "C" {

// --- streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&] {
    if (flags != cudaStreamNonBlocking)
      emulator::report("a stream that waits for the default stream");
    *stream = new CUstream_st{
        .lane = emulator::new_lane(), .priority = priority, .device = emulator::current_device()};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      return invalidate(*stream->capture, "cudaStreamDestroy of a captured stream",
                        cudaErrorStreamCaptureUnsupported);
    }
    emulator::release_lane(stream->lane);
    delete stream;  // its work remains
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call_in_stream(handle, [&](CUstream_st& stream) {
    if (emulator::is_barred("cudaStreamSynchronize")) return cudaErrorStreamCaptureUnsupported;
    if (stream.capture != nullptr) {
      return invalidate(*stream.capture, "cudaStreamSynchronize of a captured stream",
                        cudaErrorStreamCaptureUnsupported);
    }
    emulator::host_waits_for(emulator::Point(stream.point));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return call_in_stream(handle,
                        [&](CUstream_st& stream) { return emulator::wait(stream, *event); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&] { return emulator::begin_capture(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] { return emulator::end_capture(stream, graph); });
}

// --- events -------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    *event = new CUevent_st{.timing = (flags & cudaEventDisableTiming) == 0};
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] { return delete event, cudaSuccess; });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return call_in_stream(handle, [&](CUstream_st& stream) {
    emulator::record(*event, stream);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    const cudaError_t refusal = emulator::refusal_of(*event, "cudaEventQuery");
    if (refusal != cudaSuccess) return refusal;
    return host_polls(event->point) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    const cudaError_t refusal = emulator::refusal_of(*event, "cudaEventSynchronize");
    if (refusal == cudaSuccess) emulator::host_waits_for(emulator::Point(event->point));
    return refusal;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&] {
    for (const cudaEvent_t event : {begin, end}) {
      if (event == nullptr || !event->timing || !event->recorded)
        return cudaErrorInvalidResourceHandle;
      if (!event->point.done()) return cudaErrorNotReady;
    }
    // Any time may be measured, so that each choice by time is tested.
    *milliseconds = 0.001f * static_cast<float>(1 + emulator::random_below(1000));
    return cudaSuccess;
  });
}

// --- graphs and launches ------------------------------------------------------------------------

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return call([&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    return emulator::instantiate(executable, *graph, flags);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] { return delete graph, cudaSuccess; });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&] { return delete executable, cudaSuccess; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return call_in_stream(handle,
                        [&](CUstream_st& stream) { return emulator::launch(*executable, stream); });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t handle) {
  return call_in_stream(handle, [&](CUstream_st& stream) {
    if (stream.device >= 0 && stream.device != emulator::current_device())
      return cudaErrorInvalidResourceHandle;
    return emulator::launch_kernel(function, grid, block, arguments, shared_bytes, handle);
  });
}

// nvcc's host code asks once for a handle. It is the address of the host function.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return emulator::is_kernel(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
}
