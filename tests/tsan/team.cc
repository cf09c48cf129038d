// Bodies whose rows 32 threads share, as a warp does, under ThreadSanitizer and against one thread
// alone: the team itself, and the bodies outside of the layers (those are in layers.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <vector>

#include "net/clip.h"
#include "net/layers.h"
#include "net/loss.h"
#include "net/optimizer.h"
#include "net/sizes/shrink.h"
#include "src/base/random.h"
#include "src/data/augment.h"
#include "src/data/resident.h"
#include "src/data/sets/mnist.h"
#include "src/device/cuda/layers.h"
#include "src/device/cuda/rows.h"
#include "src/device/each.h"
#include "tests/support/test_dataset.h"
#include "tests/support/update.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

/// Calls `work` with each_row() shared by a team.
template <class Work>
void shared(Work work) {
  host_team = true;
  work();
  host_team = false;
}

struct Joined {
  std::int64_t sum, highest, lowest, lanes;
};

struct JoinLanes {
  const double* values;
  Joined* to;
  template <class Team>
  void operator()(std::int64_t row, Team team) const {
    const auto own = static_cast<std::int64_t>(values[row * team.lanes + team.lane]);
    const Joined joined{team.sum(own), team.max(own), team.min(own), team.lanes};
    if (team.lane == 0) to[row] = joined;
  }
};

TEST(Team, JoinsWhatItsLanesSay) {
  constexpr int kRows = 5, kLanes = 32;
  std::vector<double> values;
  for (int i = 0; i < kRows * kLanes; ++i) values.push_back((i * 37) % 101 - 50);
  std::vector<Joined> joined(kRows);
  HostStream stream;
  shared([&] { each_row(stream, kRows, kLanes, JoinLanes{values.data(), joined.data()}); });
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row) * kLanes;
    std::int64_t sum = 0;
    for (auto value = first; value != first + kLanes; ++value)
      sum += static_cast<std::int64_t>(*value);
    EXPECT_EQ(joined[row].sum, sum);
    EXPECT_EQ(joined[row].highest, *std::max_element(first, first + kLanes));
    EXPECT_EQ(joined[row].lowest, *std::min_element(first, first + kLanes));
    EXPECT_EQ(joined[row].lanes, kLanes);
  }
}

/// Reads in one lane what another has written, with nothing but a sum in between.
struct Racing {
  float* values;
  float* to;
  template <class Team>
  void operator()(std::int64_t, Team team) const {
    values[team.lane] = 1;
    if (team.sum(1) == team.lanes) to[team.lane] = values[(team.lane + 1) % team.lanes];
  }
};

void race() {
  std::vector<float> values(32), to(32);
  HostStream stream;
  shared([&] { each_row(stream, 1, 32, Racing{values.data(), to.data()}); });
  std::exit(0);  // with the sanitizer's own code where it has reported
}

TEST(TeamDeathTest, ARaceBetweenLanesIsSeen) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(race(), "data race");
}

TEST(Team, ScoresAsOneThreadDoes) {
  constexpr std::int64_t kRows = 24;
  for (const std::int64_t classes : {3, 10, 100}) {
    Random random(5, Purpose::generate, 0, static_cast<std::uint32_t>(classes));
    std::vector<float> logits;
    for (std::int64_t i = 0; i < kRows * classes; ++i) logits.push_back(random.uniform(-4, 4));
    logits[1] = std::numeric_limits<float>::quiet_NaN();
    logits[classes] = std::numeric_limits<float>::infinity();
    logits[2 * classes] = logits[2 * classes + 1];
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < kRows; ++i)
      labels.push_back(static_cast<std::int32_t>(i % classes));
    const auto judge = [&](Score& score, std::vector<std::int64_t>& confusion) {
      std::vector<float> gradient(logits.size());
      HostStream stream;
      softmax_cross_entropy(stream, {.logits = {logits.data(), {kRows, classes}, Type::f32},
                                     .labels = {labels.data(), {kRows}, Type::i32},
                                     .score = &score,
                                     .gradient = {gradient.data(), {kRows, classes}, Type::f32},
                                     .confusion = confusion.data()});
      return gradient;
    };
    Score alone, team;
    std::vector<std::int64_t> alone_table(classes * classes), team_table(alone_table.size());
    const std::vector<float> wanted = judge(alone, alone_table);
    std::vector<float> found;
    shared([&] { found = judge(team, team_table); });
    EXPECT_EQ(team_table, alone_table);
    EXPECT_EQ(team.samples, alone.samples);
    EXPECT_EQ(team.top1, alone.top1);
    EXPECT_EQ(team.top5, alone.top5);
    EXPECT_EQ(team.diverged, alone.diverged);
    const double loss = alone.finite_loss_sum();
    EXPECT_NEAR(team.finite_loss_sum(), loss, 1e-6 * loss);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != wanted[i]) continue;
      EXPECT_NEAR(found[i], wanted[i], 1e-6) << i;
    }
  }
}

