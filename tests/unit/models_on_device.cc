// Every model on a device whose memory is not the host's and that sums in a GPU's order: no plan
// and no kernel receives a pointer to other memory, and the results are the CPU's within rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "net/model.h"
#include "src/base/random.h"
#include "src/base/table.h"
#include "tests/support/async_device.h"
#include "tests/support/written_ranges.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kBatch = 4;

/// Images of photos' size would take minutes.
Shape sample_of(const ModelEntry& entry) {
  const bool large = entry.any_image && entry.sample[1] > 64;
  return large ? Shape{1, 64, 64, entry.sample[3]} : entry.sample;
}

/// Arrays of a device, and their copies in memory of the host.
class Arrays {
 public:
  explicit Arrays(Device& device) : device_(device), stream_(device.stream()) {}

  template <class T>
  Memory put(const std::vector<T>& values) {
    Memory memory = device_.allocate(values.size() * sizeof(T), Place::device);
    put(values, memory.get());
    return memory;
  }
  template <class T>
  void put(const std::vector<T>& values, void* to) {
    const Memory host = device_.allocate(values.size() * sizeof(T), Place::host);
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(host.get()));
    device_.copy(stream(), to, host.get(), values.size() * sizeof(T));
    stream().synchronize();
  }
  std::vector<float> get(const void* from, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    const Memory host = device_.allocate(bytes, Place::host);
    device_.copy(stream(), host.get(), from, bytes);
    stream().synchronize();
    const auto* values = reinterpret_cast<const float*>(host.get());
    return {values, values + count};
  }
  Stream& stream() { return *stream_; }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
};

struct Outcome {
  std::vector<float> logits, gradients;
};

Outcome outcome_on(Device& device, const ModelEntry& entry) {
  Arrays arrays(device);
  Model model(device, entry, sample_of(entry), kClasses, kBatch, Type::f32, /*training=*/true);
  const std::int64_t count = model.layout().count;
  std::vector<float> weights(count);
  initialize(model.layout(), 1, weights.data());
  const Memory parameters = arrays.put(weights),
               gradients = arrays.put(std::vector<float>(weights.size())),
               position = arrays.put(std::vector<std::int64_t>{40});
  model.bind(reinterpret_cast<float*>(parameters.get()), reinterpret_cast<float*>(gradients.get()));
  Random random(1, Purpose::generate, 0, 0);
  std::vector<float> pixels(model.input().count()), slopes(kBatch * kClasses);
  std::vector<std::int32_t> words(pixels.size());
  for (float& pixel : pixels) pixel = random.normal();
  for (std::int32_t& word : words) word = static_cast<std::int32_t>(random.below(300));
  for (float& slope : slopes) slope = random.uniform(-1, 1);
  const Memory samples = entry.words ? arrays.put(words) : arrays.put(pixels);
  const View images{samples.get(), model.input(), model.input_type()};
  const TrainingBatch batch{.seed = 1,
                            .position = reinterpret_cast<const std::int64_t*>(position.get())};
  const View logits = model.forward(arrays.stream(), images, batch);
  Outcome outcome{arrays.get(logits.data, logits.count()), {}};
  arrays.put(slopes, model.logits_gradient().data);
  WrittenRanges ready(model.layout());
  model.backward(arrays.stream(), images, ready);
  outcome.gradients = arrays.get(gradients.get(), count);
  return outcome;
}

/// |a - b| / |b|
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

class EveryModel : public testing::TestWithParam<const ModelEntry*> {};

TEST_P(EveryModel, UsesOnlyMemoryOfItsDevice) {
  // Closing memory to the host takes seconds for large models; the tests of layers do it.
  const auto device =
      make_async_device({.guard_pages = false, .most_delay_us = 0, .lanes = 1 << 17});
  const Outcome found = outcome_on(*device, *GetParam()),
                wanted = outcome_on(*make_cpu_device(1), *GetParam());
  const double logits = distance(found.logits, wanted.logits),
               gradients = distance(found.gradients, wanted.gradients);
  EXPECT_LT(logits, 1e-3);
  EXPECT_LT(gradients, 0.1) << "roundings grow in deep networks";
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn([] {
                           std::vector<const ModelEntry*> entries;
                           for (const ModelEntry& entry : models()) entries.push_back(&entry);
                           return entries;
                         }()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace lockstep
