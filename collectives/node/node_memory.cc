#include "collectives/node/node_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <random>
#include <string_view>

#include "collectives/comm/comm.h"
#include "src/base/round_up.h"
#include "src/base/view.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "lockstep-";

struct File {
  int number;
  ~File() {
    if (number >= 0) close(number);
  }
};

/// Removes the files of processes that were killed in the constructor: files of this user whose
/// names contain the pid of no process, and that are not locked. A process of another container
/// may be invisible here, but its lock is not.
void remove_leftovers() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const int pid = std::atoi(name.c_str() + kPrefix.size());
    if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
    const File file{open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    struct stat status;
    if (file.number >= 0 && fstat(file.number, &status) == 0 && status.st_uid == geteuid() &&
        flock(file.number, LOCK_EX | LOCK_NB) == 0)
      unlink(entry.path().c_str());
  }
}

/// Bytes that /dev/shm has left; infinity if unlimited or unknown.
double room_left() {
  struct statvfs room = {};
  statvfs("/dev/shm", &room);
  if (room.f_blocks == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
}

/// Throws the Error for too little room in /dev/shm.
[[noreturn]] void fail_for_room(std::size_t bytes, const std::string& purpose) {
  constexpr double kMiB = 1 << 20;
  fail(
      "{} needs {:.1f} MiB of shared memory on {}, but /dev/shm has {:.1f} MiB left. Make /dev/shm "
      "larger (docker run --shm-size){}.",
      purpose, static_cast<double>(bytes) / kMiB, host_name(), room_left() / kMiB,
      purpose.find("reducer") == purpose.npos ? "" : " or pass --reducer tree");
}

/// Reserves the pages of `part`. Without this a write to a page of a full /dev/shm would end the
/// process by SIGBUS. `bytes`: of the whole file, for the error.
void reserve(int file, Range part, std::size_t bytes, const std::string& purpose) {
  if (part.count == 0) return;
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file, part.begin, part.count);
  if (error == ENOSPC) fail_for_room(bytes, purpose);
  require(error == 0, "cannot reserve {} bytes of /dev/shm on {}: {}", part.count, host_name(),
          std::strerror(error));
}

/// Maps `bytes` of the file `name` and reserves the part `own`. `make`: creates the file. Throws
/// Error.
Memory map_file(const std::string& name, std::size_t bytes, Range own, bool make,
                const std::string& purpose) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT | O_EXCL : 0);
  const File file{::open(name.c_str(), flags, 0600)};
  const int refused = errno;
  require(file.number >= 0 || refused != ENOSPC,
          "{} needs a file in /dev/shm on {}, which is full (df -i /dev/shm). End "
          "other programs that use it.",
          purpose, host_name());
  require(file.number >= 0,
          "cannot open {} on {}: {}. The ranks of a host must see the same /dev/shm.", name,
          host_name(), std::strerror(refused));
  // The mapping keeps the lock for remove_leftovers(). It may have come before the lock.
  struct stat status;
  if (make) flock(file.number, LOCK_SH);
  require(fstat(file.number, &status) == 0 && status.st_nlink > 0,
          "another program has removed {} on {}. Start again.", name, host_name());
  void* data = MAP_FAILED;
  if (!make || ftruncate(file.number, static_cast<off_t>(bytes)) == 0) {
    reserve(file.number, own, bytes, purpose);
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0);
  }
  require(data != MAP_FAILED, "cannot map {} bytes of shared memory on {}: {}", bytes, host_name(),
          std::strerror(errno));
  return Memory(static_cast<std::byte*>(data), [bytes](std::byte* p) { munmap(p, bytes); });
}

/// Removes the name of the file that rank 0 has created, also after an error.
struct Name {
  std::string text;
  bool owned;
  ~Name() {
    if (owned) unlink(text.c_str());
  }
};

}  // namespace

NodeMemory::NodeMemory(const Comm& all, const Comm& node, std::size_t bytes,
                       const std::string& purpose, const std::string& file)
    : bytes_(round_up(std::max<std::size_t>(bytes, 1), kPageBytes)) {
  const bool first = node.rank() == 0, alone = node.size() == 1 && file.empty();
  // Each rank touches one part first, which distributes the memory over memory controllers.
  const auto total = static_cast<std::int64_t>(bytes_);
  const std::int64_t each = round_up(total / node.size(), std::int64_t{kPageBytes});
  const std::int64_t begin = std::min(total, each * node.rank());
  const Range own{begin, std::min(each, total - begin)};
  std::random_device random;
  const std::string fresh =
      first ? fmt::format("/dev/shm/{}{}-{:08x}", kPrefix, getpid(), random()) : "";
  Name name{file.empty() ? node.broadcast(fresh) : file, first && !alone};
  // Two agreements: the others open the file after the first rank has made it and given it its
  // length. After the second one all ranks have mapped it, and ~Name removes its name. If a rank
  // fails in one, no other rank waits for it.
  agree(all, [&] {
    if (alone) {
      memory_ = allocate_pages(bytes_);
      if (!memory_) throw std::bad_alloc();
    } else if (first) {
      remove_leftovers();
      // Before anything is reserved. Another process may still use the room afterwards.
      if (static_cast<double>(bytes_) > room_left()) fail_for_room(bytes_, purpose);
      memory_ = map_file(name.text, bytes_, own, true, purpose);
    }
  });
  agree(all, [&] {
    if (!first) memory_ = map_file(name.text, bytes_, own, false, purpose);
  });
  if (!file.empty()) name.owned = false;
  if (alone) return;
  ask_for_huge_pages(data(), bytes_);
  std::memset(data() + own.begin, 0, own.count);
  // No rank sees a part that another one still clears.
  node.barrier();
}

}  // namespace lockstep
