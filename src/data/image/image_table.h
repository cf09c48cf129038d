// Image files whose classes a table names, in place of class folders.
#pragma once

#include <optional>

#include "src/data/dataset.h"
#include "src/data/image/image_index.h"

namespace lockstep {

/// The images of a table, as ImageIndex::table names it.
struct TableImages {
  ImageIndex index;
  bool has_train = false;  ///< whether the table or its place names the training part
};

/// With several folders the images of the class folders in all folders, as a table of them
/// would name them. Otherwise the images of DataSource::labels. Otherwise those of metadata.csv or
/// metadata.jsonl in source.place.folder() or in the folders of its parts, if it has columns of
/// files and classes. Nothing: there is no table. The part of a row is that of its column, else
/// that of the first folder in the name of the file, relative to source.place.folder(), else
/// kTrain. Classes are sorted by name, and their files as those of class folders. With `tested`,
/// only the part that evaluate sees: test, else validation, else training. Throws Error that names
/// the table, its lines and the fix.
std::optional<TableImages> read_image_table(const DataSource& source, bool tested);

}  // namespace lockstep
