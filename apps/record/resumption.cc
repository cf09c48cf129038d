#include "apps/record/resumption.h"

#include <limits>
#include <optional>

#include "apps/record/broadcast.h"
#include "apps/record/checkpoint_use.h"
#include "apps/record/run_files.h"
#include "apps/record/state_memory.h"
#include "net/initial_weights.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/dataset.h"
#include "src/files/file.h"
#include "src/report/stored_run.h"

// The choice has three steps. Rank 0 finds the newest whole checkpoint in the run's folder. All
// ranks look for a newer state in the memory of their hosts. Then rank 0 compares it with --resume,
// and broadcasts the decision, because other hosts may not see its disk.
namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resumption, file, metadata, before, init, initial, warnings,
                                   notes, run, parent, began, in_memory)

namespace {

/// Identifies a checkpoint, whatever the path of its file.
std::string origin_of(const RunFacts& facts, const CheckpointMetadata& metadata) {
  return fmt::format("{} at step {}", facts.text("id"), metadata.position.step);
}

/// "began" of a run that was started with --resume `file`: its origin, and its path because --keep
/// may have removed the file since. Printable, because texts of a checkpoint are.
std::string began_from(const std::string& origin, const std::filesystem::path& file) {
  return printable(
      fmt::format("{}\n{}", origin, std::filesystem::absolute(file).lexically_normal().string()));
}

/// Whether a run with this "began" was started by the same --resume `file`.
bool is_the_same_start(const std::string& began, const std::filesystem::path& file) {
  // The path comes first: if the file is gone, it is all that is left to compare. If it exists, its
  // origin must be the same too, because another checkpoint may have its name by now.
  const std::string here = began_from("", file);
  if (!began.ends_with(here)) return false;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return true;
  const CheckpointMetadata metadata = read_metadata(file);
  return began == began_from(origin_of(RunFacts::of(file, metadata), metadata), file);
}

void resume_from(Resumption& r, const std::filesystem::path& file) {
  r.file = file.string();
  r.metadata = read_metadata(file);
  r.before = RunFacts::of(file, r.metadata);
  r.metadata.texts.erase(kFacts);  // `before` has them
  r.run = r.before.text("id");
  r.parent = r.before.text("parent");
  r.began = r.before.text("began");
}

/// A fact of resumption.file as a positive int; throws Error that names both.
int number_of(const Resumption& resumption, const std::string& name) {
  const std::int64_t value = resumption.before.number(name);
  if (value > 0 && value <= std::numeric_limits<int>::max()) return static_cast<int>(value);
  fail("{} has no valid {}: it was not written by this program. Use another file.", resumption.file,
       name);
}

/// --resume never or FILE, with a folder whose newest checkpoint is `newest`.
void resume_among(Resumption& r, const std::string& how, const std::filesystem::path& newest) {
  std::error_code error;
  resume_from(r, newest);
  // The user names the newest checkpoint itself, so the run simply resumes.
  if (how != "never" && std::filesystem::equivalent(newest, how, error)) {
    r.began = began_from(origin_of(r.before, r.metadata), how);
    return;
  }
  // The same command is repeated, as a queue or lockstep_run does. It resumes, and does not begin
  // again at the file that it names.
  if (how == "never" ? r.began == how : is_the_same_start(r.began, how)) {
    r.notes.push_back(fmt::format(
        "--resume {} began this run, which now resumes from its newest checkpoint", how));
    return;
  }
  // The dot turns the empty parent of a plain file name into the current folder.
  const bool inside =
      how != "never" && std::filesystem::equivalent(std::filesystem::path(how).parent_path() / ".",
                                                    newest.parent_path(), error);
  fail_usage(
      "--resume {}: the folder already contains checkpoints that this did not begin ({}). Use "
      "--new{}.",
      how, newest.string(), inside ? ", or move those of higher steps away" : "");
}

/// `newest`: the file of the run's last state, if there is one.
void resolve(Resumption& r, const std::string& how,
             const std::optional<std::filesystem::path>& newest) {
  if (newest && how == "auto") return resume_from(r, *newest);
  if (newest) return resume_among(r, how, *newest);
  if (how != "auto" && how != "never") {
    verify_checkpoint(how);
    resume_from(r, how);
    // The checkpoint of another run begins a new one, which gets its own id. `before` keeps the old
    // id.
    r.run.clear();
    r.parent = origin_of(r.before, r.metadata);
    r.began = began_from(r.parent, how);
  } else {
    r.began = how;
  }
}

/// Notes a run whose checkpoints are gone, and a checkpoint that another run wrote. `folder`: of
/// the checkpoints, in the folder of the run.
void compare_with_summary(Resumption& r, const std::string& how, const std::string& folder) {
  const std::filesystem::path place = std::filesystem::path(folder).parent_path();
  const auto summary = stored_facts(place);
  const std::string id = summary ? summary->text("id") : "";
  if (id.empty() || id == r.run) return;
  if (r.is_same_run()) {
    r.notes.push_back(fmt::format("another run than that of {} wrote {}, which resumes here",
                                  (place / kSummaryFile).string(), r.file));
  } else if (how != "never") {
    r.notes.push_back(
        fmt::format("{} has no checkpoint of its earlier start, so it begins again. "
                    "If it was moved, its state in memory belongs to its old place",
                    place.string()));
  }
}

/// The weights of --init `init` begin the run.
void begin_with(Resumption& r, const std::string& init) {
  if (has_published_weights(init) && is_gone(path_of_run(init))) {
    fail_usage(
        "--init {0}: there is no file or run {0}. scripts/get_weights.sh {0} downloads weights of "
        "this model. Pass their file.",
        init);
  }
  r.init = init;
  if (!checkpoint_folder(r.init).empty()) {
    const auto warn = [&](const std::string& text) { r.warnings.push_back(text); };
    const ChosenCheckpoint chosen = open_checkpoint({.run = r.init}, warn);
    r.init = chosen.checkpoint->file().string();
    r.notes.push_back(fmt::format("--init {} is {}", init, chosen.text()));
  }
  r.initial = RunFacts::of(r.init, initial_metadata(r.init));
}

/// Throws the usage Error if `o` describe another run than the checkpoint called `name`, in a way
/// that no training can continue.
void require_same_network(const Options& o, const RunFacts& before, int ranks,
                          const std::string& name) {
  const std::string other = o.checkpoints.resume == "auto" ? "use --new" : "omit --resume";
  for (const Change& change : differences(before, chosen_facts(o, ranks), o)) {
    if (change.name == "dataset") {
      const bool was_generated = find(datasets(), change.was).files.empty();
      fail_usage("{}: {}. Pass --dataset {} {}, or {}.", name, change.text, change.was,
                 was_generated ? "without --data" : "with its --data DIR", other);
    }
    const bool by_file = !before.text("network").empty() || !o.model.network.empty();
    if (change.name == "network" || (change.name == "model" && by_file))
      fail_usage("{}: {}. Pass the --model of its run, or {}.", name, change.text, other);
    if (change.name == "model" || change.name == "seed") {
      fail_usage("{}: {}. Pass {} {}, or {}.", name, change.text, change.subject, change.was,
                 other);
    }
  }
}

}  // namespace

