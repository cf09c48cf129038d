#include "collectives/node_memory.h"

#include <sys/mman.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "collectives/comm.h"

namespace lockstep {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// A full /dev/shm is otherwise noticed as SIGBUS at the first write to the page that is not there.
void require_room(std::size_t bytes, const std::string& purpose) {
  struct statvfs room;
  if (statvfs("/dev/shm", &room) != 0) return;  // MPI then backs the window with something else
  const std::size_t available = std::size_t{room.f_bavail} * room.f_frsize;
  constexpr double kMiB = 1 << 20;
  require(bytes <= available,
          "{} needs {:.1f} MiB of shared memory on {} but /dev/shm has {:.1f} MiB left: give it "
          "more (docker run --shm-size, "
          "mount -o remount,size=) or choose --reducer tree",
          purpose, static_cast<double>(bytes) / kMiB, host_name(),
          static_cast<double>(available) / kMiB);
}

}  // namespace

NodeMemory::NodeMemory(const Comm& node, std::size_t bytes, const std::string& purpose)
    : bytes_(round_up(std::max<std::size_t>(bytes, 1))) {
  if (node.size() == 1) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes_));
    if (data_ == nullptr) throw std::bad_alloc();
    madvise(data_, bytes_,
            MADV_HUGEPAGE);  // worth 15 to 40 % of the bandwidth; a refusal costs nothing
    std::memset(data_, 0, bytes_);
    return;
  }
  agree(node, [&] {
    if (node.rank() == 0) require_room(bytes_ + kPage, purpose);
  });
  std::byte* base = nullptr;
  check(MPI_Win_allocate_shared(node.rank() == 0 ? static_cast<MPI_Aint>(bytes_ + kPage) : 0, 1,
                                MPI_INFO_NULL, node.raw(), &base, &window_));
  check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
  MPI_Aint size = 0;
  int unit = 0;
  check(MPI_Win_shared_query(window_, 0, &size, &unit, &base));
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::size_t skipped = round_up(address) - address;
  const auto offset = static_cast<std::int64_t>(skipped);
  require(node.min(offset) == node.max(offset),
          "MPI maps shared memory at addresses of different alignment on {}: "
          "choose --reducer tree",
          host_name());
  data_ = base + skipped;
  madvise(data_, bytes_, MADV_HUGEPAGE);
  // Everybody touches a part first, so that on hosts with several memory controllers the parts lie
  // about evenly.
  const std::size_t part = round_up(bytes_ / static_cast<std::size_t>(node.size()));
  const std::size_t begin = std::min(bytes_, part * static_cast<std::size_t>(node.rank()));
  std::memset(data_ + begin, 0, std::min(part, bytes_ - begin));
  node.barrier();
}

NodeMemory::~NodeMemory() {
  if (window_ == MPI_WIN_NULL) {
    std::free(data_);
    return;
  }
  if (std::uncaught_exceptions() > 0) return;
  if (MPI_Win_free(&window_) != MPI_SUCCESS)
    fmt::print(stderr, "cannot free a shared-memory window\n");
}

}  // namespace lockstep
