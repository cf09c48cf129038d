// Checkpoints: round trips, what is kept, and that neither damage nor another model's file is
// believed.
#include "net/checkpoint.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "src/base/random.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

Layout layout_of(const std::vector<std::pair<std::string, Shape>>& parameters) {
  Layout layout;
  for (const auto& [name, shape] : parameters) {
    Parameter parameter;
    parameter.name = name;
    parameter.shape = shape;
    parameter.range = {layout.count, shape.count()};
    layout.count += (shape.count() + 15) / 16 * 16;
    layout.parameters.push_back(parameter);
  }
  return layout;
}

Layout small_layout() {
  return layout_of(
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

/// Saves a checkpoint of `layout` at `step` with one section.
std::filesystem::path save(const TemporaryDirectory& directory, std::int64_t step, int keep = 0,
                           const Layout& layout = small_layout()) {
  const std::vector<float> arena = arena_of(layout, static_cast<std::uint32_t>(step));
  const auto file = save_checkpoint(directory.path(), layout, {{"parameters", arena.data()}},
                                    {{step, step * 128, 0, 1}, {{"model", "small"}}});
  CheckpointPruner(directory.path(), keep).prune(file);
  return file;
}

void flip_a_bit(const std::filesystem::path& file) {
  std::string bytes = contents(file);
  // A value of conv1/weights, which is one piece: find it by its bits.
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

TEST(Checkpoint, EverySectionComesBackBitForBit) {
  const TemporaryDirectory directory;
  const Layout layout = small_layout();
  const std::vector<float> parameters = arena_of(layout, 1), momentum = arena_of(layout, 2),
                           ema = arena_of(layout, 3);
  const CheckpointMetadata metadata = {
      {1000, 128000, 2, std::numeric_limits<std::uint64_t>::max()},
      {{"model", "small"}, {"options", "--steps 10 --lr 0.1\n"}, {"version", ""}}};
  const std::filesystem::path file = save_checkpoint(directory.path(), layout,
                                                     {{"parameters", parameters.data()},
                                                      {"optimizer/momentum", momentum.data()},
                                                      {"ema", ema.data()}},
                                                     metadata);
  EXPECT_EQ(file, directory / "step-0000001000.h5");
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

TEST(Checkpoint, TextsCannotCommandATerminal) {
  const TemporaryDirectory directory;
  const Layout layout = small_layout();
  const std::vector<float> arena = arena_of(layout, 1);
  const std::filesystem::path file = save_checkpoint(
      directory.path(), layout, {{"parameters", arena.data()}},
      {{1, 128, 0, 1},
       {{"class_names", "r\xc3\xb6t\n\x1b[31mred\ngreen"}, {"data", "a\tb\r\x7f\xc2\x9b"}}});
  const auto texts = read_metadata(file).texts;
  EXPECT_EQ(texts.at("class_names"), "r\xc3\xb6t\n?[31mred\ngreen");
  EXPECT_EQ(texts.at("data"), "a?b???");
}

TEST(Checkpoint, NamesInTheFileAreReadable) {
  const TemporaryDirectory directory;
  const Hdf5Reader reader(save(directory, 5));
  EXPECT_EQ(reader.arrays(), (Names{"parameters/conv1/weights", "parameters/dense/biases",
                                    "parameters/dense/weights"}));
  EXPECT_EQ(reader.shape("parameters/conv1/weights"), (Shape{4, 5, 5, 3}));
  EXPECT_EQ(reader.integer("step"), 5);
  EXPECT_EQ(reader.text("model"), "small");
}

TEST(Checkpoint, KeepsTheNewestAndOnlyRemovesItsOwn) {
  const TemporaryDirectory directory;
  const Names foreign = {"notes.txt", "step-1.h5", "step-000000000x.h5", "step-0000000001.h5.bak",
                         "step-99999999999999999999999.h5"};
  for (const std::string& name : foreign) put(directory / name, "");
  for (const std::int64_t step : {100, 200, 300, 400}) save(directory, step, 3);
  Names expected = foreign;
  for (const char* name : {"step-0000000200.h5", "step-0000000300.h5", "step-0000000400.h5"})
    expected.push_back(name);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(directory.names(), expected);
  EXPECT_EQ(list_checkpoints(directory.path()),
            (std::vector{directory / "step-0000000400.h5", directory / "step-0000000300.h5",
                         directory / "step-0000000200.h5"}));
  // A run that passed over damaged ones: they stay and count for nothing.
  for (const std::int64_t step : {150, 160, 170}) save(directory, step, 2);
  const auto steps = list_checkpoints(directory.path());
  EXPECT_EQ(std::vector(steps.begin() + 3, steps.end()),
            (std::vector{directory / "step-0000000170.h5", directory / "step-0000000160.h5"}));
  const std::filesystem::path written = save(directory, 500, 1);
  EXPECT_EQ(list_checkpoints(directory.path()), (std::vector{written}));
  for (const std::int64_t step : {10000000000, 9999999999})
    save(directory, step, 0);  // past the padding
  EXPECT_EQ(
      list_checkpoints(directory.path()),
      (std::vector{directory / "step-10000000000.h5", directory / "step-9999999999.h5", written}));
}

TEST(Checkpoint, KeepsAndDoesNotCountDamagedFiles) {
  const TemporaryDirectory directory;
  CheckpointPruner pruner(directory.path(), 2);
  const auto step = [&](int number) { return directory / fmt::format("step-{:010}.h5", number); };
  const auto prune = [&](int number) { return pruner.prune(save(directory, number)); };
  save(directory, 10);
  save(directory, 13);
  flip_a_bit(step(13));
  const std::string damaged = contents(step(13));
  const std::vector<std::string> warnings = prune(20);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(mentions(warnings[0], {"--keep"}));
  EXPECT_TRUE(mentions(warnings[0], {step(13).string()}));
  EXPECT_EQ(list_checkpoints(directory.path()), (std::vector{step(20), step(13), step(10)}));
  EXPECT_EQ(prune(30), Names{}) << "it warns once";
  EXPECT_EQ(list_checkpoints(directory.path()), (std::vector{step(30), step(20), step(13)}));
  EXPECT_EQ(contents(step(13)), damaged);

  flip_a_bit(step(20));  // behind the back of the run, which has written it
  EXPECT_EQ(prune(40).size(), 1u);
  EXPECT_EQ(list_checkpoints(directory.path()),
            (std::vector{step(40), step(30), step(20), step(13)}));
  EXPECT_EQ(newest_good(directory.path()).file, step(40));

  CheckpointPruner another(directory.path(), 1);  // of the next start, which reads all again
  EXPECT_EQ(another.prune(save(directory, 50)).size(), 2u);
  EXPECT_EQ(list_checkpoints(directory.path()), (std::vector{step(50), step(20), step(13)}));
}

TEST(Checkpoint, WarnsOfFilesThatItCannotRemove) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    GTEST_SKIP() << "only root can keep a file from being removed";
  const TemporaryDirectory directory;
  const std::filesystem::path first = save(directory, 1), second = save(directory, 2);
  for (const auto& file : {first, second})
    ASSERT_EQ(::mount(file.c_str(), file.c_str(), nullptr, MS_BIND, nullptr), 0);
  CheckpointPruner pruner(directory.path(), 1);
  const std::vector<std::string> warnings = pruner.prune(save(directory, 3));
  EXPECT_EQ(pruner.prune(save(directory, 4)), Names{}) << "it warns once";
  for (const auto& file : {first, second}) ::umount(file.c_str());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(mentions(warnings[0], {second.string()}));
  EXPECT_EQ(directory.names(),
            (Names{"step-0000000001.h5", "step-0000000002.h5", "step-0000000004.h5"}));
}

TEST(Checkpoint, AnotherModelsFileNamesTheFirstDifference) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = save(directory, 1);
  const auto load = [&](const Layout& layout, const std::string& section) {
    std::vector<float> arena(layout.count, 7.0f), former = arena;
    std::vector<Section> sections{{section, arena.data()}};
    if (section != "parameters") sections.insert(sections.begin(), {"parameters", arena.data()});
    const std::string text = error_of([&] { Checkpoint(file).load(layout, sections); });
    EXPECT_EQ(arena, former) << "nothing may be overwritten";
    return text;
  };
  EXPECT_TRUE(mentions(load(layout_of({{"dense/weights", {10, 8}},
                                       {"dense/biases", {10}},
                                       {"conv1/weights", {4, 5, 5, 3}}}),
                            "parameters"),
                       {file.string(), "'small'", "parameters/dense/weights", "10x7", "10x8"}));
  EXPECT_TRUE(
      mentions(load(layout_of({{"dense/weights", {10, 7}}, {"dense/offsets", {10}}}), "parameters"),
               {"parameters/dense/offsets"}));
  EXPECT_TRUE(
      mentions(load(layout_of({{"dense/weights", {10, 7}}, {"dense/biases", {10}}}), "parameters"),
               {"parameters/conv1/weights"}));
  EXPECT_TRUE(mentions(load(small_layout(), "ema"), {"'ema'"}));
}

TEST(Checkpoint, FallsBackFromADamagedNewest) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(newest_good(directory.path()).file);
  EXPECT_FALSE(newest_good(directory / "none").file);
  const std::filesystem::path first = save(directory, 1), second = save(directory, 2),
                              third = save(directory, 3);
  EXPECT_EQ(newest_good(directory.path()).file, third);
  EXPECT_TRUE(newest_good(directory.path()).warnings.empty());

  const std::string whole = contents(third);
  put(third, whole.substr(0, whole.size() / 2));
  flip_a_bit(second);
  const Newest newest = newest_good(directory.path());
  EXPECT_EQ(newest.file, first);
  ASSERT_EQ(newest.warnings.size(), 2u);
  EXPECT_TRUE(mentions(newest.warnings[0], {third.string()}));
  EXPECT_TRUE(mentions(newest.warnings[0], {"truncated"}));
  EXPECT_TRUE(mentions(newest.warnings[1], {second.string()}));
  // HDF5's own words follow the name. They differ between versions.
  EXPECT_TRUE(mentions(newest.warnings[1], {"damaged", "parameters/conv1/weights"}));

  put(first, "");
  const std::string text = error_of([&] { newest_good(directory.path()); });
  EXPECT_TRUE(mentions(text, {"3", directory.path().string()}));
}

TEST(Checkpoint, LoadingADamagedFileThrows) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = save(directory, 1);
  flip_a_bit(file);
  std::vector<float> arena(small_layout().count);
  const std::string text = error_of([&] {
    Checkpoint(file).load(small_layout(), {{"parameters", arena.data()}});
  });
  EXPECT_TRUE(mentions(text, {file.string()}));
  EXPECT_TRUE(mentions(text, {"damaged", "parameters/conv1/weights"}));
}

