// Images of one's own: how they are moved, mirrored and standardised, and the folders and HDF5
// files that hold them; whatever is no such image is refused in words.
#include "src/data/sets/images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "src/data/augment.h"
#include "src/data/normalisation.h"
#include "src/data/samples.h"
#include "src/files/hdf5.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/image_bytes.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
/// A PNG file of 3 x 2 pixels, whose values begin with `first` and count on.
Bytes counted(int first, int width = 3, int height = 2) {
  Bytes rgb(18);
  std::iota(rgb.begin(), rgb.end(), static_cast<std::uint8_t>(first));
  return png_of(rgb, width, height);
}

TEST(Images, AreMirroredInTurns) {
  int first = 0;
  for (std::uint32_t index = 0; index < 400; ++index) {
    bool before = false;
    for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
      Random random(1, Purpose::augment, epoch, index), same = random;
      const Move move = Move::draw(random, 2, /*alternate=*/true);
      EXPECT_EQ(move.top, static_cast<int>(same.below(5)) - 2) << "moved as ever";
      EXPECT_EQ(move.left, static_cast<int>(same.below(5)) - 2);
      if (epoch > 0) {
        EXPECT_NE(move.mirror, before) << index << " in epoch " << epoch;
      }
      before = move.mirror;
      if (epoch == 0) first += before;
    }
  }
  EXPECT_NEAR(first, 200, 40) << "by chance in the first epoch";
}

