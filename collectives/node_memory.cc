#include "collectives/node_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <random>
#include <string_view>

#include "collectives/comm.h"
#include "src/round_up.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "lockstep-";

/// Takes away what a process left that was killed between making its file and taking the name away:
/// files of this user that are named after a process that is gone. A minute old at least, since the
/// processes of another container may be unknown here.
void remove_leftovers() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const int pid = std::atoi(name.c_str() + kPrefix.size());
    struct stat status;
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH &&
        stat(entry.path().c_str(), &status) == 0 && status.st_uid == geteuid() &&
        time(nullptr) - status.st_mtime >= 60)
      unlink(entry.path().c_str());
  }
}

/// A full /dev/shm is otherwise noticed as SIGBUS at the first write to the page that is not there.
void require_room(std::size_t bytes, const std::string& purpose) {
  struct statvfs room;
  if (statvfs("/dev/shm", &room) != 0) return;  // making the file will say what is wrong
  const std::size_t available = std::size_t{room.f_bavail} * room.f_frsize;
  constexpr double kMiB = 1 << 20;
  require(bytes <= available,
          "{} needs {:.1f} MiB of shared memory on {} but /dev/shm has {:.1f} MiB left: make it "
          "larger (docker run --shm-size) or choose --reducer tree",
          purpose, static_cast<double>(bytes) / kMiB, host_name(),
          static_cast<double>(available) / kMiB);
}

/// Maps `bytes` of /dev/shm/`name`, which it makes first if `make` says so. Throws Error.
Memory map_file(const std::string& name, std::size_t bytes, bool make, const std::string& purpose) {
  const int file = shm_open(name.c_str(), make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
  const int refused = errno;
  require(
      file >= 0 || refused != ENOSPC,
      "{} needs a file in /dev/shm on {}, which is full (df -i /dev/shm): end other programs that "
      "use it, or choose --reducer tree",
      purpose, host_name());
  require(file >= 0,
          "cannot open /dev/shm{} on {}: {}; the ranks of a host must see the same /dev/shm", name,
          host_name(), std::strerror(refused));
  void* data = MAP_FAILED;
  if (!make || ftruncate(file, static_cast<off_t>(bytes)) == 0)
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int cause = errno;
  close(file);
  require(data != MAP_FAILED, "cannot map {} bytes of shared memory on {}: {}", bytes, host_name(),
          std::strerror(cause));
  return Memory(static_cast<std::byte*>(data), [bytes](std::byte* p) { munmap(p, bytes); });
}

/// Takes the name away from a file that rank 0 has made, however the others fare with it.
struct Name {
  std::string text;
  bool owned;
  ~Name() {
    if (owned) shm_unlink(text.c_str());
  }
};

}  // namespace

NodeMemory::NodeMemory(const Comm& node, std::size_t bytes, const std::string& purpose)
    : bytes_(round_up(std::max<std::size_t>(bytes, 1), kPageBytes)) {
  const bool first = node.rank() == 0;
  if (node.size() == 1) {
    memory_ = allocate_pages(bytes_);
    if (!memory_) throw std::bad_alloc();
    return;
  }
  std::random_device random;
  const Name name{
      node.broadcast(first ? fmt::format("/{}{}-{:08x}", kPrefix, getpid(), random()) : ""), first};
  agree(node, [&] {
    if (!first) return;
    remove_leftovers();
    require_room(bytes_, purpose);
    memory_ = map_file(name.text, bytes_, true, purpose);
  });
  agree(node, [&] {
    if (!first) memory_ = map_file(name.text, bytes_, false, purpose);
  });
  ask_for_huge_pages(data(), bytes_);
  // Everybody touches a part first, so that on hosts with several memory controllers the parts lie
  // about evenly.
  const std::size_t part = round_up(bytes_ / static_cast<std::size_t>(node.size()), kPageBytes);
  const std::size_t begin = std::min(bytes_, part * static_cast<std::size_t>(node.rank()));
  std::memset(data() + begin, 0, std::min(part, bytes_ - begin));
  node.barrier();
}

}  // namespace lockstep
