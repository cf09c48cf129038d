#include "src/data/dataset.h"

#include "src/data/augment.h"
#include "src/data/samples.h"

namespace lockstep {

Shape SampleFormat::shape() const {
  if (kind == Kind::crops) return crop_shape();
  if (kind == Kind::words) return {1, size.width};
  return {1, size.height, size.width, size.channels};
}

std::size_t SampleFormat::bytes() const {
  const std::size_t each = kind == Kind::words || kind == Kind::values ? 4 : 1;
  return static_cast<std::size_t>(size.count()) * each;
}

const std::uint8_t* Dataset::stored(std::int64_t, std::uint8_t*) const {
  expect(false, "a data set without stored samples was asked for one");
  return nullptr;
}

void Dataset::read(std::int64_t index, Random* random, void* out, Type type) const {
  const auto buffer = std::make_unique_for_overwrite<std::uint8_t[]>(format_.bytes());
  make_sample(format_, {stored(index, buffer.get()), random, {}}, nullptr, out, type);
}

}  // namespace lockstep
