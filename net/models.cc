// The registry of models. A model is one file in net/models and one word in the list here.

#include "net/model.h"
#include "src/base/check.h"
#include "src/base/registry.h"

// In the order of --list.
#define LOCKSTEP_MODELS(row)                                                                      \
  row(tutorial) row(deep_mnist) row(resnet_small) row(resnet20) row(resnet56) row(resnet18_cifar) \
      row(tower) row(keras) row(reuters_model) row(reuters_as_published) row(airbench94)          \
          row(resnet18) row(resnet34) row(resnet50)

namespace lockstep {

LOCKSTEP_REGISTRY(ModelEntry, models, LOCKSTEP_MODELS)

bool ModelEntry::fits(Shape other) const {
  return other.with_batch(1) == sample || (any_image && other.rank() == 4);
}

void require_fit(const ModelEntry& entry, Shape sample) {
  if (entry.fits(sample)) return;
  std::vector<std::string_view> fitting;
  for (const ModelEntry& other : models()) {
    if (other.fits(sample)) fitting.push_back(other.name);
  }
  fail_usage("the model {} needs samples of {}{}, and this data set has {}. {}", entry.name,
             entry.sample.text(), entry.any_image ? " and other images" : "",
             sample.with_batch(1).text(),
             fitting.empty() ? "No model in --list accepts them. Choose another --dataset."
                             : fmt::format("Pass --model {}, or choose another --dataset.",
                                           fmt::join(fitting, " or ")));
}

}  // namespace lockstep
