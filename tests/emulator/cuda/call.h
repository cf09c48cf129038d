// The frame of each function of CUDA's runtime: the lock, and the errors.
//
// An error is returned, and remembered for cudaGetLastError of the same thread. After a sticky one,
// such as a kernel's access to an illegal address, each call returns it, as on a GPU.
#pragma once

#include <driver_types.h>

#include "tests/emulator/cuda/capture.h"
#include "tests/emulator/cuda/work.h"

namespace emulator {

/// Returns `error`, or the sticky one, and remembers it. Under the lock.
cudaError_t remembered(cudaError_t error);

/// The device of this thread.
int current_device();

template <class Body>
cudaError_t call(const Body& body) {
  const Lock lock;
  return remembered(sticky_error() == cudaSuccess ? body() : sticky_error());
}

/// A function that a thread must not call while it captures.
template <class Body>
cudaError_t call_outside_of_captures(const char* name, const Body& body) {
  return call([&] { return is_barred(name) ? cudaErrorStreamCaptureUnsupported : body(); });
}

/// A function that adds to `handle` or waits for it.
template <class Body>
cudaError_t call_in_stream(cudaStream_t handle, const Body& body) {
  return call([&] {
    CUstream_st& stream = stream_of(handle);
    const bool broken = stream.capture != nullptr && stream.capture->invalid;
    return broken ? cudaErrorStreamCaptureInvalidated : body(stream);
  });
}

}  // namespace emulator
