// Texts of the user with their classes: folders of text files, or CSV files.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/data/dataset.h"
#include "src/data/names.h"

namespace lockstep {

struct LabelledText {
  std::string text;  ///< in UTF-8
  std::string label;
  std::string key;  ///< of --validation: "pos/1.txt" in the folder of its part, or its row's number
  std::string file;  ///< its path, or its table and row: "reviews.csv:1" is the first below the
                     ///< line of names
};

/// By SetPart. Texts that belong to no part are in kTrain.
struct LabelledTexts {
  std::array<std::vector<LabelledText>, kParts> parts;
  std::vector<std::string> notes;  ///< for people: files that were left out
  bool has_train = false;          ///< whether the user names the training part
};

/// The texts of source.place.folder(). A file is CSV with a line of column names. A folder contains
/// train.csv and test.csv, or train/CLASS and test/CLASS with text files, or CLASS with text files.
/// source.host.progress is called for each file. Throws Error that names the file, the line and the
/// fix.
LabelledTexts read_labelled_texts(const DataSource& source);

}  // namespace lockstep