TEST(Images, AreMovedWithReflectionAndMirrored) {
  const SampleFormat format{.kind = SampleFormat::Kind::images,
                            .size = {12, 12, 1},
                            .normalisation = {{1}, {2}},
                            .moved = true,
                            .padding = 4};
  Bytes pixels;
  for (int i = 0; i < 144; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
  const auto reflected = [](int i) { return i < 0 ? -i : i > 11 ? 22 - i : i; };
  std::set<std::pair<int, int>> moves;
  for (std::uint32_t index = 0; index < 200; ++index) {
    Random random(1, Purpose::augment, 0, index), same = random;
    std::vector<float> out(144);
    make_sample(format, {pixels.data(), &random, {}}, nullptr, out.data(), Type::f32);
    const int top = static_cast<int>(same.below(9)) - 4, left = static_cast<int>(same.below(9)) - 4;
    const bool mirror = same.below(2) == 1;
    moves.insert({top, left});
    for (int row = 0; row < 12; ++row)
      for (int column = 0; column < 12; ++column) {
        const int x = mirror ? 11 - column : column;
        ASSERT_EQ(out[row * 12 + column],
                  static_cast<float>(reflected(row + top) * 12 + reflected(x + left) - 1) / 2);
      }
  }
  EXPECT_GT(moves.size(), 60u);
}

TEST(Images, InPlanesAreTheSameImage) {
  const Bytes together{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
      planes{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};
  std::vector<float> one(12), two(12);
  std::vector<Bfloat16> half(12);
  SampleFormat format{.kind = SampleFormat::Kind::images,
                      .size = {2, 2, 3},
                      .normalisation = {{1, 2, 3}, {2, 4, 8}}};
  make_sample(format, {together.data()}, nullptr, one.data(), Type::f32);
  format.size.planes = true;
  make_sample(format, {planes.data()}, nullptr, two.data(), Type::f32);
  make_sample(format, {planes.data()}, nullptr, half.data(), Type::bf16);
  EXPECT_EQ(one, two);
  EXPECT_EQ(one[4], (5 - 2) / 4.0f);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(half[i].bits, Bfloat16(one[i]).bits);
}

class ImageFolder : public testing::Test {
 protected:
  ImageFolder() {
    int first = 0;
    for (const char* part : {"train", "test"})
      for (const char* name : {"cat", "dog"}) {
        for (const char* file : {"a.png", "b.png"})
          put_image(folder_ / part / name / file, counted(first += 10));
      }
  }
  OpenedData open() { return open_folder({{{folder_.path()}}}); }
  OpenedData open_test(const DataOfCheckpoint& trained) {
    return open_test_folder({{{folder_.path()}}}, trained);
  }
  void refuses(const std::vector<std::string>& words) {
    expect_error({words.begin(), words.end()}, [&] { open(); });
  }
  fs::path at(const std::string& path) { return folder_ / path; }
  TemporaryDirectory folder_;
};

TEST_F(ImageFolder, ClassesAreItsFoldersInOrder) {
  put(at("train/cat/.hidden"), "no image");
  const OpenedData pair = open();
  EXPECT_EQ(pair.class_names, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(pair.train->size(), 4);
  ASSERT_EQ(pair.test->size(), 4);
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(pair.train->label(1), 0);
  EXPECT_EQ(pair.train->label(2), 1);
  // The training images' red values: 10 + 3 i and so on, i = 0 .. 5, for 10, 20, 30 and 40.
  double mean = 0, squares = 0;
  for (int first = 10; first <= 40; first += 10)
    for (int i = 0; i < 6; ++i) {
      mean += (first + 3 * i) / 24.0;
      squares += std::pow(first + 3 * i, 2) / 24;
    }
  EXPECT_NEAR(read(*pair.test, 0)[3], (50 + 3 - mean) / std::sqrt(squares - mean * mean), 1e-5);
}

TEST_F(ImageFolder, TestImagesAreSeenAsInTrainingWithoutTrainingImages) {
  const OpenedData both = open();
  const std::string text = to_text(both.train->format().normalisation, 3);
  fs::remove_all(at("train"));
  const OpenedData pair = open_test({both.class_names, text});
  EXPECT_EQ(pair.train, nullptr);
  ASSERT_EQ(pair.test->size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(read(*pair.test, i), read(*both.test, i)) << "the same bits";
    EXPECT_EQ(pair.test->label(i), both.test->label(i));
  }
  EXPECT_NE(both.identity.find(pair.identity), std::string::npos) << pair.identity;
}

TEST_F(ImageFolder, TestClassesHaveTheCheckpointsLabels) {
  fs::remove_all(at("train"));
  const std::string text = to_text({}, 3);
  const OpenedData all = open_test({{"ant", "dog", "bee", "cat"}, text});
  EXPECT_EQ(all.test->classes(), 4);
  EXPECT_EQ(all.test->label(0), 3) << "cat";
  EXPECT_EQ(all.test->label(2), 1) << "dog";
  EXPECT_EQ(all.class_names.size(), 4u);
  expect_error({"does not know: cat."}, [&] { open_test({{"dog", "wolf"}, text}); });
  fs::remove_all(at("test/dog"));
  const OpenedData one = open_test({{"cat", "dog"}, text});
  EXPECT_EQ(one.test->size(), 2);
  EXPECT_EQ(one.test->classes(), 2);
}

TEST(Normalisation, ComesBackBitForBit) {
  const Normalisation normalisation{{125.306918f, 0, 1.0f / 3, 9}, {62.993219f, 1, 255.0f / 7, 9}};
  const std::string text = to_text(normalisation, 3);
  const Normalisation back = normalisation_from(text, 3);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(back.mean[c], normalisation.mean[c]);
    EXPECT_EQ(back.deviation[c], normalisation.deviation[c]);
  }
  EXPECT_EQ(to_text({{1.5f}, {2.0f}}, 1), R"({"mean": [1.5], "deviation": [2]})");
}

TEST(Normalisation, RefusesDamagedTexts) {
  for (const char* text :
       {"", "mean 3", "{}", "[1]", R"({"mean": [1], "deviation": ["a"]})",
        R"({"mean": [1], "deviation": [0]})", R"({"mean": [1], "deviation": [-1]})",
        R"({"mean": [1], "deviation": [1e-44]})", R"({"mean": [1], "deviation": [1e30]})",
        R"({"mean": [-1e30], "deviation": [1]})", R"({"mean": [1e99], "deviation": [1]})",
        R"({"mean": [1, 2], "deviation": [1]})"}) {
    EXPECT_NE(error_of([&] { normalisation_from(text, 1); }), "") << text;
  }
  expect_error({"3 channels"}, [] { normalisation_from(to_text({}, 3), 1); });
}

TEST_F(ImageFolder, KeepsTheIdentityOfOldRuns) {
  // Figures of the first version: a run resumes only if its data set has the same lines.
  EXPECT_EQ(open().identity,
            "training images = 4, crc32c e5362390 and d6094d75\n"
            "test images = 4, crc32c 6802c3a3 and d6094d75\nclasses = cat, dog\n");
}

TEST_F(ImageFolder, SubFoldersOfAClassBelongToIt) {
  const std::string before = open().identity;
  put_image(at("train/cat/a/z.png"), counted(100));
  put_image(at("train/cat/a/deep/0.png"), counted(110));
  put_image(at("train/cat/0/z.png"), counted(120));
  put_image(at("train/cat/.hidden/z.png"), counted(130));
  const OpenedData pair = open();
  ASSERT_EQ(pair.train->size(), 7);
  EXPECT_EQ(pair.test->size(), 4);
  // A folder's own files come first, then its folders by name: a.png, b.png, 0/, a/, a/deep/.
  const std::vector<std::uint8_t> wanted{10, 20, 120, 100, 110, 30, 40};
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(*pair.train->stored(i, nullptr), wanted[i]) << i;
    EXPECT_EQ(pair.train->label(i), i < 5 ? 0 : 1) << i;
  }
  EXPECT_NE(pair.identity, before);
}

TEST_F(ImageFolder, LoopsOfLinksEnd) {
  const std::string before = open().identity;
  // Without an end 8 links to one's own folder are 8^40 ways.
  for (int i = 0; i < 8; ++i)
    fs::create_directory_symlink(i % 2 == 0 ? "." : "../cat",
                                 at("train/cat/l" + std::to_string(i)));
  EXPECT_EQ(open().identity, before);
  fs::create_directory_symlink("..", at("train/cat/train"));
  fs::create_directory_symlink("../..", at("train/dog/data"));
  EXPECT_EQ(open().identity, before) << "they hold other classes";
  put_image(at("elsewhere/c.png"), counted(100));
  fs::create_directory_symlink(at("elsewhere"), at("train/cat/one"));
  fs::create_directory_symlink(at("elsewhere"), at("train/cat/two"));
  EXPECT_EQ(open().train->size(), 5) << "a linked folder is read once";
}

TEST_F(ImageFolder, RefusesWhatDoesNotFit) {
  fs::create_directories(at("train/a\nb"));
  refuses({"contains a class whose name has a line end"});
  fs::remove_all(at("train/a\nb"));
  const fs::path file = at("train/dog/b.png");
  std::string damaged = contents(file);
  put(file, "no image at all");
  refuses({"1 of 8 image files cannot be read: " + file.string(), "it is no JPEG, PNG"});
  damaged[damaged.size() / 2] ^= 0x55;
  put(file, damaged);
  refuses({file.string() + " is no readable image: "});
  put_image(file, counted(1, 2, 3));
  refuses({file.string() + " is 3x2 pixels and " + at("train/cat/a.png").string() +
               " is 2x3: all images must have one size",
           "--image-size"});
  fs::copy(at("train/cat/a.png"), file, fs::copy_options::overwrite_existing);
  fs::rename(at("test"), at("val"));
  refuses({"no test/", "--image-size"});
}

class ImagesInHdf5 : public testing::Test {
 protected:
  ImagesInHdf5() {
    write("train.h5", {2, 1, 2}, {0, 50, 100, 150}, {2}, {0, 2});
    write("test.h5", {1, 1, 2}, {75, 0}, {1}, {1});
  }
  void write(const char* name, const Shape& shape, const std::vector<float>& images,
             const Shape& shape_of_labels, const std::vector<float>& labels,
             const std::string& class_names = "") {
    Hdf5Writer writer(folder_ / name);
    if (!class_names.empty()) writer.attribute("class_names", class_names);
    writer.array("images", shape, images);
    writer.array("labels", shape_of_labels, labels);
    writer.commit();
  }
  OpenedData open() { return open_hdf5_images({{{folder_.path()}}}); }
  void refuses(const std::vector<std::string_view>& words) {
    expect_error(words, [&] { open(); });
  }
  TemporaryDirectory folder_;
};

TEST_F(ImagesInHdf5, AreRead) {
  const OpenedData pair = open();
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 1, 2, 1}));
  EXPECT_EQ(pair.train->classes(), 3);
  EXPECT_EQ(pair.train->label(1), 2);
  EXPECT_EQ(read(*pair.test, 0)[0], 0) << "the training images' mean";
}

