#include "apps/tell/reporter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/plural.h"
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/report/stored_run.h"

// An event has up to three forms: a line for people, a line of metrics.jsonl, and scalars of
// TensorBoard. print() and files() write all of them through attempt(), which turns an error into a
// warning.
namespace lockstep {
namespace {

using nlohmann::ordered_json;

/// "352.1 s after mpirun began": since the launcher of this rank began, or the program without one.
std::string time_of_run() {
  constexpr std::array<std::string_view, 7> kLaunchers{"mpirun", "mpiexec", "orterun",   "prterun",
                                                       "orted",  "prted",   "slurmstepd"};
  const std::string parent = program_of(getppid());
  const bool launched = std::ranges::count(kLaunchers, parent) > 0;
  return fmt::format("{:.1f} s after {} began", age_of(launched ? getppid() : getpid()),
                     launched ? parent : "the program");
}

}  // namespace

Reporter::Reporter(const RunParts& run, const RunFacts& facts, const RunPlace& place,
                   const std::function<bool()>& keep_waiting)
    : run_(run), facts_(facts), place_(place), run_files_(place.folder(), facts, run.plan) {
  if (run.comm.rank() == 0) console_.emplace(stdout, keep_waiting);
}

/// "step 480/1000", with the time in front if the lines go to a file.
std::string Reporter::step_text(std::int64_t step) const {
  const std::string text = fmt::format("step {}/{}", step, run_.plan.steps);
  return console_->columns() > 0 ? text : timestamp() + " " + text;
}

void Reporter::line(const std::string& text) {
  if (!run_.options.reports.quiet) result(text);
}

void Reporter::line(const char* heading, const std::string& text) {
  if (!text.empty()) line(fmt::format("{:<12} {}", heading, text));
}

void Reporter::line(const char* heading, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) line(heading, text);
}

void Reporter::warning(const std::string& text) {
  if (!run_.options.reports.quiet) return result(fmt::format("{:<12} {}", "warning", text));
  if (console_) warn(text);
}

void Reporter::result(const std::string& text) {
  print([&] { console_->line(text); });
}

void Reporter::line(const std::vector<std::string>& parts) {
  if (console_) line(fitted(parts, console_->columns()));
}

void Reporter::bar(const std::string& note) {
  if (run_.options.reports.quiet) return;
  print([&] { console_->progress(done_, run_.plan.steps, note); });
}

void Reporter::print(const std::function<void()>& write) {
  if (console_ && !attempt(write)) lost_lines_ = true;
}

bool Reporter::attempt(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const Error& error) {
    if (lost_.empty()) warn(fmt::format("{}; the run goes on", lost_ = error.what()));
    return false;
  }
}

void Reporter::files(const std::function<void()>& write) {
  if (!json_) return;
  // Outside of attempt(): if another run has the folder, this one ends.
  place_.require_still_held();
  attempt(write);  // the files keep the lines for a later attempt
}

/// Both files of the log; `scalars`: TensorBoard too.
void Reporter::log(const char* kind, std::int64_t step, const Metrics& metrics, bool scalars,
                   const std::string& weights) {
  ordered_json object{{"step", step}};
  std::vector<std::pair<std::string, double>> shown;
  for (const Metric& metric : metrics) {
    if (metric.name.empty()) continue;
    object[metric.name] = metric.value;
    if (metric.scalar) shown.emplace_back(fmt::format("{}/{}", kind, metric.name), metric.value);
  }
  if (!weights.empty()) object[kWeightsField] = weights;
  files([&] { json_->write(kind, object); });
  if (!scalars) return;
  files([&] {
    events_->scalars(step, shown);
    events_->flush();  // TensorBoard follows the run as metrics.jsonl does
  });
}

void Reporter::warn(const std::string& text) const {
  print_error(fmt::format("{}: warning: {}\n", run_.options.program, text));
}

void Reporter::begin(const char* redone, const RunProgress& progress, const std::string& weights) {
  begin_ = now_seconds();
  done_ = run_.plan.start.step;
  if (!console_) return;
  place_.require_held();
  run_files_.begin(run_.options);
  // summary.json makes the folder a run that the same command finds, so it comes before the logs.
  record("running", done_, 0, progress, "");
  if (place_.folder().empty()) return;
  const std::filesystem::path directory = place_.folder();
  // The logs go on if they are of this run. Lines after its checkpoint describe steps that were
  // lost, and are cut off when the files are opened.
  const StoredRun logged = read_run(directory);
  const std::string id = text_in(logged.start, "/id");
  const bool same_run = run_.plan.start.step > 0 && (id.empty() || id == facts_.text("id"));
  if (!same_run && (logged.rows.contains("train") || logged.rows.contains("evaluation"))) {
    line(fmt::format("{:<12} of an earlier run are now in {}", "logs",
                     set_logs_aside(directory).string()));
  }
  const std::int64_t first = same_run ? run_.plan.start.step + 1 : 0;
  json_.emplace(directory / "metrics.jsonl", first, same_run ? redone : "");
  events_.emplace(directory, first);
  if (same_run) files([&] { json_->recover(progress.waiting_lines); });
  ordered_json run{{"step", run_.plan.start.step}};
  for (const char* name : {"id", "parent", "steps", "version", "host", "ranks", "threads",
                           "global_batch", "shards", "seed", "sums", "options"})
    run[name] = facts_.value(name);
  if (!weights.empty()) run[kWeightsField] = weights;
  files([&] { json_->write("run", run); });
  if (const ordered_json& change = run_files_.change(); !change.empty())
    files([&] { json_->write("change", change); });
  files([&] { events_->begin_session(facts_.value("options")); });
  files([&] { events_->flush(); });
}

