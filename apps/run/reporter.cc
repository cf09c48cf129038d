#include "apps/run/reporter.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

/// Lines "name=value" as an object; values are TOML's, most of which are JSON's too.
ordered_json to_json(const std::string& options) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : named_values(options)) {
    const ordered_json parsed = ordered_json::parse(value, nullptr, /*allow_exceptions=*/false);
    object[name] = parsed.is_discarded() ? ordered_json(value) : parsed;
  }
  return object;
}

}  // namespace

struct Reporter::Body {
  const Options& options;
  const RunPlan& plan;
  const RunFolders* folders;
  int ranks;
  Console console;
  std::optional<JsonLines> json{};
  std::optional<EventFile> events{};
  double begin = now_seconds();
  std::int64_t done = 0;
  double images_per_s = 0;  // of the last report
  struct Tested {
    std::int64_t step = -1;
    double top1 = 0;
  };
  Tested last{};  // of this start
  Tested best{};  // of the run, as far as its checkpoint and metrics.jsonl know of earlier starts

  void see(const Tested& tested) {
    if (best.step < 0 || tested.top1 > best.top1) best = tested;
  }

  /// "step 480/1000", with the time in front where lines are kept in a file.
  std::string step_text(std::int64_t step) const {
    const std::string text = fmt::format("step {}/{}", step, plan.steps);
    return console.columns() > 0 ? text : timestamp() + " " + text;
  }
  std::string lost{};  // why a report could not be written, the first time
  bool lost_lines = false;

  void line(const std::string& text) {
    attempt([&] { console.line(text); }, lost_lines);
  }
  /// A report that cannot be written is said once, and is not the end of the run.
  void attempt(const std::function<void()>& write, bool& failed) {
    try {
      write();
    } catch (const Error& error) {
      failed = true;
      if (lost.empty()) warn(fmt::format("{}; the run goes on", lost = error.what()));
    }
  }
  void files(const std::function<void()>& write) {
    if (!json) return;
    if (folders) folders->require_still_held();
    bool ignored = false;  // they keep what they could not write
    attempt(write, ignored);
  }
  void line(const std::vector<std::string>& parts) { line(fitted(parts, console.columns())); }
  /// Both files of the log; `scalars`: TensorBoard too.
  void log(const char* kind, std::int64_t step, const Metrics& metrics, bool scalars = true) {
    JsonLines::Fields fields{{"step", static_cast<double>(step)}}, shown;
    for (const Metric& metric : metrics) {
      fields.emplace_back(metric.name, metric.value);
      if (metric.scalar) shown.emplace_back(fmt::format("{}/{}", kind, metric.name), metric.value);
    }
    files([&] { json->write(kind, fields); });
    if (!scalars) return;
    files([&] {
      events->scalars(step, shown);
      events->flush();  // TensorBoard follows the run as metrics.jsonl does
    });
  }
  void warn(const std::string& text) const {
    std::fputs(fmt::format("{}: warning: {}\n", options.program, text).c_str(), stderr);
  }
};

Reporter::Reporter(const Comm& comm, const Options& options, const RunPlan& plan,
                   const RunFolders* folders, const std::function<bool()>& keep_waiting) {
  if (comm.rank() != 0) return;
  body_.reset(new Body{.options = options,
                       .plan = plan,
                       .folders = folders,
                       .ranks = comm.size(),
                       .console = Console(stdout, keep_waiting)});
}

Reporter::~Reporter() = default;

void Reporter::line(const std::string& text) {
  if (body_) body_->line(text);
}

std::string Reporter::best() const {
  if (!body_ || body_->best.step < 0) return "";
  return fmt::format("top-1 {} at step {}", body_->best.top1, body_->best.step);
}

void Reporter::go_on_from(const std::string& best) {
  if (!body_) return;
  Body::Tested tested;
  const bool read =
      std::sscanf(best.c_str(), "top-1 %lf at step %" SCNd64, &tested.top1, &tested.step) == 2;
  require(read && tested.step >= 0 && tested.step <= body_->plan.start.step && tested.top1 >= 0 &&
              tested.top1 <= 1,
          "\"{}\" is not the best evaluation of a run", best);
  body_->see(tested);
}

