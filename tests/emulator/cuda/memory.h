// Memory of the GPU and pinned memory of the host, each in an address range of its own.
//
// A block begins at a page, and at least one free page follows it. An address is never used again.
// So each access outside of a block and after its release can be seen. Each page knows how many of
// its bytes belong to a block. New memory is filled with bytes of 0xff, because cudaMalloc does not
// clear it: they are a NaN in each floating-point type.
//
// Memory of the GPU is inaccessible (PROT_NONE) unless emulated work runs. So an access of the host
// is a fault, and a signal handler names it. In the order `thread` it is always accessible.
//
// Page::write, Page::read and words() belong to races.h. They are only reserved here. The kernel
// provides them at their first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace emulator {

inline constexpr std::size_t kPage = 4096;

struct Page {
  std::uint64_t write = 0, read = 0;  ///< the last accesses to the whole page
  std::uint16_t valid = 0;            ///< bytes that belong to a block; they are its first
  bool freed = false;                 ///< the block was freed
  bool fine = false;                  ///< words() of its bytes are in use
};

class Region {
 public:
  Region(const char* name, std::uintptr_t address, std::size_t bytes, bool guarded);

  bool has(const void* data) const { return offset(data) < bytes_; }
  std::size_t offset(const void* data) const { return static_cast<const char*>(data) - begin_; }
  Page& page(std::size_t offset) { return pages_[offset / kPage]; }
  /// Two words for each byte: its last write, its last read.
  std::uint64_t* words(std::size_t offset) { return words_ + 2 * offset; }
  /// "byte 12 of a block of 4096 bytes, device memory"
  std::string describe(std::size_t offset) const;

  /// `bytes` from `data` without the slack of the block, if they end with it: a program clears all
  /// of a block.
  std::size_t without_slack(const void* data, std::size_t bytes) const;

  /// A block whose last `slack` bytes count as outside. null: no addresses are left.
  void* allocate(std::size_t bytes, std::size_t slack, int device);
  /// Releases the block that begins at `data`. false: none does.
  bool release(void* data);
  std::size_t allocated(int device) const;
  void set_accessible(bool accessible);

 private:
  struct Block {
    std::size_t bytes, slack;
    int device;
  };
  /// The last block that begins at or before `offset`; the end: none does.
  std::map<std::size_t, Block>::const_iterator block_before(std::size_t offset) const;

  const char* name_;
  char* begin_;
  std::size_t bytes_, used_ = 0;
  bool guarded_;
  Page* pages_;
  std::uint64_t* words_;
  std::map<std::size_t, Block> blocks_;  ///< by offset
  std::map<int, std::size_t> allocated_;
};

Region& device_memory();
Region& pinned_memory();

/// Memory of the GPU is accessible while one exists. Only under the lock of work.h.
struct Accessible {
  Accessible();
  ~Accessible();
  Accessible(const Accessible&) = delete;
  Accessible& operator=(const Accessible&) = delete;
};

/// Memory of the host that cudaHostRegister has pinned. false: it overlaps; none begins there.
bool register_host(const void* data, std::size_t bytes);
bool unregister_host(const void* data);
bool is_registered(const void* data, std::size_t bytes);

/// The name of the work that this thread runs, for the handler of faults; null: none.
inline thread_local const char* running_name = nullptr;

}  // namespace emulator
