// Every model on a device whose memory is not the host's and that sums in a GPU's order: no plan
// and no kernel receives a pointer to other memory, and the results are the CPU's within rounding.
#include <gtest/gtest.h>

#include <vector>

#include "src/base/random.h"
#include "src/base/table.h"
#include "tests/support/async_device.h"
#include "tests/support/device_array.h"
#include "tests/support/every_model.h"
#include "tests/support/initial_weights.h"
#include "tests/support/tensor.h"
#include "tests/support/written_ranges.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kBatch = 2;

struct Outcome {
  std::vector<float> logits, gradients;
};

Outcome outcome_on(Device& device, const ModelEntry& entry) {
  const auto stream = device.stream();
  Model model(device, entry, sample_of(entry).with_batch(kBatch), kClasses, Type::f32,
              /*training=*/true);
  const std::vector<float>& weights = initial_weights(entry.name, model.layout());
  const DeviceArray<float> parameters(device, *stream, weights),
      gradients(device, *stream, std::vector<float>(weights.size()));
  const DeviceArray<std::int64_t> position(device, *stream, {40});
  model.bind(parameters.data(), gradients.data());
  Random random(1, Purpose::generate, 0, 0);
  std::vector<float> pixels(model.input().count()), slopes(kBatch * kClasses);
  std::vector<std::int32_t> words(pixels.size());
  for (float& pixel : pixels) pixel = random.normal();
  for (std::int32_t& word : words) word = static_cast<std::int32_t>(random.below(300));
  for (float& slope : slopes) slope = random.uniform(-1, 1);
  const DeviceArray<float> images(device, *stream, pixels);
  const DeviceArray<std::int32_t> texts(device, *stream, words);
  View samples{images.data(), model.input(), model.input_type()};
  if (entry.words) samples.data = texts.data();
  const View logits = model.forward(*stream, samples, {.seed = 1, .position = position.data()});
  Outcome outcome{read_array<float>(device, *stream, logits.data, logits.count()), {}};
  write_array(device, *stream, slopes, model.logits_gradient().data);
  WrittenRanges ready(model.layout());
  model.backward(*stream, samples, ready);
  outcome.gradients = gradients.values();
  return outcome;
}

TEST_P(EveryModel, UsesOnlyMemoryOfItsDevice) {
  // Closing memory to the host takes seconds for large models; the tests of layers do it.
  const auto device =
      make_async_device({.guard_pages = false, .most_delay_us = 0, .lanes = 1 << 17});
  const Outcome found = outcome_on(*device, *GetParam()),
                wanted = outcome_on(*make_cpu_device(1), *GetParam());
  EXPECT_LT(relative_error(found.logits, wanted.logits), 1e-3);
  EXPECT_LT(relative_error(found.gradients, wanted.gradients), 0.1)
      << "roundings grow in deep networks";
}

}  // namespace
}  // namespace lockstep
