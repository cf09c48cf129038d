// sum_canonically() as work of a stream, wherever that works.
#include <cstddef>
#include <utility>

#include "collectives/sum.h"
#include "collectives/sum_of.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// Element by element, in place: the arrays coincide nowhere.
template <int Count>
struct SumInPlace {
  float* parts[Count];
  HOST_DEVICE void operator()(std::int64_t i) const {
    const float sum = sum_of<0, Count>(parts, i);
    for (int part = 0; part < Count; ++part) parts[part][i] = sum;
  }
};

template <int Count>
void give_sum(Stream& stream, std::span<float* const> parts, std::int64_t count) {
  SumInPlace<Count> body;
  for (int part = 0; part < Count; ++part) body.parts[part] = parts[part];
  each(stream, count, body);
}

template <int... Less>
void give(Stream& stream, std::span<float* const> parts, std::int64_t count,
          std::integer_sequence<int, Less...>) {
  const auto size = static_cast<int>(parts.size());
  static_cast<void>(
      ((size == Less + 1 && (give_sum<Less + 1>(stream, parts, count), true)) || ...));
}

}  // namespace

void sum_canonically(Stream& stream, std::span<float* const> parts, std::int64_t count) {
  expect(parts.size() <= kSummedAtOnce, "more parts than are summed at once");
  give(stream, parts, count, std::make_integer_sequence<int, kSummedAtOnce>());
}

}  // namespace lockstep
