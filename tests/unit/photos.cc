// Folders of image files of any size as data sets, and files in use with a trained network.
#include "src/data/image/photos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>

#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/data/image/image.h"
#include "src/data/image/packed.h"
#include "src/data/loader.h"
#include "src/data/names.h"
#include "src/data/normalisation.h"
#include "src/data/photo_augmentations.h"
#include "src/data/sets/images.h"
#include "src/data/validation.h"
#include "src/files/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/image_bytes.h"
#include "tests/support/pattern.h"
#include "tests/support/test_dataset.h"

// HDF5 itself loses some memory when a header is damaged; handles that stay open would be
// reachable.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// A picture whose red grows from left to right and whose green grows downwards.
void write_picture(const fs::path& file, int width, int height, int blue) {
  Bytes rgb;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {255 * x / width, 255 * y / height, blue})
        rgb.push_back(static_cast<std::uint8_t>(value));
  put_image(file, png_of(rgb, width, height));
}

/// A JPEG file of noise.
void write_jpeg(const fs::path& file, int width, int height) {
  Random noise(7, Purpose::generate, 0, 0);
  Bytes pixels(std::size_t{3} * width * height);
  for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(noise.below(256));
  put_image(file, jpeg_of(pixels, width, height, {.sampling = 0x22, .quality = 75}));
}

/// Value `i` of a sample as the file has it: from 0 to 255.
double level(const Dataset& set, const std::vector<float>& values, std::size_t i) {
  const Normalisation& standard = set.format().normalisation;
  const std::size_t channel = i % static_cast<std::size_t>(set.sample_shape()[3]);
  return values[i] * standard.deviation[channel] + standard.mean[channel];
}

const DatasetEntry& folder_set() { return find(datasets(), "folder"); }

class Photos : public testing::Test {
 protected:
  Photos() {
    int blue = 0;  // tells the files apart
    for (const char* part : {"train", "val"})
      for (const char* name : {"cat", "dog"})
        for (const char* file : {"a.png", "b.PNG"}) {
          blue += 5;
          write_picture(at(part) / name / file, 40 + blue, 60 - blue, blue);
        }
  }
  fs::path at(const std::string& path) { return folder_ / path; }
  DataSource source(int size = 16) {
    return {.place = {{folder_.path()}}, .images = {.size = size}};
  }
  OpenedData open(int size = 16) { return open_folder(source(size)); }
  std::vector<std::string> notes(int size = 16) {
    return open_data(folder_set(), source(size)).notes;
  }
  using Words = std::vector<std::string>;
  void refuses(const DataSource& source, const Words& words) {
    expect_error({words.begin(), words.end()}, [&] { open_folder(source); });
  }
  void refuses(const Words& words) { refuses(source(), words); }
  /// `count` more pictures of each class of a part.
  void add_pictures(const std::string& part, int count) {
    for (const char* name : {"cat", "dog"})
      for (int i = 0; i < count; ++i)
        write_picture(at(part) / name / fmt::format("{}.png", i), 30, 30, 9 * i + *name + part[1]);
  }
  /// The folder as packed images.
  DataSource packed() {
    DataSource packed = source();
    packed.place.folders = {at("photos.h5")};
    pack_images(source(), at("photos.h5"), notes_of_packing_);
    return packed;
  }
  TemporaryDirectory folder_;
  std::vector<std::string> notes_of_packing_;
};

TEST_F(Photos, HaveTheSizeThatIsAskedFor) {
  const OpenedData pair = open();
  EXPECT_EQ(pair.class_names, (Words{"cat", "dog"}));
  ASSERT_EQ(pair.train->size(), 4);
  EXPECT_EQ(pair.test, nullptr) << "val/ is the validation set";
  ASSERT_EQ(pair.validation->size(), 4);
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 16, 16, 3}));
  EXPECT_EQ(pair.train->label(1), 0);
  EXPECT_EQ(pair.train->label(2), 1);
  // Evaluation sees the middle 7/8 of the shorter edge, so red runs from 1/16 of 255 and on.
  const std::vector<float> values = read(*pair.validation, 0);
  const auto value = [&](int y, int x, int c) {
    return level(*pair.validation, values, 3 * (16 * y + x) + c);
  };
  EXPECT_NEAR(value(8, 8, 0), 127, 8);
  EXPECT_NEAR(value(8, 8, 1), 127, 8);
  EXPECT_NEAR(value(3, 3, 2), 25, 1e-3) << "the blue of the first test image";
  EXPECT_GT(value(8, 15, 0), value(8, 0, 0) + 100);
}

// As another program sees it that decodes the whole file. Training decodes this file at an eighth.
TEST_F(Photos, OfEvaluationAreDecodedInFull) {
  const fs::path file = at("val/cat/c.jpg");
  write_jpeg(file, 200, 160);
  const OpenedData pair = open();
  const Image whole = read_image(file);
  std::vector<std::uint8_t> seen(std::size_t{3} * 16 * 16);
  resize(whole, {10, 30, 140, 140}, 16, 16, seen.data());
  const std::vector<float> values = read(*pair.validation, 2);
  for (std::size_t i = 0; i < seen.size(); ++i)
    ASSERT_NEAR(level(*pair.validation, values, i), seen[i], 1e-3) << i;
}

