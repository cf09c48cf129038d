#include "apps/run/best_checkpoint.h"

#include <set>

#include "collectives/comm/flight_recorder.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// For rank 0. Null: the folder has no best.h5 of this step. Throws Error if the file is damaged or
/// cannot be read, because the accuracy of other weights would be that of the run for ever.
std::unique_ptr<Checkpoint> open_best(const std::string& folder, const Accuracy& best) {
  const fs::path file = fs::path(folder) / kBestFile;
  if (folder.empty() || !best.known() || is_gone(file)) return nullptr;
  try {
    auto checkpoint = std::make_unique<Checkpoint>(file);
    checkpoint->verify();
    return checkpoint->metadata().position.step == best.step ? std::move(checkpoint) : nullptr;
  } catch (const UnreadableFile&) {
    throw;  // the next start tests again
  } catch (const Error& damaged) {
    fail("{}. Restore it; or move it away, then the same command tests the last weights.",
         damaged.what());
  }
}

/// Makes `file` another name of `checkpoint`, atomically.
void also_name(const fs::path& checkpoint, const fs::path& file) {
  const fs::path link = temporary_name(file);
  std::error_code error;
  // A rename between two names of one file would change nothing and leave both.
  if (fs::equivalent(checkpoint, file, error)) return;
  // A hard link cannot replace a file, so it gets a temporary name first. The rename then replaces
  // the old file in one step.
  fs::create_hard_link(checkpoint, link, error);
  if (!error) fs::rename(link, file, error);
  if (error) {
    std::filesystem::remove(link, error);
    const auto bytes = read_file(checkpoint);
    require(bytes.has_value(), "{} is gone. Restore it.", checkpoint.string());
    replace_file(file, *bytes);
  }
}

}  // namespace

void keep_best(const fs::path& checkpoint, std::int64_t step, const RunProgress& progress,
               int keep) {
  const fs::path folder = checkpoint.parent_path(), best = folder / kBestFile;
  std::error_code error, ignored;
  if (progress.best.step == step) {
    // With --keep-best 1 so far, the former best has no other name.
    const fs::path former =
        progress.next.empty() ? best : folder / best_name(progress.next.front().step);
    if (!is_gone(best) && is_gone(former) && !fs::equivalent(checkpoint, best, ignored))
      also_name(best, former);
    also_name(checkpoint, best);
  }
  std::set<std::string> names;
  if (keep > 1) {
    also_name(checkpoint, folder / best_name(step));
    names.insert(best_name(progress.best.step));
    for (const BestEvaluation& other : progress.next) names.insert(best_name(other.step));
  }
  // The folder itself is read, because a run that was killed may have left names behind.
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("best-") && name.ends_with(".h5") && !names.contains(name))
      fs::remove(entry->path(), ignored);
  }
}

bool tests_at_end(const RunSetup& setup) {
  return setup.data.validation && setup.data.test && setup.options.reports.evaluates();
}

std::optional<TestResult> test_best(const RunSetup& setup, Evaluation& evaluation,
                                    const std::string& checkpoints, const Accuracy& best,
                                    std::int64_t done, float* last,
                                    const std::function<bool(double)>& keep_going) {
  std::unique_ptr<Checkpoint> checkpoint;
  setup.recorder.phase("reading best.h5", kSlowFiles);
  agree_on_rank_0(setup.comm, [&] { checkpoint = open_best(checkpoints, best); });
  // Only rank 0 has the file open, but all ranks must take the same branch below.
  const bool found = setup.comm.max(checkpoint != nullptr) > 0;
  const bool averaged = setup.options.optimizer.ema > 0;
  evaluation.change_to(*setup.data.test);
  float* const weights =
      found ? evaluation.load(setup.comm, checkpoint.get(), averaged ? "ema" : "parameters") : last;
  setup.recorder.phase("evaluating the test set");
  auto result = evaluation.run(setup.comm, weights, keep_going);
  if (!result) return std::nullopt;
  return TestResult{std::move(*result), found ? best.step : done};
}

}  // namespace lockstep
