#include "apps/record/run_place.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "apps/record/run_files.h"
#include "apps/step/run_plan.h"
#include "net/description/network_file.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"
#include "src/files/folder_lock.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const fs::path kRuns = "runs";

/// The options that the user chose, from config.toml. Nothing: there is no such file.
std::optional<std::string> options_of(const fs::path& folder) {
  const auto config = read_file(folder / kConfigFile);
  if (!config) return {};
  std::string text;
  for (const std::string& line : lines_of(*config))
    if (!line.starts_with('#')) text += line + "\n";
  return text;
}

/// The value of option `name` in such a text; empty: it has none.
std::string value_of(const std::string& text, const std::string& name) {
  std::string result;
  for (const auto& [option, value] : named_values(text))
    if (option == name) result = value;
  return result;
}

/// "--lr is 0.2, not 0.1": the options of `o` that make it another run than that in `folder`, whose
/// options are `before`. `all`: also those that a resumed run would take from its checkpoint, or
/// find to be wrong there.
std::vector<std::string> differences(const fs::path& folder, const std::string& before,
                                     const Options& o, bool all) {
  std::vector<std::string> names{"dataset"}, result;
  const std::string network = read_file(folder / kNetworkFile).value_or("");
  if (network.empty() || o.model.network.empty()) {
    names.emplace_back("model");
  } else if (network != o.model.network) {
    result.push_back(fmt::format("{} of --model {}", network_difference(network, o.model.network),
                                 o.model.given));
  }
  for (const auto& [name, by_default] : o.shaping) names.push_back(name);
  if (all || o.schedule.seed_given) names.emplace_back("seed");
  if (all) {
    for (const char* name : {"batch", "global-batch", "accumulate", "shards", "data", "resume"})
      names.emplace_back(name);
  }
  for (const std::string& name : names) {
    const auto by_default = o.shaping.find(name);
    std::string was = value_of(before, name), is = value_of(o.text, name);
    for (std::string* value : {&was, &is})
      if (value->empty() && by_default != o.shaping.end()) *value = by_default->second;
    if (was == is) continue;
    const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
    result.push_back(fmt::format("--{} is {}, not {}", name, shown(is), shown(was)));
  }
  return result;
}

/// Why `ranks` ranks cannot resume the run with the batch and the shards of `o`; empty: they can,
/// or the run was killed before it had a checkpoint.
std::string other_shape(const fs::path& folder, const Options& o, int ranks) {
  const auto before = recorded_shape(folder);
  if (!before) return "";
  const RunShape shape = shape_of(o, ranks);
  if (o.schedule.batch_given && shape.global_batch != before->global_batch)
    return fmt::format("the global batch is {}, not {}", shape.global_batch, before->global_batch);
  if (!o.schedule.shards_given && before->shards % ranks != 0)
    return fmt::format("{} ranks cannot share its {} shards evenly", ranks, before->shards);
  return "";
}

/// Whether a process certainly trains the run. One of another host may be dead: await_folders().
bool in_use(const fs::path& folder) {
  return !FolderLock::holder(folder).empty() && !FolderLock::silent_holder(folder);
}

/// Whether the run may be this user's. Another error than of permissions shows when it is read.
bool may_read(const fs::path& folder) {
  return ::access((folder / kConfigFile).c_str(), R_OK) == 0 || errno != EACCES;
}

/// "photos" of "photos-2", and 2; number 0: the name has none.
std::pair<std::string, std::int64_t> split(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  const std::string digits = dash == name.npos ? "" : name.substr(dash + 1);
  if (dash == 0 || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != digits.npos) {
    return {name, 0};
  }
  return {name.substr(0, dash), std::stoll(digits)};
}

[[noreturn]] void fail_to_create(const fs::path& folder, const std::error_code& error) {
  fail(
      "cannot create the run's folder {}: {}. Pass --run with a path that you can write to, or "
      "--no-run to keep nothing.",
      fs::absolute(folder).string(), error.message());
}

/// Creates `folder`; false: it exists. `parent`: whether its parent is new too.
bool make(const fs::path& folder, bool& parent) {
  std::error_code error;
  parent = fs::create_directories(folder.parent_path(), error);
  const bool made = !error && fs::create_directory(folder, error);
  if (error) fail_to_create(folder, error);
  return made;
}

/// Rank 0's choice.
class Choice {
 public:
  Choice(const Options& o, int ranks) : o_(o), ranks_(ranks) {}

  bool made = false, made_parent = false;  ///< the folder is new, and its parent
  std::shared_ptr<FolderLock> claim;       ///< of an unnamed run that is resumed
  fs::path folder;                         ///< empty: none, because it would have to be created
  std::vector<std::string> notes;

