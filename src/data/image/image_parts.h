// The image files of each part of a data set, before they are checked.
#pragma once

#include <string>

#include "src/data/dataset.h"
#include "src/data/image/image_index.h"

namespace lockstep {

/// The images of find_images(). Those of a table (image_table.h) if there is one, else those of
/// class folders. Throws Error with the fix.
ImageIndex read_parts(const DataSource& source);
/// The images of find_test_images(), with labels of their own classes. Throws Error with the fix.
ImageIndex read_test_parts(const DataSource& source, const DataOfCheckpoint& trained);

/// The lines of ImageIndex::identity() of one part.
std::string identity_of(const ImageIndex& index, SetPart part);

}  // namespace lockstep
