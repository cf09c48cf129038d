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

namespace lockstep {
namespace {

using nlohmann::ordered_json;

/// The options of the run for TensorBoard. Lists are text.
std::vector<std::pair<std::string, EventFile::OptionValue>> session_options(
    const ordered_json& options) {
  std::vector<std::pair<std::string, EventFile::OptionValue>> result;
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean())
      result.emplace_back(name, value.get<bool>());
    else if (value.is_number())
      result.emplace_back(name, value.get<double>());
    else
      result.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return result;
}

/// "352.1 s after mpirun began": since the launcher of this rank began, or the program without one.
std::string time_of_run() {
  constexpr std::array<std::string_view, 7> kLaunchers{"mpirun", "mpiexec", "orterun",   "prterun",
                                                       "orted",  "prted",   "slurmstepd"};
  const std::string parent = program_of(getppid());
  const bool launched = std::find(kLaunchers.begin(), kLaunchers.end(), parent) != kLaunchers.end();
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

void Reporter::warning(const std::string& text) {
  if (!run_.options.reports.quiet) return result(fmt::format("{:<12} {}", "warning", text));
  if (console_) warn(text);
}

void Reporter::result(const std::string& text) {
  if (console_) attempt([&] { console_->line(text); }, lost_lines_);
}

void Reporter::line(const std::vector<std::string>& parts) {
  line(fitted(parts, console_->columns()));
}

void Reporter::bar(const std::string& note) {
  if (run_.options.reports.quiet) return;
  attempt([&] { console_->progress(done_, run_.plan.steps, note); }, lost_lines_);
}

void Reporter::attempt(const std::function<void()>& write, bool& failed) {
  try {
    write();
  } catch (const Error& error) {
    failed = true;
    if (lost_.empty()) warn(fmt::format("{}; the run goes on", lost_ = error.what()));
  }
}

void Reporter::files(const std::function<void()>& write) {
  if (!json_) return;
  place_.require_still_held();
  bool ignored = false;  // the files keep the lines for a later attempt
  attempt(write, ignored);
}

/// Both files of the log; `scalars`: TensorBoard too.
void Reporter::log(const char* kind, std::int64_t step, const Metrics& metrics, bool scalars,
                   const std::string& weights) {
  JsonLines::Fields fields{{"step", static_cast<double>(step)}}, shown;
  for (const Metric& metric : metrics) {
    if (metric.name.empty()) continue;
    fields.emplace_back(metric.name, metric.value);
    if (metric.scalar) shown.emplace_back(fmt::format("{}/{}", kind, metric.name), metric.value);
  }
  JsonLines::Texts texts;
  if (!weights.empty()) texts.emplace_back(kWeightsField, weights);
  files([&] { json_->write(kind, fields, texts); });
  if (!scalars) return;
  files([&] {
    events_->scalars(step, shown);
    events_->flush();  // TensorBoard follows the run as metrics.jsonl does
  });
}

void Reporter::warn(const std::string& text) const {
  print_error(fmt::format("{}: warning: {}\n", run_.options.program, text));
}

void Reporter::begin(const char* redone, const RunProgress& progress) {
  begin_ = now_seconds();
  done_ = run_.plan.start.step;
  if (!console_) return;
  place_.require_held();
  run_files_.begin(run_.options);
  record("running", done_, 0, progress, "");
  if (place_.folder().empty()) return;
  const std::filesystem::path directory = place_.folder();
  const LoggedRun logged = logged_run(directory);
  const bool same_run =
      run_.plan.start.step > 0 && (logged.run.empty() || logged.run == facts_.text("id"));
  if (!same_run && logged.begun) {
    line(fmt::format("{:<12} of an earlier run are now in {}", "logs",
                     set_logs_aside(directory).string()));
  }
  const std::int64_t first = same_run ? run_.plan.start.step + 1 : 0;
  json_.emplace(directory / "metrics.jsonl", first, same_run ? redone : "");
  events_.emplace(directory, first);
  if (same_run) files([&] { json_->recover(progress.waiting_lines); });
  files([&] { json_->write("run", run_line()); });
  if (!run_files_.change().empty()) files([&] { json_->write("change", run_files_.change()); });
  files([&] { events_->begin_session(session_options(facts_.value("options"))); });
  files([&] { events_->flush(); });
}

std::string Reporter::waiting_lines() const {
  constexpr std::size_t kMost = 512 << 10;  // of the room that a state in memory has for texts
  const std::string lines = json_ ? json_->waiting() : "";
  return lines.size() <= kMost ? lines : lines.substr(lines.find('\n', lines.size() - kMost) + 1);
}

std::string Reporter::run_line() const {
  ordered_json line{{"step", run_.plan.start.step}};
  for (const char* name : {"id", "parent", "steps", "version", "host", "ranks", "threads",
                           "global_batch", "shards", "seed", "sums", "options"})
    line[name] = facts_.value(name);
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void Reporter::step(const StepReport& report) {
  if (!console_) return;
  constexpr int kColumns = 100;
  bool ignored = false;  // the next page replaces it
  if (live_) attempt([&] { live_->rethrow(); }, ignored);
  const Metrics metrics = metrics_of(report);
  if (report.steps > 0) images_per_s_ = report.images_per_s();
  std::vector<std::string> parts = texts_of(metrics);
  parts.insert(parts.begin(), fmt::format("step {}/{}", report.step, run_.plan.steps));
  const int columns = console_->columns();
  line(fitted(parts, columns > 0 ? std::min(columns, kColumns) : kColumns));
  const auto& late = report.straggler;
  if (late && stragglers_.shows(*late, now_seconds() - begin_)) {
    line(fmt::format("{} straggler: rank {} ({}) delayed each step by {:.1f} ms, over {}",
                     step_text(report.step), late->rank, late->host,
                     late->seconds / static_cast<double>(late->steps) * 1e3,
                     counted(late->steps, "step")));
  }
  log("train", report.step, metrics);
}

void Reporter::hosts(std::int64_t step, const std::vector<HostUse>& hosts) {
  if (console_ && !hosts.empty()) log("host", step, metrics_of(hosts, run_.plan.epoch_at(step)));
}

void Reporter::progress(std::int64_t step, double loss) {
  if (!console_) return;
  done_ = step;
  std::string note = fmt::format("loss {:.3f}", loss);
  if (images_per_s_ > 0) note += fmt::format(", {:.0f} samples/s", images_per_s_);
  bar(note);
}

void Reporter::clear() {
  if (console_) attempt([&] { console_->clear(); }, lost_lines_);
}

void Reporter::evaluating(double share) {
  if (console_) bar(fmt::format("evaluation {:.0f} %", 100 * share));
}

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
  bool ignored = false;  // the next one replaces it
  attempt(
      [&] {
        run_files_.write({.result = e.result,
                          .data = e.data,
                          .classes = run_.data.class_names,
                          .set = validation && !test ? "validation set" : "test set",
                          .about = test       ? fmt::format("{} weights", which)
                                   : averaged ? "averaged weights"
                                              : "weights",
                          .step = e.step});
      },
      ignored);
}

void Reporter::reached_target(std::int64_t step) {
  line(fmt::format("{:<12} accuracy {:g} % is reached after step {}, {}", "target",
                   run_.options.reports.target, step, time_of_run()));
}

void Reporter::shares(std::int64_t step, const Shares& shares) {
  if (!console_) return;
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
  if (!console_) return;
  const Metrics metrics = metrics_of(report, result.score, result.classes());
  line(texts_of(metrics));
  log("epoch", step, metrics, /*scalars=*/false);
}

void Reporter::summary(std::int64_t step, double seconds, const RunProgress& progress,
                       const std::string& weights) {
  if (!console_) return;
  clear();
  bool lost_files = false;
  place_.require_still_held();
  if (json_) {
    attempt([&] { json_->flush(); }, lost_files);
    attempt([&] { events_->flush(); }, lost_files);
  }
  if (lost_files || lost_lines_) warn("the reports are incomplete: " + lost_);
  const std::int64_t steps = step - run_.plan.start.step;
  const auto text = [](const char* name, const std::vector<std::string>& parts) {
    return fmt::format("{:<12} {}", name, fmt::join(parts, ", "));
  };
  std::vector<std::string> trained{
      fmt::format("{} in {}", counted(steps, "step"), duration_text(now_seconds() - begin_))};
  if (seconds > 0) {
    const auto images = static_cast<double>(steps * run_.plan.global_batch);
    trained.push_back(fmt::format("{:.0f} samples/s", images / seconds));
  }
  line(text("trained", trained));
  std::vector<std::string> accuracy;
  if (record_.last.known()) accuracy.push_back("top-1 " + record_.last.shown());
  if (progress.best.known()) accuracy.push_back("best " + progress.best.shown());
  if (progress.tested.known()) accuracy.push_back("test set " + progress.tested.shown());
  if (!accuracy.empty()) result(text("accuracy", accuracy));
  line(text("weights", {fmt::format("sha256 {} at step {}", weights, step)}));
  if (!place_.folder().empty()) result(text("written", {"run in " + place_.folder()}));
}

std::string Reporter::reason(std::string_view status, std::int64_t step,
                             const RunProgress& progress) const {
  if (status == "stopped") return "a signal asked for it";
  return status == "complete" && step < run_.plan.steps ? progress.reason(run_.options.reports)
                                                        : "";
}

void Reporter::complete(std::int64_t step, const RunProgress& progress,
                        const std::string& weights) {
  if (!console_) return;
  place_.require_held();
  bool ignored = false;  // the next start tries again
  attempt(
      [&] {
        run_files_.complete({.status = "complete",
                             .step = step,
                             .progress = progress,
                             .weights = weights,
                             .reason = reason("complete", step, progress)},
                            run_.options);
      },
      ignored);
}

void Reporter::record(const char* status, std::int64_t step, double seconds,
                      const RunProgress& progress, const std::string& weights) {
  if (!console_) return;
  const double images = static_cast<double>((step - run_.plan.start.step) * run_.plan.global_batch);
  record_.status = status;
  record_.step = step;
  record_.progress = progress;
  record_.weights = weights;
  record_.reason = reason(status, step, progress);
  record_.train_seconds = seconds;
  record_.images_per_s = seconds > 0 ? images / seconds : 0;
  place_.require_still_held();
  bool ignored = false;  // the next one replaces it
  attempt([&] { run_files_.write(record_); }, ignored);
  const bool running = std::string_view(status) == "running";
  if (!running) live_.reset();
  if (!live_) attempt([&] { run_files_.write_report(); }, ignored);
  if (running && !live_ && !place_.folder().empty())
    live_.emplace([this](double next) { run_files_.write_live_report(done_, next); });
  if (std::string_view(status) != "complete") return;
  files([&] {
    events_->end_session();
    events_->flush();
  });
}

}  // namespace lockstep
