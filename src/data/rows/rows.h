// Labelled files and texts of a data set: the class and the part of each. Readers of class folders
// and tables make rows. The data sets of photos and texts are made of rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/dataset.h"
#include "src/data/names.h"

namespace lockstep {

struct Row {
  /// A file has a path relative to Rows::folders, or an absolute one. A text in a table has its
  /// number. Split divides by it.
  std::string name;
  std::string label;
  std::uint64_t bytes = 0;  ///< size of the file
  std::int64_t line = 0;    ///< in Rows::sources, from 1
  int source = 0;           ///< place in Rows::sources
  SetPart part = kTrain;
};

/// The findings of a reader besides the rows.
struct RowSummary {
  std::vector<std::string> classes = {};           ///< sorted, or those of a checkpoint
  std::int64_t others = 0;                         ///< files of other kinds by their names
  std::map<std::string, std::int64_t> kinds = {};  ///< numbers of these files by ending_of()
  std::vector<std::string> notes = {};
  /// The file that names the classes, or several, or several folders; empty: one folder does.
  std::string table = {};
};

struct Rows : RowSummary {
  std::vector<std::string> sources;              ///< tables or several folders, for people
  std::vector<Row> rows;                         ///< sorted by class if they are files
  std::array<std::string, kParts> folders = {};  ///< by SetPart; empty: the part has no files
  bool has_train = false;                        ///< whether the user names the training part

  std::int64_t count(SetPart part) const { return std::ranges::count(rows, part, &Row::part); }
};

/// The names of the classes of the rows of a part, or of all, sorted.
std::vector<std::string> classes_of(const std::vector<Row>& rows, std::optional<SetPart> part = {});

/// Moves training rows to the validation part.
void divide(const Split& split, Rows& all);

/// The lines of OpenedData::identity of the training and the validation part.
using TrainedIdentity = std::function<std::vector<std::string>(const Rows& all)>;

/// For rows that are all in the training part. Returns the part with those that evaluate sees. With
/// DataSource::validation and data of the run: the validation part, which it kept from training.
/// Else all rows, in the test part. A note counts the `what` ("images"). Throws Error with
/// `training` in place of all rows, unless it is empty.
SetPart take_held_out(const DataSource& source, const DataOfCheckpoint& trained,
                      const TrainedIdentity& identity, std::string_view what,
                      const std::string& training, Rows& all);

/// Throws the usage Error if `known`, the classes of `owner`, lack one of `names`, the classes of
/// `place`.
void require_known_classes(const std::string& place, const std::vector<std::string>& names,
                           const std::vector<std::string>& known,
                           const std::string& owner = "the checkpoint");

}  // namespace lockstep
