// An evaluation gives the same counts on any number of ranks, and on a device whose memory is not
// the host's. So does a classifier.
#include "apps/evaluate/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "apps/evaluate/classifier.h"
#include "apps/step/replica_check.h"
#include "net/layers.h"
#include "src/base/text.h"
#include "src/data/augment.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/device_pages.h"
#include "tests/support/files.h"
#include "tests/support/layer_list.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;

/// Images of noise: by default four whole batches for an evaluation, and a part.
class Noise : public StoredNoise {
 public:
  /// `stored`: a device can hold the images.
  explicit Noise(bool stored, std::int64_t size = 4 * Evaluation::kBatch + 17)
      : StoredNoise(size, kCroppedImages, stored) {}
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    if (damage() != nullptr && damaged(index)) throw DamagedSample("damaged", "Replace it");
    StoredNoise::read(index, random, out, type);
  }
  /// With a log, which skips them.
  static bool damaged(std::int64_t index) { return index % 100 == 3 || index / 100 == 2; }
};

NamedLayers small_layers(Shape, int classes) {
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f};
  return layers_of("conv", convolution(4, 3, true, init), "norm", response_norm(2, 1, 0.1f, 0.75f),
                   "pool", max_pool(3, 2, true), "batch_norm", batch_norm(), "dropout",
                   dropout(0.5f), "logits", dense(classes, false, init));
}

constexpr std::size_t kMistakes = 7;
constexpr auto kToTheEnd = [](double) { return true; };
const ModelEntry kEntry{"small", "", crop_shape(), false, small_layers};

/// A checkpoint of initial weights on rank 0, with an average that differs.
class Evaluations : public testing::Test {
 protected:
  void SetUp() override {
    if (world().comm().rank() != 0) return;
    const auto device = make_cpu_device(1);
    const Model model(*device, kEntry, crop_shape(), kClasses, Type::f32, false);
    std::vector<float> weights(model.layout().count), average(weights);
    initialize(model.layout(), 1, weights.data());
    initialize(model.layout(), 2, average.data());
    const TemporaryDirectory folder;
    checkpoint_.emplace(save_checkpoint(folder.path(), model.layout(),
                                        {{"parameters", weights.data()}, {"ema", average.data()}},
                                        {}));
  }

  const Checkpoint* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }
  const Comm comm_ = world().comm();

 private:
  std::optional<Checkpoint> checkpoint_;
};

void expect_same(const EvaluationResult& is, const EvaluationResult& wanted) {
  EXPECT_EQ(is.score, wanted.score);
  EXPECT_EQ(is.confusion, wanted.confusion);
  EXPECT_EQ(is.probabilities, wanted.probabilities);
  if (world().comm().rank() == 0) {
    EXPECT_EQ(is.mistakes, wanted.mistakes);
  }
}

TEST_F(Evaluations, GiveTheCountsOfOneRankOnTheCpu) {
  const auto cpu = make_cpu_device(1), later = make_async_device();
  for (const auto& [stored, type, views] : {std::tuple{true, Type::f32, false},
                                            {false, Type::f32, false},
                                            {true, Type::f32, true},
                                            {true, Type::bf16, false},
                                            {false, Type::bf16, true}}) {
    if (!cpu->traits().computes(type)) continue;
    SCOPED_TRACE(fmt::format("{} {} {}", stored, name_of(type), views));
    const Noise data(stored);
    // All ranks load together, then the first of them evaluate alone.
    const auto evaluated = [&](Device& device, const Comm& comm, const char* section) {
      Evaluation evaluation(device, kEntry, data, type, views);
      evaluation.find_mistakes(kMistakes);
      evaluation.count_probabilities();
      float* const weights = evaluation.load(comm_, checkpoint(), section);
      double last = 0;
      const auto result = evaluation.run(comm, weights, [&](double share) {
        EXPECT_GT(share, last);
        last = share;
        return true;
      });
      EXPECT_EQ(last, 1);
      return *result;
    };
    const EvaluationResult wanted = evaluated(*cpu, alone_of(comm_), "parameters");
    EXPECT_EQ(wanted.score.samples, data.size());
    EXPECT_EQ(wanted.score.diverged, 0);
    ASSERT_EQ(wanted.mistakes.size(), kMistakes);
    for (const Mistake& mistake : wanted.mistakes) {
      EXPECT_EQ(mistake.label, data.label(mistake.sample));
      EXPECT_GE(wanted.mistakes.front().loss, mistake.loss);
    }
    expect_same(evaluated(*cpu, comm_, "parameters"), wanted);
    expect_same(evaluated(*later, comm_, "parameters"), wanted);
    EXPECT_NE(evaluated(*later, comm_, "ema").score.loss_sum(), wanted.score.loss_sum());
  }
}

