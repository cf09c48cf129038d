// Checkpoints: one HDF5 file each, `step-%010d.h5`, in a directory of their own. A file contains
// parameters, optimizer slots and averages under the parameters' names and shapes, and the position
// in the stream of samples. Nothing in it depends on the number of ranks. h5py can read it:
// scripts/print_weights.py.
//
// All calls throw Error that names the file. Only rank 0 writes. Any number of processes may read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/parameters.h"
#include "src/files/file.h"

namespace lockstep {

class Hdf5Reader;

/// One arena of layout.count floats, owned by the caller, and its group in the file: each parameter
/// of the layout is the data set <name>/<parameter's name>. Saving and loading leave out the header
/// and the gaps between parameters.
template <class Float>
struct SectionOf {
  /// "parameters", "optimizer/momentum", "ema".
  std::string name;
  Float* arena = nullptr;
  /// It belongs to trained parameters only: the file has no statistics of it.
  bool trained_only = false;

  bool holds(const Parameter& parameter) const { return parameter.trained() || !trained_only; }
  std::span<Float> values(const Parameter& parameter) const {
    return std::span(arena + parameter.range.begin, parameter.range.count);
  }
};
using Section = SectionOf<float>;
using ConstSection = SectionOf<const float>;
/// The same arenas, read-only.
std::vector<ConstSection> read_only(const std::vector<Section>& sections);

/// The limit of a run in samples: whole numbers up to here are exact in doubles.
inline constexpr std::int64_t kLastSample = std::int64_t{1} << 53;

/// How far the run has come. None is negative or above kLastSample.
struct Position {
  /// Steps done.
  std::int64_t step = 0;
  /// Samples consumed: the run goes on here in the stream (src/data/loader.h).
  std::int64_t samples = 0;
  /// The epoch of the next sample.
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  bool operator==(const Position&) const = default;
};

/// The contents of a checkpoint besides its arrays.
struct CheckpointMetadata {
  Position position;
  /// Any texts by name: "model", "options", "version", ... Those of a file are printable().
  std::map<std::string, std::string> texts;

  /// Empty: there is no such text.
  std::string text(const std::string& name) const {
    const auto found = texts.find(name);
    return found == texts.end() ? "" : found->second;
  }
};

/// Writes <directory>/step-<position.step>.h5 as a whole or not at all. Returns the file. Needs
/// about as much memory as the arenas. Older checkpoints stay.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const Layout& layout,
                                      const std::vector<ConstSection>& sections,
                                      const CheckpointMetadata& metadata);

/// The name of a checkpoint's file: "step-0000001000.h5".
std::string checkpoint_name(std::int64_t step);

/// The checkpoints in `directory`, highest step first; none if there is no such directory.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& directory);

/// A checkpoint open for reading. It stays readable if the run removes its file. One thread.
class Checkpoint {
 public:
  /// Opens `file` and reads its metadata; no arrays.
  explicit Checkpoint(std::filesystem::path file);
  ~Checkpoint();

  const std::filesystem::path& file() const { return file_; }
  const CheckpointMetadata& metadata() const { return metadata_; }
  bool has(const std::string& section) const;
  /// Reads all; throws unless every checksum is right.
  void verify() const;
  /// Fills the arenas. Every section must be there with exactly the layout's parameters. The first
  /// difference throws before anything is overwritten. A damaged file (verify() first) throws with
  /// the arenas half written. The file may contain further sections. Parameters of the layer
  /// number `without` may have any shape, and keep their values.
  void load(const Layout& layout, const std::vector<Section>& sections, int without = -1) const;
  /// The shape of an array; nothing if there is none.
  std::optional<Shape> shape(const Section& section, const Parameter& parameter) const;

 private:
  std::filesystem::path file_;
  std::unique_ptr<Hdf5Reader> reader_;
  CheckpointMetadata metadata_;
};

/// The same in one call each.
CheckpointMetadata read_metadata(const std::filesystem::path& file);
void verify_checkpoint(const std::filesystem::path& file);

/// The checkpoint to go on from.
struct Newest {
  /// Verified; empty if the directory contains no checkpoint.
  std::optional<std::filesystem::path> file;
  /// One line for each newer file that was passed over, with the reason.
  std::vector<std::string> warnings;
};

/// The checkpoint of the highest step that is whole. Throws if there are some and all are damaged,
/// and UnreadableFile if a newer one cannot be read now.
Newest newest_good(const std::filesystem::path& directory);

/// Removes old checkpoints (--keep). A damaged checkpoint is never removed and never counted, so it
/// cannot push a good one out. The object remembers which files are good: it reads each file once,
/// except the files that were passed to prune(). Used by one thread of one process.
class CheckpointPruner {
 public:
  /// `keep`: good checkpoints to leave in `directory`; 0: all.
  CheckpointPruner(std::filesystem::path directory, int keep)
      : directory_(std::move(directory)), keep_(keep) {}

  /// `newest` was just written. Removes good checkpoints of lower steps until `keep` are left,
  /// `newest` included. Those of higher steps stay, uncounted: the run passed over them because
  /// they are damaged. Stops after a minute of reading and leaves the rest to the next call.
  /// Returns a line for each damaged file, once, and for the first file that cannot be removed.
  std::vector<std::string> prune(const std::filesystem::path& newest);

 private:
  struct Known {
    std::optional<FileStamp> stamp;  ///< a file that changes is read again
    bool good = false;
  };
  bool is_good(const std::filesystem::path& file, std::vector<std::string>& warnings);

  std::filesystem::path directory_;
  int keep_;
  std::map<std::filesystem::path, Known> known_;
  bool warned_ = false;  ///< of a file that cannot be removed
};

}  // namespace lockstep