TEST_F(Photos, FollowFromTheRandomNumbersAndAreFlippedOnlyAsAskedFor) {
  EXPECT_EQ(source().images.flip, "horizontal") << "the default";
  /// How many of 60 epochs mirror and invert an image, about.
  const std::map<std::string, std::pair<int, int>> wanted{
      {"none", {0, 0}}, {"horizontal", {30, 0}}, {"vertical", {0, 30}}, {"both", {30, 30}}};
  for (const char* flip : {"none", "horizontal", "vertical", "both"}) {
    DataSource asked = source();
    asked.images.flip = flip;
    const OpenedData pair = open_folder(asked);
    std::set<std::vector<float>> seen;
    int mirrored = 0, inverted = 0;
    for (std::uint32_t epoch = 0; epoch < 60; ++epoch) {
      Random random(1, Purpose::augment, epoch, 2), same = random;
      const std::vector<float> values = read(*pair.train, 2, &random);
      EXPECT_EQ(values, read(*pair.train, 2, &same));
      seen.insert(values);
      mirrored += values[0] > values[3 * 15];
      inverted += values[1] > values[3 * 16 * 15 + 1];
    }
    EXPECT_EQ(seen.size(), 60u);
    const auto [mirrors, inverts] = wanted.at(flip);
    EXPECT_NEAR(mirrored, mirrors, mirrors / 2) << flip;
    EXPECT_NEAR(inverted, inverts, inverts / 2) << flip;
  }
}

TEST_F(Photos, AreTheSameWithAnyNumberOfWorkers) {
  const OpenedData pair = open();
  LoaderSpec spec{.seed = 3, .global_batch = 3};
  HostLoader alone(*pair.train, spec);
  spec.workers = 3;
  HostLoader together(*pair.train, spec);
  for (int step = 0; step < 6; ++step) {
    const Batch a = alone.next(), b = together.next();
    const std::size_t count = a.images.count();
    EXPECT_TRUE(
        std::equal(a.images.as<float>(), a.images.as<float>() + count, b.images.as<float>()));
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(a.labels.as<std::int32_t>()[i], b.labels.as<std::int32_t>()[i]);
  }
}

TEST_F(Photos, OfOneFolderAreDividedByTheirNames) {
  fs::remove_all(at("val"));
  add_pictures("train", 50);
  DataSource one = source(8);
  one.place.folders = {at("train")};
  refuses(one, {"--validation"});
  one.validation = 0.3;
  const OpenedData pair = open_folder(one), again = open_folder(one);
  EXPECT_EQ(pair.train->size() + pair.validation->size(), 104);
  EXPECT_NEAR(static_cast<double>(pair.validation->size()), 31, 1);
  EXPECT_EQ(pair.test, nullptr);
  EXPECT_EQ(pair.identity, again.identity);
  one.validation = 0.5;
  EXPECT_GT(open_folder(one).validation->size(), pair.validation->size());
  write_picture(at("train/emu/only.png"), 8, 8, 1);
  EXPECT_THAT(open_data(folder_set(), one).notes,
              Contains(HasSubstr("validation set has no samples of emu")));
  one.validation = 1;
  refuses(one, {"contains no images for training"});
  one.validation = 1e-9;
  refuses(one, {"takes none"});
}

TEST_F(Photos, MayHaveAllThreeParts) {
  add_pictures("test", 1);
  const OpenedData all = open();
  EXPECT_EQ(all.validation->size(), 4);
  EXPECT_EQ(all.test->size(), 2);
  DataSource divided = source();
  divided.validation = 0.5;
  refuses(divided, {"val/"});  // two validation sets
  fs::remove_all(at("val"));
  EXPECT_EQ(open().validation, nullptr);
  const OpenedData parts = open_folder(divided);
  EXPECT_EQ(parts.train->size() + parts.validation->size(), 4);
  EXPECT_EQ(parts.test->size(), 2);
}

TEST_F(Photos, LeaveOtherFilesOut) {
  put(at("train/cat/Thumbs.db"), "x");
  put(at("train/cat/labels.csv"), "x");
  const OpenedData pair = open();
  EXPECT_EQ(pair.train->size(), 4);
  EXPECT_THAT(pair.train->describe(), HasSubstr("1 other file left out"));
  EXPECT_THAT(pair.train->describe(), HasSubstr("resized to 16x16"));
  EXPECT_THAT(pair.notes, testing::ElementsAre()) << "it contains no images";
}

TEST_F(Photos, NameTheKindsThatAreNotRead) {
  for (const char* name : {"train/cat/a.psd", "train/dog/b.PSD", "val/cat/c.NEF", "train/cat/d.jxl",
                           "train/cat/e.svg", "train/cat/f.pdf", "train/cat/g.MOV",
                           "train/cat/h.tar.gz", "train/cat/i.txt", "train/cat/noending"})
    put(at(name), "x");
  const OpenedData pair = open();
  EXPECT_EQ(pair.train->size(), 4);
  for (const char* kind :
       {"2 .psd files left out. Convert", "1 .nef file left out. Convert", "1 .jxl file",
        "1 .svg file", "1 .pdf file", "1 .mov file left out. Save", "1 .gz file left out. Unpack"})
    EXPECT_THAT(pair.notes, Contains(HasSubstr(kind)));
  EXPECT_EQ(pair.notes.size(), 7u) << "a text is no image";
  fs::remove(at("train/cat/a.png"));
  fs::remove(at("train/cat/b.PNG"));
  refuses({"train/cat contains no images", "2 .psd files left out"});
}

