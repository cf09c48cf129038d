#include "src/files/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/base/view.h"

namespace lockstep {
namespace {

/// As many as PyTorch permits.
constexpr std::size_t kMostExtents = 64;
constexpr std::size_t kLongestName = 1000;
/// Bytes of the file from a tensor's first number to its last, for each of its numbers.
constexpr std::uint64_t kMostSpread = 4096;

/// Without what torch.compile() puts in front of the names in a module.
std::string plain_name(const std::string& name) {
  constexpr std::string_view kCompiled = "_orig_mod.";
  std::string plain;
  std::size_t begin = 0;
  for (std::size_t at; (at = name.find(kCompiled, begin)) != name.npos;
       begin = at + kCompiled.size())
    plain.append(name, begin, at - begin);
  return plain.append(name, begin);
}

/// `bytes`: of the file from tensor.begin to tensor.end.
template <class T>
std::vector<float> floats(const TensorFile::Tensor& tensor, const std::string& bytes) {
  std::int64_t count = 1, place = 0;
  for (const std::int64_t extent : tensor.shape) count *= extent;
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::vector<float> values(count);
  // An index counts up as the digits of a clock, the last axis first. `place` follows by the
  // strides, so any view is read in row-major order.
  for (float& value : values) {
    T number;
    std::memcpy(static_cast<void*>(&number), bytes.data() + place * sizeof(T), sizeof(T));
    value = static_cast<float>(number);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      place += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      place -= tensor.strides[axis] * tensor.shape[axis];
      index[axis] = 0;
    }
  }
  return values;
}

}  // namespace

std::uint64_t bytes_of_number(const std::string& type) {
  static const std::map<std::string, std::uint64_t> kSizes{
      {"F64", 8}, {"I64", 8}, {"U64", 8},     {"C64", 8},   {"F32", 4}, {"I32", 4},
      {"U32", 4}, {"F16", 2}, {"BF16", 2},    {"I16", 2},   {"U16", 2}, {"F8_E4M3", 1},
      {"I8", 1},  {"U8", 1},  {"F8_E5M2", 1}, {"C128", 16}, {"BOOL", 1}};
  const auto found = kSizes.find(type);
  return found == kSizes.end() ? 0 : found->second;
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::uint64_t stride = 1;  // beside an extent of 0, others may be too large for a product
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

void TensorFile::add(std::string name, Tensor tensor) {
  require(tensor.shape.size() <= kMostExtents, "its shape has {} extents", tensor.shape.size());
  require(name.size() <= kLongestName, "its name has {} bytes", name.size());
  std::uint64_t numbers = 1;
  for (const std::int64_t extent : tensor.shape) numbers *= extent;
  // Two numbers at both ends of a large sparse file would otherwise need memory of its length.
  require((tensor.end - tensor.begin) / kMostSpread <= numbers,
          "its {} numbers are spread over {} bytes", numbers, tensor.end - tensor.begin);
  const bool is_new = tensors_.emplace(plain_name(name), std::move(tensor)).second;
  require(is_new, "another one has its name");
}

void TensorFile::check_part_at(const InputFile& input, std::uint64_t place) const {
  auto part = parts_.upper_bound(place);
  if (part == parts_.begin() || place >= (--part)->second.end) return;
  const auto [begin, end, crc] = part->second;
  require(crc == 0 || crc32_of(input, begin, end) == crc,
          "{} is damaged: bytes {} to {} have another checksum. Copy or download it again.",
          one_line(file_.string()), begin, end);
  // Each part is read for its checksum once, however many tensors lie in it.
  parts_.erase(part);
}

std::vector<float> TensorFile::read(const std::string& name) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{} has no tensor {}. Use another file.", file_.string(), name);
  const Tensor& tensor = found->second;
  const InputFile input(file_);
  check_part_at(input, tensor.begin);
  const std::string bytes = input.bytes(tensor.begin, tensor.end - tensor.begin);
  if (tensor.type == "F64") return floats<double>(tensor, bytes);
  if (tensor.type == "F32") return floats<float>(tensor, bytes);
  if (tensor.type == "F16") return floats<Half>(tensor, bytes);
  if (tensor.type == "BF16") return floats<Bfloat16>(tensor, bytes);
  fail("{}: tensor {} has the type {}. Save it as F32.", file_.string(), printable(name),
       tensor.type);
}

}  // namespace lockstep
