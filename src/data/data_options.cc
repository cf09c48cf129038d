#include "src/data/data_options.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/data/image/photo_augmentations.h"

namespace lockstep {

void declare_image_files(OptionRows& rows, ImageOptions& images) {
  rows.choice("--check-images", images.check, "HOW",
              "Check of image files at start\n"
              "headers reads the header and the end of each file. decode decodes all files, which "
              "finds every damage.",
              kImageChecks);
  rows.flag("--skip-damaged", images.skip_damaged,
            "Omission of damaged image files\n"
            "Without it, damaged files end the run with their names. The check at start finds most "
            "of them, see --check-images. In training the next image takes the place of a file "
            "that is found later. Evaluations do not count it.");
}

namespace {

/// The row of an augmentation that one number switches on.
void declare_number(OptionRows& rows, auto& augmentation) {
  const AugmentationOption& option = augmentation.kOption;
  rows.number(fmt::format("--{}", option.name), augmentation.value,
              Bounds::at_least(0, option.most), std::string(option.about))
      .shapes_weights();
}

void declare_augmentation(OptionRows& rows, DataOptions& data) {
  const auto read_padding = [&data](const std::string& text) {
    data.crop_padding = text == "auto"
                            ? kOwnPadding
                            : parse_number<int>("--crop-padding", text, Bounds::at_least(0, 16));
  };
  const auto show_padding = [&data] {
    return data.crop_padding == kOwnPadding ? "auto" : std::to_string(data.crop_padding);
  };
  rows.add("--crop-padding", OptionRow::Type::word, read_padding, show_padding, "N",
           "Largest shift of training crops: auto, or 0 to 16 pixels\n"
           "Pixels beyond an edge are its reflection. auto is 4 for whole images, otherwise 0.")
      .shapes_weights();
  rows.flag("--alternate-flips", data.alternate_flips,
            "Mirroring of each training image in every second epoch\n"
            "Whether the first epoch mirrors an image is random.")
      .shapes_weights();
  const auto declare_one = [&](auto& augmentation) { declare_number(rows, augmentation); };
  data.pixels.each(declare_one);
  data.mixing.each(declare_one);
  const auto augmentations = std::make_shared<PhotoAugmentations>();
  augmentations->each([&](auto& augmentation) { augmentation.declare(rows); });
  data.images.augmentations = augmentations;
}

/// Throws the usage Error if data set `name` of samples of shape `sample` cannot be treated so.
void check_number(const auto& augmentation, Shape sample, const std::string& name) {
  if (augmentation.value <= 0) return;
  const std::string_view option = augmentation.kOption.name;
  if (sample.rank() != 4)
    fail_usage("--{} needs images, and data set {} has none. Omit it.", option, name);
  if constexpr (requires { augmentation.least_edge(); }) {
    if (augmentation.least_edge() > std::min(sample[1], sample[2])) {
      fail_usage("--{} {} exceeds the images of data set {}, {}x{}. Use a smaller one.", option,
                 augmentation.value, name, sample[1], sample[2]);
    }
  }
}

}  // namespace

void DataOptions::declare(OptionRows& rows, const DatasetEntry& by_default) {
  const DatasetEntry* generated = stand_in(by_default.name);
  rows.group("Data");
  rows.text("--data", folder, "DIR",
            fmt::format("Folder with {}{}", by_default.files, generated ? " [generated data]" : ""))
      .common();
  rows.text("--dataset", dataset, "NAME",
            fmt::format("Data set (see --list) [{}{}]", by_default.name,
                        generated ? fmt::format(" with --data, else {}", generated->name) : ""),
            [](const std::string& name) { find(datasets(), name); })
      .common();
  const bool of_model = by_default.resizes && images.size == 0;
  const std::string none = of_model ? " [size of the model]" : "; 0: all have one size";
  rows.number(
          "--image-size", images.size, Bounds::at_least(0, 4096),
          "Edge in pixels of resized images" + none +
              "\nOnly for --dataset folder and packed. Images are then decoded in every epoch and "
              "need no memory. Training sees a random part of each image. Evaluation sees the "
              "middle, 7/8 of the shorter edge.",
          of_model)
      .shapes_weights()
      .is_common = by_default.resizes;
  rows.number("--crop-area", images.crop_area, Bounds::at_least(0.01, 1),
              "Smallest share of an image in a training crop, with --image-size")
      .shapes_weights();
  rows.choice("--flip", images.flip, "HOW",
              "Random mirroring of training images, with --image-size", kFlips)
      .shapes_weights();
  rows.number("--validation", validation, Bounds::at_least(0, 1),
              "Share of the training set for validation; 0: none\n"
              "Evaluations then use this part, and the run keeps its best checkpoint. The test set "
              "is evaluated once, at the end. A hash of its number or file name selects a sample, "
              "so the part is the same on any number of ranks.")
      .shapes_weights()
      .common();
  declare_image_files(rows, images);
  rows.choice("--colours", images.colours, "HOW",
              "Colours of image files: rgb, grey, or auto\n"
              "auto is grey for models of one channel, otherwise rgb.",
              kColours)
      .shapes_weights();
  rows.optional_number("--workers", workers, Bounds::at_least(1, 1024),
                       "Threads per rank that decode image files [half of the rank's threads]");
  declare_augmentation(rows, *this);
}

void DataOptions::set_augmentation(Dataset& train) const {
  if (crop_padding != kOwnPadding) {
    if (!train.crops())
      fail_usage("--crop-padding {}: data set {} has no crops. Omit it.", crop_padding, dataset);
    train.pad_crops(crop_padding);
  }
  if (alternate_flips) {
    if (!train.crops())
      fail_usage("--alternate-flips: data set {} has no flips. Omit it.", dataset);
    train.alternate_flips(true);
  }
  const auto check_one = [&](const auto& augmentation) {
    check_number(augmentation, train.sample_shape(), dataset);
  };
  pixels.each(check_one);
  mixing.each(check_one);
}

std::string DataOptions::augmentation_text() const {
  std::vector<std::string> parts;
  if (crop_padding != kOwnPadding) {
    parts.push_back(fmt::format("crops up to {} beyond the edges", counted(crop_padding, "pixel")));
  }
  if (alternate_flips) parts.emplace_back("alternate flips");
  const auto add = [&](const auto& augmentation) {
    if (augmentation.value > 0)
      parts.push_back(fmt::format("{} {:g}", augmentation.kOption.text, float(augmentation.value)));
  };
  pixels.each(add);
  mixing.each(add);
  const auto add_text = [&](const auto& augmentation) {
    if (const std::string text = augmentation.text(); !text.empty()) parts.push_back(text);
  };
  if (images.augmentations) images.augmentations->each(add_text);
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace lockstep
