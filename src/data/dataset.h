// Dataset: labelled samples by number, as a network sees them. The registry is datasets.cc.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/random.h"
#include "src/base/view.h"
#include "src/data/split.h"

namespace lockstep {

struct ImageSize {
  std::int64_t height = 0, width = 0, channels = 0;
  /// Channels in planes one after the other; else those of a pixel side by side.
  bool planes = false;

  std::int64_t count() const { return height * width * channels; }
  bool operator==(const ImageSize&) const = default;
};

/// At most 4 channels.
struct Normalisation {
  std::array<float, 4> mean{}, deviation{1, 1, 1, 1};
};

/// How a data set stores its samples, and how a network sees them (src/data/samples.h). A device
/// can hold the stored bytes of all kinds except `values`.
struct SampleFormat {
  enum class Kind : std::uint8_t {
    values,  ///< the data set overrides sample_shape() and read()
    crops,   ///< 32x32 images of which crops are seen, by src/data/augment.h
    images,  ///< whole images, a byte for each value
    words,   ///< int32, as a network sees them
  };
  Kind kind = Kind::values;
  ImageSize size = {};               ///< of what is stored; words: {1, length, 1}
  Normalisation normalisation = {};  ///< of `images`
  bool moved = false;                ///< whether training moves and mirrors `images`
  /// By how many pixels a crop may lie beyond an image's edges, where it is reflected, or a whole
  /// image may be moved.
  int padding = 0;
  bool alternate = false;  ///< whether crops and moved images are mirrored in turns
  /// Whether the samples are image files of any size. Checkpoints contain the size of `values`.
  bool files = false;

  /// The shape of one sample as a network sees it, with 1 in front: 1x24x24x3, or 1x300 for words.
  Shape shape() const;
  /// Stored bytes of one sample.
  std::size_t bytes() const;
};

/// A sample that can never be decoded, though its bytes can be read. Other samples can.
class DamagedSample : public Error {
 public:
  DamagedSample(const std::string& fact, const std::string& advice)
      : Error(fact + ". " + advice), fact(fact) {}
  const std::string fact;
};

/// The damaged samples that a run meets after its start. Any thread.
class DamageLog {
 public:
  /// `skip`: it goes on without them. Else they are errors that end with `advice`.
  DamageLog(bool skip, std::string advice) : skip_(skip), advice_(std::move(advice)) {}
  /// Throws Error unless damaged samples are skipped.
  void found(const DamagedSample& sample);
  /// The facts of the samples that were found since the last call, each once.
  std::vector<std::string> take();

 private:
  const bool skip_;
  const std::string advice_;
  std::mutex mutex_;
  std::set<std::string> known_;
  std::vector<std::string> fresh_;
};

/// Read-only after construction, pad_crops(), alternate_flips(), standardise() and log_damage(), so
/// any number of threads may read.
class Dataset {
 public:
  /// Without a format the data set overrides sample_shape() and read(), else stored().
  explicit Dataset(const SampleFormat& format = {}) : format_(format) {}
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual int classes() const = 0;
  virtual std::int32_t label(std::int64_t index) const = 0;
  /// The path of the image file that is this sample; empty: it is no file.
  virtual std::string file(std::int64_t) const { return {}; }
  /// A number of the content of a sample. Copies have the same, in every run.
  virtual std::uint64_t fingerprint(std::int64_t index) const;
  /// The bytes in which samples of one fingerprint differ; empty: in none. Throws DamagedSample.
  virtual std::vector<std::uint8_t> content(std::int64_t) const { return {}; }
  /// The beginning of the text that is this sample, in UTF-8 on one line; empty: it is no text.
  virtual std::string excerpt(std::int64_t) const { return {}; }
  /// "CIFAR-10, 50000 training images from /data/cifar10"
  virtual std::string describe() const = 0;
  /// Its memory, without the pages of mapped files, which all processes of a host share.
  virtual std::size_t bytes() const { return 0; }
  /// The stored bytes of a sample: in the set's own memory, or written to `buffer`, which has
  /// format().bytes().
  virtual const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const;
  virtual Shape sample_shape() const { return format_.shape(); }
  /// Writes sample `index` to `out`, sample_shape().count() elements of `type` (floating-point;
  /// words are i32). With `random` the sample is augmented for training with numbers drawn from it.
  /// Without, it is the sample as evaluation sees it.
  virtual void read(std::int64_t index, Random* random, void* out, Type type) const;
  /// read() in a run. False: the sample is damaged, and the run skips it.
  bool read_if_whole(std::int64_t index, Random* random, void* out, Type type) const;
  /// read() in a run. The next sample that is whole takes the place of a damaged one that the run
  /// skips, so what is read depends on the data and on `random` only. Returns its index.
  std::int64_t read_whole(std::int64_t index, Random* random, void* out, Type type) const;

