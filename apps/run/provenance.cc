#include "apps/run/provenance.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/normalisation.h"

namespace lockstep {
namespace {

/// Collective. For rank 0: "2" if `value` is the same on all ranks, else "2, 2, 1" in their order.
std::string of_all_ranks(const Comm& comm, const std::string& value) {
  const std::vector<std::string> values = comm.gather(value);
  const bool same = std::count(values.begin(), values.end(), value) == std::ssize(values);
  return same ? value : fmt::format("{}", fmt::join(values, ", "));
}

/// A canonical sum is the same for all reducers. Any other may depend on everything named here.
std::string order_of_sums(const Comm& comm, const Options& options, const RunPlan& plan,
                          const TrainingStep& step) {
  const ReducerTraits& reducer = step.reducer().traits();
  if (reducer.canonical) return order_of_shards(plan);
  const bool fewer = reducer.name == "nccl" && options.ranks.nccl_max_ctas > 0;
  return fmt::format("that of {} on {} in buckets of {:g} MiB{}", reducer.name,
                     counted(comm.size(), "rank"), step.bucket_mb(),
                     fewer ? fmt::format(" with {} CTAs", options.ranks.nccl_max_ctas) : "");
}

/// Whether the rate before the end depends on the end.
bool depends_on_end(const RateOptions& rate) {
  const double middle = rate.warmup_epochs + 1;
  return learning_rate(rate, middle, 2 * middle) != learning_rate(rate, middle, 3 * middle);
}

/// The values of Options::text by name; the last if a name is there twice.
std::map<std::string, std::string> values_of(const std::string& options) {
  std::map<std::string, std::string> values;
  for (auto& [name, value] : named_values(options)) values[name] = std::move(value);
  return values;
}

/// Compares the options that shape the weights.
void compare_options(const std::string& before, const Options& options,
                     std::vector<Change>& changes) {
  const auto then = values_of(before), now = values_of(options.text);
  for (const auto& [name, default_value] : options.shaping) {
    const auto is = now.find(name), kept = then.find(name);
    const std::string& was = kept == then.end() ? default_value : kept->second;
    if (is == now.end() || is->second == was) continue;
    changes.push_back(
        {"--" + name,
         fmt::format("--{} is now {}, not {} as before: this is no longer the same run", name,
                     is->second, was.empty() ? "none" : was)});
  }
}

/// A text of checkpoints that is compared.
struct Compared {
  const char* key;
  const char* option;  ///< Change::option
  const char* note;    ///< Change::note, of the values now and before
};
constexpr Compared kCompared[] = {
    {"global_batch", "--global-batch (which is --batch times the ranks)",
     "the global batch is now {}, not {} as before: this is no longer the same run"},
    {"statistics", "--sync-bn",
     "batch norm now uses mean and variance of {}, not of {} as before: this is no longer the same "
     "run"},
    {"shards", "", "now {} shards, not {} as before: the last bits of weights will differ"},
    {"all_threads", "",
     "now {} threads on each rank, not {} as before: the last bits of weights will differ"},
    {"sums", "",
     "the order of sums is now {}, not {} as before: the last bits of weights will differ"},
    {"arithmetic", "",
     "the arithmetic is now {}, not {} as before: the last bits of weights will differ"},
    {"version", "", "this is Lockstep {}, not {} as before: the last bits of weights may differ"}};
constexpr Compared kEnd{"steps", "--steps",
                        "the run now ends at step {}, not {} as before, and --lr-schedule depends "
                        "on it: this is no longer the same run"};

/// "new are wolf; missing are cat"; empty if both lists contain the same names.
std::string other_classes(const std::vector<std::string>& before,
                          const std::vector<std::string>& now) {
  const std::vector<std::string> added = missing_from(before, now),
                                 lost = missing_from(now, before);
  std::vector<std::string> parts;
  if (!added.empty()) parts.push_back("new are " + listed(added));
  if (!lost.empty()) parts.push_back("missing are " + listed(lost));
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// Adds to `notes` if the weights of --init are of other classes.
void compare_classes(const Options& options, const Resumption& resumption, const OpenedData& data,
                     std::vector<std::string>& notes) {
  const std::vector<std::string> before = lines_of(text_of(resumption.initial, kClassNames));
  if (!has_other_classes(options, resumption.initial, data)) return;
  const std::string difference = other_classes(before, data.class_names);
  notes.push_back(fmt::format("{} was trained on other classes: {}", resumption.init,
                              difference.empty() ? "their order differs" : difference));
}

/// Whether a mean and a deviation for all images normalise them.
bool has_normalisation(const Dataset& data) { return is_normalised(data.format()); }

/// The text of a checkpoint with data like these; empty if they are no whole images.
std::string normalisation_of(const Dataset& data) {
  if (!has_normalisation(data)) return "";
  return to_text(data.format().normalisation, data.format().size.channels);
}

}  // namespace

bool has_other_classes(const Options& options, const CheckpointMetadata& initial,
                       const OpenedData& data) {
  const std::vector<std::string> before = lines_of(text_of(initial, kClassNames));
  return !before.empty() && before != data.class_names &&
         text_of(initial, "model") == options.model.name;
}

Provenance provenance(const Comm& comm, const Options& options, const RunPlan& plan,
                      const Device& device, const OpenedData& data, const TrainingStep& step) {
  Provenance texts = {{"options", options.text},
                      {"version", build_name()},
                      {"threads", std::to_string(plan.threads)},
                      {"all_threads", of_all_ranks(comm, std::to_string(plan.threads))},
                      {"arithmetic", of_all_ranks(comm, device.arithmetic())},
                      {kTuning, device.tuning()},
                      {"sums", order_of_sums(comm, options, plan, step)},
                      {"statistics", step.statistics()},
                      {"steps", std::to_string(plan.steps)},
                      {"model", options.model.name},
                      {"precision", name_of(options.model.precision)},
                      {"dataset", options.data.dataset},
                      {"data", data.identity},
                      {kFormat, to_text(data.train->format())},
                      {kClassNames, fmt::format("{}", fmt::join(data.class_names, "\n"))},
                      {"global_batch", std::to_string(plan.global_batch)},
                      {"shards", std::to_string(plan.shards)},
                      {"run", plan.run},
                      {"parent", plan.parent},
                      {"began", plan.began}};
  if (const std::string text = normalisation_of(*data.train); !text.empty())
    texts[kNormalisation] = text;
  if (!options.model.network.empty()) texts[kNetwork] = options.model.network;
  return texts;
}

std::string order_of_shards(const RunPlan& plan) {
  if (plan.canonical()) return "canonical";
  return fmt::format("that of {} with {} each", counted(plan.ranks(), "rank"),
                     counted(plan.own_shards, "shard"));
}

std::vector<Change> changes(const Provenance& before, const Provenance& now,
                            const Options& options) {
  std::vector<Change> result;
  if (const auto then = before.find("options"); then != before.end())
    compare_options(then->second, options, result);
  const auto compare = [&](const Compared& text) {
    const auto was = before.find(text.key), is = now.find(text.key);
    if (was == before.end() || is == now.end() || was->second == is->second) return;
    result.push_back({text.option, fmt::format(fmt::runtime(text.note), is->second, was->second)});
  };
  if (depends_on_end(options.schedule.rate)) compare(kEnd);
  for (const Compared& text : kCompared) compare(text);
  return result;
}

void require_same_run(const std::string& file, const std::vector<Change>& changes,
                      const Options& options, bool complete) {
  if (!complete && options.run.folder.empty()) return;
  std::vector<std::string> others;
  for (const Change& change : changes) {
    const bool longer = !complete && change.option == kEnd.option;
    if (!change.option.empty() && !longer) others.push_back(change.option);
  }
  if (others.empty()) return;
  fail_usage("{} {} other values of {}. Pass the options of that run, or use {}.", file,
             complete ? "is complete, with" : "has", fmt::join(others, ", "), options.elsewhere());
}

/// "150, crc32c of names and sizes 6f3c9a01" is "150".
std::string without_checksums(const std::string& value) {
  const std::string text = ", " + value;
  return text.substr(2, std::max<std::size_t>(text.find(", crc32c"), 2) - 2);
}

std::string first_other_file(const std::string& before, const std::string& now, bool only_now) {
  constexpr std::string_view kIs = " = ";
  const auto optional = [](const auto& line) { return line.first.ends_with(kFileContents); };
  static_assert(kPackedContents.ends_with(kFileContents));
  std::map<std::string, std::string> present;
  for (const auto& [name, value] : named_values(now, kIs)) present[name] = value;
  for (const auto& line : named_values(before, kIs)) {
    const auto& [name, value] = line;
    const auto found = present.extract(name);
    if (found && found.mapped() != value) {
      const std::string was = without_checksums(value), is = without_checksums(found.mapped());
      if (was == is) return fmt::format("the content of {} differs", name);
      return fmt::format("{} = {}, not {}", name, is, was);
    }
    if (!found && !only_now && !optional(line)) return name + " is missing";
  }
  std::erase_if(present, optional);
  return present.empty() ? "" : present.begin()->first + " is new";
}

void require_same_data(const Options& options, const Resumption& resumption,
                       const OpenedData& data) {
  if (resumption.file.empty()) return;
  const std::string name = std::filesystem::path(resumption.file).filename();
  const std::string before = text_of(resumption.metadata, "data");
  const std::string difference = first_other_file(before, data.identity);
  if (difference.empty()) return;
  const std::string with_its_weights = fmt::format(
      "use {}. Add --init {} to begin with its weights", options.elsewhere(), resumption.file);
  const auto trained = lines_of(text_of(resumption.metadata, kClassNames));
  if (const std::string classes = other_classes(trained, data.class_names); !classes.empty()) {
    fail_usage("{} was trained on other classes: {}. Pass --data with its classes, or {}.", name,
               classes, with_its_weights);
  }
  fail_usage("{} was trained on other data: {}. Pass --data with its files, or {}.", name,
             difference, with_its_weights);
}

void normalise(Dataset& data, const std::string& text, const std::string& file) {
  if (text.empty() || !has_normalisation(data)) return;
  try {
    data.standardise(normalisation_from(text, data.format().size.channels));
  } catch (const Error& error) {
    fail("{} does not fit these images: {}", file, error.what());
  }
}

void follow_checkpoint(const Options& options, const Resumption& resumption, OpenedData& data,
                       std::vector<std::string>& notes) {
  const bool resumed = !resumption.file.empty();
  const std::string& file = resumed ? resumption.file : resumption.init;
  if (file.empty()) return;
  const std::string own = normalisation_of(*data.train),
                    text =
                        text_of(resumed ? resumption.metadata : resumption.initial, kNormalisation);
  if (!resumed) compare_classes(options, resumption, data, notes);
  normalise(*data.train, text, file);
  for (const auto& held : {data.validation.get(), data.test.get()})
    if (held) normalise(*held, text, file);
  if (resumed || own.empty() || text == own) return;
  if (!text.empty()) {
    notes.push_back(fmt::format(
        "images are normalised as for the weights of {}, not by the training images: {}", file,
        text));
  } else if (find(datasets(), options.data.dataset).own && !data.train->format().files) {
    notes.push_back(fmt::format(
        "{} has no normalisation, so the training images give mean and deviation", file));
  }
}

}  // namespace lockstep
