#include "apps/tell/summary.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "apps/record/fact_words.h"
#include "apps/record/resumption.h"
#include "collectives/watch/launch.h"
#include "net/initial_weights.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/class_weights.h"
#include "src/data/names.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string bucket_text(const RunFacts& facts) {
  const RunFacts::Json buckets = facts.value("communication").at("buckets");
  return fmt::format("{} of {:.2f} to {:.2f} MiB", buckets.at("count").get<int>(),
                     mebibytes(buckets.at("smallest_bytes").get<std::size_t>()),
                     mebibytes(buckets.at("largest_bytes").get<std::size_t>()));
}

std::string memory_text(const RunFacts& facts) {
  std::size_t total = 0;
  std::vector<std::string> texts;
  const RunFacts::Json memory = facts.value("memory");
  for (const auto& [name, value] : memory.items()) {
    const auto bytes = value.get<std::size_t>();
    total += bytes;
    if (bytes > 0) texts.push_back(fmt::format("{} {:.1f}", name, mebibytes(bytes)));
  }
  return fmt::format("{:.1f} MiB per rank = {}", mebibytes(total), fmt::join(texts, " + "));
}

std::string optimizer_text(const RunParts& f) {
  const Options& options = f.options;
  const UpdateOptions& o = options.optimizer;
  const RateOptions& rate = f.plan.rate;
  std::string text =
      fmt::format("{}, lr {:g} {}", describe_optimizer(o.name, o.own), rate.base, rate.schedule);
  if (options.schedule.rate_batch > 0) {
    text += fmt::format(" ({:g} for a batch of {}, times {:.4g})", options.schedule.rate.base,
                        options.schedule.rate_batch, f.plan.rate_factor);
  }
  if (rate.has_end()) text += fmt::format(" to {:g}", rate.end);
  if (rate.warmup_epochs > 0) text += fmt::format(", warm-up {:g} epochs", rate.warmup_epochs);
  if (o.weight_decay > 0) {
    const bool decoupled = f.step.optimizer().decay() == Decay::decoupled;
    text += fmt::format(", {}weight decay {:g}", decoupled ? "decoupled " : "", o.weight_decay);
  }
  if (o.ema > 0) text += fmt::format(", moving average {:g}", o.ema);
  return text;
}

