#include "apps/run/summary.h"

#include <algorithm>
#include <sstream>

#include "apps/run/augmentation.h"
#include "apps/run/circumstances.h"
#include "apps/step/error_feedback.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/device/cpu/convolution.h"

namespace lockstep {
namespace {

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string bucket_text(const std::vector<Range>& buckets) {
  std::vector<std::string> sizes;
  for (const Range& bucket : buckets) {
    sizes.push_back(fmt::format("{:.2f}", mebibytes(bucket.count * sizeof(float))));
  }
  return fmt::format("{} ({} MiB, in the order of the backward pass)", buckets.size(),
                     fmt::join(sizes, ", "));
}

/// Collective; for rank 0.
std::string memory_text(const RunSummary& f) {
  auto parts = f.step.memory();
  parts.emplace_back("evaluation", f.evaluation.bytes());
  parts.emplace_back("loader", f.loader.bytes());
  parts.emplace_back("data", f.data.train->bytes() + f.data.test->bytes());
  if (!f.options.checkpoints.dir.empty()) {
    const bool residual = f.step.reducer().traits().residual != nullptr;
    const std::size_t gathered = gather_bytes(f.comm, f.step.layout(), residual);
    parts.emplace_back("saving", f.step.saved_bytes() + gathered);
  }
  parts.emplace_back("program and libraries", f.base_memory);
  std::size_t total = 0;
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts) {
    total += bytes;
    if (bytes > 0) texts.push_back(fmt::format("{} {:.1f}", name, mebibytes(bytes)));
  }
  return fmt::format("{:.1f} MiB per rank = {}", mebibytes(total), fmt::join(texts, " + "));
}

std::string optimizer_text(const RunSummary& f) {
  const RateOptions& rate = f.plan.rate;
  std::string text = fmt::format(
      "{}, lr {:g} {}", describe_optimizer(f.options.optimizer.name, f.options.optimizer.own),
      rate.base, rate.schedule);
  if (f.options.schedule.rate_batch > 0) {
    text += fmt::format(" ({:g} for a batch of {}, times {:.4g})", f.options.schedule.rate.base,
                        f.options.schedule.rate_batch, f.plan.rate_factor);
  }
  if (rate.schedule == "cosine" || rate.schedule == "linear")
    text += fmt::format(" to {:g}", rate.end);
  if (rate.warmup_epochs > 0) text += fmt::format(", warm-up {:g} epochs", rate.warmup_epochs);
  if (f.options.optimizer.weight_decay > 0) {
    text += fmt::format(", {}weight decay {:g}",
                        f.step.optimizer().decay() == Decay::decoupled ? "decoupled " : "",
                        f.options.optimizer.weight_decay);
  }
  if (const LossScaling scaling = f.options.loss_scaling(); scaling.on()) {
    text += fmt::format(", loss scale {}{:g}", scaling.dynamic ? "dynamic, now " : "",
                        f.step.loss_scale().scale);
  }
  if (f.options.optimizer.ema > 0)
    text += fmt::format(", moving average {:g}", f.options.optimizer.ema);
  return text;
}

/// "conv*: 4 arrays, lr times 0.1, weight decay 0"
std::string group_text(const RunSummary& f, const ParameterGroup& group) {
  int members = 0, frozen = 0;
  for (const Parameter& parameter : f.step.layout().parameters) {
    if (!parameter.trained() || group_of(parameter.name, f.options.optimizer.groups) != &group)
      continue;
    ++members;
    frozen += parameter.rate == 0;
  }
  std::string text = fmt::format("{}: {}, ", group.pattern, counted(members, "array"));
  if (frozen == members) return text + "frozen";
  if (frozen > 0) text += fmt::format("{} of them frozen, ", frozen);
  text += fmt::format("lr times {:g}", group.rate);
  if (group.epochs > 0) text += fmt::format(" as in a run of {:g} epochs", group.epochs);
  if (group.decay) text += fmt::format(", weight decay {:g}", *group.decay);
  return text;
}

/// What ranks compute with where it is not the same for all, each once; else empty.
/// Collective; for rank 0.
std::string differences(const RunSummary& f) {
  std::vector<std::string> all = f.comm.gather(f.device.arithmetic());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all.size() < 2 ? "" : fmt::format("{}", fmt::join(all, "; "));
}

std::string order_text(const RunSummary& f, bool alike) {
  const bool canonical = f.step.reducer().traits().canonical;
  if (!canonical && f.options.ranks.wire != Type::f32) {
    return fmt::format(
        "each sum is rounded to {} where it crosses, and the rest comes a step later: the number "
        "of "
        "ranks shows in the weights",
        name_of(f.options.ranks.wire));
  }
  if (!canonical) {
    return "this reducer's own: the number of ranks shows in the weights' last bits (--list names "
           "canonical reducers)";
  }
  if (!alike) {
    return fmt::format(
        "{}, of ranks that compute differently: which of them takes a shard shows in "
        "the weights' last bits",
        order_of_shards(f.plan));
  }
  return order_text(f.plan, f.step.sync_bn() && f.step.lanes() < f.plan.own_shards);
}

std::string policy_text(Policy policy) {
  for (const PolicyEntry& entry : policies()) {
    if (entry.policy == policy) return fmt::format("{}: {}", entry.name, entry.about);
  }
  return "";
}

void print_placement(const RunSummary& f, Reporter& reporter) {
  for (const std::string& line : placement_lines(f.comm, f.placement)) reporter.line("  " + line);
  for (const LayerSummary& layer : f.step.model().layers()) {
    reporter.line(fmt::format("  {:<16} {:<16} {:>9} parameters  {}", layer.name,
                              layer.output.text(), layer.parameters, layer.implementation));
  }
  std::istringstream measured(f.device.tuning());
  for (std::string line; std::getline(measured, line);) reporter.line("  " + line);
}

}  // namespace

