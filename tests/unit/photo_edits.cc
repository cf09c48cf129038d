// Changes of photos in training, compared with torchvision's (tests/data/photo_edits.py).
#include "src/data/image/photo_edits.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "src/data/checksum.h"
#include "src/data/photo_augmentations.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

std::vector<std::uint8_t> bytes_of(const std::string& hexadecimal) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < hexadecimal.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16)));
  return bytes;
}

class PhotoEdits : public testing::Test {
 protected:
  PhotoEdits() {
    std::ifstream file(SOURCE_DIR "/tests/data/photo_edits.json");
    recorded = Json::parse(file);
    image = {{recorded["height"], recorded["width"], 3}, bytes_of(recorded["image"])};
  }
  static void expect_near(const std::vector<std::uint8_t>& seen, const Json& recorded_case) {
    const auto wanted = bytes_of(recorded_case["image"]);
    ASSERT_EQ(seen.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(int{seen[i]}, int{wanted[i]}, 1) << i << " of " << recorded_case;
  }
  Json recorded;
  Image image;
};

TEST_F(PhotoEdits, ChangeColoursAsTorchvision) {
  for (const Json& it : recorded["colours"]) {
    Image edited = image;
    const std::string name = it["name"];
    const float factor = it["factor"];
    if (name == "brightness") adjust_brightness(edited, factor);
    if (name == "contrast") adjust_contrast(edited, factor);
    if (name == "saturation") adjust_saturation(edited, factor);
    if (name == "hue") adjust_hue(edited, factor);
    expect_near(edited.pixels, it);
  }
}

TEST_F(PhotoEdits, AreTorchvisionsTrivialAugmentWide) {
  ASSERT_EQ(recorded["operations"].size(), 42u);
  for (const Json& it : recorded["operations"]) {
    Image edited = image;
    apply_operation(edited, it["number"], it["bin"], it["negative"]);
    expect_near(edited.pixels, it);
  }
}

TEST_F(PhotoEdits, ResizePartsAsTorchvision) {
  for (const Json& it : recorded["parts"]) {
    const std::int64_t edge = it["edge"];
    std::vector<std::uint8_t> edited(3 * edge * edge);
    resize(image, {it["box"][0], it["box"][1], it["box"][2], it["box"][3]}, edge, edge,
           edited.data());
    expect_near(edited, it);
  }
}

TEST_F(PhotoEdits, FollowFromTheRandomNumbers) {
  std::set<std::uint32_t> jittered, augmented;
  for (std::uint32_t i = 0; i < 200; ++i) {
    for (const bool again : {false, true}) {
      Random random(1, Purpose::augment, 0, i);
      Image a = image, b = image;
      ColorJitter{{0.4, 0.4, 0.4, 0.1}}.apply(a, random);
      TrivialAugment{true}.apply(b, random);
      EXPECT_EQ(jittered.insert(crc32c_of(a.pixels)).second, !again) << i;
      augmented.insert(crc32c_of(b.pixels));
    }
  }
  EXPECT_GT(augmented.size(), 100u);
  EXPECT_LE(augmented.size(), 14u * 31 * 2);
  Image same = image;
  Random random(1, Purpose::augment, 0, 0);
  ColorJitter().apply(same, random);
  EXPECT_EQ(same.pixels, image.pixels) << "bounds of 0 change nothing";
}

}  // namespace
}  // namespace lockstep
