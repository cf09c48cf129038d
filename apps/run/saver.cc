#include "apps/run/saver.h"

#include <algorithm>
#include <cmath>

#include "apps/record/data_facts.h"
#include "apps/run/best_checkpoint.h"
#include "apps/step/error_feedback.h"
#include "apps/step/replica_check.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/world.h"
#include "net/initial_weights.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

// Texts of a checkpoint: a dynamic loss scale, SavedResiduals.
constexpr const char* kLossScale = "loss_scale";
constexpr const char* kResiduals = "residuals";

}  // namespace

Saver::Saver(const RunSetup& setup, const RunFacts& facts, TrainingStep& step, Reporter& reporter,
             const RunPlace& place, Track* track)
    : setup_(setup),
      facts_(facts),
      options_(setup.options.checkpoints),
      step_(step),
      reporter_(reporter),
      place_(place),
      track_(track),
      pruner_(place.checkpoints(), options_.keep),
      last_save_(now_seconds()) {}

RunProgress Saver::restore(const Resumption& resumption, std::vector<std::string>& notes) {
  setup_.recorder.phase("restoring the checkpoint", kSlowFiles);
  std::unique_ptr<Checkpoint> checkpoint;
  agree(setup_.comm, [&] {
    if (setup_.comm.rank() == 0) checkpoint = std::make_unique<Checkpoint>(resumption.file);
  });
  load_on_all_ranks(setup_.comm, checkpoint.get(), step_.layout(), step_.sections());
  RunProgress progress;
  LossScale scale = step_.loss_scale();
  SavedResiduals saved;
  const auto& texts = resumption.metadata.texts;
  const auto text = [&](const char* name) {
    const auto found = texts.find(name);
    return found == texts.end() ? "" : found->second;
  };
  agree(setup_.comm, [&] {
    try {
      progress = RunProgress::from(texts, resumption.metadata.position.step);
      if (!text(kLossScale).empty()) scale = LossScale::from(text(kLossScale));
      if (!text(kResiduals).empty()) saved = SavedResiduals::from(text(kResiduals));
    } catch (const std::exception& error) {
      fail("{} is damaged: {}. Use another file.", resumption.file, error.what());
    }
  });
  step_.restored(scale);
  const std::string note = restore_residuals(setup_.comm, checkpoint.get(), saved, step_.layout(),
                                             step_.loss_scale().scale, step_.own_sections());
  if (!note.empty()) notes.push_back(note);
  last_file_ = resumption.file;
  setup_.world.flight_recorder().saved();
  progress.evaluation_due &= setup_.options.reports.evaluates();
  if (!resumption.is_same_run() && setup_.data.validation) {  // best.h5 is the other run's
    progress.best = progress.tested = {};
    progress.since_best = 0;
  }
  // The run may have been killed before it gave the file its second name.
  agree(setup_.comm, [&] {
    if (setup_.comm.rank() == 0 && !setup_.options.check)
      keep_if_best(resumption.metadata.position.step, progress);
  });
  return progress;
}

void Saver::begin(const Resumption& resumption, std::vector<std::string>& notes) {
  setup_.recorder.phase("looking at the data", kSlowFiles);
  const std::string& init = resumption.init;
  const bool other_classes = has_other_classes(resumption, setup_.options.model.name, setup_.data);
  const std::vector<Section> sections = step_.sections();
  if (!init.empty()) {
    agree(setup_.comm, [&] {
      if (setup_.comm.rank() != 0) return;
      for (std::string& line :
           load_initial_weights(init, step_.layout(), sections.front().arena, other_classes))
        notes.push_back(std::move(line));
    });
    copy_to_all_ranks(setup_.comm, init, step_.layout(), {sections.front()});
  } else if (setup_.entry.prepare) {
    setup_.entry.prepare(*setup_.data.train, step_.layout(), sections.front().arena);
  } else {
    return;
  }
  if (step_.state().average)
    std::copy_n(sections.front().arena, step_.layout().count, sections.back().arena);
  step_.restored(step_.loss_scale());
}