std::vector<int> ranks_of_same_bits(int shards) {
  std::vector<int> ranks;
  const auto add = [&](std::int64_t count) {
    if (shares_subtrees(static_cast<int>(count), shards)) ranks.push_back(static_cast<int>(count));
  };
  for (std::int64_t count = 1; count * count <= shards; ++count) {
    if (shards % count != 0) continue;
    add(count);
    if (count * count != shards) add(shards / count);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string order_text(const RunPlan& plan, bool of_accumulated) {
  const std::vector<int> ranks =
      of_accumulated ? std::vector<int>{plan.ranks()} : ranks_of_same_bits(plan.shards);
  const bool other = !of_accumulated && !plan.canonical();
  return fmt::format("{}: --shards {} gives the same weights, bit for bit, on {} rank{} of {}{}",
                     order_of_shards(plan), plan.shards, fmt::join(ranks, ", "),
                     ranks.back() == 1 ? "" : "s", counted(plan.threads, "thread"),
                     other ? ", but not on these" : "");
}

void print_summary(const RunSummary& f, Reporter& reporter) {
  const auto line = [&](const char* name, const std::string& text) {
    reporter.line(fmt::format("{:<12} {}", name, text));
  };
  const std::string different = differences(f);
  const Model& model = f.step.model();
  const ReducerTraits& reducer = f.step.reducer().traits();
  const double gflop = model.training_flops() * f.plan.shards * 1e-9;
  reporter.line(fmt::format("Lockstep {}", build_name()));
  line("ranks",
       fmt::format("{} on {}, {} each; rank 0 on {}, {}", f.comm.size(),
                   counted(f.placement.hosts, "host"), counted(f.placement.threads, "thread"),
                   host_name(), f.device.traits().description));
  if (!f.placement.devices.empty()) line("devices", f.placement.devices);
  if (const std::string& libraries = f.device.traits().libraries; !libraries.empty())
    line("libraries", libraries);
  for (const std::string& note : f.placement.notes) line("note", note);
  if (!different.empty()) {
    line("warning", fmt::format("ranks compute differently: {} (where it is the instruction set, "
                                "--isa takes one that all have)",
                                different));
  }
  if (!f.placement.warning.empty()) line("warning", f.placement.warning);
  line("data", f.data.train->describe());
  if (const auto& data = find(datasets(), f.options.data.dataset); !data.stands_for.empty()) {
    line("",
         fmt::format("no --data: these images are made up; scripts/get_data.sh {} downloads the "
                     "real ones",
                     data.stands_for));
  }
  if (const std::string text = augmentation_text(f.options); !text.empty()) line("augmented", text);
  if (!f.device.traits().memory_is_host) line("batches", f.loader.describe());
  line("model", fmt::format("{}, {} parameters, {:.2f} GFLOP per step, {}", f.options.model.name,
                            model.layout().trainable(), gflop, name_of(model.type())));
  line("batch",
       fmt::format(
           "{} = {} of {}, {} on each rank; {:.1f} steps per epoch", f.plan.global_batch,
           counted(f.plan.shards, "shard"), f.plan.shard_batch, f.plan.own_shards,
           static_cast<double>(f.plan.dataset_size) / static_cast<double>(f.plan.global_batch)));
  if (f.step.sync_bn()) line("batch norm", "mean and variance of " + f.step.statistics());
  line("optimizer", optimizer_text(f));
  for (const ParameterGroup& group : f.options.optimizer.groups)
    line("group", group_text(f, group));
  line("reducer", reducer.description);
  line("progress", policy_text(f.step.policy()));
  line("buckets", bucket_text(f.step.buckets()));
  line("order", order_text(f, different.empty()));
  line("memory", memory_text(f));
  if (f.options.reports.log_dir.empty())
    line("logs", "none: --log-dir DIR writes metrics.jsonl and TensorBoard's events");
  if (f.options.checkpoints.dir.empty())
    line("checkpoints", "none: --checkpoint-dir DIR saves the run and goes on from there");
  for (const std::string& warning : f.resumption.warnings) line("warning", warning);
  if (f.resumption.file) {
    line("resumed", fmt::format("from {} at step {} of {}", f.resumption.file->string(),
                                f.plan.start.step, f.plan.steps));
  }
  for (const std::string& note : f.options.notes) line("note", note);
  if (f.options.ranks.wire != Type::f32 && reducer.canonical) {
    const std::string why =
        f.comm.size() == 1
            ? "one rank: no gradient crosses"
            : fmt::format(
                  "the reducer {}: no gradient crosses between hosts (--reducer owners "
                  "rounds within one too)",
                  reducer.name);
    line("note", fmt::format("--wire {} does nothing with {}", name_of(f.options.ranks.wire), why));
  }
  if (f.options.model.sync_bn && !f.step.sync_bn())
    line("note", fmt::format("--sync-bn does nothing: {} has no batch norm", f.options.model.name));
  const ConvolutionEntry& way = find(convolutions(), f.options.device.convolution);
  const auto has_it = [&](const LayerSummary& layer) {  // no mark is found everywhere
    return layer.implementation.find(way.mark) != std::string::npos;
  };
  const std::vector<LayerSummary>& layers = model.layers();
  if (std::none_of(layers.begin(), layers.end(), has_it)) {
    line("note", fmt::format("--conv {} does nothing: it has nothing for any layer of {} in {} on "
                             "this processor",
                             way.name, f.options.model.name, name_of(model.type())));
  }
  for (const std::string& note : f.plan.notes) line("note", note);
  if (f.options.reports.placement) print_placement(f, reporter);
}

}  // namespace lockstep
