// Checkpoints: round trips, what is kept, and that neither damage nor another model's file is
// believed.
#include "net/checkpoint.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "src/base/random.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

Layout small_layout() {
  return lay_out(
      {{"dense/weights", {10, 7}}, {"dense/biases", {10}}, {"conv1/weights", {4, 5, 5, 3}}});
}

/// Any bits at all: NaNs with payloads, denormals, infinities.
std::vector<float> arena_of(const Layout& layout, std::uint32_t index) {
  Random random(1, Purpose::generate, 0, index);
  std::vector<float> arena;
  for (std::int64_t i = 0; i < layout.count; ++i)
    arena.push_back(std::bit_cast<float>(random.next()));
  return arena;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

/// `from` where a parameter lies, `elsewhere` in the mail and the gaps.
std::vector<float> only_parameters(const Layout& layout, const std::vector<float>& from,
                                   float elsewhere) {
  std::vector<float> result(from.size(), elsewhere);
  for (const Parameter& parameter : layout.parameters) {
    std::copy_n(from.begin() + parameter.range.begin, parameter.shape.count(),
                result.begin() + parameter.range.begin);
  }
  return result;
}

class Checkpoints : public testing::Test {
 protected:
  std::filesystem::path step(std::int64_t number) const {
    return folder_ / fmt::format("step-{:010}.h5", number);
  }
  std::vector<std::filesystem::path> steps(const std::vector<std::int64_t>& numbers) const {
    std::vector<std::filesystem::path> files;
    for (const std::int64_t number : numbers) files.push_back(step(number));
    return files;
  }
  std::vector<std::filesystem::path> listed() const { return list_checkpoints(folder_.path()); }

  /// Saves a checkpoint of `layout` with one section.
  std::filesystem::path save(std::int64_t step, int keep = 0,
                             const Layout& layout = small_layout()) const {
    const std::vector<float> arena = arena_of(layout, static_cast<std::uint32_t>(step));
    const auto file = save_checkpoint(folder_.path(), layout, {{"parameters", arena.data()}},
                                      {{step, step * 128, 0, 1}, {{"model", "small"}}});
    CheckpointPruner(folder_.path(), keep).prune(file);
    return file;
  }
  /// The same at another position or with other texts.
  std::filesystem::path save(const CheckpointMetadata& metadata) const {
    const std::vector<float> arena = arena_of(small_layout(), 1);
    return save_checkpoint(folder_.path(), small_layout(), {{"parameters", arena.data()}},
                           metadata);
  }

  /// Changes a value of conv1/weights, which is one piece.
  static void flip_a_bit(const std::filesystem::path& file) {
    std::string bytes = contents(file);
    const std::vector<float> arena =
        arena_of(small_layout(), static_cast<std::uint32_t>(read_metadata(file).position.step));
    const float value =
        arena[static_cast<std::size_t>(small_layout().parameters[2].range.begin) + 100];
    const std::size_t place =
        bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
    ASSERT_NE(place, std::string::npos);
    bytes[place] ^= 1;
    put(file, bytes);
  }

  const TemporaryDirectory folder_;
};

TEST_F(Checkpoints, EverySectionComesBackBitForBit) {
  const Layout layout = small_layout();
  const std::vector<float> parameters = arena_of(layout, 1), momentum = arena_of(layout, 2),
                           ema = arena_of(layout, 3);
  const CheckpointMetadata metadata = {
      {1000, 128000, 2, std::numeric_limits<std::uint64_t>::max()},
      {{"model", "small"}, {"options", "--steps 10 --lr 0.1\n"}, {"version", ""}}};
  const std::filesystem::path file = save_checkpoint(folder_.path(), layout,
                                                     {{"parameters", parameters.data()},
                                                      {"optimizer/momentum", momentum.data()},
                                                      {"ema", ema.data()}},
                                                     metadata);
  EXPECT_EQ(file, step(1000));
  verify_checkpoint(file);

  constexpr float kUntouched = 7;
  const std::vector<float> fresh(layout.count, kUntouched);
  std::vector<float> parameters2 = fresh, momentum2 = fresh, ema2 = fresh;
  const Checkpoint checkpoint(file);
  checkpoint.load(layout, {{"parameters", parameters2.data()},
                           {"optimizer/momentum", momentum2.data()},
                           {"ema", ema2.data()}});
  EXPECT_EQ(bits(parameters2), bits(only_parameters(layout, parameters, kUntouched)));
  EXPECT_EQ(bits(momentum2), bits(only_parameters(layout, momentum, kUntouched)));
  EXPECT_EQ(bits(ema2), bits(only_parameters(layout, ema, kUntouched)));
  EXPECT_EQ(checkpoint.metadata().position, metadata.position);
  EXPECT_EQ(checkpoint.metadata().texts, metadata.texts);

  // The averages in the place of the weights, as evaluation loads them.
  std::vector<float> evaluated = fresh;
  Checkpoint(file).load(layout, {{"ema", evaluated.data()}});
  EXPECT_EQ(bits(evaluated), bits(ema2));
}

TEST_F(Checkpoints, TextsCannotCommandATerminal) {
  const std::filesystem::path file =
      save({{1, 128, 0, 1},
            {{"class_names", "r\xc3\xb6t\n\x1b[31mred\ngreen"}, {"data", "a\tb\r\x7f\xc2\x9b"}}});
  const auto texts = read_metadata(file).texts;
  EXPECT_EQ(texts.at("class_names"), "r\xc3\xb6t\n?[31mred\ngreen");
  EXPECT_EQ(texts.at("data"), "a?b???");
}

TEST_F(Checkpoints, NamesInTheFileAreReadable) {
  const Hdf5Reader reader(save(5));
  EXPECT_EQ(reader.arrays(), (Names{"parameters/conv1/weights", "parameters/dense/biases",
                                    "parameters/dense/weights"}));
  EXPECT_EQ(reader.shape("parameters/conv1/weights"), (Shape{4, 5, 5, 3}));
  EXPECT_EQ(reader.integer("step"), 5);
  EXPECT_EQ(reader.text("model"), "small");
}

TEST_F(Checkpoints, KeepsTheNewestAndOnlyRemovesItsOwn) {
  const Names foreign = {"notes.txt", "step-1.h5", "step-000000000x.h5", "step-0000000001.h5.bak",
                         "step-99999999999999999999999.h5"};
  for (const std::string& name : foreign) put(folder_ / name, "");
  for (const std::int64_t step : {100, 200, 300, 400}) save(step, 3);
  Names expected = foreign;
  for (const auto& file : steps({200, 300, 400})) expected.push_back(file.filename());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(folder_.names(), expected);
  EXPECT_EQ(listed(), steps({400, 300, 200}));
  // A run that passed over damaged ones: they stay and count for nothing.
  for (const std::int64_t step : {150, 160, 170}) save(step, 2);
  EXPECT_EQ(listed(), steps({400, 300, 200, 170, 160}));
  save(500, 1);
  EXPECT_EQ(listed(), steps({500}));
  for (const std::int64_t step : {10000000000, 9999999999}) save(step, 0);  // past the padding
  EXPECT_EQ(listed(), steps({10000000000, 9999999999, 500}));
}

TEST_F(Checkpoints, KeepsAndDoesNotCountDamagedFiles) {
  CheckpointPruner pruner(folder_.path(), 2);
  const auto prune = [&](int number) { return pruner.prune(save(number)); };
  save(10);
  save(13);
  flip_a_bit(step(13));
  const std::string damaged = contents(step(13));
  const std::vector<std::string> warnings = prune(20);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(mentions(warnings[0], {"--keep", step(13).string()}));
  EXPECT_EQ(listed(), steps({20, 13, 10}));
  EXPECT_EQ(prune(30), Names{}) << "it warns once";
  EXPECT_EQ(listed(), steps({30, 20, 13}));
  EXPECT_EQ(contents(step(13)), damaged);

  flip_a_bit(step(20));  // behind the back of the run, which has written it
  EXPECT_EQ(prune(40).size(), 1u);
  EXPECT_EQ(listed(), steps({40, 30, 20, 13}));
  EXPECT_EQ(newest_good(folder_.path()).file, step(40));

  CheckpointPruner another(folder_.path(), 1);  // of the next start, which reads all again
  EXPECT_EQ(another.prune(save(50)).size(), 2u);
  EXPECT_EQ(listed(), steps({50, 20, 13}));
}

TEST_F(Checkpoints, WarnsOfFilesThatItCannotRemove) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    GTEST_SKIP() << "only root can keep a file from being removed";
  const std::filesystem::path first = save(1), second = save(2);
  for (const auto& file : {first, second})
    ASSERT_EQ(::mount(file.c_str(), file.c_str(), nullptr, MS_BIND, nullptr), 0);
  CheckpointPruner pruner(folder_.path(), 1);
  const std::vector<std::string> warnings = pruner.prune(save(3));
  EXPECT_EQ(pruner.prune(save(4)), Names{}) << "it warns once";
  for (const auto& file : {first, second}) ::umount(file.c_str());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(mentions(warnings[0], {second.string()}));
  EXPECT_EQ(folder_.names(),
            (Names{"step-0000000001.h5", "step-0000000002.h5", "step-0000000004.h5"}));
}

