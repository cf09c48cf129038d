#include "src/data/rows/rows.h"

#include <set>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// The relation of the evaluated rows to the run, and its sentence.
enum class Origin { own, changed, other };
constexpr const char* kOrigins[] = {
    "those that the run kept from training",
    "the data have changed since the run began, so it may have trained on some of them",
    "they are not those of the run, but may contain {} that it trained on"};

/// `divided`: as the run divided its rows.
Origin origin_of(const DataSource& source, const DataOfCheckpoint& trained,
                 const std::vector<std::string>& identity) {
  // The run stored the identity of its parts. If the same split gives the same lines, the held-out
  // rows are those of the run. Their folder may have moved.
  if (std::ranges::all_of(identity, [&](const std::string& line) {
        return trained.identity.find(line) != std::string::npos;
      }))
    return Origin::own;
  std::error_code missing;
  const bool here = source.place.labels == trained.place.labels &&
                    std::ranges::equal(source.place.folders, trained.place.folders,
                                       [&](const std::string& one, const std::string& other) {
                                         return std::filesystem::equivalent(one, other, missing);
                                       });
  if (!here) return Origin::other;
  // The run's identity lacks damaged images that it left out.
  return trained.check.find("skip") == trained.check.npos ? Origin::changed : Origin::own;
}

}  // namespace

std::vector<std::string> classes_of(const std::vector<Row>& rows, std::optional<SetPart> part) {
  std::set<std::string> names;
  for (const Row& row : rows)
    if (!part || row.part == *part) names.insert(row.label);
  return {names.begin(), names.end()};
}

void divide(const Split& split, Rows& all) {
  const std::vector<std::string> names = classes_of(all.rows, kTrain);
  std::vector<Row*> rows;
  std::vector<std::int32_t> labels;
  for (Row& row : all.rows) {
    if (row.part != kTrain) continue;
    rows.push_back(&row);
    labels.push_back(std::ranges::lower_bound(names, row.label) - names.begin());
  }
  // Names decide, so nearly all files keep their part when others are added or removed.
  const std::vector<bool> held =
      held_out(split, labels, [&](std::int64_t i) { return rows[i]->name; });
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (held[i]) rows[i]->part = kValidation;
  all.folders[kValidation] = all.folders[kTrain];
}

SetPart take_held_out(const DataSource& source, const DataOfCheckpoint& trained,
                      const TrainedIdentity& identity, std::string_view what,
                      const std::string& training, Rows& all) {
  if (source.validation.any()) {
    Rows divided = all;
    divide(source.validation, divided);
    const Origin origin = origin_of(source, trained, identity(divided));
    const bool held = origin != Origin::other;
    if (held) all = std::move(divided);
    // Rows of other data were never divided by the run, so all of them are evaluated.
    const SetPart seen = held ? kValidation : kTrain;
    all.notes.push_back(
        fmt::format("{} of {} {} in {} are evaluated: {}", all.count(seen), all.rows.size(), what,
                    one_line(source.place.text()),
                    fmt::format(fmt::runtime(kOrigins[static_cast<int>(origin)]), what)));
    if (held) return kValidation;
  }
  require(training.empty(), "{}", training);
  for (Row& row : all.rows) row.part = kTest;
  std::swap(all.folders[kTrain], all.folders[kTest]);
  return kTest;
}

void require_known_classes(const std::string& place, const std::vector<std::string>& names,
                           const std::vector<std::string>& known, const std::string& owner) {
  const std::vector<std::string> unknown = missing_from(known, names);
  if (unknown.empty()) return;
  std::vector<std::string> all = known;
  all.insert(all.end(), unknown.begin(), unknown.end());
  const std::string alike = look_alikes(all);
  fail_usage("{} contains classes that {} does not know: {}. It knows {}{}{}. Rename or move them.",
             place, owner, listed(unknown), listed(known), alike.empty() ? "" : "; ", alike);
}

}  // namespace lockstep
