#include "apps/record/weights_hash.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "src/base/check.h"
#include "src/files/hdf5.h"
#include "src/files/sha256.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little);

class WeightsHash {
 public:
  void add(const std::string& name, const Shape& shape, std::span<const float> values) {
    finite_ &= std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    hash_.add(fmt::format("{} {}\n", name, shape.text()));
    hash_.add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  std::string text() { return finite_ ? hash_.digest() : kNotFinite; }

 private:
  Sha256 hash_;
  bool finite_ = true;
};

}  // namespace

std::string weights_sha256(const Layout& layout, const float* parameters) {
  std::vector<const Parameter*> sorted;
  for (const Parameter& parameter : layout.parameters) sorted.push_back(&parameter);
  std::ranges::sort(sorted, {}, [](const Parameter* parameter) { return parameter->name; });
  WeightsHash hash;
  for (const Parameter* parameter : sorted) {
    const auto count = static_cast<std::size_t>(parameter->shape.count());
    hash.add(parameter->name, parameter->shape, {parameters + parameter->range.begin, count});
  }
  return hash.text();
}

std::string weights_sha256(const std::filesystem::path& checkpoint, const std::string& group) {
  const Hdf5Reader reader(checkpoint);
  WeightsHash hash;
  bool found = false;
  // arrays() are sorted by their full names, which begin with the same group. So their order is
  // that of the names alone, as above.
  for (const std::string& name : reader.arrays()) {
    if (!name.starts_with(group + "/")) continue;
    hash.add(name.substr(group.size() + 1), reader.shape(name), reader.values(name));
    found = true;
  }
  require(found, "{} contains no weights. Use a checkpoint.", checkpoint.string());
  return hash.text();
}

}  // namespace lockstep
