// Numbers in memory of a device, and the distance between two lists of numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "src/base/round_up.h"
#include "src/device/device.h"

namespace lockstep {

using Values = std::vector<double>;

/// Values in memory of a device, of type `type`: NaN (-1 if integers) until they are set. In memory
/// of the host a guard follows them. In a device's they end with a page, so that its double
/// (tests/support/async_device.h) finds what reads or writes behind them.
class Tensor {
 public:
  Tensor(Device& device, Shape shape, Type type)
      : view{nullptr, shape, type}, device_(&device), stream_(device.stream()) {
    constexpr std::size_t kGuard = 64, kAlignment = 16;
    const std::size_t bytes = view.bytes();
    std::size_t begin = 0;
    bytes_ = bytes + kGuard;
    if (!device.traits().memory_is_host) {
      const std::size_t pages = round_up(std::max(bytes, kAlignment), kPageBytes);
      begin = (pages - bytes) / kAlignment * kAlignment;
      bytes_ = pages - begin;
    }
    memory_ = device.allocate(begin + bytes_, Place::device);
    host_ = device.allocate(bytes_, Place::host);
    view.data = memory_.get() + begin;
    poison();
  }

  void poison() {
    std::memset(host_.get(), 0xff, bytes_);
    upload();
  }
  void set(const Values& values) {
    each_place([&](auto& place, std::int64_t i) { place = static_cast<float>(values.at(i)); });
    upload();
  }
  void set(std::int64_t i, double value) {
    Values all = values();
    all.at(i) = value;
    set(all);
  }
  /// Uniform in [-scale, scale); `coarse`: rounded to what bf16 holds.
  void fill(Random& random, double scale, bool coarse = false) {
    each_place([&](auto& place, std::int64_t) {
      const float value = random.uniform(-1, 1) * static_cast<float>(scale);
      place = coarse ? static_cast<float>(Bfloat16(value)) : value;
    });
    upload();
  }
  /// Fails the test if something was written behind the last value.
  Values values() const {
    device_->copy(*stream_, host_.get(), view.data, bytes_);
    stream_->synchronize();
    const std::byte *const end = host_.get() + view.bytes(), *const last = host_.get() + bytes_;
    EXPECT_TRUE(std::all_of(end, last, [](std::byte b) { return b == std::byte{0xff}; }))
        << "a write beyond the end";
    Values result;
    each_place([&](auto& place, std::int64_t) { result.push_back(static_cast<float>(place)); });
    return result;
  }

  View view;

 private:
  /// visit(number i in memory of the host, i) for each.
  template <class Visit>
  void each_place(Visit visit) const {
    const auto all = [&](auto* places) {
      for (std::int64_t i = 0; i < view.count(); ++i) visit(places[i], i);
    };
    if (view.type == Type::i32) return all(reinterpret_cast<std::int32_t*>(host_.get()));
    dispatch(view.type, [&]<class T>(T*) { all(reinterpret_cast<T*>(host_.get())); });
  }
  void upload() {
    device_->copy(*stream_, view.data, host_.get(), bytes_);
    stream_->synchronize();
  }

  Device* device_;
  std::unique_ptr<Stream> stream_;
  std::size_t bytes_;  ///< with what follows the values
  Memory memory_, host_;
};

/// |found - right| / |right|, in the Euclidean norm.
template <class Found, class Right>
double relative_error(const Found& found, const Right& right) {
  EXPECT_EQ(found.size(), right.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    difference += std::pow(double{found[i]} - double{right[i]}, 2);
    norm += std::pow(double{right[i]}, 2);
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

}  // namespace lockstep
