#include "src/data/data_options.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/photo_augmentations.h"

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

OptionRow& declare_labels(OptionRows& rows, std::string& labels) {
  return rows.text("--labels", labels, "FILE",
                   "CSV table with the class of each image file [class folders]\n"
                   "It has the columns file and label, and perhaps part (train, validation or "
                   "test). Names of files are absolute paths, or relative to the folder of the "
                   "images. A file .jsonl has one JSON object on each line instead. The folder's "
                   "own metadata.csv or metadata.jsonl is read without the option.");
}

namespace {

/// The row of an augmentation that one number switches on.
void declare_number(OptionRows& rows, auto& augmentation) {
  const AugmentationOption& option = augmentation.kOption;
  rows.number(fmt::format("--{}", option.name), augmentation.value,
              Bounds::at_least(0, option.most), std::string(option.about))
      .shapes_weights()
      .example(std::string(option.example) + kOnImages);
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

void declare_split(OptionRows& rows, Split& split) {
  rows.number("--validation", split.share, Bounds::at_least(0, 1),
              "Share of each class for validation; 0: none\n"
              "Evaluations then use this part, and the run keeps its best checkpoint. The test set "
              "is evaluated once, at the end. A hash of its number or file name selects a sample, "
              "so the part is the same on any number of ranks.")
      .shapes_weights()
      .common()
      .example("0.1")
      .also_called({"val-split", "validation-split"});
  rows.add(
          "--fold", OptionRow::Type::text,
          [&split](const std::string& text) { split.read_fold(text); },
          [&split] { return split.fold_text(); }, "I/K",
          "Fold number I of K for validation, in place of a share\n"
          "The K folds divide each class equally. Train one run for each and take the mean.")
      .shapes_weights()
      .excludes("--validation", "validation set")
      .example("2/5");
  rows.number("--split-seed", split.seed, Bounds::at_least(0),
              "Seed of the choice of validation samples")
      .shapes_weights()
      .only_with("--validation", [&split] { return split.any(); })
      .example("3 --validation 0.1");
}

OptionRow& declare_folders(OptionRows& rows, std::vector<std::string>& folders, std::string about,
                           bool several) {
  const auto read = [&folders, several](const std::string& text) {
    folders = several ? lines_of(text) : std::vector{text};
    std::erase(folders, "");
    for (std::string& one : folders) one = home_path("--data", one);
  };
  const auto show = [&folders] { return fmt::format("{}", fmt::join(folders, "\n")); };
  if (several)
    about += "\nYou can pass it several times. Class folders of one name are then one class.";
  OptionRow& row = rows.add("--data", OptionRow::Type::text, read, show, "DIR", about);
  return several ? row.repeatable() : row;
}

void DataOptions::declare(OptionRows& rows, const DatasetEntry& by_default) {
  const DatasetEntry* generated = stand_in(by_default.name);
  const std::string photos =
      by_default.resizes ? "" : " --dataset folder --data photos --model resnet20";
  rows.group("Data");
  const std::string files =
      fmt::format("Folder with {}{}", by_default.files, generated ? " [generated data]" : "");
  const std::string folder =
      by_default.texts ? "reviews.csv" : fmt::format("data/{}", by_default.name);
  declare_folders(rows, place.folders, files, by_default.resizes)
      .common()
      .example(by_default.resizes ? "photos" : folder)
      .also_called({"data-dir", "data-path"});
  const char* other = by_default.texts ? "texts" : "packed --data photos.h5";
  rows.entry("--dataset", dataset,
             fmt::format("Data set (see --list) [{}{}]", by_default.name,
                         generated ? fmt::format(" with --data, else {}", generated->name) : ""),
             datasets())
      .common()
      .example(generated ? std::string(generated->name) : other);
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
  if (by_default.texts) declare_texts(rows);
  declare_labels(rows, place.labels)  // a resume compares the images and classes, not the path
      .only_with("--dataset folder", [this] { return dataset == "folder"; })
      .example("labels.csv" + (photos.empty() ? " --data photos" : photos + " --image-size 64"))
      .is_common = by_default.resizes;
  declare_split(rows, validation);
  declare_image_files(rows, images)
      .only_with("--dataset folder", [this] { return find(datasets(), dataset).resizes; })
      .example("decode" + (photos.empty() ? "" : photos + " --image-size 64"));
  rows.choice("--colours", images.colours, "HOW",
              "Colours of image files: rgb, grey, or auto\n"
              "auto is grey for models of one channel, otherwise rgb.",
              {"auto", "rgb", "grey"})
      .shapes_weights();
  rows.optional_number("--workers", workers, Bounds::at_least(1, 1024),
                       "Threads per rank that decode image files [half of the rank's threads]")
      .only_with("--image-size")
      .example("4")
      .also_called({"num-workers"});
  declare_augmentations(rows);
}

void DataOptions::declare_texts(OptionRows& rows) {
  rows.number("--words", texts.words, Bounds::at_least(1, kMostWords),
              "Number of the most frequent words that the network knows\n"
              "The training texts decide. All other words have one number, that of unknown words.")
      .shapes_weights()
      .common()
      .example("5000")
      .also_called({"vocab-size", "max-features"});
  rows.number("--length", texts.length, Bounds::at_least(1, 1 << 16),
              "Number of words of a text that the network reads\n"
              "These are the last ones. Padding stands in front of shorter texts.")
      .shapes_weights()
      .common()
      .example("100")
      .also_called({"max-length", "maxlen"});
}

void DataOptions::declare_augmentations(OptionRows& rows) {
  rows.choice("--sampling", sampling, "HOW",
              "Choice of an epoch's training samples: shuffled or balanced\n"
              "shuffled sees each sample once. balanced draws as many samples, and all classes "
              "equally often. Repeated samples have another augmentation each time. On GPUs the "
              "host then prepares the batches.",
              {"shuffled", "balanced"})
      .shapes_weights()
      .example("balanced");
  rows.number("--crop-area", images.crop_area, Bounds::at_least(0.01, 1),
              "Smallest share of an image in a training crop, with --image-size")
      .shapes_weights()
      .only_with("--image-size");
  rows.choice("--flip", images.flip, "HOW",
              "Random mirroring of training images, with --image-size",
              {"none", "horizontal", "vertical", "both"})
      .shapes_weights()
      .only_with("--image-size")
      .also_called({"no-flip none", "no-hflip none"});
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
  const auto declare_one = [&](auto& augmentation) { declare_number(rows, augmentation); };
  pixels.each(declare_one);
  mixing.each(declare_one);
  const auto augmentations = std::make_shared<PhotoAugmentations>();
  augmentations->each([&](auto& augmentation) { augmentation.declare(rows); });
  images.augmentations = augmentations;
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

std::string DataOptions::sampling_text() const {
  return balanced() ? "balanced: all classes are equally frequent" : "";
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

void DataOptions::check(OptionRows& rows, bool opened) const {
  const DatasetEntry& data = find(datasets(), dataset);
  if (data.files.empty() && !place.folders.empty()) {
    fail_usage("{} {} is generated. Remove {}.", rows.at("--dataset").where(), dataset,
               rows.at("--data").where());
  }
  if (place.several() && dataset != "folder")
    fail_usage("data set {} needs one --data, and {} are set. Pass one.", dataset,
               place.folders.size());
  if (place.several() && !place.labels.empty())
    fail_usage("--labels needs one --data. Write absolute paths of other folders into {}.",
               place.labels);
  if (!data.files.empty() && place.folders.empty() && opened) {
    const std::string source = dataset == "cifar10_32" ? "cifar10" : dataset;
    fail_usage("{} {} needs its files ({}). Pass --data DIR.", rows.at("--dataset").where(),
               dataset,
               data.own ? std::string(data.files)
                        : fmt::format("scripts/get_data.sh {} downloads them", source));
  }
}

}  // namespace lockstep
