#include "apps/options/conflicts.h"

#include "src/base/table.h"

namespace lockstep {

void check_together(const Options& o, OptionRows& rows) {
  const auto where = [&](const char* name) { return rows.at(name).where(); };
  if (o.schedule.steps > 0 && o.schedule.epochs > 0) {
    fail_usage("{} and {} both set the length of the run. Pass one of them.", where("--steps"),
               where("--epochs"));
  }
  if (o.schedule.batch > 0 && o.schedule.global_batch > 0) {
    fail_usage("{} and {} both set the batch. Pass one of them.", where("--batch"),
               where("--global-batch"));
  }
  if (o.schedule.accumulate > 1 && o.schedule.shards > 0) {
    fail_usage("{} and {} both set the number of shards. Pass one of them.", where("--accumulate"),
               where("--shards"));
  }
  if (const LossScaling scaling = o.loss_scaling(); scaling.scale > scaling.highest) {
    fail_usage("{} {} is too large for {}. Pass at most {:g}.", where("--loss-scale"),
               o.optimizer.loss_scale, where("--clip-norm"), scaling.highest);
  }
  const bool generated = find(datasets(), o.data.dataset).files.empty();
  if (!generated && o.data.folder.empty()) {
    const DatasetEntry& data = find(datasets(), o.data.dataset);
    const std::string files =
        data.own ? std::string(data.files)
                 : fmt::format("scripts/get_data.sh {} downloads them",
                               o.data.dataset == "cifar10_32" ? "cifar10" : o.data.dataset);
    fail_usage("{} {} needs its files ({}). Pass --data DIR.", where("--dataset"), o.data.dataset,
               files);
  }
  if (generated && !o.data.folder.empty()) {
    fail_usage("{} {} is generated. Remove {}.", where("--dataset"), o.data.dataset,
               where("--data"));
  }
}

std::vector<std::string> idle_options(const Options& o) {
  const Options d;  // the defaults
  const RateOptions &rate = o.schedule.rate, &by_default = d.schedule.rate;
  const bool decays = rate.schedule == "exponential",
             ends = rate.schedule == "cosine" || rate.schedule == "linear",
             every = o.checkpoints.every != d.checkpoints.every;
  std::vector<std::string> notes;
  const auto note = [&](bool idle, const char* name, const char* without) {
    if (idle) notes.push_back(fmt::format("{} does nothing without {}", name, without));
  };
  note(!decays && rate.decay != by_default.decay, "--lr-decay", "--lr-schedule exponential");
  note(!decays && rate.decay_epochs != by_default.decay_epochs, "--lr-decay-epochs",
       "--lr-schedule exponential");
  note(!decays && rate.smooth, "--lr-smooth", "--lr-schedule exponential");
  note(!ends && rate.end != by_default.end, "--lr-end", "--lr-schedule cosine or linear");
  note(!o.loss_scaling().dynamic && o.optimizer.loss_scale_steps != d.optimizer.loss_scale_steps,
       "--loss-scale-steps", "--loss-scale dynamic");
  const bool evaluates = o.reports.eval_every > 0 || o.reports.epoch_lines;
  note(o.reports.target > 0 && !evaluates, "--target", "--eval-every or --epoch-lines");
  note(o.reports.test_views && !evaluates, "--test-views", "--eval-every or --epoch-lines");
  note(o.ranks.nccl_max_ctas > 0 && o.ranks.reducer != "auto" && o.ranks.reducer != "nccl",
       "--nccl-max-ctas", "--reducer nccl");
  note(o.reports.log_dir.empty() && o.reports.summary_every > 0 &&
           o.reports.summary_every != d.reports.summary_every,
       "--summary-every", "--log-dir");
  if (o.checkpoints.dir.empty()) {
    note(every, "--checkpoint-every", "--checkpoint-dir");
    note(o.checkpoints.keep != d.checkpoints.keep, "--keep", "--checkpoint-dir");
    note(o.checkpoints.resume == "never", "--resume never", "--checkpoint-dir");
  }
  return notes;
}

}  // namespace lockstep