std::string Reporter::waiting_lines() const {
  constexpr std::size_t kMost = 512 << 10;  // of the room that a state in memory has for texts
  const std::string lines = json_ ? json_->waiting() : "";
  return lines.size() <= kMost ? lines : lines.substr(lines.find('\n', lines.size() - kMost) + 1);
}

void Reporter::step(const StepReport& report) {
  if (!console_) return;
  constexpr int kColumns = 100;
  if (live_) attempt([&] { live_->rethrow(); });
  const Metrics metrics = metrics_of(report);
  if (report.steps > 0) images_per_s_ = report.images_per_s();
  std::vector<std::string> parts = texts_of(metrics);
  parts.insert(parts.begin(), fmt::format("step {}/{}", report.step, run_.plan.steps));
  const int columns = console_->columns();
  line(fitted(parts, columns > 0 ? std::min(columns, kColumns) : kColumns));
  const auto& late = report.straggler;
  const bool shows = run_.placement.hosts > 1 || run_.options.reports.verbose;
  if (late && shows && stragglers_.shows(*late, now_seconds() - begin_)) {
    line(fmt::format("{} straggler: rank {} ({}) delayed each step by {:.1f} ms, over {}",
                     step_text(report.step), late->rank, late->host,
                     late->seconds / static_cast<double>(late->steps) * 1e3,
                     counted(late->steps, "step")));
  }
  log("train", report.step, metrics);
}

void Reporter::hosts(std::int64_t step, const std::vector<HostUse>& hosts) {
  if (!hosts.empty()) log("host", step, metrics_of(hosts, run_.plan.epoch_at(step)));
}

void Reporter::progress(std::int64_t step, double loss) {
  if (!console_) return;
  done_ = step;
  std::string note = fmt::format("loss {:.3f}", loss);
  if (images_per_s_ > 0) note += fmt::format(", {:.0f} samples/s", images_per_s_);
  bar(note);
}

void Reporter::clear() {
  print([&] { console_->clear(); });
}

void Reporter::evaluating(double share) { bar(fmt::format("evaluation {:.0f} %", 100 * share)); }

void Reporter::histograms(std::int64_t step, const Layout& layout, const float* parameters,
                          const float* gradients) {
  if (!events_) return;
  std::vector<std::pair<std::string, Histogram>> values;
  for (const Parameter& p : layout.parameters) {
    const auto size = static_cast<std::size_t>(p.range.count);
    values.emplace_back(p.name, histogram({parameters + p.range.begin, size}));
    if (!p.trained()) continue;
    values.emplace_back(p.name + "/gradients", histogram({gradients + p.range.begin, size}));
  }
  files([&] { events_->histograms(step, values); });
}

void Reporter::flush() {
  files([&] { json_->flush(); });
}

void Reporter::saved(std::int64_t step, const std::filesystem::path& file,
                     const std::string& weights) {
  if (!console_) return;
  line(step_text(step) + " saved " + file.string());
  log("checkpoint", step, {}, /*scalars=*/false, weights);
}

void Reporter::evaluation(const Evaluated& e) {
  using Weights = Evaluated::Weights;
  if (!console_) return;
  const bool test = e.weights != Weights::present, validation = run_.data.validation != nullptr,
             averaged = run_.step.state().average != nullptr;
  if (!test) {
    record_.last = {e.step, e.result.score.top1_share()};
    record_.last_loss = e.result.score.loss();
  }
  const char *kind = test ? "test" : "evaluation",
             *which = e.weights == Weights::best ? "best" : "last";
  const Metrics metrics =
      metrics_of(e.result, run_.plan.epoch_at(e.done), run_.options.reports.best);
  std::vector<std::string> parts = texts_of(metrics);
  parts.front() = fmt::format("{} {}: {}", step_text(e.done), kind, parts.front());
  parts.push_back(test ? fmt::format("{} weights of step {}", which, e.step)
                       : fmt::format("{}{}", averaged ? "moving average" : "weights",
                                     validation ? ", validation set" : ""));
  line(parts);
  log(kind, e.done, metrics, /*scalars=*/true, e.sha256);
  place_.require_still_held();
  attempt([&] {  // or the next one replaces it
    const char* weights = averaged ? "averaged weights" : "weights";
    run_files_.write(e, run_.data.class_names, validation && !test ? "validation set" : "test set",
                     test ? fmt::format("{} weights", which) : weights);
  });
}

