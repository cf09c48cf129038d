#include "apps/run/checkpoint_folder.h"

#include <sys/stat.h>

#include <utility>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// Whether `now` is what a run has saved as `before`, but that the evaluation then due is done.
bool only_evaluated(CheckpointMetadata before, CheckpointMetadata now) {
  for (CheckpointMetadata* metadata : {&before, &now}) {
    metadata->texts.erase(kBest);
    metadata->texts.erase(kReached);
  }
  return before.texts.erase("evaluation") > 0 && before.position == now.position &&
         before.texts == now.texts;
}

}  // namespace

std::optional<CheckpointFolder::Stamp> CheckpointFolder::stamp_of(
    const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return Stamp(file.string(), status.st_ino, status.st_size, status.st_mtim.tv_sec,
               status.st_mtim.tv_nsec);
}

std::unique_ptr<Checkpoint> CheckpointFolder::next() {
  // A file that has vanished since it was listed made room for a newer one: list anew. Whoever
  // removes files faster than that, for so long, does not train.
  constexpr int kLists = 1000;
  bool vanished = true;
  for (int list = 0; vanished && list < kLists; ++list) {
    vanished = false;
    for (const std::filesystem::path& file : list_checkpoints(directory_)) {
      const std::optional<Stamp> stamp = stamp_of(file);
      if (stamp && stamp == last_) return nullptr;
      if (stamp && damaged_.contains(*stamp)) continue;
      try {
        auto checkpoint = std::make_unique<Checkpoint>(file);
        checkpoint->verify();
        last_ = stamp;
        const CheckpointMetadata before = std::exchange(last_metadata_, checkpoint->metadata());
        return only_evaluated(before, last_metadata_) ? nullptr : std::move(checkpoint);
      } catch (const Error& error) {
        vanished = stamp_of(file) != stamp;
        if (vanished) break;
        if (stamp) damaged_.insert(*stamp);
        warn_(fmt::format("passing over a checkpoint: {}", error.what()));
      }
    }
  }
  return nullptr;
}

}  // namespace lockstep