TEST_F(Checkpoints, AnotherModelsFileNamesTheFirstDifference) {
  const std::filesystem::path file = save(1);
  const auto load = [&](const Layout& layout, const std::string& section) {
    std::vector<float> arena(layout.count, 7.0f), former = arena;
    std::vector<Section> sections{{section, arena.data()}};
    if (section != "parameters") sections.insert(sections.begin(), {"parameters", arena.data()});
    const std::string text = error_of([&] { Checkpoint(file).load(layout, sections); });
    EXPECT_EQ(arena, former) << "nothing may be overwritten";
    return text;
  };
  EXPECT_TRUE(mentions(load(lay_out({{"dense/weights", {10, 8}},
                                     {"dense/biases", {10}},
                                     {"conv1/weights", {4, 5, 5, 3}}}),
                            "parameters"),
                       {file.string(), "'small'", "parameters/dense/weights", "10x7", "10x8"}));
  EXPECT_TRUE(
      mentions(load(lay_out({{"dense/weights", {10, 7}}, {"dense/offsets", {10}}}), "parameters"),
               {"parameters/dense/offsets"}));
  EXPECT_TRUE(
      mentions(load(lay_out({{"dense/weights", {10, 7}}, {"dense/biases", {10}}}), "parameters"),
               {"parameters/conv1/weights"}));
  EXPECT_TRUE(mentions(load(small_layout(), "ema"), {"'ema'"}));
}

