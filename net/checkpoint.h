// A training run <-> one HDF5 file per checkpoint, `step-%010d.h5` in a directory of their own. The
// file holds nothing that depends on the number of ranks: parameters, optimizer slots and averages
// under the parameters' names and shapes, and the position in the stream of samples. Readable with
// h5py: scripts/print_weights.py.
//
// All calls throw Error that names the file. Rank 0 alone writes; any number of processes may read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/parameters.h"

namespace lockstep {

class Hdf5Reader;

/// One arena of layout.count floats, owned by the caller, and its group in the file: each parameter
/// of the layout is the data set <name>/<parameter's name>. The header and the gaps between
/// parameters are neither saved nor touched by loading.
template <class Float>
struct SectionOf {
  /// "parameters", "optimizer/momentum", "ema".
  std::string name;
  Float* arena = nullptr;
  /// It holds something of trained parameters alone: statistics have no place in the file.
  bool trained_only = false;

  bool holds(const Parameter& parameter) const { return parameter.trained() || !trained_only; }
};
using Section = SectionOf<float>;
using ConstSection = SectionOf<const float>;
/// The same arenas, to be read alone.
std::vector<ConstSection> read_only(const std::vector<Section>& sections);

/// No run counts further, in samples: whole numbers up to here are exact in doubles.
inline constexpr std::int64_t kLastSample = std::int64_t{1} << 53;

/// How far the run has come. None is negative or above kLastSample.
struct Position {
  /// Steps done.
  std::int64_t step = 0;
  /// Samples consumed: where in the stream the run goes on (src/data/loader.h).
  std::int64_t samples = 0;
  /// Of the next sample.
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  bool operator==(const Position&) const = default;
};

/// What a checkpoint says of itself besides its arrays.
struct CheckpointMetadata {
  Position position;
  /// Free: "model", "options", "version", "global_batch", ... A file's are printable() when read.
  std::map<std::string, std::string> texts;
};

/// Writes <directory>/step-<position.step>.h5 as a whole or not at all, then removes temporary
/// files of dead processes. Returns the file. Holds about as much memory as the arenas while it
/// runs. Older checkpoints stay: net/checkpoint_pruner.h removes them.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const Layout& layout,
                                      const std::vector<ConstSection>& sections,
                                      const CheckpointMetadata& metadata);

/// The checkpoints in `directory`, highest step first; none if there is no such directory.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& directory);

/// A checkpoint open for reading, which stays readable though the run that writes there removes it
/// meanwhile. One thread.
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
  /// Fills the arenas. Every section must be there with exactly the layout's parameters; the first
  /// difference throws before anything is overwritten. A file that is damaged (verify first) throws
  /// with the arenas half written. The file may hold further sections.
  void load(const Layout& layout, const std::vector<Section>& sections) const;

 private:
  std::filesystem::path file_;
  std::unique_ptr<Hdf5Reader> reader_;
  CheckpointMetadata metadata_;
};

/// The same in one call each.
CheckpointMetadata read_metadata(const std::filesystem::path& file);
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, const Layout& layout,
                                   const std::vector<Section>& sections);
void verify_checkpoint(const std::filesystem::path& file);

/// The checkpoint to go on from.
struct Newest {
  /// Verified; nothing where the directory holds no checkpoint.
  std::optional<std::filesystem::path> file;
  /// One line for each newer file that was passed over, with the reason.
  std::vector<std::string> warnings;
};

/// The checkpoint of the highest step that is whole. Throws if there are some and all are damaged.
Newest newest_good(const std::filesystem::path& directory);

}  // namespace lockstep
