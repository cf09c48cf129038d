// A data file that is read piece by piece. Its pages stay in the cache of the operating system, so
// all ranks of a host share one copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>

#include "src/files/file.h"

namespace lockstep {

/// Open for as long as it lives. It reads instead of mapping: a mapped file that is truncated ends
/// the process with SIGBUS. Any number of threads may read.
class DataFile {
 public:
  /// Some bytes of the file, from `offset` on.
  using Part = std::function<void(std::int64_t offset, std::span<const std::uint8_t> bytes)>;

  /// Reads the file once, and calls `each` with its parts in order. Throws Error if `path` is
  /// missing, no regular file, unreadable, or not of exactly `bytes` bytes (more than 0). `advice`
  /// ends the message: what to do.
  DataFile(const std::filesystem::path& path, std::int64_t bytes, std::string_view advice,
           const Part& each = {});

  /// Fills `to` with the bytes from `offset` on. Throws Error that names the file if its size or
  /// content has changed since construction. A new modification time alone is no change: the
  /// checksum decides.
  void read(std::int64_t offset, std::span<std::uint8_t> to) const;
  std::uint32_t checksum() const { return checksum_; }  ///< crc32c() at construction

 private:
  std::uint32_t checksum_now(const Part& each = {}) const;

  const InputFile file_;
  std::uint32_t checksum_ = 0;
  mutable std::atomic<std::int64_t> time_;  ///< modification, in ns, of the content with checksum_
  mutable std::mutex mutex_;                ///< guards computing the checksum again
};

}  // namespace lockstep