  const SampleFormat& format() const { return format_; }
  /// Whether read() with random numbers crops or moves images.
  bool crops() const { return format_.kind == SampleFormat::Kind::crops || format_.moved; }
  void pad_crops(int pixels) { format_.padding = pixels; }
  void alternate_flips(bool alternate) { format_.alternate = alternate; }
  void standardise(const Normalisation& normalisation) { format_.normalisation = normalisation; }
  void log_damage(std::shared_ptr<DamageLog> log) { damage_ = std::move(log); }
  /// Null: read_if_whole() and read_whole() are as read().
  DamageLog* damage() const { return damage_.get(); }

 private:
  SampleFormat format_;
  std::shared_ptr<DamageLog> damage_;  ///< of all sets of a run
};

struct PhotoAugmentations;  // src/data/photo_augmentations.h

/// How image files of any size become samples.
struct ImageOptions {
  int size = 0;                     ///< edge of the square in pixels; 0: all files have one size
  double crop_area = 0.08;          ///< smallest share of an image's area that a training crop has
  std::string flip = "horizontal";  ///< none, horizontal, vertical or both
  std::string colours = "auto";     ///< auto, rgb or grey; auto: rgb
  std::shared_ptr<const PhotoAugmentations> augmentations = {};  ///< null: none
  std::string check = "headers";  ///< --check-images: words with commas

  /// Whether all files are decoded at start, and not only their headers read.
  bool decodes() const { return check.find("decode") != check.npos; }
  /// Whether damaged files are left out instead of refused.
  bool skips() const { return check.find("skip") != check.npos; }
  std::int64_t channels() const { return colours == "grey" ? 1 : 3; }
  /// The --check-images with this check that leaves damaged files out.
  const char* check_that_skips() const { return decodes() ? "decode,skip" : "skip"; }
};
/// Words have numbers below this: a network has a vector for each (net/description/layer_kinds.cc).
inline constexpr std::int32_t kWordNumbers = 30982;
/// The largest TextOptions::words: the first numbers mean no words (src/data/text/words.h).
inline constexpr int kMostWords = kWordNumbers - 4;

/// How texts become samples (src/data/text/words.h).
struct TextOptions {
  int words = 20000;  ///< the most frequent words of the training texts, which have numbers
  int length = 300;   ///< of a sample, in words
};

/// The ranks of a host, which open a data set together. As constructed: one alone.
struct HostRanks {
  using Work = std::function<std::string()>;
  int rank = 0, count = 1;
  /// Runs `mine` on each rank of the host. All get all results, by rank, or all throw Error.
  std::function<std::vector<std::string>(const Work& mine)> gather = [](const Work& mine) {
    return std::vector<std::string>{mine()};
  };
  /// Called for each file that is checked, which may take hours. Any thread.
  std::function<void()> progress = [] {};
};

/// The place of the files of a data set.
struct DataPlace {
  /// --data: folders of images that are joined, or one folder or file; empty: it is generated.
  std::vector<std::string> folders = {};
  std::string labels = {};  ///< --labels: a table of image files and their classes; empty: none

