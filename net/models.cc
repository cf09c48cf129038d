// The menu of models. A model is one file in net/models and two lines here.

#include <array>

#include "net/model.h"
#include "src/check.h"

namespace lockstep {

NamedLayers deep_mnist(Shape sample, int classes);
NamedLayers tutorial(Shape sample, int classes);

namespace {
const std::array kModels{
    ModelEntry{"tutorial",
               "the TensorFlow CIFAR-10 tutorial network: 2 convolutions, 3 dense layers, 1.07 M "
               "parameters",
               {1, 24, 24, 3},
               /*any_image=*/true,
               tutorial},
    ModelEntry{"deep_mnist",
               "the network of TensorFlow's tutorial Deep MNIST: 2 convolutions, 2 dense layers, "
               "3.27 M parameters",
               {1, 28, 28, 1},
               /*any_image=*/false,
               deep_mnist},
};
}  // namespace

std::span<const ModelEntry> models() { return kModels; }

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
