// Writes the network of a checkpoint for other programs: ONNX or safetensors.

#include <array>
#include <filesystem>

#include "apps/record/checkpoint_use.h"
#include "apps/use/run_use.h"
#include "net/export/export.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/image/photos.h"
#include "src/data/normalisation.h"
#include "src/data/text/words.h"
#include "src/files/file.h"
#include "src/report/report.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

struct ExportOptions : CheckpointChoice {
  std::string file;
  OnnxOptions onnx;
};

void declare(OptionRows& rows, ExportOptions& o) {
  o.CheckpointChoice::declare(rows);
  rows.text("OUT", o.file, "",
            "New file, of the name OUT.onnx or OUT.safetensors\n"
            "ONNX contains the graph and the weights, safetensors only the weights.")
      .example("first.onnx");
  rows.optional_number("--batch", o.onnx.batch, Bounds::at_least(1, 1 << 20),
                       "Samples per batch of an ONNX file [any number]")
      .example("64");
  rows.number("--opset", o.onnx.opset, Bounds::at_least(kLeastOpset, kMostOpset),
              "Version of ONNX's operators\n"
              "Older programs need a small version. The operators are the same in all of them.");
}

bool is_onnx(const ExportOptions& o) {
  return std::filesystem::path(o.file).extension() == ".onnx";
}

/// Before any work: whether the file can be written.
void check_output(const ExportOptions& o) {
  if (!is_onnx(o) && std::filesystem::path(o.file).extension() != ".safetensors")
    fail_usage("{} ends neither in .onnx nor in .safetensors. Choose one of them.", o.file);
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::symlink_status(o.file, none)))
    fail_usage("{} exists. Use another name.", o.file);
  require_replaceable(o.file);
  const std::filesystem::path file = o.file;  // exports that were killed left its temporaries
  remove_stale_temporaries(file.has_parent_path() ? file.parent_path() : ".",
                           file.filename().string());
}

/// Mean and deviation for pixels from 0 to 1, as PyTorch's Normalize takes them.
nlohmann::ordered_json unit_values(const std::array<float, 4>& values, std::int64_t channels) {
  nlohmann::ordered_json list = nlohmann::json::array();
  for (std::int64_t c = 0; c < channels; ++c) list.push_back(values[c] / 255.0);
  return list;
}

/// Metadata of the file: checkpoint, names of the classes, and preprocessing.
std::map<std::string, std::string> metadata_of(const EvaluatedCheckpoint& subject,
                                               const SampleFormat& format) {
  std::map<std::string, std::string> metadata{
      {"model", subject.model},
      {"weights", subject.weights},
      {"step", std::to_string(subject.step)},
      {"class_names", json_text(subject.images.class_names)}};
  if (!subject.images.vocabulary.empty()) {
    metadata["vocabulary"] = json_text(lines_of(subject.images.vocabulary));
    metadata["words"] = kWordRule;
    metadata["length"] = std::to_string(format.size.width);
  }
  if (format.kind == SampleFormat::Kind::words) return metadata;
  const ImageSize& size = format.size;
  metadata["image_size"] = json_text({size.height, size.width});
  metadata["crop"] = fmt::format("{:g}", seen_share(format));
  metadata["filter"] = "bilinear, antialiased";
  metadata["channels"] = size.channels == 3 ? "RGB" : std::to_string(size.channels);
  if (!is_normalised(format)) return metadata;
  metadata["mean"] = json_text(unit_values(format.normalisation.mean, size.channels));
  metadata["std"] = json_text(unit_values(format.normalisation.deviation, size.channels));
  return metadata;
}

TrainedNetwork network_of(const Checkpoint& checkpoint, const EvaluatedCheckpoint& subject) {
  const SampleFormat format = sample_format(subject);
  // No kernel runs: the model gives the layers and the places of the weights.
  const auto device = make_cpu_device(1);
  const Model model(*device, subject.entry(), format.shape(),
                    static_cast<int>(subject.images.class_names.size()), Type::f32,
                    /*training=*/false);
  TrainedNetwork network{.name = subject.model,
                         .layout = model.layout(),
                         .layers = model.layers(),
                         .parameters = std::vector<float>(model.layout().count),
                         .format = format,
                         .metadata = metadata_of(subject, format)};
  checkpoint.load(network.layout,
                  {{.name = subject.section(), .arena = network.parameters.data()}});
  return network;
}

int run(World& world, const ExportOptions& o) {
  const Comm comm = world.comm();
  check_output(o);
  const ChosenCheckpoint chosen =
      open_checkpoint(o, [&](const std::string& text) { o.complain(text); });
  const EvaluatedCheckpoint subject = describe(comm, chosen.checkpoint.get(), o.weights);
  const TrainedNetwork network = network_of(*chosen.checkpoint, subject);
  const std::string bytes = is_onnx(o) ? onnx_file(network, o.onnx) : safetensors_file(network);
  create_file(o.file, bytes);
  chosen.print();
  Console().line(fmt::format("{}: {}, {} weights of step {}, {:.1f} MiB", o.file, subject.model,
                             subject.weights, subject.step,
                             static_cast<double>(bytes.size()) / (1 << 20)));
  return kExitSuccess;
}

}  // namespace

int export_model_main(int argc, char** argv, const UseProgram& program) {
  return run_use<ExportOptions>(
      argc, argv, program,
      {program.name, "Writes the network of a checkpoint as ONNX or safetensors",
       program.name + " [OPTIONS] RUN OUT"},
      declare, run);
}

}  // namespace lockstep
