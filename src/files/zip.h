// Files in a ZIP archive that are stored without compression, as PyTorch writes them.
// Format: APPNOTE.TXT of PKWARE.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/files/file.h"

namespace lockstep {

/// Bytes of a file.
struct FilePart {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t crc32 = 0;  ///< their checksum; 0: none is known
};

/// The members by name, with their folders: "archive/data.pkl". They lie in the archive and share
/// no byte. Compressed members are left out. Throws Error, without the archive's name, if it is
/// damaged, and UnreadableFile.
std::map<std::string, FilePart> zip_members(const InputFile& archive);

/// The checksum of the bytes from `begin` to `end`. Throws UnreadableFile.
std::uint32_t crc32_of(const InputFile& input, std::uint64_t begin, std::uint64_t end);

}  // namespace lockstep
