// best.h5 (kBestFile): the checkpoint of the best evaluation (--best) on the validation set, beside
// the newest ones. With --keep-best N above 1, each of the N best checkpoints has a name too, such
// as best-0000000040.h5.
//
// Only a run with a validation set keeps them. The run saves a checkpoint after each better
// evaluation, and best.h5 becomes a second name of that file. So --keep may remove the first name,
// and best.h5 never contains another state than the checkpoint that counts it as the best.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "apps/evaluate/evaluation.h"
#include "apps/record/progress.h"
#include "apps/run/run_setup.h"

namespace lockstep {

/// `checkpoint`, of `step`, is among the best ones: gives it its names in its folder, each
/// atomically. Removes the best-STEP.h5 that are no longer among them. A file system without hard
/// links gets copies. `keep`: --keep-best. Throws Error. Only on rank 0.
void keep_best(const std::filesystem::path& checkpoint, std::int64_t step,
               const RunProgress& progress, int keep);

/// Whether the end of a run evaluates the test set with the best weights.
bool tests_at_end(const RunSetup& setup);

struct TestResult {
  EvaluationResult result;
  std::int64_t step = 0;  ///< of the weights
};

/// Collective, after the last step, `done`. `checkpoints`: the folder of best.h5. Evaluates the
/// test set with the weights of best.h5, or with `last`, those of the last step, if there is no
/// such file of step best.step. `evaluation` is then one of the test set. None: a rank was asked to
/// stop (Evaluation::run). Throws AgreedError.
std::optional<TestResult> test_best(const RunSetup& setup, Evaluation& evaluation,
                                    const std::string& checkpoints, const Accuracy& best,
                                    std::int64_t done, float* last,
                                    const std::function<bool(double)>& keep_going);

}  // namespace lockstep