TEST_F(Photos, AreReadByTheirContent) {
  fs::copy(at("train/cat/a.png"), at("train/cat/c.heic"));
  fs::copy(at("train/cat/a.png"), at("train/cat/d.TIF"));
  for (const char* ending : {"jpe", "jfif", "pjpeg", "pjp", "JFIF", "apng", "dib"})
    fs::copy(at("train/dog/a.png"), at("train/dog") / (std::string("d.") + ending));
  const OpenedData pair = open();
  ASSERT_EQ(pair.train->size(), 13);
  EXPECT_EQ(read(*pair.train, 6), read(*pair.train, 4));
  EXPECT_EQ(read(*pair.train, 2), read(*pair.train, 0));
  put(at("train/cat/c.heic"), "0000ftypmp42");
  refuses({"c.heic (it is a video)"});
}

TEST_F(Photos, KnowTheUsualNamesOfParts) {
  add_pictures("test", 1);
  const std::string identity = open().identity;
  std::array<std::string, 3> now{"train", "val", "test"};
  for (const std::array<std::string, 3>& names :
       std::vector<std::array<std::string, 3>>{{"Training", "valid", "TESTING"},
                                               {"TRAIN", "Validation", "testing"},
                                               {"training", "EVAL", "Test"},
                                               {"training_set", "dev-data", "TestImages"},
                                               {"imagenet-train", "imagenet-val", "cats_test2"},
                                               {"Train", "dev", "test"}}) {
    for (std::size_t i = 0; i < 3; ++i) fs::rename(at(now[i]), at(names[i]));
    now = names;
    const OpenedData pair = open();
    EXPECT_EQ(pair.identity, identity) << names[1];
    EXPECT_EQ(pair.validation->size(), 4) << names[1];
    EXPECT_EQ(pair.test->size(), 2) << names[2];
    EXPECT_THAT(pair.notes, testing::ElementsAre());
    EXPECT_EQ(open_test_folder(source(), {pair.class_names, to_text({}, 3)}).test->size(), 2);
  }
  for (const char* other : {"training", "Val", "TEST"}) {
    fs::create_directories(at(other));
    refuses({at(other).string() + " ", "are both the"});
    fs::remove(at(other));
  }
}

TEST_F(Photos, NeverTakeAPartForAClass) {
  for (const char* part : {"val", "eval", "Training", "testing", "dev"}) {
    write_picture(at("train") / part / "c.png", 30, 30, 1);
    const OpenedData pair = open();
    EXPECT_EQ(pair.class_names.size(), 2u) << part;
    EXPECT_THAT(pair.notes, Contains(HasSubstr("not used: " + at("train/").string() + part)));
    fs::remove_all(at("train") / part);
  }
  write_picture(at("extra/c.png"), 30, 30, 1);
  EXPECT_THAT(open().notes, Contains(HasSubstr(at("extra").string())));
  // Without train/ the classes lie beside the other parts.
  for (const char* name : {"cat", "dog"}) fs::rename(at("train") / name, at(name));
  fs::remove(at("train"));
  fs::remove_all(at("extra"));
  const OpenedData pair = open();
  EXPECT_EQ(pair.class_names, (Words{"cat", "dog"}));
  EXPECT_EQ(pair.validation->size(), 4);
  DataSource divided = source();
  divided.validation = 0.5;
  fs::rename(at("val"), at("Testing"));
  fs::remove_all(at("cat"));
  refuses(divided, {"1 class folder: dog, and at least 2"});
}

TEST_F(Photos, NeverTakePartsForClasses) {
  DataSource divided = source();
  divided.validation = 0.5;
  write_picture(at("bullet_train/c.png"), 30, 30, 1);  // a class
  EXPECT_THAT(open().notes, Contains(HasSubstr("not used: " + at("bullet_train").string())));
  fs::rename(at("bullet_train"), at("train/bullet_train"));
  fs::rename(at("val"), at("two"));
  EXPECT_EQ(open_folder(divided).class_names[0], "bullet_train");
  fs::remove_all(at("train/bullet_train"));
  fs::rename(at("train"), at("one"));
  const Words refused{"one, two", "not classes"};
  refuses(refused);
  refuses(divided, refused);
  expect_error({refused.begin(), refused.end()}, [&] {
    open_test_folder(divided, {{"cat", "dog"}, to_text({}, 3)});
  });
  put(at("one/notes.csv"), "");  // other files do not matter
  refuses(divided, refused);
  fs::rename(at("two/cat"), at("two/fox"));
  EXPECT_EQ(open_folder(divided).class_names.size(), 2u);
  for (const char* name : {"one", "two"}) fs::remove_all(at(name));
  for (const char* name : {"my-train", "my-test"}) write_picture(at(name) / "c.png", 30, 30, 1);
  refuses(divided, {"not classes"});  // by their names
  for (const char* name : {"train", "test"}) {
    add_pictures(fmt::format("{0}_set/{0}_set", name), 2);
    fs::remove_all(at(fmt::format("my-{}", name)));
  }
  EXPECT_EQ(open().class_names, (Words{"cat", "dog"}));  // one folder more
}

TEST_F(Photos, LeaveOutWhatSystemsMake) {
  const std::string before = open().identity;
  for (const char* name : {"@eaDir", "__MACOSX", "$RECYCLE.BIN", "System Volume Information",
                           ".ipynb_checkpoints", "lost+found", "#recycle", ".Trash-1000",
                           "__pycache__", "node_modules", ".Spotlight-V100", "@Recycle", "wandb"}) {
    for (const char* place : {"", "train", "train/cat", "val", "val/dog"})
      write_picture(at(place) / name / "a.png/SYNOPHOTO_THUMB_M.png", 20, 20, 1);
  }
  for (const char* name : {"._a.png", "Thumbs.db", "desktop.ini", ".DS_Store"})
    for (const char* place : {"train", "train/cat"}) put(at(place) / name, "x");
  const OpenedData pair = open();
  EXPECT_EQ(pair.identity, before);
  EXPECT_THAT(pair.notes, testing::ElementsAre());
  EXPECT_THAT(pair.train->describe(), Not(HasSubstr("other")));
}