bool Saver::is_due() const {
  const double seconds = options_.every.seconds;
  return setup_.comm.rank() == 0 && seconds > 0 && now_seconds() - last_save_ >= seconds;
}

void Saver::verify(std::int64_t done) {
  setup_.recorder.phase("comparing weights", 0);
  const TimedSpan span(track_, "comparing weights");
  verify_mirror(setup_.comm, step_.layout(), read_only(step_.sections()), done);
}

void Saver::save(std::int64_t done, const RunProgress& progress) {
  if (place_.folder().empty()) return;
  if (done == saved_step_ && progress == saved_progress_) return;
  verify(done);
  require_finite(done);
  setup_.recorder.phase("checkpoint", kSlowFiles);
  const TimedSpan span(track_, "checkpoint");
  std::vector<std::vector<float>> memory;
  const std::vector<ConstSection> residuals =
      gather_residuals(setup_.comm, step_.layout(), step_.own_sections(), memory);
  agree(setup_.comm, [&] {
    if (setup_.comm.rank() == 0) write(done, progress, residuals);
  });
  if (saved_step_ != done) reporter_.saved(done, last_file_);
  saved_step_ = done;
  setup_.world.flight_recorder().saved();
  saved_progress_ = progress;
  last_save_ = now_seconds();
}

CheckpointMetadata Saver::metadata(std::int64_t done, const RunProgress& progress) const {
  const RunPlan& plan = setup_.plan;
  const std::int64_t samples = plan.start.samples + (done - plan.start.step) * plan.global_batch;
  CheckpointMetadata result{{done, samples, samples / plan.dataset_size, plan.seed}, {}};
  auto& texts = result.texts;
  texts[kFacts] = facts_.dump();
  texts["model"] = setup_.options.model.name;  // for errors of net/checkpoint.h
  for (const auto& [name, text] : progress.texts(setup_.options.reports)) texts[name] = text;
  if (setup_.options.loss_scaling().dynamic) texts[kLossScale] = step_.loss_scale().text();
  return result;
}

void Saver::keep_if_best(std::int64_t done, const RunProgress& progress) const {
  const bool best = !progress.evaluation_due && progress.best.step == done;
  if (best && setup_.data.validation) keep_best(last_file_);
}

void Saver::write(std::int64_t done, const RunProgress& progress,
                  const std::vector<ConstSection>& residuals) {
  CheckpointMetadata metadata = this->metadata(done, progress);
  if (!residuals.empty()) {
    metadata.texts[kResiduals] =
        SavedResiduals{step_.loss_scale().scale, std::ssize(residuals)}.text();
  }
  place_.require_held();
  reporter_.sync();
  std::vector<ConstSection> sections = read_only(step_.sections());
  sections.insert(sections.end(), residuals.begin(), residuals.end());
  last_file_ = save_checkpoint(place_.checkpoints(), step_.layout(), sections, metadata);
  keep_if_best(done, progress);
  for (const std::string& warning : pruner_.prune(last_file_)) reporter_.warning(warning);
}

void Saver::require_finite(std::int64_t done) {
  agree(setup_.comm, [&] {
    for (const Section& section : step_.sections()) {
      const float* values = section.arena;
      with_exit_code(kExitDiverged, [&] {
        require(std::all_of(values, values + step_.layout().count,
                            [](float value) { return std::isfinite(value); }),
                "Model diverged: {} not finite after step {}{}",
                section.name == "parameters" ? "weights are" : section.name + " is", done,
                advice());
      });
    }
  });
}

std::string Saver::advice() const {
  if (last_file_.empty()) return ". Use a smaller --lr or a --warmup-epochs.";
  // A resumed run may be beyond any warm-up.
  return fmt::format("; the last good checkpoint is {}. Use a smaller --lr.", last_file_.string());
}

}  // namespace lockstep
