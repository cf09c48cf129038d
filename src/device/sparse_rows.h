// The gradient of a table of which few rows are not 0, as those rows: on the host alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/device/device.h"

namespace lockstep {

/// Rows of a table of `rows` x `width` floats, each there once, in the order in which they came;
/// all others are 0. One thread.
class SparseRows {
 public:
  SparseRows(std::int64_t rows, std::int64_t width) : width_(width), places_(rows, kNowhere) {}

  /// The numbers of those that are there.
  std::span<const std::int32_t> numbers() const { return numbers_; }
  /// The values of the i-th of them.
  const float* values(std::size_t i) const { return values_.data() + i * width_; }
  std::int64_t width() const { return static_cast<std::int64_t>(width_); }

  /// Row `number`, zeros if it was not there; valid until the next is asked for.
  float* row(std::int32_t number) {
    std::int32_t& place = places_[number];
    if (place == kNowhere) {
      place = static_cast<std::int32_t>(numbers_.size());
      numbers_.push_back(number);
      values_.resize(values_.size() + width_);
    }
    return values_.data() + static_cast<std::size_t>(place) * width_;
  }
  /// row(number)[i] += values[i].
  void add(std::int32_t number, const float* values) {
    float* to = row(number);
    for (std::size_t i = 0; i < width_; ++i) to[i] += values[i];
  }
  void add(const SparseRows& other) {
    for (std::size_t i = 0; i < other.numbers_.size(); ++i) add(other.numbers_[i], other.values(i));
  }
  void clear() {
    for (const std::int32_t number : numbers_) places_[number] = kNowhere;
    numbers_.clear();
    values_.clear();
  }
  std::size_t bytes() const {
    return (places_.capacity() + numbers_.capacity()) * sizeof(std::int32_t) +
           values_.capacity() * sizeof(float);
  }

 private:
  static constexpr std::int32_t kNowhere = -1;

  std::size_t width_;
  std::vector<std::int32_t> places_;  ///< by row: its place in the others
  std::vector<std::int32_t> numbers_;
  std::vector<float> values_;
};

/// Gives the work that makes `rows` the sum of the `count` rows of `values`, of which each belongs
/// to the row that `numbers` says, in their order.
template <class T>
void gather_rows(Stream& stream, const std::int32_t* numbers, const T* values, std::int64_t count,
                 SparseRows* rows) {
  stream.give([=] {
    rows->clear();
    const std::int64_t width = rows->width();
    for (std::int64_t i = 0; i < count; ++i) {
      float* to = rows->row(numbers[i]);
      for (std::int64_t c = 0; c < width; ++c) to[c] += static_cast<float>(values[i * width + c]);
    }
  });
}

}  // namespace lockstep