TEST_F(Photos, LeaveOutTheRunsButNoClassOfThatName) {
  DataSource one = source();
  one.place.folders = {at("train")};
  one.validation = 0.5;
  add_pictures("train", 9);
  const std::string before = open_folder(one).identity;
  fs::create_directories(at("train/runs/first/checkpoints"));
  EXPECT_EQ(open_folder(one).identity, before) << "a run that begins";
  put(at("train/runs/first/config.toml"), "x");
  write_picture(at("train/runs/plot.png"), 20, 20, 1);
  EXPECT_EQ(open_folder(one).identity, before) << "a run, and a picture of it";
  fs::remove_all(at("train/runs/first"));
  for (int i = 0; i < 9; ++i) write_picture(at(fmt::format("train/runs/{}.png", i)), 8, 8, i);
  EXPECT_EQ(open_folder(one).class_names, (Words{"cat", "dog", "runs"}));
}

TEST_F(Photos, MayLackClassesExceptInTraining) {
  fs::remove_all(at("val"));
  for (const int size : {16, 0}) {  // 0: in memory
    for (const char* part : {"train", "test"}) {
      fs::remove_all(at(part));
      add_pictures(part, 1);
    }
    fs::remove_all(at("test/cat"));
    for (int i = 0; i < 2; ++i) {  // there is no folder, or it is empty
      const OpenedData pair = open_data(folder_set(), source(size));
      ASSERT_EQ(pair.test->size(), 1);
      EXPECT_EQ(pair.test->label(0), 1) << "dog";
      EXPECT_EQ(pair.test->classes(), 2);
      EXPECT_THAT(pair.notes, testing::ElementsAre("the test set has no samples of cat"));
      fs::create_directories(at("test/cat"));
    }
    fs::create_directories(at("test/bird"));
    refuses(source(size), {"does not know: bird"});
    fs::remove_all(at("test/bird"));
    if (size > 0) {
      const OpenedData same = open_data(find(datasets(), "packed"), packed());
      EXPECT_EQ(same.test->label(0), 1);
      EXPECT_THAT(same.notes, testing::ElementsAre("the test set has no samples of cat"));
    }
    fs::remove_all(at("train/cat"));
    fs::create_directories(at("train/cat"));
    refuses(source(size), {"train/cat contains no images"});
    fs::remove_all(at("test/dog"));
    write_picture(at("train/cat/c.png"), 30, 30, 1);
    refuses(source(size), {"test contains no images"});
  }
}

TEST_F(Photos, NoteUnequalClasses) {
  EXPECT_THAT(notes(), testing::ElementsAre());
  for (int i = 0; i < 4; ++i) write_picture(at(fmt::format("train/dog/{}.png", i)), 8, 8, i);
  EXPECT_THAT(notes(), testing::ElementsAre()) << "six of 2";
  write_picture(at("train/dog/7.png"), 8, 8, 7);
  EXPECT_THAT(notes(),
              testing::ElementsAre(testing::AllOf(HasSubstr("unequal"), HasSubstr("7 training"),
                                                  HasSubstr("of dog, 2 of cat"))));
}

TEST_F(Photos, NameClassesThatLookAlike) {
  // Names in Latin and Hangul, composed and decomposed, and one in ISO 8859-1.
  const std::vector<std::array<std::string, 2>> alike{
      {"cat", "Cat"},
      {"cat", "cat "},
      {"cat", " CAT"},
      {"M\xc3\xbcller", "Mu\xcc\x88ller"},
      {"M\xc3\x9cLLER", "mu\xcc\x88ller"},
      {"z\xc5\x82\xc3\xb3w", "z\xc5\x82o\xcc\x81w"},
      {"\xe9t\xe9", "\xc3\xa9t\xc3\xa9"},
      {"\xea\xb3\xa0", "\xe1\x84\x80\xe1\x85\xa9"},
      {"\xec\x96\x91", "\xe1\x84\x8b\xe1\x85\xa3\xe1\x86\xbc"}};
  const char* const reason = "differ only in case, accents, spaces or Unicode form";
  for (const auto& [name, other] : alike) {
    const std::string pair =
        "\"" + std::min(name, other) + "\" and \"" + std::max(name, other) + "\"";
    write_picture(at("train") / name / "c.png", 30, 30, 1);
    write_picture(at("val") / other / "c.png", 30, 30, 2);
    refuses({"does not know: " + other, reason, "\"" + name + "\" and \"" + other + "\""});
    write_picture(at("train") / other / "c.png", 30, 30, 3);
    EXPECT_THAT(notes(), Contains(testing::AllOf(HasSubstr(reason), HasSubstr(pair))));
    for (const fs::path& made : {at("train") / name, at("train") / other, at("val") / other})
      if (made.filename() != "cat") fs::remove_all(made);
  }
  for (const char* name : {"cats", "c t", "\xc3\x9f", "\xc3\xa6", "\xea\xb3\xa1", "\xea\xb0\x95",
                           "\xe9\xb3\xa0", "ca\xcc", "\xcc", " ", "\xff\xfe"})
    EXPECT_EQ(look_alikes({"cat", "dog", "\xea\xb3\xa0", name}), "") << name;
  write_picture(at("val/bird/c.png"), 30, 30, 1);
  EXPECT_THAT(error_of([&] { open(); }), Not(HasSubstr(reason)));
}

