#include "apps/run/saver.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "apps/record/data_facts.h"
#include "apps/record/kept_states.h"
#include "apps/record/weights_hash.h"
#include "apps/run/best_checkpoint.h"
#include "apps/step/error_feedback.h"
#include "apps/step/replica_check.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/world.h"
#include "net/initial_weights.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/files/file.h"

// A checkpoint has three parts. All ranks copy and compare the state, while the steps wait. A
// thread of rank 0 writes the copy beside the steps. poll() or finish() reports the result.
//
// Only one write is under way at a time, because the thread reads the copy. A write that fails is
// an error of rank 0 alone. It keeps the error and votes for a checkpoint, so that all ranks reach
// finish() and end together.
namespace lockstep {
namespace {

/// Text of a checkpoint: the number of its sections of residuals (gather_residuals()).
constexpr const char* kResiduals = "residuals";

/// Enough for state_text() of any step.
std::size_t text_bytes(const RunSetup& setup, const Layout& layout) {
  constexpr std::size_t kFactsAndProgress = 1 << 20, kParameter = 512;
  return kFactsAndProgress + kParameter * layout.parameters.size() + setup.data.vocabulary.size() +
         setup.options.model.network.size();
}

}  // namespace

std::unique_ptr<Snapshot> make_snapshot(RunSetup& setup, const TrainingStep& step,
                                        const std::string& folder, StateMemory*& memory) {
  if (folder.empty() || setup.options.check) return nullptr;
  const std::size_t arenas = step.saved_bytes();
  const int threads = setup.placement.threads;
  try {
    // States in memory need two copies on each host. If there is too little room for them, a single
    // copy on rank 0's host may still fit.
    if (memory != nullptr) {
      // seal() appends the residuals of all ranks to the copy, so they need room there.
      const std::size_t residuals = residual_bytes(setup.comm, step.layout(), step.own_sections());
      return std::make_unique<Snapshot>(setup.comm, arenas + residuals, threads,
                                        text_bytes(setup, step.layout()), memory->file());
    }
  } catch (const AgreedError& error) {
    memory = nullptr;
    setup.plan.notes.push_back(fmt::format("no state is kept in memory, because {}", error.what()));
  }
  try {
    return std::make_unique<Snapshot>(setup.comm, arenas, threads);
  } catch (const AgreedError& error) {
    setup.plan.notes.push_back(
        fmt::format("steps wait while a checkpoint is written, because {}", error.what()));
    return nullptr;
  }
}

Saver::Saver(const RunSetup& setup, const RunFacts& facts, TrainingStep& step, Reporter& reporter,
             const RunPlace& place, Snapshot* snapshot, StateMemory* memory)
    : setup_(setup),
      options_(setup.options.checkpoints),
      step_(step),
      reporter_(reporter),
      place_(place),
      snapshot_(snapshot),
      memory_(snapshot ? memory : nullptr),
      facts_text_(setup.comm.broadcast(facts.dump())),
      pruner_(place.checkpoints(), options_.keep),
      last_save_(now_seconds()) {}

Saver::~Saver() { settle_quietly(); }

RunProgress Saver::restore(const Resumption& resumption, std::vector<std::string>& notes) {
  setup_.recorder.phase("restoring the checkpoint", kSlowFiles);
  std::unique_ptr<Checkpoint> checkpoint;
  agree_on_rank_0(setup_.comm, [&] { checkpoint = std::make_unique<Checkpoint>(resumption.file); });
  // Rank 0 alone reads the file. One reader is enough for the disk, and other hosts may not see it.
  load_on_all_ranks(setup_.comm, checkpoint.get(), step_.layout(), step_.sections());
  RunProgress progress;
  std::int64_t residuals = 0;
  agree(setup_.comm, [&] {
    try {
      progress = RunProgress::from(resumption.metadata);
      if (const std::string text = resumption.metadata.text(kResiduals); !text.empty())
        residuals = parse_number<std::int64_t>(kResiduals, text, Bounds::at_least(1));
    } catch (const FormerProgress& error) {
      fail("cannot go on from {}: {}. Use that version.", resumption.file, error.what());
    } catch (const std::exception& error) {
      fail("{} is damaged: {}. Use another file.", resumption.file, error.what());
    }
  });
  step_.restored();
  const std::string note = restore_residuals(setup_.comm, checkpoint.get(), residuals,
                                             step_.layout(), step_.own_sections());
  if (!note.empty()) notes.push_back(note);
  only_in_memory_ = resumption.in_memory;
  last_file_ = resumption.file;
  setup_.world.flight_recorder().saved();
  // A run that no longer evaluates owes no evaluation.
  progress.evaluation_due &= setup_.options.reports.evaluates();
  if (!resumption.is_same_run()) progress.accuracy = 0;  // of another --target
  if (!resumption.is_same_run() && setup_.data.validation) {  // best.h5 is the other run's
    progress.best = {};
    progress.next.clear();
    progress.tested = {};
    progress.since_best = 0;
  }
  // The run may have been killed before it gave the file its second name.
  const std::int64_t step = resumption.metadata.position.step;
  agree_on_rank_0(setup_.comm, [&] {
    if (!setup_.options.check && !only_in_memory_ && is_best(step, progress))
      keep_best(last_file_, step, progress, options_.keep_best);
  });
  return progress;
}

void Saver::begin(const Resumption& resumption, std::vector<std::string>& notes) {
  setup_.recorder.phase("looking at the data", kSlowFiles);
  const std::string& init = resumption.init;
  const bool other_classes = has_other_classes(resumption, setup_.options.model.name, setup_.data);
  const std::vector<Section> sections = step_.sections();
  if (!init.empty()) {
    agree_on_rank_0(setup_.comm, [&] {
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
  // The average begins with the weights that were just loaded, not with the random ones.
  if (step_.state().average)
    std::copy_n(sections.front().arena, step_.layout().count, sections.back().arena);
  step_.restored();
}

bool Saver::is_due() {
  if (setup_.comm.rank() != 0) return false;
  poll();
  const double seconds = options_.every.seconds;
  return failure_ || (seconds > 0 && now_seconds() - last_save_ >= seconds);
}

void Saver::verify(std::int64_t done) {
  setup_.recorder.phase("comparing weights", 0);
  const TimedSpan span(step_.track(), "comparing weights");
  verify_mirror(setup_.comm, step_.layout(), read_only(step_.sections()), done);
}

Saver::State Saver::copy_state(std::int64_t done, const RunProgress& progress,
                               Snapshot::Purpose purpose) {
  const Layout& layout = step_.layout();
  State state{.sections = read_only(step_.sections()),
              .metadata = {},
              .residuals = std::make_shared<std::vector<std::vector<float>>>()};
  if (snapshot_) {
    const std::string odd = snapshot_->take(layout, state.sections, done, purpose);
    if (!odd.empty()) fail_not_finite(odd, done);
    state.sections = snapshot_->sections();
  } else {
    verify(done);
    require_finite(done);
  }
  const bool keeps = memory_ && memory_->first();
  // Each rank that rounds messages has its own residuals, so they are not in the copy that all
  // ranks share. The first rank of each host needs them for its state in memory, and rank 0 for the
  // file.
  const Sections wire = gather_residuals(setup_.comm, keeps || setup_.comm.rank() == 0, layout,
                                         step_.own_sections(), *state.residuals);
  state.sections.insert(state.sections.end(), wire.begin(), wire.end());
  state.metadata = metadata(done, progress, std::ssize(*state.residuals));
  if (!keeps) return state;
  // Only now is the copy whole. From here on it survives the ranks.
  if (snapshot_->seal(layout, wire, state_text(layout, state.sections, state.metadata))) {
    memory_->sealed();
    setup_.world.flight_recorder().saved();
  } else if (!std::exchange(warned_, true)) {
    reporter_.warning("no state in memory: the state has become larger than its place");
  }
  return state;
}

void Saver::save(std::int64_t done, const RunProgress& progress) {
  if (place_.folder().empty()) return;
  if (done == saved_step_ && progress == saved_progress_) return;
  // The thread of the last checkpoint still reads a copy. Its error, if there is one, ends the run
  // before the state is copied again.
  finish();
  setup_.recorder.phase("checkpoint", kSlowFiles);
  const TimedSpan span(step_.track(), "checkpoint");
  const bool again = saved_step_ == done;
  const State state = copy_state(done, progress, Snapshot::Purpose::checkpoint);
  agree_on_rank_0(setup_.comm, [&] {
    // If another process has taken the folder over, nothing may be written there. The lines of the
    // log come before the checkpoint that includes their steps.
    place_.require_held();
    reporter_.flush();
    // Without a snapshot, settle() does the work.
    const auto how = snapshot_ ? std::launch::async : std::launch::deferred;
    // `state` keeps the residuals alive until the file is written.
    job_ = std::async(how, [this, state, done, again, progress, best = is_best(done, progress)] {
      Written written;
      written.step = done;
      try {  // the lines of the log reach the disk first
        const std::filesystem::path log = place_.folder() + "/metrics.jsonl";
        if (!is_gone(log)) OutputFile(log, OutputFile::Mode::extend).sync();
      } catch (const Error& error) {
        written.warnings.emplace_back(error.what());
      }
      if (!again) written.weights = weights_sha256(step_.layout(), state.sections.front().arena);
      written.file =
          save_checkpoint(place_.checkpoints(), step_.layout(), state.sections, state.metadata);
      if (best) keep_best(written.file, done, progress, options_.keep_best);
      const std::vector<std::string> pruned = pruner_.prune(written.file);
      written.warnings.insert(written.warnings.end(), pruned.begin(), pruned.end());
      return written;
    });
    if (!snapshot_) settle();
  });
  saved_step_ = done;
  saved_progress_ = progress;
  only_in_memory_ = false;
  last_save_ = now_seconds();
}

void Saver::finish() {
  if (place_.folder().empty()) return;
  setup_.recorder.phase("checkpoint", kSlowFiles);
  const TimedSpan span(step_.track(), "finishing a checkpoint");
  agree(setup_.comm, [&] { settle(); });
  if (saved_step_ >= 0) setup_.world.flight_recorder().saved();
}

void Saver::settle() {
  // Kept since poll(). It is thrown here, where all ranks agree on it.
  if (failure_) std::rethrow_exception(failure_);
  if (!job_.valid()) return;
  try {
    report(job_.get());
  } catch (const Error&) {
    place_.require_there();
    throw;
  }
}

void Saver::settle_quietly() {
  if (!job_.valid()) return;
  setup_.recorder.phase("checkpoint", kSlowFiles);
  try {
    settle();
  } catch (...) {  // another error ends the run
  }
}

void Saver::poll() {
  if (!job_.valid() || job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  try {
    settle();
  } catch (...) {
    // Only rank 0 knows it. is_due() now votes for a checkpoint, which leads all ranks to finish().
    failure_ = std::current_exception();
  }
}

void Saver::report(const Written& written) {
  last_file_ = written.file;
  if (!written.weights.empty()) reporter_.saved(written.step, written.file, written.weights);
  for (const std::string& warning : written.warnings) reporter_.warning(warning);
  setup_.world.flight_recorder().saved();
}

void Saver::begin_states(std::int64_t done) {
  if (!memory_) return;
  std::string failure;
  try {
    memory_->begin(done);
  } catch (const Error& error) {
    failure = error.what();
  }
  for (const std::string& line : setup_.comm.gather(failure))
    if (!line.empty()) reporter_.warning("lockstep_run does not know the steps: " + line);
  schedule_.begin(done, now_seconds());
}

void Saver::keep(std::int64_t done, const RunProgress& progress, bool last) {
  if (!keeps(done)) return;
  setup_.recorder.phase("state in memory");
  const TimedSpan span(step_.track(), "state in memory");
  const double begin = now_seconds();
  poll();
  // A checkpoint is being written from a copy; what a state costs; how long a step takes.
  std::array most{job_.valid() || failure_ ? 1.0 : 0.0, copy_seconds_,
                  schedule_.step_seconds(done, begin)};
  for (const auto& other : setup_.comm.of_all(most))
    std::ranges::transform(most, other, most.begin(), std::ranges::max);
  // All ranks plan by the largest values, so that they choose the same step for the next state.
  // While a checkpoint is written, its copy must stay, so the other place is used.
  const auto [writes, cost, step] = most;
  if (!last && !saved(done)) {
    copy_state(done, progress, writes > 0 ? Snapshot::Purpose::spare : Snapshot::Purpose::state);
    copy_seconds_ = now_seconds() - begin;
  }
  schedule_.plan(done, now_seconds(), cost, step);
}

CheckpointMetadata Saver::metadata(std::int64_t done, const RunProgress& progress,
                                   std::int64_t residuals) const {
  const RunPlan& plan = setup_.plan;
  const std::int64_t samples = plan.position_of(done);
  CheckpointMetadata result{{done, samples, samples / plan.dataset_size, plan.seed}, {}};
  auto& texts = result.texts;
  texts[kFacts] = facts_text_;
  if (!setup_.data.vocabulary.empty()) texts[kVocabulary] = setup_.data.vocabulary;
  texts["model"] = setup_.options.model.name;  // for errors of net/checkpoint.h
  texts[kProgress] = progress.text();
  if (const std::string lines = reporter_.waiting_lines(); !lines.empty())
    texts[kWaitingLines] = lines;
  if (residuals > 0) texts[kResiduals] = std::to_string(residuals);
  return result;
}

bool Saver::is_best(std::int64_t done, const RunProgress& progress) const {
  return setup_.data.validation && !progress.evaluation_due && progress.is_among_best(done);
}

void Saver::require_finite(std::int64_t done) {
  for (const Section& section : step_.sections()) {
    const bool finite = all_finite(step_.layout(), section);
    if (setup_.comm.max(!finite) > 0) fail_not_finite(section.name, done);
  }
}

void Saver::fail_not_finite(const std::string& section, std::int64_t done) {
  throw AgreedError(
      fmt::format("Model diverged: {} not finite after step {}{}",
                  section == "parameters" ? "weights are" : section + " is", done, advice()),
      kExitDiverged);
}

std::string Saver::advice() {
  settle_quietly();
  if (last_file_.empty()) return ". Use a smaller --lr or a --warmup-epochs.";
  // A resumed run may be beyond any warm-up.
  return fmt::format("; the last good checkpoint is {}. Use a smaller --lr.", last_file_.string());
}

}  // namespace lockstep