TEST_F(ImagesInHdf5, TestImagesAreSeenAsInTrainingWithoutTrainingImages) {
  const OpenedData both = open();
  const std::string text = to_text(both.train->format().normalisation, 1);
  const auto open_test = [&] {
    return open_hdf5_test_images({{{folder_.path()}}}, {{"0", "1", "2"}, text});
  };
  fs::remove(folder_ / "train.h5");
  const OpenedData pair = open_test();
  EXPECT_EQ(read(*pair.test, 0), read(*both.test, 0));
  EXPECT_EQ(pair.test->classes(), 3);
  write("test.h5", {3, 1, 2}, {75, 0, 1, 1, 2, 2}, {3}, {1, 7, 3});
  expect_error({"does not know: 3, 7."}, open_test);
}

TEST_F(ImagesInHdf5, ClassesHaveTheNamesOfTheAttribute) {
  using Names = std::vector<std::string>;
  const auto names = [&](const std::string& text) -> Names {
    write("train.h5", {2, 1, 2}, {0, 50, 100, 150}, {2}, {0, 2}, text);
    return open().class_names;
  };
  EXPECT_EQ(names(""), (Names{"0", "1", "2"}));
  EXPECT_EQ(names("cat\ndog, small\nfox\nowl"), (Names{"cat", "dog, small", "fox", "owl"}));
  EXPECT_EQ(names("cat\r\ndog\r\nfox\r\n"), (Names{"cat", "dog", "fox"}));
  EXPECT_NE(open().identity.find("classes = cat, dog, fox"), std::string::npos);
  expect_error({"control character"}, [&] { names("cat\n\x1b[31mdog\nfox"); });
  for (const char* bad : {"cat\ndog", "cat\ndog\ncat", "cat\n\nfox"})
    expect_error({"train.h5", "class_names", "need 3"}, [&] { names(bad); });
}