TEST_F(Photos, OfTrainingInAnotherPartAreNoted) {
  const auto note = [](int count, const std::string& part) {
    return Contains(HasSubstr(fmt::format("{} of 4 {} samples are training samples", count, part)));
  };
  EXPECT_THAT(notes(), Not(Contains(HasSubstr("samples"))));
  fs::create_directory_symlink("train", at("test"));
  for (const int size : {16, 0}) {
    if (size == 0) {  // in memory
      fs::remove_all(at("train"));
      add_pictures("train", 2);
      fs::copy(at("train"), at("test"), fs::copy_options::recursive);
    }
    EXPECT_THAT(notes(size), note(4, "test")) << size;
    fs::remove_all(at("test"));
  }
  fs::create_hard_link(at("train/cat/0.png"), at("val/dog/c.png"));
  fs::remove(at("val/dog/b.PNG"));
  fs::copy_file(at("train/dog/1.png"), at("val/cat/c.png"));
  fs::remove(at("val/cat/b.PNG"));
  EXPECT_THAT(notes(), note(2, "validation"));
  EXPECT_THAT(open_data(find(datasets(), "packed"), packed()).notes, note(2, "validation"));
  EXPECT_THAT(notes_of_packing_, note(2, "validation"));
  EXPECT_THAT(notes(), Contains(HasSubstr("2 of 4 validation samples have a copy in anoth")));
  fs::remove(at("val/dog/c.png"));
  write_picture(at("val/dog/c.png"), 30, 30, 7);
  EXPECT_THAT(notes(), note(1, "validation"));
}

TEST_F(Photos, WithEqualEndsAndSizesAreNoCopies) {
  constexpr std::uint32_t kWidth = 64;  // 12 kB of pixels, of which the check reads the ends
  Bytes bmp{'B', 'M', 0, 0,      0, 0, 0, 0,      0, 0, 54, 0, 0, 0,  40,
            0,   0,   0, kWidth, 0, 0, 0, kWidth, 0, 0, 0,  1, 0, 24, 0};
  bmp.resize(54 + 3 * kWidth * kWidth, 9);
  std::fill(bmp.begin() + 30, bmp.begin() + 54, 0);
  if (!can_read(bmp)) return;
  put_image(at("train/cat/c.bmp"), bmp);
  put_image(at("test/dog/c.bmp"), bmp);
  EXPECT_THAT(notes(), Contains(HasSubstr("1 of 1 test samples are training")));
  bmp[6000] = 7;
  put_image(at("test/dog/c.bmp"), bmp);
  EXPECT_THAT(notes(), Not(Contains(HasSubstr("samples are"))));
}

TEST_F(Photos, OfOneMoreFolderAreFound) {
  DataSource outer = source(), divided = source();
  const DataOfCheckpoint trained{{"cat", "dog"}, to_text(Normalisation{}, 3)};
  fs::create_directories(at("archive/photos"));
  for (const char* part : {"train", "val"}) fs::rename(at(part), at("archive/photos") / part);
  outer.place.folders = divided.place.folders = {at("archive")};
  divided.validation = 0.1;
  const std::string inner = at("archive/photos").string();
  const Words words{at("archive").string() + " has no train/, but " + inner + " has",
                    "Pass --data " + inner + "."};
  const std::vector<std::string_view> says{words.begin(), words.end()};
  const auto all_say = [&] {
    refuses(outer, words);
    expect_error(says, [&] { open_test_folder(outer, trained); });
    expect_error(says, [&] { pack_images(outer, at("photos.h5"), notes_of_packing_); });
    DataSource memory = outer;
    memory.images.size = 0;
    refuses(memory, words);
  };
  all_say();
  refuses(divided, words);
  fs::create_directories(at("archive/__MACOSX"));
  fs::create_directories(at("archive/docs"));
  all_say();
  outer.place.folders = {inner};
  EXPECT_EQ(open_folder(outer).train->size(), 4);
  outer.place.folders = {at("archive")};  // CLASS/train, not one more folder
  fs::create_directories(at("archive/docs/train"));
  refuses(outer, {"Pass --validation"});
}

TEST_F(Photos, RefuseWhatCannotBeTrainedOn) {
  const OpenedData pair = open();
  put(at("train/cat/a.png"), "no image");
  expect_error({"train/cat/a.png"}, [&] { read(*pair.train, 0); });  // changed during the run
  write_picture(at("train/cat/a.png"), 45, 55, 5);
  for (const char* name : {"val/dog", "val/cat"}) fs::remove_all(at(name));
  refuses({"val contains no images"});
  fs::remove_all(at("val"));
  refuses({"neither val/ nor test/"});
}

