// Dataset: labelled samples by number, in the form a network sees them. The menu is datasets.cc.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/random.h"
#include "src/base/view.h"

namespace lockstep {

/// How the samples of a set are stored where each is a few bytes, from which read() makes what a
/// network sees; a device can do the same (src/data/resident.h).
enum class Records : std::uint8_t {
  none,    ///< otherwise
  images,  ///< src/data/augment.h: kImageValues bytes
  digits,  ///< src/data/sets/mnist.h: kDigitPixels bytes
  whole,   ///< src/data/sets/images.h: a byte for each value, in Dataset::form()
  words,   ///< as read() gives them
};

struct ImageSize {
  std::int64_t height = 0, width = 0, channels = 0;
  /// Channels in planes one after the other; else those of a pixel side by side.
  bool planes = false;

  std::int64_t count() const { return height * width * channels; }
  bool operator==(const ImageSize&) const = default;
};

/// At most 4 channels.
struct Standard {
  std::array<float, 4> mean{}, deviation{1, 1, 1, 1};
};

/// Of Records::whole.
struct ImageForm {
  ImageSize size;
  Standard standard;
};

/// What training does to images besides their set's own augmentation (src/data/mixing.h).
struct Mixing {
  /// Of the square that is cut out of each image; 0: none.
  int cutout = 0;
  /// Of the distribution that two samples are mixed by; 0: none are.
  float mixup = 0;
};

/// Read-only after construction, pad_crops(), alternate_flips() and standardise(), so any number of
/// threads may read.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual int classes() const = 0;
  /// Shape of one sample as the network sees it, with 1 in front: 1x24x24x3, or 1x300 for a text of
  /// 300 words.
  virtual Shape sample_shape() const = 0;
  virtual std::int32_t label(std::int64_t index) const = 0;
  /// Writes sample `index` to `out`, sample_shape().count() elements of `type` (floating-point;
  /// words are i32). With `random` the sample is augmented for training with numbers drawn from it;
  /// without, it is the sample as evaluation sees it.
  virtual void read(std::int64_t index, Random* random, void* out, Type type) const = 0;
  virtual Records records() const { return Records::none; }
  /// Writes sample `index` to `bytes` as it is stored. Only where there are records.
  virtual void record(std::int64_t index, std::uint8_t* bytes) const;
  /// Only of Records::whole.
  virtual ImageForm form() const { return {}; }
  /// Replaces the mean and deviation of form(). Only of Records::whole.
  virtual void standardise(const Standard& standard);
  /// Whether read() with random numbers crops or moves images.
  virtual bool crops() const { return false; }
  /// By how many pixels a crop may lie beyond an image's edges, where it is reflected, or a whole
  /// image may be moved.
  int crop_padding() const { return crop_padding_; }
  void pad_crops(int pixels) { crop_padding_ = pixels; }
  /// Whether images that read() crops or moves are mirrored in turns (src/data/flip.h).
  bool alternate_flips() const { return alternate_flips_; }
  void alternate_flips(bool alternate) { alternate_flips_ = alternate; }
  /// "CIFAR-10, 50000 training images from /data/cifar10"
  virtual std::string describe() const = 0;
  /// Memory that it holds, besides pages of mapped files, which all processes of a host share.
  virtual std::size_t bytes() const { return 0; }

 private:
  int crop_padding_ = 0;
  bool alternate_flips_ = false;
};

struct DatasetPair {
  std::unique_ptr<Dataset> train, test;
  /// By label. They go into checkpoints, which need no data set then to be understood.
  std::vector<std::string> class_names;
  /// Which samples these are, wherever they lie: lines "data_batch_1.bin = crc32c 6f3c9a01", one
  /// per file. Other samples, other lines.
  std::string identity;
};

/// A checkpoint's facts about the images that it was trained on.
struct TrainedImages {
  /// By label, at least one.
  std::vector<std::string> class_names;
  /// As to_text() gives it (src/data/standard.h). Empty: the training images are read for it.
  std::string normalisation;
};

struct DatasetEntry {
  static constexpr std::string_view kind = "data set";
  std::string_view name;
  std::string_view about;
  /// What is in the folder of --data: "CIFAR-10's official files"; empty: the set is generated.
  std::string_view files;
  /// Of a generated set: the one that it stands in for where there is no --data.
  std::string_view stands_for;
  /// What a run is to be where nobody says otherwise.
  std::string_view model;
  std::int64_t steps;
  /// `directory` is empty for data sets that are generated, from `seed`; data sets with files do
  /// not use the seed. Throws Error that names the file, what is wrong and the cure.
  DatasetPair (*open)(const std::filesystem::path& directory, std::uint64_t seed);
  /// The user's: scripts/get_data.sh has none of it.
  bool own = false;
  /// Opens only the test set, with the checkpoint's classes by name; `train` stays null. Throws
  /// Error also if the test set has a class that the checkpoint does not know. Null: use open().
  DatasetPair (*open_test)(const std::filesystem::path& directory,
                           const TrainedImages& trained) = nullptr;
};

std::span<const DatasetEntry> datasets();
/// The generated set that stands in for `name`; null: there is none.
const DatasetEntry* stand_in(std::string_view name);

}  // namespace lockstep
