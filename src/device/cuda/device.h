// The CUDA back end: one GPU per rank, cuDNN for convolution and dense layers. Free of CUDA's
// headers.
#pragma once

#include <memory>
#include <string>

#include "src/device/devices.h"

namespace lockstep {

/// Devices that this process may use, as the runtime numbers them: CUDA_VISIBLE_DEVICES has chosen
/// and ordered them, a slice of a GPU (MIG) is one. 0 where there is none, or no driver.
int cuda_device_count();

/// "no CUDA device (CUDA driver version is insufficient for CUDA runtime version)": the reason in
/// the runtime's words; empty where there is one.
std::string why_no_cuda_device();

/// The one of this rank on the host, from the first again where the ranks are more. Throws Error
/// where there is none.
std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options);

}  // namespace lockstep
