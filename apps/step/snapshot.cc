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

// A copy takes a single pass over the state, because memory bandwidth is its whole cost. While a
// piece is in the cache, it is copied, hashed and searched for NaN and Inf. For a checkpoint each
// rank reads all of the state, to compare the ranks. For a state it reads only the part that it
// copies.
//
// The order of a copy becomes 0 before its first byte changes, and is set again after the last. So
// a process that dies in between leaves a file whose other copy is whole.
namespace lockstep {
namespace {

constexpr int kMostThreads = 16;            // more than these gain no bandwidth
constexpr std::int64_t kPiece = 16 * 1024;  // floats: 64 KiB stay in a core's cache

/// A number for `count` values at `place` of a copy. The sum of these numbers does not depend on
/// the ranks that computed them.
/// The place is part of the number, so two pieces that have changed places are seen.
std::uint64_t print_of_piece(std::int64_t place, const Fingerprint& piece) {
  return (std::rotl(piece.value(), 7) ^ static_cast<std::uint64_t>(place)) * 0x9E3779B97F4A7C15u;
}

/// Calls `visit` with the parts of at most kPiece floats of `range`.
template <class Visit>
void for_each_piece(Range range, const Visit& visit) {
  for (std::int64_t i = range.begin; i < range.end(); i += kPiece)
    visit(Range{i, std::min(kPiece, range.end() - i)});
}

}  // namespace

std::uint64_t SnapshotPlaces::text_at(std::uint64_t copy) const {
  constexpr std::uint64_t kPage = kPageBytes;
  return kPage + copy * (round_up(text, kPage) + round_up(arenas, kPage));
}

std::uint64_t SnapshotPlaces::arenas_at(std::uint64_t copy) const {
  return text_at(copy) + round_up(text, std::uint64_t{kPageBytes});
}

std::uint64_t print_of(const Layout& layout, const std::vector<ConstSection>& state,
                       std::int64_t before) {
  std::uint64_t print = 0;
  for (const ConstSection& section : state) {
    for (const Parameter& parameter : layout.parameters) {
      for_each_piece(parameter.range, [&](Range piece) {
        Fingerprint values;
        values.add(section.arena + piece.begin, piece.count);
        print += print_of_piece(before * layout.count + piece.begin, values);
      });
    }
    ++before;
  }
  return print;
}

Snapshot::Snapshot(const Comm& comm, std::size_t arenas, int threads, std::size_t text,
                   const std::string& file)
    : comm_(comm),
      node_(comm.node()),
      places_{text, arenas, file.empty() ? 1 : SnapshotPlaces::kMostCopies},
      // The ranks of a host keep a copy together, or none of them does.
      keeps_(node_.max(comm.rank() == 0 || !file.empty()) > 0),
      threads_(std::clamp(threads, 1, kMostThreads)),
      memory_(comm, node_, keeps_ ? places_.bytes() : 0, "the copy of the state", file) {
  static_assert(sizeof(SnapshotMarks) <= kPageBytes);
  if (!keeps_ || node_.rank() != 0) return;
  marks().magic = SnapshotMarks::kMagic;
  marks().places = places_;
}

float* Snapshot::arenas_of(std::uint64_t copy) const {
  return reinterpret_cast<float*>(memory_.data() + places_.arenas_at(copy));
}

std::string Snapshot::take(const Layout& layout, const std::vector<ConstSection>& state,
                           std::int64_t step, Purpose purpose) {
  const auto arrays = std::ssize(layout.parameters), all = std::ssize(state) * arrays;
  const std::int64_t total = std::ssize(state) * layout.count;
  expect(!keeps_ || total * sizeof(float) <= places_.arenas, "the snapshot is large enough");
  // Copies take turns. Spare ones do not: each overwrites the one beside the copy that stays.
  last_ = (purpose == Purpose::spare ? spared_ + 1 : last_ + 1) % places_.copies;
  if (purpose != Purpose::spare) spared_ = last_;
  float* const copy = keeps_ ? arenas_of(last_) : nullptr;
  // Each rank does so before it writes. A process that reads the file after all ranks are gone then
  // finds the other copy whole.
  if (keeps_) std::atomic_ref(marks().copy[last_].order).store(0);
  const bool compares = purpose == Purpose::checkpoint;
  std::vector<Fingerprint> prints(compares ? all : 0);
  std::atomic<std::uint64_t> own_print{0};
  std::vector<std::uint8_t> odd(all);  // 1: the array is not finite
  const auto take_array = [&](std::int64_t number) {
    const std::int64_t section = number / arrays;
    const float* const from = state[section].arena;
    for_each_piece(layout.parameters[number % arrays].range, [&](Range piece) {
      const std::int64_t place = section * layout.count + piece.begin;
      if (compares) prints[number].add(from + piece.begin, piece.count);
      // A piece belongs to the rank that its place selects, so the ranks of a host copy equal
      // parts.
      if (!keeps_ || place * node_.size() / total != node_.rank()) return;
      std::copy_n(from + piece.begin, piece.count, copy + place);
      Fingerprint values;  // of the piece, which is in the cache
      values.add(from + piece.begin, piece.count);
      own_print += print_of_piece(place, values);
      if (!values.finite()) odd[number] = 1;
    });
  };
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < all;) take_array(i);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads_ && total > kMostThreads * kPiece; ++i) others.emplace_back(work);
  work();
  // This joins them: below, all pieces of this rank are copied.
  others.clear();
  std::vector<std::uint64_t> own;
  for (const Fingerprint& print : prints) own.push_back(print.value());
  if (compares) compare_fingerprints(comm_, layout, state, own, step);
  sections_.clear();
  for (std::size_t i = 0; keeps_ && i < state.size(); ++i)
    sections_.push_back(
        {state[i].name, copy + static_cast<std::int64_t>(i) * layout.count, state[i].trained_only});
  print_ = 0;
  for (const std::uint64_t print : node_.of_all(own_print.load())) print_ += print;
  // After all ranks have copied their parts.
  const std::int64_t first = comm_.min(std::ranges::find(odd, 1) - odd.begin());
  return first == all ? "" : state[first / arrays].name;
}

bool Snapshot::seal(const Layout& layout, const std::vector<ConstSection>& more,
                    const std::string& text) {
  SnapshotMarks::Copy& mark = marks().copy[last_];
  float* to = arenas_of(last_) + std::ssize(sections_) * layout.count;
  const std::size_t sections = sections_.size() + more.size();
  const std::size_t arenas = sections * layout.count * sizeof(float);
  if (text.size() > places_.text || arenas > places_.arenas) return false;
  for (const ConstSection& section : more) to = std::copy_n(section.arena, layout.count, to);
  std::memcpy(memory_.data() + places_.text_at(last_), text.data(), text.size());
  mark.text_bytes = text.size();
  mark.print = print_ + print_of(layout, more, std::ssize(sections_));
  // Last, because a reader trusts the text and the arenas of a copy whose order is not 0.
  std::atomic_ref(mark.order).store(++order_);
  return true;
}

}  // namespace lockstep