void Reporter::reached_target(std::int64_t step) {
  line(fmt::format("{:<12} accuracy {:g} % is reached after step {}, {}", "target",
                   run_.options.reports.target, step, time_of_run()));
}

void Reporter::shares(std::int64_t step, const Shares& shares) {
  Metrics metrics;
  for (int rank = 0; rank < shares.ranks(); ++rank) {
    const auto count = static_cast<double>(shares.of(rank).count);
    metrics.push_back({fmt::format("rank_{}", rank), count});
  }
  log("shares", step, metrics);
}

void Reporter::shares_changed(std::int64_t step, const ShareTuner::Change& change) {
  const auto [fastest, slowest] = std::ranges::minmax(change.seconds);
  line(fmt::format(
      "{:<12} {} on the ranks after step {}, which saves {:.0f} % of a step: a shard "
      "takes {:.1f} to {:.1f} ms",
      "shares", change.shares.text(), step, 100 * change.gain, 1e3 * fastest, 1e3 * slowest));
  shares(step, change.shares);
}

void Reporter::left_out(const std::string& fact) {
  line(fmt::format("{:<12} {}. It is left out.", "note", fact));
}

void Reporter::ended(const RunProgress& progress) {
  const ReportOptions& o = run_.options.reports;
  if (progress.gave_up(o))
    line(fmt::format("{:<12} {}: the run ends", "patience", progress.reason(o)));
  if (o.target > 0 && !progress.reached(o))
    line(fmt::format("{:<12} accuracy {:g} % was not reached", "target", o.target));
}

void Reporter::epoch(std::int64_t step, const EpochReport& report, const EvaluationResult& result) {
  const Metrics metrics = metrics_of(report, result.score, result.classes());
  line(texts_of(metrics));
  log("epoch", step, metrics, /*scalars=*/false);
}

void Reporter::summary() {
  clear();
  // The last attempt: lines that a full disk has refused may fit by now.
  bool lost = lost_lines_;
  place_.require_still_held();
  if (json_) {
    lost |= !attempt([&] { json_->flush(); });
    lost |= !attempt([&] { events_->flush(); });
  }
  if (lost) warn("the reports are incomplete: " + lost_);
  std::vector<std::string> trained{fmt::format("{} in {}",
                                               counted(record_.step - run_.plan.start.step, "step"),
                                               duration_text(now_seconds() - begin_))};
  if (record_.images_per_s > 0)
    trained.push_back(fmt::format("{:.0f} samples/s", record_.images_per_s));
  line("trained", fitted(trained, 0));
  const RunProgress& progress = record_.progress;
  std::vector<std::string> accuracy;
  if (record_.last.known()) accuracy.push_back("top-1 " + record_.last.shown());
  if (progress.best.known()) accuracy.push_back("best " + progress.best.shown());
  if (progress.tested.known()) accuracy.push_back("test set " + progress.tested.shown());
  if (!accuracy.empty()) result(fmt::format("{:<12} {}", "accuracy", fitted(accuracy, 0)));
  line("weights", fmt::format("sha256 {} at step {}", record_.weights, record_.step));
  if (!place_.folder().empty()) result(fmt::format("{:<12} run in {}", "written", place_.folder()));
}

void Reporter::describe(const char* status, std::int64_t step, const RunProgress& progress,
                        const std::string& weights) {
  record_.status = status;
  record_.step = step;
  record_.progress = progress;
  record_.weights = weights;
  record_.reason.clear();
  if (record_.status == "stopped") record_.reason = "a signal asked for it";
  if (record_.status == "complete" && step < run_.plan.steps)
    record_.reason = progress.reason(run_.options.reports);
}

void Reporter::complete(std::int64_t step, const RunProgress& progress,
                        const std::string& weights) {
  if (!console_) return;
  place_.require_held();
  describe("complete", step, progress, weights);
  attempt([&] { run_files_.complete(record_, run_.options); });  // or the next start tries again
}

void Reporter::record(const char* status, std::int64_t step, double seconds,
                      const RunProgress& progress, const std::string& weights) {
  if (!console_) return;
  const double images = static_cast<double>((step - run_.plan.start.step) * run_.plan.global_batch);
  describe(status, step, progress, weights);
  record_.train_seconds = seconds;
  record_.images_per_s = seconds > 0 ? images / seconds : 0;
  const bool running = record_.status == "running";
  if (!running) summary();
  place_.require_still_held();
  attempt([&] { run_files_.write(record_); });
  // The thread ends before the last page is written. Otherwise it could put an older one in its
  // place.
  if (!running) live_.reset();
  if (!live_) attempt([&] { run_files_.write_report(); });
  if (running && !live_ && !place_.folder().empty())
    live_.emplace([this](double next) { run_files_.write_live_report(done_, next); });
  if (record_.status != "complete") return;
  files([&] {
    events_->end_session();
    events_->flush();
  });
}

}  // namespace lockstep