TEST(Team, SumsThePenaltyAsOneThreadDoes) {
  Layout layout;
  layout.count = 16 * 1000;
  std::vector<float> parameters(layout.count), decays(1000);
  Random random(6, Purpose::generate, 0, 0);
  for (float& value : parameters) value = random.uniform(-1, 1);
  for (float& value : decays) value = random.uniform(-1, 1);
  std::vector<double> parts(penalty_parts(layout));
  double alone = 0, team = 0;
  HostStream stream;
  const auto sum = [&](double& total) {
    penalty(stream, layout, parameters.data(), decays.data(), parts.data(), &total);
  };
  sum(alone);
  shared([&] { sum(team); });
  EXPECT_GT(alone, 0);
  EXPECT_NEAR(team, alone, 1e-12 * alone);
}

TEST(Team, AddsUpTheGradientsOfWordsInTheirOrder) {
  constexpr std::int64_t kBatch = 3, kLength = 9, kWords = 20, kFeatures = 40;
  const auto device = make_cpu_device(1);
  lockstep::Setup setup(*device, Type::f32, true, false, "words");
  const auto layer = embedding(kWords, kFeatures);
  const Shape out = layer->setup(setup, {kBatch, kLength});
  std::vector<std::int32_t> words;
  for (std::int64_t i = 0; i < kBatch * kLength; ++i)
    words.push_back(static_cast<std::int32_t>(i * 7 % kWords));
  std::vector<float> dy(out.count()), vectors(kWords * kFeatures);
  Random random(7, Purpose::generate, 0, 0);
  for (float& value : dy) value = random.uniform(-1, 1);
  const auto gradient = [&] {
    std::vector<float> result(vectors.size(), std::numeric_limits<float>::quiet_NaN());
    const View weights[] = {{vectors.data(), {kWords, kFeatures}, Type::f32}},
               gradients[] = {{result.data(), {kWords, kFeatures}, Type::f32}};
    HostStream stream;
    LayerCall call;
    call.stream = &stream;
    call.weights = weights;
    call.gradients = gradients;
    layer->backward(call, {words.data(), {kBatch, kLength}, Type::i32}, {},
                    {dy.data(), out, Type::f32}, {});
    return result;
  };
  const std::vector<float> alone = gradient();
  std::vector<float> team;
  shared([&] { team = gradient(); });
  EXPECT_EQ(team, alone);
}

template <class T>
std::vector<float> batch_of(const ResidentSet& set, Shape shape, const Mix* mixes = nullptr) {
  std::vector<T> images(shape.count());
  std::vector<std::int32_t> labels(shape[0]);
  std::vector<std::int32_t> others(labels.size());
  std::vector<float> weights(labels.size());
  HostStream stream;
  set.enqueue_batch(stream,
                    {.offset = 9,
                     .augment = true,
                     .seed = 5,
                     .pixels = {{mixes == nullptr ? 0 : 4}, {}},
                     .mixes = mixes},
                    {{images.data(), shape, type_of<T>},
                     {labels.data(), {shape[0]}, Type::i32},
                     {others.data(), {shape[0]}, Type::i32},
                     {weights.data(), {shape[0]}, Type::f32}});
  std::vector<float> all(images.begin(), images.end());
  all.insert(all.end(), labels.begin(), labels.end());
  all.insert(all.end(), others.begin(), others.end());
  all.insert(all.end(), weights.begin(), weights.end());
  return all;
}