TEST_F(Photos, NameAllDamagedFilesOrLeaveThemOut) {
  DataSource asked = source();
  const std::string before = open_folder(asked).identity;
  put(at("train/cat/0.png"), "");
  put(at("train/cat/x\n.jpg"), "no image");
  const std::string whole = contents(at("train/dog/a.png"));
  put(at("val/dog/cut.png"), whole.substr(0, whole.size() - 30));
  std::string wide = whole;
  wide.replace(16, 8, std::string("\0\0\x75\x30\0\0\x75\x30", 8));  // 30,000 x 30,000 pixels
  put(at("val/dog/wide.png"), wide);
  refuses(asked, {"4 of 12", "0.png", "x?.jpg", "cut.png", "wide.png", "--check-images skip"});
  // Each of two ranks checks its half, and both see the same.
  asked.images.check = "skip";
  const OpenedData pair = open_folder(asked);
  EXPECT_EQ(pair.train->size(), 4);
  EXPECT_EQ(pair.validation->size(), 4);
  EXPECT_EQ(pair.identity, before);
  ASSERT_EQ(pair.notes.size(), 1u);
  EXPECT_THAT(pair.notes[0], HasSubstr("4 of 12"));
  // Damage behind the header of a file that ends well.
  for (std::string name : {"0.png", "x\n.jpg"}) fs::remove(at("train/cat/" + name));
  for (std::string name : {"cut.png", "wide.png"}) fs::remove(at("val/dog/" + name));
  std::string bad = whole;
  bad[bad.size() / 2] ^= 0x55;
  put(at("train/dog/bad.png"), bad);
  asked.images.check = "headers";
  EXPECT_EQ(open_folder(asked).train->size(), 5);
  asked.images.check = "decode";
  refuses(asked, {"bad.png"});
}

/// A file in which one byte is changed so that only decoding it shows the damage.
std::string damaged_behind_its_header(const std::string& whole, const fs::path& place) {
  for (std::size_t i = whole.size() - 1; i-- > 12;) {
    std::string file = whole;
    file[i] ^= 0x55;
    put(place, file);
    try {
      check_image(place, /*whole=*/false);
    } catch (const DamagedImage&) {
      continue;
    }
    try {
      check_image(place, /*whole=*/true);
    } catch (const DamagedImage&) {
      return file;
    }
  }
  ADD_FAILURE() << place << ": no byte shows it";
  return "";
}

/// Whole files of each format by their endings.
std::map<std::string, std::string> files_of_all_formats(const fs::path& folder) {
  const auto bytes_of = [](std::string_view hexadecimal) {
    std::string bytes;
    for (std::size_t i = 0; i < hexadecimal.size(); i += 2)
      bytes.push_back(
          static_cast<char>(std::stoi(std::string(hexadecimal.substr(i, 2)), nullptr, 16)));
    return bytes;
  };
  write_picture(folder / "a.png", 33, 21, 90);
  write_jpeg(folder / "a.jpg", 40, 30);
  std::map<std::string, std::string> files{
      {"png", contents(folder / "a.png")},
      {"jpg", contents(folder / "a.jpg")},
      {"bmp", bytes_of("424d4e00000000000000360000002800000003000000020000000100180000000000180000"
                       "00c40e0000c40e000000000000000000001e140a3264c8ffffff0000000000ff00ff00ff00"
                       "00000000")},
      {"gif", bytes_of("47494638376103000200820000ffffff00ff00c864320a141eff00000000ff000000000000"
                       "2c0000000003000200000809000904283040008080003b")},
      {"webp", bytes_of("524946464200000057454250565038"
                        "4c360000002f024000002f40906db341dcebfe32d32093b6c95fff76666d64d236ad87fdf3"
                        "afb2f31f68e491acfb06040294b1e2816d22fa1fe305")}};
  for (const char* name : {"a.png", "a.jpg"}) fs::remove(folder / name);
  std::erase_if(files, [](const auto& file) {
    return !can_read(Bytes(file.second.begin(), file.second.end()));
  });
  return files;
}

/// The labels of the first `count` samples of an epoch.
std::set<std::int32_t> labels_of_epoch(const Dataset& set, std::int64_t count) {
  HostLoader loader(set, {.seed = 1, .global_batch = count, .workers = 2});
  const Batch batch = loader.next();
  return {batch.labels.as<std::int32_t>(), batch.labels.as<std::int32_t>() + count};
}

TEST_F(Photos, DamagedAfterTheStartAreSkippedOrNameTheCure) {
  for (const auto& [ending, whole] : files_of_all_formats(at("train/cat"))) {
    const fs::path file = at("train/emu/z." + ending), tested = at("val/emu/z." + ending);
    for (const fs::path& each : {file, tested}) {
      fs::create_directories(each.parent_path());
      put(each, damaged_behind_its_header(whole, each));
    }
    const DataSource pack = packed();
    for (const bool in_pack : {false, true}) {
      SCOPED_TRACE(ending + (in_pack ? " packed" : ""));
      DataSource asked = in_pack ? pack : source();
      const auto open = [&] { return in_pack ? open_packed(asked) : open_folder(asked); };
      const std::string name = "emu/z." + ending;
      const OpenedData refused = open();
      for (const Dataset* set : {refused.train.get(), refused.validation.get()}) {
        expect_error({name, "--check-images skip", "--check-images decode"},
                     [&] { labels_of_epoch(*set, 5); });
      }
      asked.images.check = "skip";
      const OpenedData pair = open();
      EXPECT_EQ(pair.identity, refused.identity) << "a run without the option can be resumed";
      EXPECT_EQ(labels_of_epoch(*pair.train, 5), (std::set<std::int32_t>{0, 1}));
      std::vector<float> values(pair.train->sample_shape().count());
      EXPECT_FALSE(pair.validation->read_if_whole(4, nullptr, values.data(), Type::f32));
      EXPECT_TRUE(pair.validation->read_if_whole(0, nullptr, values.data(), Type::f32));
      const std::vector<std::string> named = pair.train->damage()->take();
      ASSERT_EQ(named.size(), 2u) << "one of each set, once";
      EXPECT_TRUE(mentions(named[0] + named[1], {name, in_pack ? "h5" : tested.string()}));
    }
    for (const char* made : {"train/emu", "val/emu", "photos.h5"}) fs::remove_all(at(made));
  }
}

