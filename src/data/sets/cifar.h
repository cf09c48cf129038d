// CIFAR-10 from its official binary version: data_batch_1.bin .. data_batch_5.bin, test_batch.bin
// and batches.meta.txt. A .bin file is 10000 records with nothing between them; a record is 1 byte
// label (0 .. 9), then the red, green and blue planes of 1024 bytes, rows from the top.
//
// Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009;
// https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/data/dataset.h"

namespace lockstep {

inline constexpr std::int64_t kCifarRecordBytes = 1 + 3 * 32 * 32;

/// The files, of `records` records each, are in `directory` or in its folder cifar-10-batches-bin,
/// as the archive unpacks. Reads and checks all of them now, labels too. Throws Error for a
/// missing, truncated or wrong file; it names the file and the fix. Train sample i is record i mod
/// `records` of batch i / `records` + 1. The images stay in the files. Training sees crops of them,
/// or with `whole` all 32x32 pixels (SampleFormat::Kind::images), moved, normalised by channel.
OpenedData open_cifar10_files(const std::filesystem::path& directory, std::int64_t records,
                              bool whole = false);

}  // namespace lockstep
