// A Cudnn for the calling thread's device, without a GPU. This program's own cudnnCreate() replaces
// cuDNN's and returns a stand-in handle. To read the device's properties, cuDNN only copies bytes
// of the handle. All other calls are the real ones.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "src/device/cuda/cudnn.h"
#include "tests/support/expect_error.h"

namespace {

/// Larger than a handle. Every 32-bit number in it is 0x00010001, and every text is "\x01".
std::array<std::uint8_t, 1 << 20> stand_in;

}  // namespace

extern "C" cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  for (std::size_t i = 0; i < stand_in.size(); i += 2) stand_in[i] = 1;
  *handle = reinterpret_cast<cudnnHandle_t>(stand_in.data());
  return CUDNN_STATUS_SUCCESS;
}
extern "C" cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

namespace lockstep::cuda {
namespace {

TEST(DeviceProperties, ComeFromTheHandle) {
  const Cudnn library({});
  const auto properties = nlohmann::json::parse(library.properties());
  EXPECT_EQ(properties["multiProcessorCount"], 0x10001);
  EXPECT_EQ(properties["deviceName"], "\x01");
}

TEST(DeviceProperties, WorkWithoutAHandle) {
  const Cudnn library({});
  const Cudnn without({}, library.properties());
  EXPECT_EQ(without.properties(), library.properties());
}

TEST(DeviceProperties, InvalidTextIsRefused) {
  expect_error({"properties"}, [] { Cudnn({}, "no JSON"); });
}

}  // namespace
}  // namespace lockstep::cuda