TEST(Checkpoint, RefusesAFileOfAnotherProgram) {
  const TemporaryDirectory directory;
  Hdf5Writer writer(directory / "step-0000000001.h5");
  writer.array("weights", {1}, std::vector<float>{1});
  writer.commit();
  EXPECT_TRUE(
      mentions(error_of([&] { read_metadata(directory / "step-0000000001.h5"); }), {"'step'"}));
}

TEST(Checkpoint, RefusesAnImpossiblePosition) {
  const TemporaryDirectory directory;
  const Layout layout = small_layout();
  const std::vector<float> arena = arena_of(layout, 1);
  const std::pair<Position, const char*> cases[] = {
      {{-5, 0, 0, 1}, "step -5"},
      {{1, -1, 0, 1}, "samples -1"},
      {{1, 128, std::numeric_limits<std::int64_t>::min(), 1}, "epoch -9223372036854775808"},
      {{1, std::numeric_limits<std::int64_t>::max(), 0, 1}, "samples 9223372036854775807"},
  };
  for (const auto& [position, said] : cases) {
    const std::filesystem::path file =
        save_checkpoint(directory.path(), layout, {{"parameters", arena.data()}}, {position, {}});
    EXPECT_TRUE(mentions(error_of([&] { read_metadata(file); }), {file.string(), "damaged", said}));
    EXPECT_NE(error_of([&] { verify_checkpoint(file); }), "");
  }
}

