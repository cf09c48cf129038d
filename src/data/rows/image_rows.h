// Image files with their classes, which class folders or a table name.
#pragma once

#include "src/data/rows/rows.h"

namespace lockstep {

/// With several folders the images of their class folders. Otherwise the images of
/// DataSource::labels. Otherwise those of metadata.csv or metadata.jsonl in source.place.folder()
/// or in the folders of its parts, if it has columns of files and classes. Otherwise those of class
/// folders. The part of a table's row is that of its column, else that of the first folder in the
/// name of the file, relative to source.place.folder(), else kTrain. Names are relative to the
/// folder of their part if all images of the part lie there. With `tested`, only the part that
/// evaluate sees: test, else validation, else training. Throws Error that names the folder or the
/// table, its lines and the fix.
Rows read_image_rows(const DataSource& source, bool tested);

}  // namespace lockstep
