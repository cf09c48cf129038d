#include "src/files/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/base/view.h"
#include "src/files/file_kind.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

/// The format's own limit of the header.
constexpr std::uint64_t kLongestHeader = 100'000'000;

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& why) {
  fail("{} is damaged or not a safetensors file: {}. Use another file.", file.string(),
       one_line(why));
}

/// Bytes of a number; 0: the type is unknown.
std::uint64_t bytes_of(const std::string& type) {
  const std::map<std::string, std::uint64_t> sizes{
      {"F64", 8},     {"I64", 8},     {"U64", 8},  {"F32", 4}, {"I32", 4},
      {"U32", 4},     {"F16", 2},     {"BF16", 2}, {"I16", 2}, {"U16", 2},
      {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I8", 1},   {"U8", 1},  {"BOOL", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

/// `begin`: where the numbers begin; `size`: of the file.
SafetensorsReader::Tensor tensor_of(const nlohmann::json& entry, std::uint64_t begin,
                                    std::uint64_t size) {
  SafetensorsReader::Tensor tensor;
  tensor.type = entry.at("dtype").get<std::string>();
  std::uint64_t bytes = bytes_of(tensor.type);
  require(bytes > 0, "its type {} is unknown", tensor.type);
  const nlohmann::json& extents = entry.at("shape");
  require(extents.is_array(), "its shape is no list of extents");
  for (const nlohmann::json& extent : extents) {
    require(extent.is_number_unsigned(), "its shape is no list of extents");
    const auto count = extent.get<std::uint64_t>();
    require(count == 0 || bytes <= size / count, "its shape needs more bytes than the file has");
    tensor.shape.push_back(static_cast<std::int64_t>(count));
    bytes *= count;
  }
  const nlohmann::json& places = entry.at("data_offsets");
  require(places.is_array() && places.size() == 2 && places[0].is_number_unsigned() &&
              places[1].is_number_unsigned(),
          "its data_offsets are not two numbers");
  const auto from = places[0].get<std::uint64_t>(), to = places[1].get<std::uint64_t>();
  require(from <= to && to <= size - begin, "it lies outside of the file");
  require(to - from == bytes, "its shape needs {} bytes, and it has {}", bytes, to - from);
  tensor.begin = begin + from;
  tensor.end = begin + to;
  return tensor;
}

template <class T>
std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(static_cast<void*>(&value), bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
  return values;
}

/// `count` bytes of `file` from `begin` on.
std::string bytes_at(const std::filesystem::path& file, std::uint64_t begin, std::uint64_t count) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(count, '\0');
  in.seekg(static_cast<std::streamoff>(begin));
  in.read(bytes.data(), static_cast<std::streamsize>(count));
  if (!in) fail("cannot read {}: {}. Use another file.", file.string(), std::strerror(errno));
  return bytes;
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file_, error);
  if (!std::filesystem::is_regular_file(status)) {
    fail("cannot read {}: {}. Use another file.", file_.string(),
         std::filesystem::exists(status) ? "it is not a regular file" : error.message());
  }
  require_kind(file_, kSafetensorsFile);
  const std::uint64_t size = std::filesystem::file_size(file_);
  std::uint64_t length = 0;
  if (size < sizeof length) damaged(file_, "it has no header");
  std::memcpy(&length, bytes_at(file_, 0, sizeof length).data(), sizeof length);
  if (length > size - sizeof length || length > kLongestHeader)
    damaged(file_, fmt::format("its header would have {} bytes", length));
  const nlohmann::json header = nlohmann::json::parse(bytes_at(file_, sizeof length, length),
                                                      nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) damaged(file_, "its header is no JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items())
        if (value.is_string()) metadata_[key] = value.get<std::string>();
      continue;
    }
    try {
      tensors_[name] = tensor_of(entry, sizeof length + length, size);
    } catch (const std::exception& wrong) {
      damaged(file_, fmt::format("tensor {}: {}", name, wrong.what()));
    }
  }
}

std::string SafetensorsReader::metadata(const std::string& name) const {
  const auto found = metadata_.find(name);
  return found == metadata_.end() ? "" : found->second;
}

std::vector<std::string> SafetensorsReader::metadata_list(const std::string& name) const {
  const auto list = nlohmann::json::parse(metadata(name), nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> texts;
  if (!list.is_array()) return texts;
  for (const auto& entry : list) {
    if (!entry.is_string()) return {};
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

std::vector<float> SafetensorsReader::read(const std::string& name) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{} has no tensor {}. Use another file.", file_.string(), name);
  const Tensor& tensor = found->second;
  const std::string bytes = bytes_at(file_, tensor.begin, tensor.end - tensor.begin);
  if (tensor.type == "F64") return floats<double>(bytes);
  if (tensor.type == "F32") return floats<float>(bytes);
  if (tensor.type == "F16") return floats<Half>(bytes);
  if (tensor.type == "BF16") return floats<Bfloat16>(bytes);
  fail("{}: tensor {} has the type {}. Save it as F32.", file_.string(), printable(name),
       tensor.type);
}

}  // namespace lockstep
