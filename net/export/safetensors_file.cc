#include <cstring>
#include <nlohmann/json.hpp>

#include "net/export/export.h"
#include "net/pytorch_names.h"
#include "src/base/round_up.h"

namespace lockstep {

std::string safetensors_file(const TrainedNetwork& network) {
  nlohmann::ordered_json header;
  header["__metadata__"] = network.metadata;
  header["__metadata__"]["format"] = "pt";
  std::size_t bytes = 0;
  const auto& parameters = network.layout.parameters;
  // The arena begins with the last layer, and a file with the first.
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const std::size_t end = bytes + parameter->shape.count() * sizeof(float);
    header[pytorch_name(parameter->name)] = {
        {"dtype", "F32"}, {"shape", pytorch_shape(*parameter)}, {"data_offsets", {bytes, end}}};
    bytes = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize(round_up(text.size(), sizeof(std::uint64_t)), ' ');
  const std::uint64_t length = text.size();
  std::string file(sizeof length + length + bytes, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, text.data(), length);
  auto* to = reinterpret_cast<float*>(file.data() + sizeof length + length);
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    to_pytorch(*parameter,
               {&network.parameters[parameter->range.begin],
                static_cast<std::size_t>(parameter->range.count)},
               to);
    to += parameter->range.count;
  }
  return file;
}

}  // namespace lockstep