TEST(Team, MakesTheSamplesOfOneThreadBitForBit) {
  const auto device = make_cpu_device(1);
  std::vector<Mix> mixes(11);
  for (std::size_t i = 0; i < mixes.size(); ++i)
    mixes[i] = {static_cast<std::uint32_t>(i * 3 % 11), 0.09f * static_cast<float>(i)};
  const SampleFormat whole{.kind = SampleFormat::Kind::images,
                           .size = {5, 9, 3},
                           .normalisation = {{99, 98, 97}, {50, 40, 30, 1}},
                           .moved = true,
                           .padding = 2};
  for (const SampleFormat& format : {kCroppedImages, kDigitFormat, whole}) {
    const StoredNoise data(11, format);
    const ResidentSet set(*device, data);
    const Shape shape = data.sample_shape().with_batch(4);
    const std::vector<float> wide = batch_of<float>(set, shape),
                             narrow = batch_of<Bfloat16>(set, shape),
                             mixed = batch_of<float>(set, shape, mixes.data());
    EXPECT_NE(mixed, wide);
    shared([&] {
      EXPECT_EQ(batch_of<float>(set, shape), wide);
      EXPECT_EQ(batch_of<float>(set, shape, mixes.data()), mixed);
      EXPECT_EQ(batch_of<Bfloat16>(set, shape), narrow);
    });
  }
}

/// Values in [-1, 1), those of `seed`, as T.
template <class T>
std::vector<T> noise(Shape shape, std::uint32_t seed) {
  Random random(8, Purpose::generate, 0, seed);
  std::vector<T> values;
  for (std::int64_t i = 0; i < shape.count(); ++i) values.push_back(random.uniform(-1, 1));
  return values;
}
template <class T>
View view_of(std::vector<T>& values, Shape shape) {
  return {values.data(), shape, type_of<T>};
}

/// Expects `work`, which fills a vector, to fill it alike alone and by a team, within `tolerance`.
template <class Work>
void expect_alike(double tolerance, Work work) {
  const auto alone = work();
  auto team = alone;
  shared([&] { team = work(); });
  ASSERT_EQ(team.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    ASSERT_NEAR(static_cast<float>(team[i]), static_cast<float>(alone[i]), tolerance) << i;
  }
}

template <class T>
void normalize(double tolerance) {
  const Shape x_shape{2, 7, 6, 40};
  HostStream stream;
  std::vector<T> x = noise<T>(x_shape, 1);
  std::vector<T> dnorm = noise<T>(x_shape, 3);
  const ResponseNormSpec norm{.input = {.x = x_shape, .type = type_of<T>},
                              .radius = 4,
                              .bias = 1,
                              .alpha = 0.1f,
                              .beta = 0.75f};
  expect_alike(tolerance, [&] {
    const auto plan = cuda::make_response_norm(norm);
    std::vector<T> y(x.size()), dx(x.size());
    plan->forward(stream, view_of(x, x_shape), view_of(y, x_shape));
    std::vector<std::byte> scratch(plan->scratch_bytes());
    plan->backward(stream, view_of(x, x_shape), view_of(dnorm, x_shape), view_of(dx, x_shape),
                   scratch.data());
    y.insert(y.end(), dx.begin(), dx.end());
    return y;
  });
}

TEST(Team, NormalizesAsOneThreadDoes) {
  normalize<float>(1e-6);
  normalize<Bfloat16>(1e-2);
}

TEST(Team, SumsTheRowsOfGradientsAsOneThreadDoes) {
  const Shape shape{130, 48}, sums_shape{48};
  HostStream stream;
  std::vector<float> rows = noise<float>(shape, 4);
  expect_alike(1e-5, [&] {
    std::vector<float> sums(48);
    std::vector<std::byte> scratch(cuda::sum_rows_bytes(130, 48));
    cuda::sum_rows(stream, view_of(rows, shape), view_of(sums, sums_shape), scratch.data());
    return sums;
  });
}

