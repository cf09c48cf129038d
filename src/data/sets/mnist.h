// MNIST from its IDX files, as they are or compressed: train-images-idx3-ubyte[.gz],
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte. An IDX file is a
// header of 32-bit big-endian numbers (the magic number 0x0800 + number of extents, then the
// extents), and bytes: 28 x 28 for each image, rows from the top, 0 the paper and 255 full ink; one
// for each label, 0 .. 9. Other data of this form can be read too, such as Fashion-MNIST. Files
// whose names begin with "emnist-" have images in columns, which are turned here.
//
// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", 1998; Cohen et al.,
// "EMNIST: an extension of MNIST to handwritten letters", 2017.
#pragma once

#include "src/data/dataset.h"

namespace lockstep {

inline constexpr int kDigitSide = 28, kDigitPixels = kDigitSide * kDigitSide;

/// Standardised by mean and deviation of MNIST's training images. Nothing is augmented.
inline constexpr SampleFormat kDigitFormat{.kind = SampleFormat::Kind::images,
                                           .size = {kDigitSide, kDigitSide, 1},
                                           .normalisation = {{33.318421f}, {78.567490f}}};

/// `seed` is not used. The folder, or one in it as torchvision unpacks, holds the files, with a
/// dash or a dot before "idx". `source.place.folder()` ends with the beginning of their names, such
/// as emnist-letters, if there are several data sets. Labels above 9 are those of more classes.
/// Reads and checks all files now. Throws Error for a missing, truncated, damaged or wrong file; it
/// names the file and the fix. Each process holds the images (52 MiB).
OpenedData open_mnist(const DataSource& source);

}  // namespace lockstep