/// While it lives, this process can open no file.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &former_);
    const rlimit none{0, former_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &former_); }

 private:
  rlimit former_{};
};

// They are not damaged: without them the weights would depend on the time.
TEST_F(Photos, ThatChangeOrCannotBeReadNowAreNeverSkipped) {
  DataSource asked = source();
  asked.images.check = "skip";
  const fs::path file = at("train/cat/a.png");
  const std::string before = contents(file);
  const OpenedData pair = open_folder(asked);
  const auto refuses = [&](const std::vector<std::string_view>& words) {
    expect_error(words, [&] { labels_of_epoch(*pair.train, 4); });
  };
  std::string other = before;
  other[before.size() / 2] ^= 1;
  for (const std::string& now : {before.substr(0, 100), before + "x", std::string(), other}) {
    put(file, now);
    refuses({"train/cat/a.png", "changed during the run"});
  }
  fs::remove(file);
  refuses({"train/cat/a.png", "restore it"});
  fs::create_directory(file);
  refuses({"train/cat/a.png", "regular file"});
  fs::remove(file);
  put(file, before);
  EXPECT_EQ(labels_of_epoch(*pair.train, 4), (std::set<std::int32_t>{0, 1})) << "restored";
  {
    const NoMoreFiles limit;
    refuses({"train/", "ulimit"});
  }
  int calls = 0;
  asked.host.gather = [&](const HostRanks::Work& mine) {
    if (++calls == 1) return std::vector{mine()};
    const NoMoreFiles limit;
    return std::vector{mine()};
  };
  this->refuses(asked, {".png", "ulimit"});  // at start
  asked = packed();
  fs::last_write_time(asked.place.folder(),
                      fs::last_write_time(asked.place.folder()) - std::chrono::hours(1));
  const OpenedData pack = open_packed(asked);
  std::string whole = contents(asked.place.folder());
  for (std::size_t i = whole.size() / 3; i < whole.size(); ++i) whole[i] ^= 1;
  std::fstream(asked.place.folder()) << whole;
  expect_error({"photos.h5", "changed during the run"}, [&] { labels_of_epoch(*pack.train, 4); });
}

TEST_F(Photos, AnErrorAtTheIndexReachesTheOtherRanks) {
  DataSource asked = source();
  int calls = 0;
  asked.host = {.rank = 1, .count = 2, .gather = [&](const HostRanks::Work& mine) {
                  if (++calls == 1) return std::vector<std::string>{"no index", mine()};
                  EXPECT_ANY_THROW(mine()) << "within gather()";
                  throw Error("agreed");
                  return std::vector<std::string>{};
                }};
  refuses(asked, {"agreed"});
}

