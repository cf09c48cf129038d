#include "apps/step/snapshot.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>

#include "apps/step/replica_check.h"
#include "src/base/check.h"
#include "src/base/round_up.h"
#include "src/device/memory.h"

namespace lockstep {
namespace {

constexpr int kMostThreads = 16;            // more than these gain no bandwidth
constexpr std::int64_t kPiece = 16 * 1024;  // floats: 64 KiB stay in a core's cache

std::uint64_t joined(std::uint64_t hash, std::uint64_t print) {
  return (std::rotl(hash, 7) ^ print) * 0x9E3779B97F4A7C15u;
}

std::uint64_t joined(std::uint64_t hash, const Layout& layout,
                     const std::vector<ConstSection>& state) {
  for (const ConstSection& section : state) {
    for (const Parameter& parameter : layout.parameters) {
      Fingerprint array;
      array.add(section.arena + parameter.range.begin, parameter.range.count);
      hash = joined(hash, array.value());
    }
  }
  return hash;
}

}  // namespace

std::uint64_t SnapshotPlaces::text_at(std::uint64_t copy) const {
  constexpr std::uint64_t kPage = kPageBytes;
  return kPage + copy * (round_up(text, kPage) + round_up(arenas, kPage));
}

std::uint64_t SnapshotPlaces::arenas_at(std::uint64_t copy) const {
  return text_at(copy) + round_up(text, std::uint64_t{kPageBytes});
}

std::uint64_t print_of(const Layout& layout, const std::vector<ConstSection>& state) {
  return joined(0, layout, state);
}

Snapshot::Snapshot(const Comm& comm, std::size_t arenas, int threads)
    : Snapshot(comm, {.arenas = arenas}, comm.rank() == 0, threads, "") {}

Snapshot::Snapshot(const Comm& comm, std::size_t arenas, int threads, std::size_t text,
                   const std::string& file)
    : Snapshot(comm, {.text = text, .arenas = arenas, .copies = SnapshotPlaces::kMostCopies}, true,
               threads, file) {}

Snapshot::Snapshot(const Comm& comm, SnapshotPlaces places, bool keeps, int threads,
                   const std::string& file)
    : comm_(comm),
      node_(comm.node()),
      places_(places),
      keeps_(node_.max(keeps) > 0),
      threads_(std::clamp(threads, 1, kMostThreads)),
      memory_(comm, node_, keeps_ ? places.bytes() : 0, "the copy of the state", file) {
  static_assert(sizeof(SnapshotMarks) <= kPageBytes);
  if (!keeps_ || node_.rank() != 0) return;
  marks().magic = SnapshotMarks::kMagic;
  marks().places = places;
}

float* Snapshot::arenas_of(std::uint64_t copy) const {
  return reinterpret_cast<float*>(memory_.data() + places_.arenas_at(copy));
}

std::string Snapshot::take(const Layout& layout, const std::vector<ConstSection>& state,
                           std::int64_t step, bool spares) {
  const std::size_t arrays = layout.parameters.size();
  const std::int64_t total = std::ssize(state) * layout.count;
  expect(!keeps_ || static_cast<std::size_t>(total) * sizeof(float) <= places_.arenas,
         "the snapshot is large enough");
  last_ = (spares ? spared_ + 1 : last_ + 1) % places_.copies;
  if (!spares) spared_ = last_;
  float* const copy = keeps_ ? arenas_of(last_) : nullptr;
  // Each rank does so before it writes. A process that reads the file after all ranks are gone then
  // finds the other copy whole.
  if (keeps_) std::atomic_ref(marks().copy[last_].order).store(0);
  std::vector<Fingerprint> prints(state.size() * arrays);
  const auto take_array = [&](std::size_t number) {
    const Range range = layout.parameters[number % arrays].range;
    const auto section = number / arrays;
    for (std::int64_t i = range.begin; i < range.end(); i += kPiece) {
      const std::int64_t count = std::min(kPiece, range.end() - i);
      const std::int64_t place = static_cast<std::int64_t>(section) * layout.count + i;
      prints[number].add(state[section].arena + i, count);
      if (keeps_ && place * node_.size() / total == node_.rank())
        std::copy_n(state[section].arena + i, count, copy + place);
    }
  };
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < prints.size();)
      take_array(i);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads_ && total > kMostThreads * kPiece; ++i) others.emplace_back(work);
  work();
  others.clear();
  std::vector<std::uint64_t> own;
  for (const Fingerprint& print : prints) own.push_back(print.value());
  compare_fingerprints(comm_, layout, state, own, step);  // after all ranks have copied their parts
  sections_.clear();
  for (std::size_t i = 0; keeps_ && i < state.size(); ++i)
    sections_.push_back({state[i].name, copy + i * layout.count, state[i].trained_only});
  if (keeps_ && node_.rank() == 0) {
    std::uint64_t& print = marks().copy[last_].print = 0;
    for (const std::uint64_t value : own) print = joined(print, value);
  }
  const auto odd = std::find_if(prints.begin(), prints.end(),
                                [](const Fingerprint& print) { return !print.finite(); });
  return odd == prints.end() ? "" : state[(odd - prints.begin()) / arrays].name;
}

bool Snapshot::seal(const Layout& layout, const std::vector<ConstSection>& more,
                    const std::string& text) {
  SnapshotMarks::Copy& mark = marks().copy[last_];
  float* to = arenas_of(last_) + std::ssize(sections_) * layout.count;
  const std::size_t sections = sections_.size() + more.size();
  const std::size_t arenas = sections * static_cast<std::size_t>(layout.count) * sizeof(float);
  if (text.size() > places_.text || arenas > places_.arenas) return false;
  for (const ConstSection& section : more) to = std::copy_n(section.arena, layout.count, to);
  std::memcpy(memory_.data() + places_.text_at(last_), text.data(), text.size());
  mark.text_bytes = text.size();
  mark.print = joined(mark.print, layout, more);
  std::atomic_ref(mark.order).store(++order_);
  return true;
}

}  // namespace lockstep