TEST_F(Evaluations, WriteThePredictionsThatTheyCount) {
  const TemporaryDirectory folder;
  const std::filesystem::path file = folder / "predictions.csv";
  const std::vector<std::string> names{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  const auto cpu = make_cpu_device(1), later = make_async_device();
  // Writes the predictions on all ranks or on one. Returns the file on rank 0.
  const auto predict = [&](Device& device, const Comm& comm, const Noise& data, bool views,
                           EvaluationResult& result) {
    Evaluation evaluation(device, kEntry, data, Type::f32, views);
    float* const weights = evaluation.load(comm_, checkpoint(), "parameters");
    PredictionFile predictions(comm.rank() == 0 ? file : "", data, names);
    evaluation.write_predictions(predictions);
    result = *evaluation.run(comm, weights, kToTheEnd);
    if (comm.rank() != 0) return std::string();
    EXPECT_FALSE(std::filesystem::exists(file)) << "before it is complete";
    predictions.commit();
    std::string text = contents(file);
    std::filesystem::remove(file);
    return text;
  };
  Noise damaged(false);
  damaged.log_damage(std::make_shared<DamageLog>(/*skip=*/true, "Replace it"));
  EvaluationResult result;
  std::string wanted;
  for (const bool views : {true, false}) {
    for (const Noise& data : {damaged, Noise(false), Noise(true)}) {
      wanted = predict(*cpu, comm_, data, views, result);
      EXPECT_EQ(predict(*later, comm_, data, views, result), wanted);
      const std::string alone = predict(*cpu, alone_of(comm_), data, views, result);
      if (comm_.rank() != 0) continue;
      EXPECT_EQ(alone, wanted);
      const std::vector<std::string> lines = lines_of(wanted);
      std::int64_t row = 0;
      for (std::int64_t sample = 0; sample < data.size(); ++sample) {
        if (data.damage() != nullptr && Noise::damaged(sample)) continue;
        ASSERT_LT(++row, std::ssize(lines));
        EXPECT_EQ(split(lines[row], ',')[0], std::to_string(sample));
      }
      EXPECT_EQ(std::ssize(lines), row + 1);
      EXPECT_EQ(result.score.samples, row);
    }
  }
  if (comm_.rank() != 0) return;
  const std::vector<std::string> lines = lines_of(wanted);
  EXPECT_TRUE(lines[0].starts_with("sample,true,predicted,p(0),p(1),p(2),")) << lines[0];
  std::vector<std::int64_t> counts(kClasses * kClasses);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], ',');
    ASSERT_EQ(fields.size(), 3u + kClasses);
    EXPECT_EQ(fields[0], std::to_string(i - 1));
    ++counts[std::stoi(fields[1]) * kClasses + std::stoi(fields[2])];
    double sum = 0;
    for (int c = 0; c < kClasses; ++c) sum += std::stod(fields[3 + c]);
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_EQ(counts, result.confusion);
}

