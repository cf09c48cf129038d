// A file as read-only memory. The pages belong to the operating system's cache, so all ranks of a
// host share one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep {

/// Mapped for as long as it lives; any number of threads may read. The file must not be cut short
/// meanwhile: reading what is gone ends the process (SIGBUS).
class MappedFile {
 public:
  /// Throws Error if `path` is missing, no regular file, unreadable, or not of exactly `bytes`
  /// bytes (more than 0). `cure` ends the message: what a person can do about it.
  MappedFile(const std::filesystem::path& path, std::size_t bytes, std::string_view cure);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep
