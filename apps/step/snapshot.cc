#include "apps/step/snapshot.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "apps/step/replica_check.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

constexpr int kMostThreads = 16;            // more than these gain no bandwidth
constexpr std::int64_t kPiece = 16 * 1024;  // floats: 64 KiB stay in a core's cache

}  // namespace

Snapshot::Snapshot(const Comm& comm, std::size_t bytes, bool everywhere, int threads)
    : comm_(comm),
      node_(comm.node()),
      keeps_(node_.max(everywhere || comm.rank() == 0) > 0),
      threads_(std::clamp(threads, 1, kMostThreads)),
      memory_(comm, node_, keeps_ ? bytes : 0, "the copy of the state") {}

std::string Snapshot::take(const Layout& layout, const std::vector<ConstSection>& state,
                           std::int64_t step) {
  const std::size_t arrays = layout.parameters.size();
  const std::int64_t total = std::ssize(state) * layout.count;
  expect(!keeps_ || static_cast<std::size_t>(total) * sizeof(float) <= memory_.bytes(),
         "the snapshot is large enough");
  auto* const copy = reinterpret_cast<float*>(memory_.data());
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
  for (std::size_t i = 0; i < state.size(); ++i)
    sections_.push_back({state[i].name, copy + i * layout.count, state[i].trained_only});
  const auto odd = std::find_if(prints.begin(), prints.end(),
                                [](const Fingerprint& print) { return !print.finite(); });
  return odd == prints.end() ? "" : state[(odd - prints.begin()) / arrays].name;
}

}  // namespace lockstep
