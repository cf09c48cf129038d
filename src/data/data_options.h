// Options of the training data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/option_rows.h"
#include "src/data/dataset.h"
#include "src/data/mixing.h"
#include "src/data/pixel_edits.h"

namespace lockstep {

/// --crop-padding auto: the data set's own padding.
inline constexpr int kOwnPadding = -1;

/// Options that an example of augmentation needs in a program whose data are no images of any size.
inline const std::string kOnImages = " --dataset cifar10_32 --data data/cifar10 --model resnet20";

/// The option of finding and checking image files.
OptionRow& declare_image_files(OptionRows& rows, ImageOptions& images);
/// The option of a table that names the classes of image files.
OptionRow& declare_labels(OptionRows& rows, std::string& labels);
/// --data for one folder, or for `several`.
OptionRow& declare_folders(OptionRows& rows, std::vector<std::string>& folders, std::string about,
                           bool several = true);
/// The options of a division of the training samples.
void declare_split(OptionRows& rows, Split& split);

struct DataOptions {
  std::string dataset;  ///< after parsing always one of datasets()
  DataPlace place;
  int crop_padding = kOwnPadding;
  bool alternate_flips = false;
  PixelAugmentations pixels;
  Mixing mixing;
  ImageOptions images;
  TextOptions texts;
  std::string sampling = "shuffled";  ///< or "balanced"
  Split validation;                   ///< the training samples in the validation set
  int workers = 0;  ///< threads of a rank that decode image files; 0: a share of its threads

  DataSource source(std::uint64_t seed) const {
    return {
        .place = place, .seed = seed, .images = images, .validation = validation, .texts = texts};
  }

  bool balanced() const { return sampling == "balanced"; }
  /// `by_default`: the data set that the program trains on.
  void declare(OptionRows& rows, const DatasetEntry& by_default);
  /// Sets the augmentations that the data set does itself. Throws the usage Error if it cannot be
  /// augmented as the options say.
  void set_augmentation(Dataset& train) const;
  /// "balanced: all classes are equally frequent"; empty: each epoch sees each sample once.
  std::string sampling_text() const;
  /// "crops up to 4 pixels beyond the edges, cutout 8, mixup 0.2"; empty: none besides the set's
  /// own.
  std::string augmentation_text() const;
  /// Throws the usage error if the data set has no files and the user names some, or the other way
  /// round. `opened`: whether it needs its files.
  void check(OptionRows& rows, bool opened) const;

 private:
  void declare_texts(OptionRows& rows);
  void declare_augmentations(OptionRows& rows);
};

}  // namespace lockstep
