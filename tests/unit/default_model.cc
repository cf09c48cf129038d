// The defaults of a run on photos.
#include "apps/run/default_model.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "net/initial_weights.h"
#include "src/base/table.h"
#include "src/data/image/packed.h"
#include "src/data/validation.h"
#include "tests/support/files.h"
#include "tests/support/image_bytes.h"
#include "tests/support/parsed_options.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class DefaultModelTest : public testing::Test {
 protected:
  void write(const std::string& file, int width, int height) const {
    const fs::path path = folder_ / file;
    fs::create_directories(path.parent_path());
    put_image(path, png_of(Bytes(std::size_t{3} * width * height), width, height));
  }
  /// Two classes of three training images and a test image.
  void write_all(int width, int height) const {
    for (const char* name : {"cat", "dog"}) {
      for (const char* file : {"a", "b", "c"})
        write(fmt::format("train/{}/{}.png", name, file), width, height);
      write(fmt::format("test/{}/a.png", name), width + 1, height);
    }
  }
  DefaultModel choice(const std::string& data_set = "folder") const {
    return default_for_photos(options_, find(datasets(), data_set));
  }
  /// The recipe of `model`; empty: of the default one.
  std::map<std::string, std::string> recipe(const std::string& model = "") const {
    const Recipe recipe = recipe_for_photos(find(models(), model.empty() ? choice().name : model),
                                            /*tuned=*/!options_.model.init.empty());
    std::map<std::string, std::string> values(recipe.begin(), recipe.end());
    EXPECT_EQ(values.size(), recipe.size()) << "an option is set twice";
    return values;
  }

  const TemporaryDirectory folder_;
  Options options_;

 private:
  void SetUp() override { options_.data.place.folders = {folder_.path()}; }
};

TEST_F(DefaultModelTest, ImagesWithoutClassFolders) {
  write("one.png", 32, 40);
  EXPECT_EQ(choice().name, "resnet20");
}

TEST_F(DefaultModelTest, TheImagesDecide) {
  EXPECT_EQ(choice().name, "resnet18") << "no images: opening the data reports it";
  write_all(80, 64);
  EXPECT_EQ(choice().name, "resnet18");
  EXPECT_TRUE(mentions(choice().why, {"64 pixels"}));
  write_all(63, 900);
  EXPECT_EQ(choice().name, "resnet20");
  write("train/cat/a.png", 20, 20);
  write("train/dog/b.png", 500, 500);
  std::ofstream(folder_ / "train/dog/a.png") << "no image";
  std::ofstream(folder_ / "train/cat/0.txt") << "no image";
  EXPECT_TRUE(mentions(choice().why, {"63 pixels"})) << "the median of 20, 63, 63, 63 and 500";
  fs::rename(folder_ / "train/cat", folder_ / "cat");
  fs::rename(folder_ / "train/dog", folder_ / "dog");
  fs::remove_all(folder_ / "train");
  EXPECT_EQ(choice().name, "resnet20") << "folders of classes without train/";
  options_.data.images.size = 128;
  EXPECT_EQ(choice().name, "resnet18") << "the size that the network sees";
  options_.data.images.size = 32;
  EXPECT_EQ(choice().name, "resnet20");
}

TEST_F(DefaultModelTest, PackedImagesDecideToo) {
  write_all(40, 50);
  const TemporaryDirectory out;
  std::vector<std::string> notes;
  pack_images({.place = {{folder_.path()}}}, out / "packed.h5", notes);
  options_.data.place.folders = {out / "packed.h5"};
  EXPECT_EQ(choice("packed").name, "resnet20");
  EXPECT_TRUE(mentions(choice("packed").why, {"40 pixels"}));
  std::ofstream(out / "packed.h5") << "damaged";
  EXPECT_EQ(choice("packed").name, "resnet18");
}

TEST_F(DefaultModelTest, TheRecipeSuitsASmallSet) {
  std::map<std::string, std::string> values = recipe();
  EXPECT_EQ(values["optimizer"], "sgd") << "of the model";
  EXPECT_EQ(values["epochs"], "90");
  EXPECT_EQ(values["lr"], "0.1") << "for a batch of 256";
  EXPECT_EQ(values["lr-scale-batch"], "256");
  options_.data.images.size = 32;
  values = recipe();
  EXPECT_EQ(values["epochs"], "90");
  EXPECT_EQ(values["lr-scale-batch"], "128");
  EXPECT_EQ(values.count("steps"), 0u) << "both would set the length";
}

