// RunFacts: what a run is, as one table of facts. A checkpoint contains the facts as one attribute.
// summary.json, config.toml and the line of kind "run" in metrics.jsonl are views of them, and a
// resume compares them. A new fact is one row in run_facts.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/options/run_options.h"
#include "apps/step/placement.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "src/data/dataset.h"
#include "src/device/device.h"

namespace lockstep {

/// Typed values by name. Texts have no control characters except line ends, and are UTF-8.
class RunFacts {
 public:
  using Json = nlohmann::ordered_json;

  RunFacts() = default;
  /// `values`: an object.
  explicit RunFacts(const Json& values);
  /// Those in JSON; nothing: it is damaged.
  static std::optional<RunFacts> read(const std::string& text);
  /// Those of a checkpoint or of another file of weights, whose metadata these are. Throws Error
  /// that names the file, and a fact of another kind, if they are damaged.
  static RunFacts of(const std::filesystem::path& file, const CheckpointMetadata& metadata);

  bool has(const std::string& name) const { return values_.contains(name); }
  /// null: there is no such fact.
  Json value(const std::string& name) const { return values_.value(name, Json()); }
  /// Empty: there is no such fact, or it is no text.
  std::string text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  /// Whether all ranks computed in portable arithmetic.
  bool portable() const;
  /// 0: there is no such fact, or it is no whole number.
  std::int64_t number(const std::string& name) const;
  /// The JSON of an object; empty: there is no such fact.
  std::string object_text(const std::string& name) const;
  /// The value of an option of the run, named without dashes; null: it was not set.
  Json option(const std::string& name) const {
    return values_.value("options", Json::object()).value(name, Json());
  }

  const Json& values() const { return values_; }
  /// For CheckpointMetadata::texts, under kFacts.
  std::string dump() const;

 private:
  Json values_ = Json::object();
};

inline constexpr const char* kFacts = "facts";
/// In CheckpointMetadata::texts beside the facts: OpenedData::vocabulary, which is too long for
/// them.
inline constexpr const char* kVocabulary = "vocabulary";

inline void to_json(nlohmann::json& json, const RunFacts& facts) { json = facts.dump(); }
inline void from_json(const nlohmann::json& json, RunFacts& facts) {
  facts = RunFacts(RunFacts::Json::parse(json.get<std::string>()));
}

/// The sources of facts. The caller owns them.
struct RunParts {
  const Comm& comm;
  const Options& options;
  const struct Resumption& resumption;
  const std::string& folder;  ///< of the run; empty: there is none
  const RunPlan& plan;
  const Placement& placement;
  const Device& device;
  const OpenedData& data;
  const TrainingStep& step;
  std::vector<std::pair<std::string, std::size_t>> memory;  ///< bytes on this rank, by part
  bool keeps_states;  ///< its states in memory outlive the ranks
};

/// Collective. All facts of the run that begins. On rank 0 they are those of all ranks.
RunFacts facts_of(const RunParts& parts);

/// The facts that the command line and the number of ranks decide. Throws the usage Error of
/// shape_of().
RunFacts chosen_facts(const Options& options, int ranks);

/// The consequence of another value for a run that resumes.
enum class Meaning : std::uint8_t {
  free,       ///< nothing
  last_bits,  ///< the last bits of its weights may differ
  other_run,  ///< it is no longer the same run
};

/// A fact that is not as before.
struct Change {
  Meaning meaning = Meaning::free;
  std::string name;     ///< of the fact, or of the option without dashes
  std::string subject;  ///< "--lr", "the global batch"
  std::string text;     ///< "--lr is 0.2, not 0.1"
  std::string was;      ///< "0.1"

  /// One line about a run that resumes.
  std::string note() const;
};

/// The one comparer of runs: the facts that both have, that differ, and that are not free. The data
/// have their own, first_other_file(). Options that `before` lacks had their defaults. `unnamed`:
/// also the options that a resumed run would take from its checkpoint.
std::vector<Change> differences(const RunFacts& before, const RunFacts& now, const Options& options,
                                bool unnamed = false);

/// The texts of the changes that make it another run; empty: none does.
std::string other_run_text(const std::vector<Change>& changes);

std::string policy_text(Policy policy);

}  // namespace lockstep
