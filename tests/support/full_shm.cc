// Another process fills /dev/shm between the look at its room and the use of it. For
// tests/apps/shared_memory.sh, which mounts a small one.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <vector>

#include "collectives/reducer.h"
#include "collectives/world.h"

namespace {

constexpr std::size_t kSmall = 64 << 20;  ///< bytes: no real /dev/shm is filled

void fill() {
  const int file = ::open("/dev/shm/of-another-run", O_CREAT | O_WRONLY, 0600);
  const std::vector<char> block(4096, 'x');
  while (::write(file, block.data(), block.size()) > 0) continue;
  ::close(file);
}

}  // namespace

/// The C library's, which the product calls through this one in this program. The first look is for
/// the memory of the start-up.
extern "C" int statvfs(const char* path, struct statvfs* room) {
  using Function = int(const char*, struct statvfs*);
  static const auto real = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "statvfs"));
  const int result = real(path, room);
  static int looks = 0;
  if (result == 0 && path == std::string_view("/dev/shm") && ++looks == 2 &&
      std::size_t{room->f_blocks} * room->f_frsize <= kSmall)
    fill();
  return result;
}

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_main(argc, argv, "full_shm", [](World& world) {
    const auto device = make_cpu_device(1);
    const std::int64_t count = 1 << 18;
    const auto reducer =
        make_reducer("shared", {world.comm().duplicate(), *device, count, {{0, count}}, {}});
    std::puts("made");
    return 0;
  });
}