TEST_F(DefaultModelTest, EveryModelHasTheLengthAndTheBatchOfASmallSet) {
  for (const ModelEntry& model : models()) {
    std::map<std::string, std::string> values = recipe(model.name);
    EXPECT_EQ(values["epochs"] + " " + values["global-batch"], "90 48") << model.name;
    EXPECT_EQ(values.count("steps") + values.count("batch"), 0u) << model.name;
  }
  EXPECT_EQ(recipe("vit_b_16")["warmup-epochs"], "9") << "30 of 300";
  EXPECT_EQ(recipe("vit_b_16")["lr-scale-batch"], "4096");
  EXPECT_EQ(recipe("resnet_small")["lr-scale-batch"], "128") << "no recipe: the default batch";
}

TEST_F(DefaultModelTest, ANetworkOfTheUserKeepsItsRecipe) {
  ModelEntry own = find(models(), "resnet_small");
  own.own = true;
  const auto with = [&](const Recipe& recipe) {
    own.recipe = recipe;
    return recipe_for_photos(own, /*tuned=*/false);
  };
  EXPECT_EQ(with({}), recipe_for_photos(find(models(), "resnet_small"), false));
  EXPECT_EQ(with({{"steps", "7"}, {"lr", "0.5"}, {"batch", "8"}}),
            (Recipe{{"steps", "7"}, {"lr", "0.5"}, {"batch", "8"}, {"sync-bn", "true"}}));
  EXPECT_NO_THROW(with({{"batch", "x"}})) << "reading the option reports it";
  EXPECT_EQ(with({{"lr", "0.5"}}),
            (Recipe{{"lr", "0.5"}, {"epochs", "90"}, {"global-batch", "48"}, {"sync-bn", "true"}}));
}

TEST_F(DefaultModelTest, PhotosRefuseNoRecipe) {
  write_all(40, 48);
  const auto error_with = [&](const ModelEntry& model, const std::string& option) {
    std::vector<std::string> words{"--data", folder_.path(), "--model", model.name};
    if (!option.empty()) words.push_back(option);
    std::string none;
    const auto o =
        parsed_options(words, {.name = "train_images", .dataset = "folder", .resizes = true}, none);
    const OpenedData data = open_data(find(datasets(), "folder"), o->data.source(1));
    if (!model.fits(data.train->sample_shape())) return std::string("unfit");
    try {
      o->data.set_augmentation(*data.train);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const ModelEntry& model : models())
    EXPECT_EQ(error_with(model, ""), model.words ? "unfit" : "") << model.name;
  for (const std::string option : {"--crop-padding=2", "--alternate-flips"})
    EXPECT_TRUE(mentions(error_with(find(models(), "airbench94"), option), {option.substr(0, 14)}));
}

TEST_F(DefaultModelTest, NamesOfWeightsDecide) {
  write_all(32, 32);
  const auto model = [&](const std::string& init) {
    options_.model.init = init;
    return choice().name;
  };
  EXPECT_EQ(model("weights/resnet50-11ad3fa6.pth"), "resnet50");
  EXPECT_EQ(model("ResNet18_mine.safetensors"), "resnet18");
  EXPECT_EQ(model("resnet18_cifar.safetensors"), "resnet18_cifar");
  EXPECT_EQ(model("vit_b_16"), "vit_b_16");
  EXPECT_EQ(model("resnet34/step.h5"), "resnet20") << "only the file's own name";
  EXPECT_EQ(model("resnet18d.pth"), "resnet20") << "another network: the images decide";
  EXPECT_EQ(model("resnet9.pth"), "resnet20");
  EXPECT_EQ(model("convnext_tiny.safetensors"), "convnext_tiny");
  std::map<std::string, std::string> values = recipe();
  EXPECT_EQ(values["epochs"], "10");
  EXPECT_EQ(values["warmup-epochs"], "1") << "its own are 5";
  EXPECT_EQ(values["lr-scale-batch"], "2048") << "half the rate, which is for 1024";
}

TEST(PublishedWeights, AreThoseOfTheScript) {
  const std::string script = contents(fs::path(SOURCE_DIR) / "scripts/get_weights.sh");
  EXPECT_TRUE(mentions(script, {fmt::format("known=\"{}\"", fmt::join(kPublishedWeights, ", "))}));
  for (const std::string_view name : kPublishedWeights) EXPECT_TRUE(find_or_null(models(), name));
}

}  // namespace
}  // namespace lockstep
