#include "apps/reporter.h"

#include <filesystem>
#include <optional>

#include "src/report/report.h"

namespace lockstep {

struct Reporter::Body {
  Console console;
  std::optional<JsonLines> json;
  std::optional<EventFile> events;
  std::int64_t last_step = 0;
};

Reporter::Reporter(bool active, const Options& options, const RunPlan& plan) {
  if (!active) return;
  body_ = std::make_unique<Body>();
  body_->last_step = plan.steps;
  if (options.log_dir.empty() || options.check) return;
  const std::filesystem::path directory = options.log_dir;
  body_->json.emplace(directory / "metrics.jsonl", plan.start.step + 1);
  body_->events.emplace(directory, plan.start.step + 1);
}

Reporter::~Reporter() = default;

void Reporter::line(const std::string& text) {
  if (body_) body_->console.line(text);
}

void Reporter::step(const StepReport& r) {
  if (!body_) return;
  body_->console.line(
      fmt::format("{}: step {}, loss = {:.4f} ({:.1f} examples/sec; {:.3f} sec/batch), lr {:.4g}, "
                  "exposed communication {:.1f} %",
                  timestamp(), r.step, r.loss, r.images_per_s, r.seconds_per_batch, r.learning_rate,
                  100 * r.exposed_communication));
  const JsonLines::Fields fields{{"step", static_cast<double>(r.step)},
                                 {"epoch", r.epoch},
                                 {"loss", r.loss},
                                 {"cross_entropy", r.cross_entropy},
                                 {"penalty", r.penalty},
                                 {"batch_top1", r.batch_top1},
                                 {"images_per_s", r.images_per_s},
                                 {"seconds_per_batch", r.seconds_per_batch},
                                 {"learning_rate", r.learning_rate},
                                 {"exposed_communication", r.exposed_communication},
                                 {"loader_wait", r.loader_wait}};
  if (body_->json) body_->json->write("train", fields);
  if (body_->events) {
    JsonLines::Fields scalars;
    for (const auto& [name, value] : fields) {
      if (name != "step") scalars.emplace_back("train/" + name, value);
    }
    body_->events->scalars(r.step, scalars);
    body_->events->flush();  // TensorBoard follows the run as metrics.jsonl does
  }
}

void Reporter::progress(std::int64_t step, double loss) {
  if (body_) body_->console.progress(step, body_->last_step, fmt::format("loss {:.3f}", loss));
}

void Reporter::histograms(std::int64_t step, const Layout& layout, const float* parameters,
                          const float* gradients) {
  if (!body_ || !body_->events) return;
  std::vector<std::pair<std::string, Histogram>> values;
  for (const Parameter& p : layout.parameters) {
    const auto size = static_cast<std::size_t>(p.range.count);
    values.emplace_back(p.name, histogram({parameters + p.range.begin, size}));
    values.emplace_back(p.name + "/gradients", histogram({gradients + p.range.begin, size}));
  }
  body_->events->histograms(step, values);
}

void Reporter::evaluation(std::int64_t step, double epoch, const EvaluationResult& result,
                          const char* weights) {
  if (!body_) return;
  const Score& score = result.score;
  body_->console.line(fmt::format("{}: step {}, evaluation of the {}: {}", timestamp(), step,
                                  weights, score_text(score)));
  const JsonLines::Fields fields{{"step", static_cast<double>(step)},
                                 {"epoch", epoch},
                                 {"top1", score.top1_share()},
                                 {"top5", score.top5_share()},
                                 {"loss", score.loss()},
                                 {"samples", static_cast<double>(score.samples)}};
  if (body_->json) body_->json->write("evaluation", fields);
  if (body_->events) {
    body_->events->scalars(step, {{"evaluation/top1", score.top1_share()},
                                  {"evaluation/top5", score.top5_share()},
                                  {"evaluation/loss", score.loss()}});
  }
}

void Reporter::flush() {
  if (!body_) return;
  body_->console.clear();
  if (body_->events) body_->events->flush();
}

std::string score_text(const Score& score) {
  return fmt::format("top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f} ({} samples)",
                     100 * score.top1_share(), 100 * score.top5_share(), score.loss(),
                     score.samples);
}

}  // namespace lockstep