TEST(Team, ClipsGradientsAsOneThreadDoes) {
  Layout layout;
  Parameter weights;
  weights.shape = {5000};
  weights.range = {layout.count, 5000};
  layout.parameters.push_back(weights);
  layout.count += Layout::aligned(5000);
  const auto device = make_cpu_device(1);
  HostStream stream;
  const GradientClip clip(*device, layout, 1);
  const std::vector<float> gradients = noise<float>({layout.count}, 5);
  expect_alike(1e-6, [&] {
    UpdateRates now;
    clip.enqueue(stream, gradients.data(), &now);
    return std::vector<float>{now.scale};
  });
}

TEST(Team, StepsLayerwiseOptimizersAsOneThreadDoes) {
  const Layout layout = one_parameter({12, 3, 3, 5}, 0);
  const auto device = make_cpu_device(1);
  HostStream stream;
  for (const char* name : {"lamb", "lars", "muon"}) {
    SCOPED_TRACE(name);
    expect_alike(1e-4, [&] {
      const auto optimizer = make_optimizer(name, {});
      optimizer->plan(*device, layout);
      Arenas arenas(layout, *optimizer);
      arenas.fill(layout);
      const UpdateRates now = rates_of(*optimizer, 1);
      update(stream, layout, {0, layout.count}, *optimizer, arenas.state(), &now);
      return arenas.parameters;
    });
  }
}

TEST(Team, MultipliesMatricesAsOneThreadDoes) {
  constexpr std::int64_t kRows = 3, kInner = 70, kColumns = 5;
  HostStream stream;
  std::vector<float> a = noise<float>({kRows, kInner}, 6), b = noise<float>({kInner, kColumns}, 7);
  const auto plan =
      cuda::make_row_product({.count = 1, .rows = kRows, .columns = kColumns, .inner = kInner});
  expect_alike(1e-4, [&] {
    std::vector<float> c(kRows * kColumns);
    std::vector<std::byte> scratch(plan->scratch_bytes());
    plan->run(stream, view_of(a, {1, kRows, kInner}), view_of(b, {1, kInner, kColumns}),
              view_of(c, {1, kRows, kColumns}), scratch.data());
    return c;
  });
}

TEST(Team, ShrinksImagesAsOneThreadDoes) {
  const Shape shape{2, 9, 7, 3}, small{2, 4, 5, 3};
  HostStream stream;
  std::vector<float> images = noise<float>(shape, 9);
  expect_alike(0, [&] {
    std::vector<float> shrunk(small.count());
    shrink(stream, view_of(images, shape), view_of(shrunk, small));
    return shrunk;
  });
}

/// Every file with a body for rows is one that these tests or those of the layers run.
TEST(Team, WalksEveryBodyOfTheHouse) {
  const std::set<std::string> here = {"net/clip.cc",
                                      "net/loss.cc",
                                      "net/optimizer.cc",
                                      "net/optimizers/lamb.cc",
                                      "net/optimizers/lars.cc",
                                      "net/optimizers/muon.cc",
                                      "net/sizes/shrink.cc",
                                      "src/data/samples.cc",
                                      "src/device/cuda/product.cc",
                                      "src/device/cuda/response_norm.cc",
                                      "src/device/cuda/rows.cc"};
  const std::filesystem::path root(SOURCE_DIR);
  int files = 0;
  for (const char* folder : {"src", "net", "collectives", "apps"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string file = std::filesystem::relative(entry.path(), root).generic_string();
      if (entry.path().extension() != ".cc" || file.rfind("src/device/cpu/", 0) == 0) continue;
      std::ifstream in(entry.path());
      const std::string text(std::istreambuf_iterator<char>(in), {});
      if (text.find("each_row(") == std::string::npos) continue;
      ++files;
      EXPECT_TRUE(file.rfind("net/layers/", 0) == 0 || here.count(file) > 0)
          << file << " has rows that no team has shared";
    }
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace lockstep
