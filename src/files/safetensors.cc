#include "src/files/safetensors.h"

#include <map>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file_kind.h"
#include "src/files/number_at.h"

namespace lockstep {
namespace {

/// The format's own limit of the header.
constexpr std::uint64_t kLongestHeader = 100'000'000;

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& why) {
  fail("{} is damaged or not a safetensors file: {}. Use another file.", file.string(),
       one_line(why));
}

/// `begin`: where the numbers begin; `size`: of the file.
TensorFile::Tensor tensor_of(const nlohmann::json& entry, std::uint64_t begin, std::uint64_t size) {
  TensorFile::Tensor tensor;
  tensor.type = entry.at("dtype").get<std::string>();
  std::uint64_t bytes = bytes_of_number(tensor.type);
  require(bytes > 0, "its type {} is unknown", tensor.type);
  const nlohmann::json& extents = entry.at("shape");
  require(extents.is_array(), "its shape is no list of extents");
  for (const nlohmann::json& extent : extents) {
    require(extent.is_number_unsigned(), "its shape is no list of extents");
    const auto count = extent.get<std::uint64_t>();
    // The division keeps the product within 64 bits. It also limits the memory for the numbers.
    require(count == 0 || bytes <= size / count, "its shape needs more bytes than the file has");
    tensor.shape.push_back(count);
    bytes *= count;
  }
  const nlohmann::json& places = entry.at("data_offsets");
  require(places.is_array() && places.size() == 2 && places[0].is_number_unsigned() &&
              places[1].is_number_unsigned(),
          "its data_offsets are not two numbers");
  const auto from = places[0].get<std::uint64_t>(), to = places[1].get<std::uint64_t>();
  require(from <= to && to <= size - begin, "it lies outside of the file");
  require(to - from == bytes, "its shape needs {} bytes, and it has {}", bytes, to - from);
  tensor.strides = row_major(tensor.shape);
  tensor.begin = begin + from;
  tensor.end = begin + to;
  return tensor;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& file) {
  const InputFile input(file);
  require_kind(file, kSafetensorsFile);
  const std::uint64_t size = input.size();
  std::uint64_t length = 0;
  if (size < sizeof length) damaged(file, "it has no header");
  length = number_at<std::uint64_t>(input.bytes(0, sizeof length), 0);
  if (length > size - sizeof length || length > kLongestHeader)
    damaged(file, fmt::format("its header would have {} bytes", length));
  const nlohmann::json header = nlohmann::json::parse(input.bytes(sizeof length, length), nullptr,
                                                      /*allow_exceptions=*/false);
  if (!header.is_object()) damaged(file, "its header is no JSON object");
  TensorFile tensors(file);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items())
        if (value.is_string()) tensors.metadata[key] = value.get<std::string>();
      continue;
    }
    try {
      tensors.add(name, tensor_of(entry, sizeof length + length, size));
    } catch (const std::exception& wrong) {
      damaged(file, fmt::format("tensor {}: {}", name, wrong.what()));
    }
  }
  return tensors;
}

std::vector<std::string> texts_of_list(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> texts;
  if (!list.is_array()) return texts;
  for (const auto& entry : list) {
    if (!entry.is_string()) return {};
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

}  // namespace lockstep