TEST_F(Photos, PackedAreTheSame) {
  const fs::path stale = temporary_name(at("other.h5"));
  put(stale, "of a writer that was killed");
  DataSource asked = packed();
  EXPECT_FALSE(fs::exists(stale));
  const OpenedData pack = open_packed(asked), pair = open();
  const auto without_contents = [](const std::string& identity) {
    return replaced(identity, "[a-z]+ (packed )?photos = [^\n]*\n", "");
  };
  EXPECT_EQ(without_contents(pack.identity), without_contents(pair.identity));
  EXPECT_THAT(pack.identity, HasSubstr("training packed photos = crc32c"));
  EXPECT_EQ(pack.class_names, pair.class_names);
  for (std::int64_t i = 0; i < 4; ++i) {
    Random random(1, Purpose::augment, 0, 1), same = random;
    EXPECT_EQ(read(*pack.train, i, &random), read(*pair.train, i, &same));
    EXPECT_EQ(read(*pack.validation, i), read(*pair.validation, i));
    EXPECT_EQ(pack.train->label(i), pair.train->label(i));
  }
  expect_error({"exists"}, [&] { packed(); });
  // A damaged file is refused when it is opened, or when the image is read.
  const std::string whole = contents(asked.place.folder());
  const std::vector<float> first = read(*pair.train, 0);
  asked.place.folders = {at("damaged.h5")};
  int refused = 0;
  for (std::size_t place = 0; place < whole.size(); place += 1 + whole.size() / 293) {
    std::string damaged = whole;
    damaged[place] ^= 0x41;
    put(asked.place.folder(), place % 5 == 0 ? whole.substr(0, place) : damaged);
    try {
      const OpenedData opened = open_packed(asked);
      for (std::int64_t i = 0; i < 4; ++i) read(*opened.validation, i);
      EXPECT_EQ(read(*opened.train, 0), first);
      for (std::int64_t i = 0; i < 4; ++i) read(*opened.train, i);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 150);
  for (const fs::path& left : fs::directory_iterator(folder_.path()))
    EXPECT_EQ(left.string().find(".tmp-"), std::string::npos);
}

TEST_F(Photos, OfGreyHaveOneChannel) {
  DataSource asked = source();
  asked.images.colours = "grey";
  const OpenedData grey = open_folder(asked), rgb = open();
  EXPECT_EQ(grey.validation->sample_shape(), (Shape{1, 16, 16, 1}));
  const std::vector<float> one = read(*grey.validation, 0), three = read(*rgb.validation, 0);
  double light = 0;
  for (std::size_t c = 0; c < 3; ++c)
    light += std::array{0.299, 0.587, 0.114}[c] * level(*rgb.validation, three, 3 * 100 + c);
  EXPECT_NEAR(level(*grey.validation, one, 100), light, 0.6);
  SampleFormat format = format_from(to_text(grey.train->format()));
  format.normalisation = grey.validation->format().normalisation;
  const std::string name = at("val/cat/a.png");
  EXPECT_EQ(read(*images_for_use({.names = {name}, .labels = {0}, .classes = 2}, format), 0), one);
}

TEST_F(Photos, AreEditedByTheNumbersOfTheSample) {
  DataSource asked = source();
  asked.images.augmentations =
      std::make_shared<PhotoAugmentations>(PhotoAugmentations{{{{0.4, 0.4, 0.4, 0.1}}, {true}}});
  const OpenedData edited = open_folder(asked), plain = open();
  Random random(1, Purpose::augment, 3, 2), same = random, other = random;
  const auto values = read(*edited.train, 2, &random);
  EXPECT_EQ(values, read(*edited.train, 2, &same));
  EXPECT_NE(values, read(*plain.train, 2, &other));
  EXPECT_EQ(read(*edited.validation, 2), read(*plain.validation, 2))
      << "evaluation sees no changes";
}

TEST_F(Photos, HaveAnIdentityOfNamesSizesAndContents) {
  const std::string before = open().identity;
  const fs::path changed = at("train/cat/a.png");
  for (const std::size_t place : {std::size_t{40}, contents(changed).size() - 60}) {
    const std::string whole = contents(changed);
    std::string other = whole;
    other[place] ^= 1;
    put(changed, other);
    const std::string now = open().identity;
    EXPECT_NE(now, before) << "the same size";
    EXPECT_EQ(now.substr(0, now.find('\n')), before.substr(0, before.find('\n')))
        << "names and sizes are as they were";
    put(changed, whole);
  }
  fs::last_write_time(changed, fs::last_write_time(changed) + std::chrono::hours(1));
  EXPECT_EQ(open().identity, before) << "a copy is the same";
  EXPECT_EQ(open(8).identity, before);
  write_picture(at("train/dog/c.png"), 30, 30, 3);
  EXPECT_NE(open().identity, before);
  fs::remove(at("train/dog/c.png"));
  EXPECT_EQ(open().identity, before);
  write_picture(at("train/dog/a.png"), 90, 90, 3);
  EXPECT_NE(open().identity, before);
}

TEST_F(Photos, OfTestsHaveTheCheckpointsClasses) {
  const OpenedData both = open();
  const DataOfCheckpoint trained{{"ant", "dog", "cat"},
                                 to_text(both.train->format().normalisation, 3),
                                 to_text(both.train->format())};
  const OpenedData pair = open_test_folder(source(), trained);
  EXPECT_EQ(pair.train, nullptr);
  EXPECT_EQ(pair.test->classes(), 3);
  EXPECT_EQ(pair.test->label(0), 2);
  EXPECT_EQ(pair.test->label(2), 1);
  EXPECT_EQ(read(*pair.test, 1), read(*both.validation, 1)) << "the same bits";
  expect_error({"cat"}, [&] {
    open_test_folder(source(), {{"ant", "dog"}, trained.normalisation});
  });
}

TEST_F(Photos, InUseAreSeenAsInEvaluation) {
  const OpenedData pair = open();
  SampleFormat format = format_from(to_text(pair.train->format()));
  format.normalisation = pair.train->format().normalisation;
  const std::vector<std::string> names{at("val/cat/a.png").string()};
  const auto set = images_for_use({.names = names, .labels = {0}, .classes = 2}, format);
  EXPECT_EQ(set->sample_shape(), (Shape{1, 16, 16, 3}));
  EXPECT_EQ(read(*set, 0), read(*pair.validation, 0));

  const SampleFormat grey{.kind = SampleFormat::Kind::images, .size = {4, 8, 1}};
  const auto small = images_for_use({.names = names, .labels = {0}, .classes = 2}, grey);
  EXPECT_EQ(small->sample_shape(), (Shape{1, 4, 8, 1}));
  const std::vector<float> values = read(*small, 0);
  EXPECT_GT(values[7], values[0]) << "red grows to the right";
  EXPECT_NEAR(values[18], 0.299 * 143 + 0.587 * 143 + 0.114 * 25, 20);

  const SampleFormat planes{.kind = SampleFormat::Kind::images, .size = {4, 4, 3, true}};
  const auto colours = images_for_use({.names = names, .labels = {0}, .classes = 2}, planes);
  EXPECT_NEAR(read(*colours, 0)[2], 25, 1) << "blue";
  std::vector<std::uint8_t> buffer(48);
  EXPECT_EQ(colours->stored(0, buffer.data())[2 * 16], 25) << "the third plane";
}

TEST(Format, ComesBackFromItsText) {
  const SampleFormat format{.kind = SampleFormat::Kind::images, .size = {32, 30, 3, true}};
  const SampleFormat back = format_from(to_text(format));
  EXPECT_EQ(back.kind, format.kind);
  EXPECT_EQ(back.size, format.size);
  EXPECT_FALSE(back.files);
  for (
      const char* text :
      {"", "{}", "[]", R"({"kind": "films"})",
       R"({"kind": "images", "height": -1, "width": 1, "channels": 1, "planes": false, "files": false})",
       R"({"kind": "crops", "height": 1, "width": 32, "channels": 3, "planes": true, "files": false})",
       R"({"kind": "images", "height": 1.5, "width": 1, "channels": 1, "planes": false, "files": false})",
       R"({"kind": "images", "height": 1e9, "width": 1, "channels": 1, "planes": false, "files": false})"})
    EXPECT_NE(error_of([&] { format_from(text); }), "") << text;
}

}  // namespace
}  // namespace lockstep