/// "label smoothing 0.1; class weights cat 0.5, dog 1.5"; empty: the plain cross-entropy.
std::string loss_text(const RunParts& f) {
  std::vector<std::string> parts;
  LossModifiers loss = f.options.optimizer.loss;
  loss.each_number([&](const LossOption& option, float value) {
    if (value > 0) parts.push_back(fmt::format("{} {:g}", option.text, value));
  });
  std::vector<std::string> weights;
  const std::vector<std::string> names = all_class_names(f.data);
  for (std::size_t i = 0; i < f.plan.class_weights.size(); ++i)
    weights.push_back(fmt::format("{} {:.4g}", names[i], f.plan.class_weights[i]));
  if (!weights.empty()) parts.push_back("class weights " + one_line(listed(weights)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// "conv*: 4 arrays, lr times 0.1, weight decay 0"
std::string group_text(const RunParts& f, const ParameterGroup& group) {
  int members = 0, frozen = 0;
  for (const Parameter& parameter : f.step.layout().parameters) {
    const auto& groups = f.options.optimizer.groups;
    if (!parameter.trained() || group_of(parameter.name, groups) != &group) continue;
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

/// The distinct arithmetic of the ranks; empty if they agree.
std::string differences(const RunFacts& facts) {
  if (!facts.value("arithmetic").is_array()) return "";
  const std::vector<std::string> all = facts.texts("arithmetic");
  return fmt::format("{}", fmt::join(std::set<std::string>(all.begin(), all.end()), "; "));
}

std::string order_text(const RunParts& f, bool alike) {
  const bool canonical = f.step.reducer().traits().canonical;
  if (!canonical && f.options.ranks.wire != Type::f32) {
    return fmt::format(
        "each message is rounded to {}, with error feedback: weights depend on the number of ranks",
        name_of(f.options.ranks.wire));
  }
  if (!canonical) {
    return "this reducer's own: the last bits of weights depend on the number of ranks (--list "
           "names canonical reducers)";
  }
  // A canonical order alone is not enough: each shard must also give the same bits on any rank.
  if (!alike) {
    return "canonical, of ranks that compute differently: the last bits of weights depend on the "
           "rank of each shard";
  }
  return order_text(f.plan);
}

void print_placement(const RunParts& f, const RunFacts& facts, Reporter& reporter) {
  for (const std::string& place : facts.texts("placement")) reporter.line("  " + place);
  for (const LayerSummary& layer : f.step.model().layers()) {
    reporter.line(fmt::format("  {:<16} {:<16} {:>9} parameters  {}", layer.name,
                              layer.output.text(), layer.parameters, layer.implementation));
  }
}

void add_ranks(const RunParts& f, const std::string& different, Reporter& reporter) {
  const Placement& placement = f.placement;
  const DeviceTraits& device = f.device.traits();
  reporter.line("ranks",
                fmt::format("{} on {}, {} each; rank 0 on {}, {}", f.comm.size(),
                            counted(placement.hosts, "host"), counted(placement.threads, "thread"),
                            host_name(), device.description));
  reporter.line("devices", placement.devices);
  reporter.line("note", placement.notes);
  if (!placement.warning.empty()) reporter.warning(placement.warning);
  if (different.empty()) return;
  reporter.warning(
      fmt::format("ranks compute differently: {}. If the instruction sets differ, "
                  "pass an --isa that all have.",
                  different));
}

void add_data(const RunParts& f, Reporter& reporter) {
  const Options& options = f.options;
  const OpenedData& sets = f.data;
  std::string counts;
  const auto add = [&](SetPart part, const std::unique_ptr<Dataset>& set) {
    if (set) counts += fmt::format("; {} {}", kPartNames[part], set->size());
  };
  add(kValidation, sets.validation);
  add(kTest, sets.test);
  reporter.line("data", fmt::format("{}; classes {}{}", sets.train->describe(),
                                    one_line(listed(sets.class_names)), counts));
  if (const auto& data = find(datasets(), options.data.dataset); !data.stands_for.empty()) {
    reporter.line("", fmt::format("no --data: these samples are generated; scripts/get_data.sh {} "
                                  "downloads the real ones",
                                  data.stands_for));
  }
  reporter.line("sampling", options.data.sampling_text());
  reporter.line("augmented", options.data.augmentation_text());
}

/// "200 steps, 0.51 epochs; evaluation every 1000 steps and at the end"
std::string length_text(const RunParts& f) {
  const RunPlan& plan = f.plan;
  const ReportOptions& o = f.options.reports;
  if (f.options.find_lr.steps > 0) {
    return fmt::format("learning-rate range test of {}, lr {:g} to {:g}; no run is kept",
                       counted(plan.steps, "step"), RangeTestOptions::kLowest,
                       RangeTestOptions::kHighest);
  }
  const double epochs = plan.epoch_at(plan.steps);
  std::string text = fmt::format("{}, {:.{}f} epochs; evaluation ", counted(plan.steps, "step"),
                                 epochs, epochs < 10 ? 2 : 1);
  std::string when = fmt::format("every {} and at the end", counted(o.eval_every, "step"));
  if (o.eval_every >= plan.steps) when = "at the end";
  if (o.eval_every == 0) when = "never";
  if (o.epoch_lines) when = "after each epoch";
  text += when;
  if (o.target > 0) text += fmt::format("; ends at an accuracy of {:g} %", o.target);
  return text;
}

/// The run's folder, and how to stop and continue it.
void add_keeping(const RunParts& f, Reporter& reporter) {
  if (f.options.find_lr.steps > 0) return;
  if (f.folder.empty()) {
    reporter.line("run", "not kept (--no-run or --check)");
    return reporter.line("stop", "Ctrl-C ends the run after its step; nothing is saved");
  }
  const CheckpointInterval& every = f.options.checkpoints.every;
  reporter.line("run",
                fmt::format("kept in {}, with a checkpoint every {} and at the end", f.folder,
                            every.steps > 0 ? counted(every.steps, "step") : every.text()));
  const std::string again = f.options.run.fresh ? "--run " + f.folder : "the same command";
  // mpirun answers Ctrl-C by ending the ranks. Only without it, or below lockstep_run, is there
  // time for a checkpoint.
  if (find_launcher().pid == 0 || std::getenv("LOCKSTEP_SUPERVISOR") != nullptr)
    return reporter.line("stop", fmt::format("Ctrl-C saves a checkpoint; {} continues", again));
  reporter.line("stop",
                fmt::format("Ctrl-C lets mpirun end the ranks after 1 s; {} continues", again));
  reporter.line("",
                f.keeps_states
                    ? "and repeats at most one step, or the steps of the last second"
                    : "from a checkpoint. If steps take longer than 1 s, use lockstep_run instead");
}

/// For readers who tune or debug.
void add_internals(const RunParts& f, const RunFacts& facts, const Loader& loader,
                   const std::string& order, Reporter& reporter) {
  reporter.line("libraries", f.device.traits().libraries);
  if (!f.device.traits().memory_is_host) reporter.line("batches", loader.describe());
  reporter.line("reducer", f.step.reducer().traits().description);
  reporter.line("progress", policy_text(f.step.policy()));
  reporter.line("buckets", bucket_text(facts));
  reporter.line("order", order);
  reporter.line("memory", memory_text(facts));
}

std::string shares_text(const Shares& shares) {
  if (shares.equal()) return fmt::format("{} on each rank", shares.largest());
  std::size_t roots = 0;
  for (const std::vector<Range>& own : Roots::of(shares).of_rank)
    roots = std::max(roots, own.size());
  return fmt::format("{} on the ranks (balance {:.2f}, at most {} to add)", shares.text(),
                     balance(shares), counted(static_cast<std::int64_t>(roots), "root"));
}

void add_network(const RunParts& f, Reporter& reporter) {
  const RunPlan& plan = f.plan;
  const Options& options = f.options;
  const Model& model = f.step.model();
  reporter.line("model",
                fmt::format("{}, {} parameters, {:.2f} GFLOP per step, {}", options.model.name,
                            model.layout().trainable(), model.training_flops() * plan.shards * 1e-9,
                            name_of(model.type())));
  if (const ModelOptions& o = options.model; !o.why.empty()) {
    const bool begins = f.resumption.file.empty();
    const char* others = begins ? "; --model NAME chooses another (--list)" : "";
    reporter.line("", fmt::format("chosen because {}{}", o.why, others));
    if (begins && o.init.empty() && has_published_weights(o.name)) {
      reporter.line("", fmt::format("random weights; published ones need fewer epochs: "
                                    "scripts/get_weights.sh {}, then --init FILE",
                                    o.name));
    }
  }
  const double steps_per_epoch =
      static_cast<double>(plan.dataset_size) / static_cast<double>(plan.global_batch);
  reporter.line("batch", fmt::format("{} = {} of {}, {}; {:.1f} steps per epoch", plan.global_batch,
                                     counted(plan.shards, "shard"), plan.shard_batch,
                                     shares_text(plan.shares), steps_per_epoch));
  if (f.step.sync_bn())
    reporter.line("batch norm", "mean and variance of " + statistics_text(f.step.statistics()));
  for (const auto& [height, epoch] : options.model.small_images)
    reporter.line("images", fmt::format("{} pixels in height until epoch {:g}", height, epoch));
  reporter.line("loss", loss_text(f));
  reporter.line("optimizer", optimizer_text(f));
  for (const ParameterGroup& group : options.optimizer.groups)
    reporter.line("group", group_text(f, group));
}

/// Notes of options that do nothing with this model and these ranks.
void add_idle_options(const RunParts& f, Reporter& reporter) {
  const Options& options = f.options;
  const Type wire = options.ranks.wire;
  const ReducerTraits& reducer = f.step.reducer().traits();
  if (wire != Type::f32 && reducer.canonical) {
    const std::string why =
        f.comm.size() == 1
            ? "one rank, which sends no gradient"
            : fmt::format(
                  "reducer {}, which sends no gradient between hosts (--reducer direct "
                  "rounds within a host too)",
                  reducer.name);
    reporter.line("note", fmt::format("--wire {} does nothing with {}", name_of(wire), why));
  }
  const auto is_sync_bn = [](const auto& option) { return option.first == "sync-bn"; };
  if (options.model.sync_bn && !f.step.sync_bn() &&
      std::ranges::none_of(options.entry.recipe, is_sync_bn)) {
    reporter.line("note",
                  fmt::format("--sync-bn does nothing: {} has no batch norm", options.model.name));
  }
}

}  // namespace

std::string order_text(const RunPlan& plan) {
  std::string ranks = fmt::format("any number of ranks from 1 to {}", plan.shards);
  if (plan.shards == 1) ranks = "1 rank";
  if (plan.sums_micro_batches) ranks = counted(plan.shares.ranks(), "rank");
  return fmt::format("canonical: --shards {} gives bitwise identical weights on {}, of {}",
                     plan.shards, ranks, counted(plan.threads, "thread"));
}

void print_summary(const RunParts& f, const RunFacts& facts, const Loader& loader,
                   Reporter& reporter) {
  const std::string different = differences(facts), &resumed = f.resumption.file;
  reporter.line(fmt::format("Lockstep {}", build_name()));
  add_network(f, reporter);
  add_data(f, reporter);
  reporter.line("length", length_text(f));
  add_ranks(f, different, reporter);
  add_keeping(f, reporter);
  const std::string order = order_text(f, different.empty());
  const bool canonical = f.step.reducer().traits().canonical && different.empty();
  if (f.options.reports.verbose || f.options.check) {
    add_internals(f, facts, loader, order, reporter);
  } else if (!canonical) {
    reporter.line("order", order);
  }
  for (const std::string& warning : f.resumption.warnings) reporter.warning(warning);
  if (!resumed.empty()) {
    reporter.line("resumed", fmt::format("from {} at step {} of {}", resumed, f.plan.start.step,
                                         f.plan.steps));
  }
  reporter.line("note", f.options.notes);
  add_idle_options(f, reporter);
  reporter.line("note", f.plan.notes);
  if (f.options.reports.verbose) print_placement(f, facts, reporter);
}

}  // namespace lockstep
