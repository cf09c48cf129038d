// Errors of the CUDA runtime: their names and texts, and the last one of each thread.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/emulator/cuda/call.h"

namespace emulator {
namespace {

struct Error {
  cudaError_t code;
  const char *name, *text;
};

// The texts of CUDA 13.0, of errors that the emulator returns and of a few that its users name.
constexpr Error kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"}};

Error error_of(cudaError_t code) {
  const auto* const found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                         [&](const Error& error) { return error.code == code; });
  constexpr const char* kUnknown = "unrecognized error code";
  return found == std::end(kErrors) ? Error{code, kUnknown, kUnknown} : *found;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t remembered(cudaError_t error) {
  if (sticky_error() != cudaSuccess) error = sticky_error();
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace emulator

extern "C" {

const char* cudaGetErrorName(cudaError_t error) { return emulator::error_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return emulator::error_of(error).text; }

cudaError_t cudaGetLastError() {
  const emulator::Lock lock;
  const cudaError_t error = std::exchange(emulator::last_error, cudaSuccess);
  return emulator::sticky_error() != cudaSuccess ? emulator::sticky_error() : error;
}
}
