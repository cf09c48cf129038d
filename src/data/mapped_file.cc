#include "src/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/check.h"

namespace lockstep {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::size_t bytes, std::string_view cure)
    : size_(bytes) {
  // O_NONBLOCK: opening a named pipe would wait for a writer. It means nothing for regular files.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  require(file.number >= 0, "cannot open {}: {}; {}", path.string(), std::strerror(errno), cure);
  struct stat status {};
  require(fstat(file.number, &status) == 0, "cannot examine {}: {}; {}", path.string(),
          std::strerror(errno), cure);
  require(S_ISREG(status.st_mode), "{} is not a regular file; {}", path.string(), cure);
  require(static_cast<std::size_t>(status.st_size) == bytes,
          "{} holds {} bytes where {} are wanted: it is {}; {}", path.string(), status.st_size,
          bytes, static_cast<std::size_t>(status.st_size) < bytes ? "truncated" : "another file",
          cure);
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.number, 0);
  require(memory != MAP_FAILED, "cannot map {} into memory: {}; {}", path.string(),
          std::strerror(errno),
          "does its file system support mmap, and does the memory limit (ulimit -v) leave room?");
  data_ = static_cast<const std::uint8_t*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::uint8_t*>(data_), size_);
}

}  // namespace lockstep
