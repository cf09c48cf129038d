#include "apps/run/evaluated_checkpoint.h"

#include "apps/run/broadcast.h"
#include "apps/run/trained_data.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainedImages, class_names, normalisation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EvaluatedCheckpoint, file, dataset, model, precision, weights,
                                   data, images, step, seed)

namespace {

std::string weights_of(const Checkpoint& checkpoint, const std::string& weights) {
  const bool averaged = checkpoint.has("ema");
  if (weights == "ema" && !averaged) {
    fail_usage(
        "{} holds no averaged weights, because its run kept no moving average; pass --weights raw",
        checkpoint.file().string());
  }
  if (weights == "auto") return averaged ? "ema" : "raw";
  return weights;
}

EvaluatedCheckpoint describe(const Checkpoint& checkpoint, const std::string& weights) {
  const CheckpointMetadata& metadata = checkpoint.metadata();
  EvaluatedCheckpoint result;
  result.file = checkpoint.file().string();
  const auto text = [&](const char* name) {
    require(metadata.texts.contains(name),
            "{} does not name its {}: it was not written by a training program", result.file, name);
    return text_of(metadata, name);
  };
  result.dataset = text("dataset");
  result.model = text("model");
  result.precision = text("precision");
  result.weights = weights_of(checkpoint, weights);
  result.data = text_of(metadata, "data");
  result.images = {lines_of(text_of(metadata, kClassNames)), text_of(metadata, kNormalisation)};
  result.step = metadata.position.step;
  result.seed = metadata.position.seed;
  return result;
}

}  // namespace

EvaluatedCheckpoint describe(const Comm& comm, const Checkpoint* checkpoint,
                             const std::string& weights) {
  EvaluatedCheckpoint result;
  agree(comm, [&] {
    if (checkpoint) result = describe(*checkpoint, weights);
  });
  return broadcast_object(comm, result);
}

DatasetPair open_test_set(const EvaluatedCheckpoint& checkpoint, const std::string& directory,
                          std::vector<std::string>& notes) {
  const DatasetEntry& entry = find(datasets(), checkpoint.dataset);
  const bool generated = entry.files.empty();
  if (generated && !directory.empty())
    fail_usage("{} was trained on the generated set: leave --data out", checkpoint.file);
  if (!generated && directory.empty())
    fail_usage("{} was trained on {}: say --data DIR", checkpoint.file, checkpoint.dataset);
  const bool test_only = entry.open_test && !checkpoint.images.class_names.empty();
  DatasetPair data = test_only ? entry.open_test(directory, checkpoint.images)
                               : entry.open(directory, checkpoint.seed);
  normalise(*data.test, checkpoint.images.normalisation, checkpoint.file);
  if (entry.own && checkpoint.images.normalisation.empty()) {
    notes.push_back(fmt::format(
        "{} holds no normalisation, so the training images in {} give mean and deviation",
        checkpoint.file, directory));
  }
  // To score a checkpoint on other data is a choice, but never one that goes unseen.
  const std::string difference =
      checkpoint.data.empty() ? "" : first_other_file(checkpoint.data, data.identity, test_only);
  if (!difference.empty()) {
    notes.push_back(fmt::format("these are not the data that {} was trained with: {}",
                                checkpoint.file, difference));
  }
  if (checkpoint.images.class_names.size() == data.class_names.size())
    data.class_names = checkpoint.images.class_names;
  return data;
}

}  // namespace lockstep
