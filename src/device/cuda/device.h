// The CUDA back end: one GPU per rank, cuDNN for convolution and dense layers. Free of CUDA's
// headers.
#pragma once

#include <memory>
#include <string>

#include "src/device/devices.h"

namespace lockstep {

/// absence() on this machine. Empty: there is a device.
std::string why_no_cuda_device();

/// The device of this rank on the host. CUDA_VISIBLE_DEVICES chooses and orders them; a slice of a
/// GPU (MIG) is a device. If there are more ranks than devices, ranks share them in turn. Throws
/// Error if there is no device.
std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options);

}  // namespace lockstep