  void choose() {
    const char* restarts = std::getenv("SLURM_RESTART_COUNT");
    const bool again = restarts != nullptr && std::atoi(restarts) > 0;
    const std::string& name = o_.run.name;
    if (name.empty()) {
      return number(kRuns / fmt::format("{}-{}", o_.program, o_.model.name),
                    again || !o_.run.fresh);
    }
    const fs::path named = named_folder(name);
    if (o_.run.fresh)
      return number(named.parent_path() / split(named.filename().string()).first, again);
    folder = named;
    std::error_code unreadable;
    if (!fs::exists(folder, unreadable)) return create();
    const auto before = options_of(folder);
    if (!before) return require_no_other_files();
    const std::vector<std::string> others = differences(folder, *before, o_, false);
    if (!others.empty()) {
      fail_usage("{} has other options: {}. Pass the same options, or --new for another run.",
                 folder.string(), fmt::join(others, ", "));
    }
  }

 private:
  /// The folder `stem`-N: with `resume` that of the highest N with the same options, else new.
  void number(const fs::path& stem, bool resume) {
    std::map<std::int64_t, fs::path, std::greater<>> runs;
    std::error_code error;
    for (fs::directory_iterator entry(stem.parent_path(), error), end; !error && entry != end;
         entry.increment(error)) {
      const auto [name, number] = split(entry->path().filename().string());
      if (name == stem.filename().string()) runs[number] = entry->path();
    }
    for (const auto& [number, path] : runs) {
      const auto before = resume && may_read(path) ? options_of(path) : std::nullopt;
      if (!before) continue;
      std::vector<std::string> others = differences(path, *before, o_, true);
      const std::string shape = others.empty() ? other_shape(path, o_, ranks_) : "";
      if (!shape.empty()) others.push_back(shape);
      if (others.empty() && is_free(path)) {
        folder = path;
        return;
      }
      if (notes.empty()) {
        notes.push_back(fmt::format("another run than {}: {}", path.string(),
                                    others.empty() ? "that one is being trained"
                                                   : fmt::format("{}", fmt::join(others, ", "))));
      }
    }
    for (std::int64_t n = runs.empty() ? 1 : runs.begin()->first + 1; !made; ++n) {
      folder = fmt::format("{}-{}", stem.string(), n);
      create();
      if (folder.empty()) return;
    }
  }

  /// Whether no process trains the run. Claims it, so that another start finds it in use.
  bool is_free(const fs::path& path) {
    if (in_use(path)) return false;
    if (o_.check || o_.summary || FolderLock::silent_holder(path)) return true;
    try {
      claim = std::make_shared<FolderLock>(path, "--run");
    } catch (const Error&) {
      if (!in_use(path)) throw;
      return false;  // another start was faster
    }
    return true;
  }

  /// A run that was killed at once has left only these.
  void require_no_other_files() const {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name == "checkpoints" || name.starts_with("run.lock.") || name.starts_with(kConfigFile) ||
          name.starts_with(kNetworkFile) || name.find(".tmp-") != name.npos)
        continue;
      fail_usage("--run {}: the folder has {}, but no {}. Use another name.", folder.string(), name,
                 kConfigFile);
    }
    if (error) fail_to_create(folder, error);
  }

  void create() {
    if (o_.check || o_.summary) {
      folder.clear();
    } else {
      made = make(folder, made_parent);
    }
  }

  const Options& o_;
  int ranks_;
};

}  // namespace

fs::path named_folder(const std::string& name) {
  fs::path named = name.find('/') == name.npos ? kRuns / name : fs::path(name);
  if (!named.has_filename()) named = named.parent_path();  // "runs/one/"
  if (!named.has_parent_path()) named = "." / named;       // "one/"
  return named;
}

RunFolder::RunFolder(const Comm& comm, Options& options) : options_(options) {
  if (!options.keeps_run()) return;
  std::string folder;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    Choice choice(options, comm.size());
    choice.choose();
    folder = choice.folder.lexically_normal().string();
    // As --run reads it: a name without a slash is one in runs/.
    if (!folder.empty() && folder.find('/') == folder.npos) folder = "./" + folder;
    if (choice.made) made_ = folder;
    made_parent_ = choice.made && choice.made_parent;
    options.run.claim = choice.claim;
    if (choice.made)
      options.notes.insert(options.notes.end(), choice.notes.begin(), choice.notes.end());
  });
  options.run.folder = folder = comm.broadcast(folder);
  if (folder.empty()) return;
  if (options.checkpoints.dir.empty()) options.checkpoints.dir = folder + "/checkpoints";
  if (options.reports.log_dir.empty()) options.reports.log_dir = folder;
}

RunFolder::~RunFolder() {
  options_.run.claim.reset();
  if (made_.empty()) return;
  std::error_code not_empty;
  if (fs::remove(made_, not_empty) && made_parent_)
    fs::remove(fs::path(made_).parent_path(), not_empty);
}

}  // namespace lockstep
