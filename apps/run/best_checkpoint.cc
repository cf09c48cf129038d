#include "apps/run/best_checkpoint.h"

#include <fstream>
#include <iterator>

#include "collectives/comm/flight_recorder.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// For rank 0. Null: the folder has no whole best.h5 of this step.
std::unique_ptr<Checkpoint> open_best(const std::string& folder, const Accuracy& best) {
  const fs::path file = fs::path(folder) / kBestFile;
  std::error_code unreadable;
  if (folder.empty() || !best.known() || !fs::exists(file, unreadable)) return nullptr;
  try {
    auto checkpoint = std::make_unique<Checkpoint>(file);
    checkpoint->verify();
    if (checkpoint->metadata().position.step == best.step) return checkpoint;
  } catch (const Error&) {  // a damaged file
  }
  return nullptr;
}

}  // namespace

void keep_best(const fs::path& checkpoint) {
  const fs::path file = checkpoint.parent_path() / kBestFile, link = temporary_name(file);
  std::error_code error;
  // A rename between two names of one file would change nothing and leave both.
  if (fs::equivalent(checkpoint, file, error)) return;
  fs::create_hard_link(checkpoint, link, error);
  if (!error) fs::rename(link, file, error);
  if (error) {
    std::ifstream in(checkpoint, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    require(in && bytes.size() == fs::file_size(checkpoint),
            "cannot read {} to copy it to {}. Restore it or its permissions.", checkpoint.string(),
            file.string());
    replace_file(file, bytes);
  }
  remove_stale_temporaries(file.parent_path(), kBestFile);
}

bool tests_at_end(const RunSetup& setup) {
  return setup.data.validation && setup.data.test && setup.options.reports.evaluates();
}

std::optional<TestResult> test_best(const RunSetup& setup, Evaluation& evaluation,
                                    const Accuracy& best, std::int64_t done, float* last,
                                    const std::function<bool(double)>& go_on) {
  std::unique_ptr<Checkpoint> checkpoint;
  setup.recorder.phase("reading best.h5", kSlowFiles);
  agree(setup.comm, [&] {
    if (setup.comm.rank() == 0) checkpoint = open_best(setup.options.checkpoints.dir, best);
  });
  const bool found = setup.comm.max(checkpoint != nullptr) > 0;
  const bool averaged = setup.options.optimizer.ema > 0;
  evaluation.change_to(*setup.data.test);
  float* const weights =
      found ? evaluation.load(setup.comm, checkpoint.get(), averaged ? "ema" : "parameters") : last;
  setup.recorder.phase("evaluating the test set");
  auto result = evaluation.run(setup.comm, weights, go_on);
  if (!result) return std::nullopt;
  return TestResult{std::move(*result), found ? best.step : done};
}

}  // namespace lockstep
