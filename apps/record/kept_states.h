// KeptStates: the file of a Snapshot after its ranks are gone, and the text of its copies. One
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/step/snapshot.h"
#include "net/checkpoint.h"

namespace lockstep {

/// The text of a copy: all of a checkpoint besides its arrays.
std::string state_text(const Layout& layout, const std::vector<ConstSection>& sections,
                       const CheckpointMetadata& metadata);

/// The mapped file. States refer to its memory.
class KeptStates {
 public:
  struct State {
    Layout layout;
    std::vector<ConstSection> sections;
    CheckpointMetadata metadata;
    std::uint64_t copy = 0;  ///< its number in the file
  };

  /// Throws Error if `file` cannot be read or has another form.
  explicit KeptStates(const std::filesystem::path& file);
  ~KeptStates() { unmap(); }
  KeptStates& operator=(KeptStates&&) = delete;  ///< neither copied nor moved

  /// The last whole copy whose arrays are as they were written. Throws Error if one is damaged and
  /// no other is whole.
  std::optional<State> newest() const;
  /// Gives the memory of all other copies back.
  void free_others(const State& kept) const;
  /// The step of the last copy; -1: there is none.
  std::int64_t newest_step() const;

 private:
  const SnapshotMarks& marks() const { return *reinterpret_cast<const SnapshotMarks*>(data_); }
  void unmap();
  std::vector<std::uint64_t> by_age() const;
  State read(std::uint64_t copy) const;

  std::filesystem::path file_;
  std::size_t bytes_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace lockstep
