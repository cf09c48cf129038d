#include "src/data/data_options.h"

#include "src/base/table.h"

namespace lockstep {

OptionRow& declare_image_files(OptionRows& rows, ImageOptions& images) {
  return rows.choice(
      "--check-images", images.check, "HOW",
      "Check of image files at start: headers, decode, skip or decode,skip\n"
      "headers reads the header and the end of each file. decode decodes all files, which finds "
      "every damage. Damaged files end the run with their names. skip is headers, but leaves "
      "damaged files out, and decode,skip does so after decoding all files. In training the next "
      "image takes the place of a file that is found later. Evaluations do not count it.",
      {"headers", "decode", "skip", "decode,skip"});
}

namespace {

void declare_colours(OptionRows& rows, ImageOptions& images) {
  rows.choice("--colours", images.colours, "HOW",
              "Colours of image files: rgb, grey, or auto\n"
              "auto is grey for models of one channel, otherwise rgb.",
              kColours)
      .shapes_weights();
  const auto add = [&](const char* name, double& value, double most) {
    rows.number(fmt::format("--{}", name), value, Bounds::at_least(0, most),
                fmt::format("Largest random change of {}, with --image-size; 0: none\n"
                            "It works as torchvision's ColorJitter.",
                            name))
        .shapes_weights()
        .only_with("--image-size")
        .example("0.2");
  };
  add("brightness", images.jitter.brightness, 1);
  add("contrast", images.jitter.contrast, 1);
  add("saturation", images.jitter.saturation, 1);
  add("hue", images.jitter.hue, 0.5);
  rows.flag("--trivial-augment", images.trivial_augment,
            "One random operation on each training image, with --image-size\n"
            "It works as torchvision's TrivialAugmentWide.")
      .shapes_weights()
      .only_with("--image-size");
}

void declare_mixing(OptionRows& rows, Mixing& mixing) {
  rows.number("--cutout", mixing.cutout, Bounds::at_least(0, 1024),
              "Side in pixels of the square cut from training images; 0: none")
      .shapes_weights()
      .example("8" + kOnImages);
  rows.number("--random-erase", mixing.erase, Bounds::at_least(0, 1),
              "Probability of a random rectangle cut from a training image\n"
              "It covers 2 to 33 % of the image, as torchvision's RandomErasing.")
      .shapes_weights()
      .example("0.25" + kOnImages);
  rows.number("--mixup", mixing.mixup, Bounds::at_least(0, 4),
              "Parameter of the Beta distribution of mixup; 0: no mixup\n"
              "Each training image and its label are mixed with another's. Their shares are "
              "random numbers of Beta(NUMBER, NUMBER).")
      .shapes_weights()
      .example("0.2" + kOnImages);
  rows.number("--cutmix", mixing.cutmix, Bounds::at_least(0, 4),
              "Parameter of the Beta distribution of CutMix; 0: no CutMix\n"
              "A rectangle of another training image is pasted into each. The labels are mixed by "
              "area. With --mixup too, each image gets one of the two at random.")
      .shapes_weights()
      .example("1" + kOnImages);
}

}  // namespace

void DataOptions::declare(OptionRows& rows, const DatasetEntry& by_default) {
  const DatasetEntry* generated = stand_in(by_default.name);
  const std::string photos =
      by_default.resizes ? "" : " --dataset folder --data photos --model resnet20";
  rows.group("Data");
  rows.text("--data", folder, "DIR",
            fmt::format("Folder with {}{}", by_default.files, generated ? " [generated data]" : ""))
      .common()
      .example(by_default.resizes ? "photos" : fmt::format("data/{}", by_default.name))
      .also_called({"data-dir", "data-path"});
  rows.entry("--dataset", dataset,
             fmt::format("Data set (see --list) [{}{}]", by_default.name,
                         generated ? fmt::format(" with --data, else {}", generated->name) : ""),
             datasets())
      .common()
      .example(generated ? std::string(generated->name) : "packed --data photos.h5");
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
      .example("64" + photos)
      .also_called({"img-size"})
      .is_common = by_default.resizes;
  rows.number("--crop-area", images.crop_area, Bounds::at_least(0.01, 1),
              "Smallest share of an image in a training crop, with --image-size")
      .shapes_weights()
      .only_with("--image-size");
  rows.choice("--flip", images.flip, "HOW",
              "Random mirroring of training images, with --image-size", kFlips)
      .shapes_weights()
      .only_with("--image-size")
      .also_called({"no-flip none", "no-hflip none"});
  rows.number("--validation", validation, Bounds::at_least(0, 1),
              "Share of the training set for validation; 0: none\n"
              "Evaluations then use this part, and the run keeps its best checkpoint. The test set "
              "is evaluated once, at the end. A hash of its number or file name selects a sample, "
              "so the part is the same on any number of ranks.")
      .shapes_weights()
      .common()
      .example("0.1")
      .also_called({"val-split", "validation-split"});
  declare_image_files(rows, images)
      .only_with("--dataset folder", [this] { return find(datasets(), dataset).resizes; })
      .example("decode" + (photos.empty() ? "" : photos + " --image-size 64"));
  declare_colours(rows, images);
  rows.optional_number("--workers", workers, Bounds::at_least(1, 1024),
                       "Threads per rank that decode image files [half of the rank's threads]")
      .only_with("--image-size")
      .example("4")
      .also_called({"num-workers"});
  const auto read_padding = [this](const std::string& text) {
    crop_padding = text == "auto"
                       ? kOwnPadding
                       : parse_number<int>("--crop-padding", text, Bounds::at_least(0, 16));
  };
  const auto show_padding = [this] {
    return crop_padding == kOwnPadding ? "auto" : std::to_string(crop_padding);
  };
  rows.add("--crop-padding", OptionRow::Type::word, read_padding, show_padding, "N",
           "Largest shift of training crops: auto, or 0 to 16 pixels\n"
           "Pixels beyond an edge are its reflection. auto is 4 for whole images, otherwise 0.")
      .shapes_weights()
      .example("4" + kOnImages);
  rows.flag("--alternate-flips", alternate_flips,
            "Mirroring of each training image in every second epoch\n"
            "Whether the first epoch mirrors an image is random.")
      .shapes_weights()
      .example(kOnImages.substr(1));
  declare_mixing(rows, mixing);
}

void DataOptions::check(OptionRows& rows, bool opened) const {
  const DatasetEntry& data = find(datasets(), dataset);
  if (data.files.empty() && !folder.empty()) {
    fail_usage("{} {} is generated. Remove {}.", rows.at("--dataset").where(), dataset,
               rows.at("--data").where());
  }
  if (!data.files.empty() && folder.empty() && opened) {
    const std::string source = dataset == "cifar10_32" ? "cifar10" : dataset;
    fail_usage("{} {} needs its files ({}). Pass --data DIR.", rows.at("--dataset").where(),
               dataset,
               data.own ? std::string(data.files)
                        : fmt::format("scripts/get_data.sh {} downloads them", source));
  }
}

}  // namespace lockstep