Resumption find_resumption(const Comm& comm, const Options& options, const std::string& folder,
                           bool in_memory) {
  Resumption r;
  Newest newest;
  CheckpointMetadata before;
  std::string run;  // of the folder
  agree(comm, [&] {
    if (comm.rank() != 0 || folder.empty()) return;
    newest = newest_good(folder);
    if (!in_memory) return;
    // The id tells the states of this run from those of others. Before the first checkpoint only
    // summary.json has it.
    if (newest.file) before = read_metadata(*newest.file);
    if (newest.file) {
      run = RunFacts::of(*newest.file, before).text("id");
    } else if (const auto facts = stored_facts(std::filesystem::path(folder).parent_path())) {
      run = facts->text("id");
    }
  });
  if (in_memory) {
    FoundState state = find_state(comm,
                                  {.run = run,
                                   .place = std::filesystem::path(folder).parent_path(),
                                   .host = host_name(),
                                   .first = comm.node().rank() == 0},
                                  before.position.step);
    r.in_memory = !state.file.empty();
    if (r.in_memory) newest.file = state.file;
    newest.warnings.insert(newest.warnings.end(), state.warnings.begin(), state.warnings.end());
  }
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    // All errors of rank 0 occur inside agree(), so that no rank waits in the broadcast for ever.
    r.warnings = std::move(newest.warnings);
    resolve(r, options.checkpoints.resume, newest.file);
    if (r.run.empty()) r.run = unique_hex(16);
    if (!folder.empty()) compare_with_summary(r, options.checkpoints.resume, folder);
    if (!r.file.empty() || options.model.init.empty()) return;
    begin_with(r, options.model.init);
  });
  return broadcast_object(comm, r);
}

void require_same_run(const Resumption& resumption, const std::vector<Change>& changes,
                      bool complete) {
  if (!resumption.is_same_run()) return;
  std::vector<Change> others = changes;
  // More steps are the reason to repeat the command. After its end, a schedule that depends on them
  // would have trained other weights.
  if (!complete) std::erase_if(others, [](const Change& c) { return c.name == "steps"; });
  const std::string text = other_run_text(others);
  if (text.empty()) return;
  fail_usage("{} {} other options: {}. Pass the options of that run, or use --new.",
             resumption.file, complete ? "is complete, with" : "has", text);
}

RunShape resumed_shape(const Options& o, const Resumption& resumption, int ranks,
                       std::vector<std::string>& notes) {
  RunShape shape = shape_of(o, ranks);
  if (resumption.file.empty()) return shape;
  const std::string name = std::filesystem::path(resumption.file).filename();
  require_same_network(o, resumption.before, ranks, name);
  shape.seed = resumption.metadata.position.seed;

  const std::int64_t batch = number_of(resumption, "global_batch");
  if (!o.schedule.batch_given && shape.global_batch != batch) {
    if (o.schedule.global_batch != batch)
      notes.push_back(fmt::format("global batch {}, from the checkpoint", batch));
    shape.global_batch = batch;
  }
  // The shards decide the order of sums, and so the last bits. A number that the user did not pass
  // stays as it was, on any number of ranks.
  const int shards = number_of(resumption, "shards");
  if (!o.schedule.shards_given) {
    if (shards < ranks) {
      fail_usage(
          "{} was trained with {}, too few for {} ranks. Start at most {}{}.", name,
          counted(shards, "shard"), ranks, counted(shards, "rank"),
          shape.global_batch % ranks != 0
              ? ""
              : fmt::format(", or pass --shards {} (the last bits of weights will differ)", ranks));
    }
    if (o.schedule.accumulate > 1 && shards != ranks * o.schedule.accumulate) {
      notes.push_back(fmt::format("--accumulate {} does nothing: the checkpoint has {} for {}",
                                  o.schedule.accumulate, counted(shards, "shard"),
                                  counted(ranks, "rank")));
    }
    shape.shards = shards;
  }
  if (shape.threads == 0) shape.threads = number_of(resumption, "threads");
  return shape;
}

}  // namespace lockstep
