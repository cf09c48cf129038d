// A Cudnn for the device of the calling thread, without a GPU: this program's own cudnnCreate()
// replaces cuDNN's and returns a stand-in handle. cuDNN only copies bytes of that handle when it
// reads the device's properties, so that every other call here is the real one.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "src/device/cuda/cudnn.h"
#include "tests/support/error_of.h"

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

TEST(DeviceProperties, OfAHandleAreReadFromIt) {
  const Cudnn library({});
  const auto properties = nlohmann::json::parse(library.properties());
  EXPECT_EQ(properties["multiProcessorCount"], 0x10001);
  EXPECT_EQ(properties["deviceName"], "\x01");
}

TEST(DeviceProperties, OfAHandleServeWithoutIt) {
  const Cudnn library({});
  const Cudnn without({}, library.properties());
  EXPECT_EQ(without.properties(), library.properties());
}

TEST(DeviceProperties, ThatAreNoneAreRefused) {
  EXPECT_TRUE(mentions(error_of([] { Cudnn({}, "no JSON"); }), {"properties"}));
}

}  // namespace
}  // namespace lockstep::cuda