TEST_F(Checkpoints, FallsBackFromADamagedNewest) {
  EXPECT_FALSE(newest_good(folder_.path()).file);
  EXPECT_FALSE(newest_good(folder_ / "none").file);
  const std::filesystem::path first = save(1), second = save(2), third = save(3);
  EXPECT_EQ(newest_good(folder_.path()).file, third);
  EXPECT_TRUE(newest_good(folder_.path()).warnings.empty());

  const std::string whole = contents(third);
  put(third, whole.substr(0, whole.size() / 2));
  flip_a_bit(second);
  const Newest newest = newest_good(folder_.path());
  EXPECT_EQ(newest.file, first);
  ASSERT_EQ(newest.warnings.size(), 2u);
  EXPECT_TRUE(mentions(newest.warnings[0], {third.string(), "truncated"}));
  // HDF5's own words follow the name. They differ between versions.
  EXPECT_TRUE(
      mentions(newest.warnings[1], {second.string(), "damaged", "parameters/conv1/weights"}));

  put(first, "");
  const std::string text = error_of([&] { newest_good(folder_.path()); });
  EXPECT_TRUE(mentions(text, {"3", folder_.path().string()}));
}

TEST_F(Checkpoints, LoadingADamagedFileThrows) {
  const std::filesystem::path file = save(1);
  flip_a_bit(file);
  std::vector<float> arena(small_layout().count);
  const std::string text = error_of([&] {
    Checkpoint(file).load(small_layout(), {{"parameters", arena.data()}});
  });
  EXPECT_TRUE(mentions(text, {file.string(), "damaged", "parameters/conv1/weights"}));
}

TEST_F(Checkpoints, RefusesAFileOfAnotherProgram) {
  Hdf5Writer writer(step(1));
  writer.array("weights", {1}, std::vector<float>{1});
  writer.commit();
  expect_error({"'step'"}, [&] { read_metadata(step(1)); });
}

TEST_F(Checkpoints, RefusesAnImpossiblePosition) {
  const std::pair<Position, const char*> cases[] = {
      {{-5, 0, 0, 1}, "step -5"},
      {{1, -1, 0, 1}, "samples -1"},
      {{1, 128, std::numeric_limits<std::int64_t>::min(), 1}, "epoch -9223372036854775808"},
      {{1, std::numeric_limits<std::int64_t>::max(), 0, 1}, "samples 9223372036854775807"},
  };
  for (const auto& [position, said] : cases) {
    const std::filesystem::path file = save({position, {}});
    expect_error({file.string(), "damaged", said}, [&] { read_metadata(file); });
    EXPECT_NE(error_of([&] { verify_checkpoint(file); }), "");
  }
}

TEST_F(Checkpoints, ReportsAFullDiskAndKeepsEarlierFiles) {
  const Layout large = lay_out({{"dense/weights", {1000, 1000}}});
  const std::filesystem::path former = save(1);
  {
    const FileSizeLimit limit(1 << 20);
    const std::string text = error_of([&] { save(2, 1, large); });
    EXPECT_TRUE(mentions(text, {step(2).string()}));
  }
  EXPECT_EQ(folder_.names(), Names{"step-0000000001.h5"});
  EXPECT_EQ(newest_good(folder_.path()).file, former);
}

/// Not a test of its own: tests/apps/h5py.sh reads with h5py what this writes to
/// $CHECKPOINT_DIRECTORY.
TEST(Checkpoint, DISABLED_WritesForH5py) {
  const char* directory = std::getenv("CHECKPOINT_DIRECTORY");
  ASSERT_NE(directory, nullptr) << "CHECKPOINT_DIRECTORY is not set";
  const Layout layout = lay_out({{"dense/weights", {1000, 700}}, {"conv1/biases", {3}}});
  std::vector<float> arena(layout.count);
  for (std::size_t i = 0; i < arena.size(); ++i)
    arena[i] = static_cast<float>(i) - static_cast<float>(Layout::kHeader);
  save_checkpoint(
      directory, layout, {{"parameters", arena.data()}, {"optimizer/momentum", arena.data()}},
      {{1000, 128000, 2, std::numeric_limits<std::uint64_t>::max()}, {{"model", "tutorial"}}});
}

}  // namespace
}  // namespace lockstep
