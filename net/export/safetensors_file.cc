#include <nlohmann/json.hpp>
#include <ranges>

#include "net/export/export.h"
#include "net/pytorch_names.h"
#include "src/base/round_up.h"

namespace lockstep {

std::string safetensors_file(const TrainedNetwork& network) {
  nlohmann::ordered_json header;
  header["__metadata__"] = network.metadata;
  header["__metadata__"]["format"] = "pt";
  std::size_t bytes = 0;
  // The arena begins with the last layer, and a file with the first.
  const auto parameters = std::views::reverse(network.layout.parameters);
  for (const Parameter& parameter : parameters) {
    const std::size_t end = bytes + parameter.shape.count() * sizeof(float);
    header[pytorch_name(parameter.name)] = {
        {"dtype", "F32"}, {"shape", pytorch_shape(parameter)}, {"data_offsets", {bytes, end}}};
    bytes = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Spaces at the end of the header align the numbers behind it to 8 bytes.
  text.resize(round_up(text.size(), sizeof(std::uint64_t)), ' ');
  const std::uint64_t length = text.size();
  std::string file;
  file.reserve(sizeof length + length + bytes);
  file.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  for (const Parameter& parameter : parameters) {
    const std::vector<float> values = to_pytorch(parameter, network.values(parameter));
    file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return file;
}

}  // namespace lockstep
