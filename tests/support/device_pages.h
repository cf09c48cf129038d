// DevicePages: the memory of a test device, and checks that work uses only this memory.
//
// A GPU cannot follow a pointer into ordinary memory of the host. This class finds such pointers
// without a GPU, in plans and in kernels (src/device/each.h). Copies may use any memory.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "src/base/view.h"
#include "src/device/device.h"

namespace lockstep {

/// A plan received a pointer that a GPU could not follow. No Error, because programs handle those.
class PointerFault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Blocks of memory. A closed page follows each block: a touch is SIGSEGV or SIGBUS. Thread-safe.
class DevicePages {
 public:
  /// `guarded`: blocks of Place::device are open only while an Open lives. Anything else that
  /// touches them gets SIGSEGV. `checked`: check() and hide_host() do something.
  DevicePages(bool guarded, bool checked);
  ~DevicePages();
  DevicePages& operator=(DevicePages&&) = delete;  ///< neither copied nor moved

  /// A block of zeros.
  std::byte* allocate(std::size_t bytes, Place place);
  void free(std::byte* data);

  /// Throws PointerFault that names `what` unless one block of Place::device contains all of these
  /// bytes. From pinned memory of the host a GPU computes slowly.
  void check(std::string_view what, const void* data, std::size_t bytes);
  void check(std::string_view what, View view) { check(what, view.data, view.bytes()); }
  /// Invalidates each pointer in `work` that leads to memory of this process outside of all blocks,
  /// if `work` comes from each() or each_row(). A kernel that follows the pointer gets SIGSEGV.
  void hide_host(const std::function<void()>& work);

  /// The place of the block that contains all of these bytes, if one does.
  std::optional<Place> place_of(const void* data, std::size_t bytes);

  /// Runs `work`. If it gets SIGSEGV, its type goes to stderr first.
  static void run(const std::function<void()>& work);

  /// Opens the memory while it lives.
  class Open {
   public:
    explicit Open(DevicePages& pages) : pages_(pages) { pages_.count(+1); }
    ~Open() { pages_.count(-1); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    DevicePages& pages_;
  };

 private:
  struct Block {
    std::size_t bytes;  ///< as requested
    std::size_t pages;  ///< the same in whole pages, without the page that follows
    Place place;
  };

  void count(int change);
  /// The next addresses of the region. Those of freed blocks stay closed.
  std::byte* reserve(std::size_t bytes);

  static constexpr std::size_t kRegionBytes = std::size_t{1} << 38;
  const bool guarded_, checked_;
  std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
  /// All guarded blocks of the device lie here, so that one call opens or closes them.
  std::byte* region_ = nullptr;
  std::size_t used_ = 0;
  int working_ = 0;
};

}  // namespace lockstep