TEST_F(Evaluations, LeaveNoPredictionsOnAFullDisk) {
  const TemporaryDirectory folder;
  const auto cpu = make_cpu_device(1);
  const Noise data(true);
  const std::vector<std::string> names(kClasses, "name");
  put(folder / "predictions.csv", "before");
  {
    Evaluation evaluation(*cpu, kEntry, data, Type::f32);
    float* const weights = evaluation.load(comm_, checkpoint(), "parameters");
    PredictionFile predictions(comm_.rank() == 0 ? folder / "predictions.csv" : "", data, names);
    evaluation.write_predictions(predictions);
    const FileSizeLimit full(20'000);
    EXPECT_THROW(evaluation.run(comm_, weights, kToTheEnd), AgreedError);
  }
  if (comm_.rank() == 0) {
    const FileSizeLimit full(0);
    EXPECT_THROW(PredictionFile(folder / "predictions.csv", data, names), Error);
  }
  EXPECT_EQ(contents(folder / "predictions.csv"), "before");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Predictions, OfLogitsThatAreNotFinite) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  const Noise data(true);
  const PredictionFile predictions("", data, {"a", "b"});
  std::vector<float> logits{kNaN, kNaN, kNaN, 1, 1, kInf, 0, 0};
  const View view{logits.data(), Shape{4, 2}, Type::f32};
  std::string rows;
  const std::int64_t samples[] = {0, 11, 1, 10};
  const std::int64_t* sample = samples;
  for_each_row(view,
               [&](std::span<const double> row) { rows += predictions.row(data, *sample++, row); });
  EXPECT_EQ(rows, "0,a,a,nan,nan\n11,b,b,nan,nan\n1,b,b,nan,nan\n10,a,a,0.5,0.5\n");
  EXPECT_EQ(csv_field("a b"), "a b");
  EXPECT_EQ(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
  EXPECT_EQ(csv_field("a\rb"), "\"a\rb\"");
}

TEST_F(Evaluations, RepeatABatchAsAGraph) {
  const Noise data(true, 2 * Evaluation::kDeviceBatch + 17);
  int graphs = 0;
  const auto evaluated = [&](const std::unique_ptr<Device>& device, int times) {
    Evaluation evaluation(*device, kEntry, data, Type::f32);
    evaluation.find_mistakes(kMistakes);
    float* const weights = evaluation.load(comm_, checkpoint(), "parameters");
    for (; times > 1; --times) evaluation.run(alone_of(comm_), weights, kToTheEnd);
    return *evaluation.run(alone_of(comm_), weights, kToTheEnd);
  };
  expect_same(evaluated(make_async_device({.captured = &graphs}), 2),
              evaluated(make_cpu_device(1), 1));
  EXPECT_EQ(graphs, 1);
}

TEST_F(Evaluations, StopOnAllRanksIfOneStops) {
  const auto cpu = make_cpu_device(1), later = make_async_device();
  const Noise data(true);
  for (Device* const device : {later.get(), cpu.get()}) {
    Evaluation evaluation(*device, kEntry, data, Type::f32);
    float* const weights = evaluation.load(comm_, checkpoint(), "parameters");
    int rounds = 0;
    const auto stopped = evaluation.run(comm_, weights, [&](double) {
      ++rounds;
      return comm_.rank() != comm_.size() - 1;
    });
    EXPECT_FALSE(stopped);
    EXPECT_EQ(rounds, 1);
    EXPECT_EQ(evaluation.run(comm_, weights, kToTheEnd)->score.samples, data.size());
  }
}

TEST_F(Evaluations, ReturnTheCpusFirstBatch) {
  const Noise data(true);
  const auto first_batch = [&](const std::unique_ptr<Device>& device) {
    Evaluation evaluation(*device, kEntry, data, Type::f32);
    evaluation.run(comm_, evaluation.load(comm_, checkpoint(), "parameters"), kToTheEnd);
    return evaluation.first_batch();
  };
  const Answers wanted = first_batch(make_cpu_device(1)), is = first_batch(make_async_device());
  EXPECT_EQ(is.samples, wanted.samples);
  EXPECT_EQ(is.labels, wanted.labels);
  EXPECT_EQ(is.logits, wanted.logits);
  EXPECT_EQ(is.logits.size(), static_cast<std::size_t>(Evaluation::kBatch * kClasses));
}

TEST_F(Evaluations, CannotUseWeightsInMemoryOfTheHost) {
  if (!AsyncOptions::kGuard) GTEST_SKIP() << "skipped: the checks would hide races";
  const auto device = make_async_device();
  const Noise data(true);
  Evaluation evaluation(*device, kEntry, data, Type::f32);
  std::vector<float> weights(evaluation.model().layout().count);
  // A rank without a batch learns of the others' PointerFault.
  EXPECT_THROW(evaluation.run(comm_, weights.data(), kToTheEnd), AgreedError);
}

TEST_F(Evaluations, AClassifierGivesTheCpusProbabilities) {
  const Noise data(true);
  const auto classify = [&](const std::unique_ptr<Device>& device) {
    Classifier classifier(*device, kEntry, crop_shape(), kClasses, 5, Type::f32);
    classifier.load(
        load_on_devices(comm_, checkpoint(), classifier.model().layout(), "parameters", *device));
    for (int i = 0; i < 5; ++i) data.read(i, nullptr, classifier.sample(i), Type::f32);
    return classifier.classify(4);
  };
  const std::vector<double> wanted = classify(make_cpu_device(1));
  EXPECT_EQ(classify(make_async_device()), wanted);
  ASSERT_EQ(wanted.size(), 4u * kClasses);
  EXPECT_NE(wanted[0], wanted[kClasses]);
}

}  // namespace
}  // namespace lockstep