TEST_F(ImagesInHdf5, LabelsMayBeAColumn) {
  write("train.h5", {2, 1, 2}, {0, 50, 100, 150}, {2, 1}, {0, 2});
  EXPECT_EQ(open().train->label(1), 2);
}

TEST_F(ImagesInHdf5, RefusesOtherFiles) {
  struct Case {
    Shape shape, shape_of_labels;
    std::vector<float> images, labels;
    std::vector<std::string_view> words;
  };
  const std::vector<float> fifty(50), many(120);
  const Case cases[] = {
      {{1, 1, 2}, {1}, {256, 0}, {1}, {"number 0 of \"images\" is 256"}},
      {{1, 1, 2}, {1}, {0.5f, 0}, {1}, {"number 0 of \"images\" is 0.5"}},
      {{1, 1, 2}, {1}, {5, 0}, {-1}, {"number 0 of \"labels\" is -1"}},
      {{1, 1, 2}, {2}, {5, 0}, {1, 1}, {"images of shape 1x1x2 and labels of shape 2"}},
      {{1, 2, 2}, {1}, {5, 0, 1, 1}, {1}, {"Resize the images"}},
      {{1, 5, 2, 5}, {1}, fifty, {1}, {"images of 5 channels"}},
      {{1, 3, 8, 5}, {1}, many, {1}, {"1x3x8x5", "channels", "numpy.moveaxis(images, 1, -1)"}},
      {{1, 1, 2}, {1, 3}, {5, 0}, {1, 0, 0}, {"labels of shape 1x3", "numpy.argmax"}}};
  for (const Case& c : cases) {
    write("test.h5", c.shape, c.images, c.shape_of_labels, c.labels);
    refuses(c.words);
  }
  Hdf5Writer writer(folder_ / "test.h5");
  writer.array("x_test", {1, 1, 2}, std::vector<float>{5, 0});
  writer.array("y_test", {1}, std::vector<float>{1});
  writer.commit();
  refuses({"no array \"images\"", "x_test, y_test"});
  put(folder_ / "test.h5", "no file of HDF5");
  refuses({"test.h5"});
  fs::remove(folder_ / "test.h5");
  refuses({"test.h5"});
}

}  // namespace
}  // namespace lockstep