TEST(Checkpoint, ReportsAFullDiskAndKeepsEarlierFiles) {
  const TemporaryDirectory directory;
  const Layout large = layout_of({{"dense/weights", {1000, 1000}}});
  const std::filesystem::path former = save(directory, 1);
  {
    const FileSizeLimit limit(1 << 20);
    const std::string text = error_of([&] { save(directory, 2, 1, large); });
    EXPECT_TRUE(mentions(text, {(directory / "step-0000000002.h5").string()}));
  }
  EXPECT_EQ(directory.names(), Names{"step-0000000001.h5"});
  EXPECT_EQ(newest_good(directory.path()).file, former);
}

/// Not a test of its own: tests/apps/h5py.sh reads with h5py what this writes to
/// $CHECKPOINT_DIRECTORY.
TEST(Checkpoint, DISABLED_WritesForH5py) {
  const char* directory = std::getenv("CHECKPOINT_DIRECTORY");
  ASSERT_NE(directory, nullptr) << "CHECKPOINT_DIRECTORY is not set";
  const Layout layout = layout_of({{"dense/weights", {1000, 700}}, {"conv1/biases", {3}}});
  std::vector<float> arena(layout.count);
  for (std::size_t i = 0; i < arena.size(); ++i)
    arena[i] = static_cast<float>(i) - static_cast<float>(Layout::kHeader);
  save_checkpoint(
      directory, layout, {{"parameters", arena.data()}, {"optimizer/momentum", arena.data()}},
      {{1000, 128000, 2, std::numeric_limits<std::uint64_t>::max()}, {{"model", "tutorial"}}});
}

}  // namespace
}  // namespace lockstep
