// The menu of models. A model is one file in net/models and two words here.

#include <array>

#include "net/model.h"
#include "src/base/check.h"

namespace lockstep {

ModelEntry tutorial();
ModelEntry deep_mnist();
ModelEntry resnet_small();
ModelEntry resnet20();
ModelEntry resnet56();
ModelEntry resnet18();
ModelEntry tower();
ModelEntry keras();
ModelEntry reuters_model();
ModelEntry reuters_as_published();
ModelEntry airbench94();

std::span<const ModelEntry> models() {
  static const std::array menu{
      tutorial(),  deep_mnist(), resnet_small(), resnet20(),      resnet56(),
      resnet18(),  tower(),      keras(),        reuters_model(), reuters_as_published(),
      airbench94()};
  return menu;
}

bool ModelEntry::fits(Shape other) const {
  return other.with_batch(1) == sample || (any_image && other.rank() == 4);
}

void require_fit(const ModelEntry& entry, Shape sample) {
  if (entry.fits(sample)) return;
  std::vector<std::string_view> fitting;
  for (const ModelEntry& other : models()) {
    if (other.fits(sample)) fitting.push_back(other.name);
  }
  fail_usage(
      "the model {} takes samples of {}{}, and this data set has {}: {}", entry.name,
      entry.sample.text(), entry.any_image ? " and other images" : "", sample.with_batch(1).text(),
      fitting.empty()
          ? "no model of --list takes those; choose another --dataset"
          : fmt::format("say --model {}, or choose another --dataset", fmt::join(fitting, " or ")));
}

}  // namespace lockstep
