#include "tests/emulator/libraries/shared_sum.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace emulator {

/// A rank, as the others see it.
struct SharedSum::Member {
  std::atomic<bool> joined;
  int device;
  std::size_t count;                    ///< of the sum of the current chunk
  std::atomic<std::uint64_t> placed;    ///< chunks in its slot so far
  std::atomic<std::uint64_t> finished;  ///< chunks that it has summed
};

/// It begins as zeros.
struct SharedSum::Shared {
  Member members[kMostRanks];
};

namespace {

constexpr std::size_t kSlotFloats = 1 << 16, kHeader = 1 << 13;
constexpr std::size_t kBytes = kHeader + SharedSum::kMostRanks * kSlotFloats * sizeof(float);

}  // namespace

SharedSum::~SharedSum() {
  if (shared_ != nullptr) munmap(shared_, kBytes);
}

std::string SharedSum::create() {
  const int file = memfd_create("emulator", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kBytes) != 0) return {};
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
}

bool SharedSum::join(const std::string& id, int rank, int size, int device) {
  static_assert(sizeof(Shared) <= kHeader);
  const int file = open(id.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return false;
  shared_ = static_cast<Shared*>(mapped);
  rank_ = rank;
  size_ = size;
  Member& own = shared_->members[rank];
  own.device = device;
  return !own.joined.exchange(true);
}

bool SharedSum::all_joined() const {
  return std::all_of(shared_->members, shared_->members + size_,
                     [](const Member& member) { return member.joined.load(); });
}

int SharedSum::rank_on_used_device() const {
  for (int rank = 1; rank < size_; ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (shared_->members[rank].device == shared_->members[other].device) return rank;
    }
  }
  return -1;
}

bool SharedSum::all(std::uint64_t chunks, std::atomic<std::uint64_t> Member::*reached) const {
  return std::all_of(shared_->members, shared_->members + size_,
                     [&](const Member& member) { return (member.*reached).load() >= chunks; });
}

float* SharedSum::slot(int rank) const {
  auto* const begin = reinterpret_cast<std::byte*>(shared_) + kHeader;
  return reinterpret_cast<float*>(begin) + static_cast<std::size_t>(rank) * kSlotFloats;
}

bool SharedSum::advance(const float* from, float* to, std::size_t count) {
  Member& own = shared_->members[rank_];
  for (;;) {
    const std::size_t part = std::min(kSlotFloats, count - position_);
    if (!placed_) {
      if (!all(chunk_, &Member::finished)) return false;  // a rank still reads this slot
      std::copy_n(from + position_, part, slot(rank_));
      own.count = count;
      own.placed = chunk_ + 1;
      placed_ = true;
    }
    if (!all(chunk_ + 1, &Member::placed)) return false;
    counts_differed_ = std::any_of(shared_->members, shared_->members + size_,
                                   [&](const Member& member) { return member.count != count; });
    for (int i = 0; i < size_ && !counts_differed_; ++i) {
      // As in a ring, each chunk begins with another rank, and all ranks get the same bits.
      const float* const values = slot(static_cast<int>((chunk_ + i) % size_));
      for (std::size_t k = 0; k < part; ++k)
        to[position_ + k] = i == 0 ? values[k] : to[position_ + k] + values[k];
    }
    placed_ = false;
    own.finished = ++chunk_;
    position_ += part;
    if (position_ >= count || counts_differed_) {
      position_ = 0;
      return true;
    }
  }
}

}  // namespace emulator