  bool several() const { return folders.size() > 1; }
  /// The first one; empty: there is none.
  std::filesystem::path folder() const { return folders.empty() ? "" : folders.front(); }
  std::string text() const;  ///< the folders, for people
};

/// The files of a data set.
struct DataSource {
  DataPlace place = {};
  std::uint64_t seed = 0;  ///< of generated sets
  ImageOptions images = {};
  Split validation = {};  ///< the training samples in the validation set
  int threads = 1;        ///< for finding and checking files
  HostRanks host = {};
  TextOptions texts = {};
};

/// Names of lines of OpenedData::identity that differ between packed images and their folder.
inline constexpr std::string_view kFileContents = "photos", kPackedContents = "packed photos";

/// The training set and the sets that training does not see.
struct OpenedData {
  /// `test` or `validation` may be null, but not both.
  std::unique_ptr<Dataset> train, test, validation = nullptr;
  /// By label. Checkpoints contain them.
  std::vector<std::string> class_names;
  /// Identifies the samples, independent of their folder: a line for each file, such as
  /// "data_batch_1.bin = crc32c 6f3c9a01". Other samples have other lines.
  std::string identity;
  /// The Vocabulary::text() of texts (src/data/text/words.h), which checkpoints contain.
  std::string vocabulary = {};
  std::vector<std::string> notes = {};  ///< for people: files that were left out

  /// With a training set.
  std::size_t bytes() const {
    return train->bytes() + (test ? test->bytes() : 0) + (validation ? validation->bytes() : 0);
  }
  /// The set that a run is evaluated on until its end.
  const Dataset& evaluated() const { return validation ? *validation : *test; }
};

/// A checkpoint's facts about the images that it was trained on.
struct DataOfCheckpoint {
  /// By label, at least one.
  std::vector<std::string> class_names;
  std::string normalisation;    ///< the text of to_text() (src/data/normalisation.h)
  std::string format = {};      ///< to_text() of their SampleFormat
  std::string vocabulary = {};  ///< OpenedData::vocabulary
  std::string identity = {};    ///< OpenedData::identity
  DataPlace place = {};         ///< in the run
  Split validation = {};        ///< DataSource::validation
  std::string check = {};       ///< ImageOptions::check of the run
};

struct DatasetEntry {
  static constexpr std::string_view kind = "data set";
  std::string_view name;
  std::string_view about;
  /// The contents of the folder --data: "CIFAR-10's official files"; empty: the set is generated.
  std::string_view files = {};
  /// The data set that this generated set replaces without --data; empty: none.
  std::string_view stands_for = {};
  /// Defaults of a run.
  std::string_view model;
  std::int64_t steps;
  /// Throws Error that names the file, what is wrong and the advice.
  OpenedData (*open)(const DataSource& source);
  /// Whether its files are the user's own, so that scripts/get_data.sh cannot download them.
  bool own = false;
  /// Opens only the test set, with the checkpoint's classes by name; `train` stays null. Throws
  /// Error also if the test set has a class that the checkpoint does not know. Null: use open().
  OpenedData (*open_test)(const DataSource& source, const DataOfCheckpoint& trained) = nullptr;
  /// Whether ImageOptions::size brings its images to one size.
  bool resizes = false;
  /// The median of the shorter edges of a few training images in `folder`, in pixels; 0: none can
  /// be read. Any thread; throws nothing. Null: the images are no files.
  std::int64_t (*usual_edge)(const std::filesystem::path& folder) = nullptr;
  /// Whether --data is one file instead of a folder.
  bool one_file = false;
  /// Whether its samples are texts, which TextOptions describe. --data is a folder or a file.
  bool texts = false;
};

std::span<const DatasetEntry> datasets();
/// Adds a data set, before the first use of the registry: entries move. Throws Error if the name is
/// taken. One thread.
void register_dataset(DatasetEntry entry);
/// Throws the usage Error with the fix if a folder of `source`, which is such a set, does not
/// exist, or if it is a file in place of a folder or the reverse.
void require_source(const DatasetEntry& entry, const DataSource& source);
/// The generated set that replaces `name`; null: there is none.
const DatasetEntry* stand_in(std::string_view name);

}  // namespace lockstep
