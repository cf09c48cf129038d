// Prints the classes of image files by a trained checkpoint.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/record/checkpoint_use.h"
#include "apps/run/classifier.h"
#include "apps/run/run_setup.h"
#include "apps/step/placement.h"
#include "apps/step/replica_check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/photos.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

struct ClassifyOptions : CheckpointUse {
  std::vector<std::string> files;
  bool json = false;
  int top = 5, batch = 16;
};

void declare(OptionRows& rows, ClassifyOptions& o) {
  o.CheckpointUse::declare(rows);
  rows.list("FILES", o.files, "",
            "Image files, folders of them, or - for names on standard input\n"
            "Formats: JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF.");
  rows.number("--top", o.top, Bounds::at_least(1), "Number of most probable classes to print");
  rows.flag("--json", o.json, "One JSON object per file instead of text");
  rows.number("--batch", o.batch, Bounds::at_least(1, 4096), "Images per batch");
}

void complain(const std::string& text) { print_error(fmt::format("classify: {}\n", text)); }

/// The files that the user names, in that order. Folders are replaced by their image files.
std::vector<std::string> named_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& name) {
    std::error_code unreadable;
    if (!std::filesystem::is_directory(name, unreadable)) return files.push_back(name);
    for (const FoundFile& file : files_of_class(name))
      if (has_image_name(file.name)) files.push_back(std::filesystem::path(name) / file.name);
  };
  for (const std::string& name : names) {
    if (name != "-") {
      add(name);
      continue;
    }
    for (std::string line; std::getline(std::cin, line);) {
      if (line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) add(line);
    }
  }
  return files;
}

std::unique_ptr<Dataset> images_of(const std::vector<std::string>& files,
                                   const EvaluatedCheckpoint& checkpoint) {
  const SampleFormat format = sample_format(checkpoint);
  require(format.kind != SampleFormat::Kind::words,
          "{} was trained on words, and classify needs images. Use evaluate.", checkpoint.file);
  const int classes = static_cast<int>(checkpoint.images.class_names.size());
  const std::vector<std::int32_t> labels(files.size());
  return images_for_use({{}, files, labels, classes}, format);
}

/// One line for a file: the most probable classes.
std::string line_of(const std::string& file, const std::vector<std::string>& classes,
                    const double* probabilities, const ClassifyOptions& o) {
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return probabilities[a] > probabilities[b];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(o.top)));
  if (o.json) {
    nlohmann::ordered_json object{{"file", file}, {"classes", nlohmann::json::array()}};
    for (const std::size_t i : order)
      object["classes"].push_back({{"name", classes[i]}, {"probability", probabilities[i]}});
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::vector<std::string> parts;
  for (const std::size_t i : order)
    parts.push_back(fmt::format("{} {:.2f} %", one_line(classes[i]), 100 * probabilities[i]));
  return fmt::format("{}: {}", one_line(file), fmt::join(parts, ", "));
}

/// Prints one line for each file. False: at least one was no image.
bool classify(const std::vector<std::string>& files, const Dataset& images,
              const std::vector<std::string>& classes, Classifier& classifier,
              const ClassifyOptions& o) {
  bool all = true;
  Console console;
  std::vector<std::string> batch;
  const auto finish = [&] {
    const std::vector<double> probabilities = classifier.classify(std::ssize(batch));
    for (std::size_t i = 0; i < batch.size(); ++i)
      console.line(line_of(batch[i], classes, &probabilities[i * classes.size()], o));
    batch.clear();
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    try {
      images.read(static_cast<std::int64_t>(i), nullptr, classifier.sample(std::ssize(batch)),
                  classifier.model().input_type());
      batch.push_back(files[i]);
    } catch (const Error& error) {
      complain(error.what());
      all = false;
    }
    if (std::ssize(batch) == o.batch) finish();
  }
  if (!batch.empty()) finish();
  return all;
}

int run(World& world, const ClassifyOptions& o) {
  const Comm comm = world.comm();
  Placement placement = place(comm, o.threads);
  const std::unique_ptr<Device> device = make_device(comm, o.device, {}, placement);
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(o.checkpoint, complain);
  const EvaluatedCheckpoint subject = describe(comm, checkpoint.get(), o.weights);
  const std::vector<std::string> files = named_files(o.files);
  if (files.empty())
    fail_usage("FILES contains no image files. Pass image files or folders of them.");
  const std::unique_ptr<Dataset> images = images_of(files, subject);
  const Type type = o.type(subject);
  require_precision(*device, type);
  Classifier classifier(*device, subject.entry(), images->sample_shape(), images->classes(),
                        o.batch, type);
  classifier.load(load_on_devices(comm, checkpoint.get(), classifier.model().layout(),
                                  subject.section(), *device));
  return classify(files, *images, subject.images.class_names, classifier, o) ? kExitSuccess
                                                                             : kExitFailure;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  ClassifyOptions options;
  const ProgramText program{"classify", "Prints the classes of image files by a trained checkpoint",
                            "classify [OPTIONS] CHECKPOINT FILES..."};
  return run_or_print_help(
      argc, argv, "classify",
      reader_of(argc, argv, program, [&](OptionRows& rows) { declare(rows, options = {}); }),
      [&](World& world) { return run(world, options); }, Start::single);
}