void Reporter::begin(bool evaluates_anew) {
  if (!body_) return;
  const RunPlan& plan = body_->plan;
  body_->begin = now_seconds();
  body_->done = plan.start.step;
  if (body_->options.reports.log_dir.empty()) return;
  if (body_->folders) body_->folders->require_held();
  const std::filesystem::path directory = body_->options.reports.log_dir;
  const LoggedRun logged = logged_run(directory);
  const bool same_run = plan.start.step > 0 && (logged.run.empty() || logged.run == plan.run);
  if (!same_run && logged.begun) {
    body_->line(fmt::format("{:<12} of an earlier run, now in {}", "logs",
                            set_logs_aside(directory).string()));
  }
  const std::int64_t first = same_run ? plan.start.step + 1 : 0;
  for (const auto& [step, top1] : logged.evaluations) {
    if (step < first - evaluates_anew) body_->see({step, top1});
  }
  body_->json.emplace(directory / "metrics.jsonl", first,
                      same_run && evaluates_anew ? "evaluation" : "");
  body_->events.emplace(directory, first);
  const ordered_json run = {{"run", plan.run},
                            {"parent", plan.parent},
                            {"step", plan.start.step},
                            {"steps", plan.steps},
                            {"version", build_name()},
                            {"host", host_name()},
                            {"ranks", body_->ranks},
                            {"threads", plan.threads},
                            {"global_batch", plan.global_batch},
                            {"shards", plan.shards},
                            {"seed", plan.seed},
                            {"options", to_json(body_->options.text)}};
  body_->files([&] {
    body_->json->write("run", run.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  });
  body_->files([&] { body_->events->flush(); });
}

void Reporter::step(const StepReport& report) {
  if (!body_) return;
  const Metrics metrics = metrics_of(report, body_->console.columns() == 0);
  body_->images_per_s = report.images_per_s();
  const std::string head = body_->step_text(report.step);
  std::vector<std::string> parts = texts_of(metrics);
  parts.insert(parts.begin(), head);
  body_->line(parts);
  if (const auto& late = report.straggler) {
    body_->line(fmt::format("{} rank {} ({}) made the others wait {:.1f} ms a step, over {}", head,
                            late->rank, late->host,
                            late->seconds / static_cast<double>(late->steps) * 1e3,
                            counted(late->steps, "step")));
  }
  body_->log("train", report.step, metrics);
}

void Reporter::progress(std::int64_t step, double cross_entropy) {
  if (!body_) return;
  body_->done = step;
  std::string note = fmt::format("cross-entropy {:.3f}", cross_entropy);
  if (body_->images_per_s > 0) note += fmt::format(", {:.0f} images/s", body_->images_per_s);
  body_->attempt([&] { body_->console.progress(step, body_->plan.steps, note); },
                 body_->lost_lines);
}

void Reporter::evaluating(double share) {
  if (!body_) return;
  const std::string note = fmt::format("evaluation {:.0f} %", 100 * share);
  body_->attempt([&] { body_->console.progress(body_->done, body_->plan.steps, note); },
                 body_->lost_lines);
}

void Reporter::histograms(std::int64_t step, const Layout& layout, const float* parameters,
                          const float* gradients) {
  if (!body_ || !body_->events) return;
  std::vector<std::pair<std::string, Histogram>> values;
  for (const Parameter& p : layout.parameters) {
    const auto size = static_cast<std::size_t>(p.range.count);
    values.emplace_back(p.name, histogram({parameters + p.range.begin, size}));
    if (!p.trained()) continue;
    values.emplace_back(p.name + "/gradients", histogram({gradients + p.range.begin, size}));
  }
  body_->files([&] { body_->events->histograms(step, values); });
}

void Reporter::sync() {
  if (body_) body_->files([&] { body_->json->sync(); });
}

void Reporter::saved(std::int64_t step, const std::filesystem::path& file) {
  if (body_) body_->line(body_->step_text(step) + " saved " + file.string());
}

void Reporter::evaluation(std::int64_t step, double epoch, const Score& score,
                          const char* weights) {
  if (!body_) return;
  body_->last = {step, score.top1_share()};
  body_->see(body_->last);
  const Metrics metrics = metrics_of(score, epoch);
  std::vector<std::string> parts = texts_of(metrics);
  parts.front() = body_->step_text(step) + " evaluation: " + parts.front();
  parts.emplace_back(weights);
  body_->line(parts);
  body_->log("evaluation", step, metrics);
}

void Reporter::epoch(std::int64_t step, const EpochReport& report, const Score& score) {
  if (!body_) return;
  const Metrics metrics = metrics_of(report, score);
  body_->line(texts_of(metrics));
  body_->log("epoch", step, metrics, /*scalars=*/false);
}

void Reporter::summary(std::int64_t step, double seconds, std::int64_t skipped) {
  if (!body_) return;
  body_->attempt([&] { body_->console.clear(); }, body_->lost_lines);
  bool lost_files = false;
  if (body_->folders) body_->folders->require_still_held();
  if (body_->json) {
    body_->attempt([&] { body_->json->flush(); }, lost_files);
    body_->attempt([&] { body_->events->flush(); }, lost_files);
  }
  if (lost_files || body_->lost_lines) body_->warn("the reports are incomplete: " + body_->lost);
  const std::int64_t steps = step - body_->plan.start.step;
  const double total = now_seconds() - body_->begin;
  const auto line = [&](const char* name, const std::vector<std::string>& parts) {
    if (!parts.empty()) body_->line(fmt::format("{:<12} {}", name, fmt::join(parts, ", ")));
  };
  std::vector<std::string> parts{
      fmt::format("{} in {}", counted(steps, "step"), duration_text(total))};
  if (seconds > 0) {
    parts.push_back(fmt::format("{:.0f} images/s",
                                static_cast<double>(steps * body_->plan.global_batch) / seconds));
  }
  if (skipped > 0)
    parts.push_back(fmt::format("{} skipped, for gradients overflowed", counted(skipped, "step")));
  line("trained", parts);
  const auto tested = [](const Body::Tested& t) {
    return fmt::format("{:.2f} % at step {}", 100 * t.top1, t.step);
  };
  parts.clear();
  if (body_->last.step >= 0) parts.push_back("top-1 " + tested(body_->last));
  if (body_->best.step >= 0) parts.push_back("best " + tested(body_->best));
  line("accuracy", parts);
  parts.clear();
  if (!body_->options.checkpoints.dir.empty())
    parts.push_back("checkpoints in " + body_->options.checkpoints.dir);
  if (!body_->options.reports.log_dir.empty())
    parts.push_back("logs in " + body_->options.reports.log_dir);
  line("written", parts);
}

}  // namespace lockstep
