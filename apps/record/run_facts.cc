#include "apps/record/run_facts.h"

#include <algorithm>
#include <array>

#include "apps/record/data_facts.h"
#include "apps/record/fact_words.h"
#include "apps/record/resumption.h"
#include "apps/record/run_files.h"
#include "net/description/network_file.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/normalisation.h"
#include "src/device/cpu/arithmetic.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

using Json = RunFacts::Json;

/// A text if `value` is the same on all ranks, else a list in their order. Collective; for rank 0.
Json of_all_ranks(const Comm& comm, const std::string& value) {
  const std::vector<std::string> values = comm.gather(value);
  const bool same = std::ranges::count(values, value) == std::ssize(values);
  return same ? Json(value) : Json(values);
}

/// A canonical sum is the same for all reducers. Any other may depend on everything named here.
Json order_of_sums(const RunParts& p) {
  const ReducerTraits& reducer = p.step.reducer().traits();
  if (reducer.canonical) return {{"canonical", true}};
  Json order{
      {"reducer", reducer.name}, {"ranks", p.comm.size()}, {"bucket_mb", p.step.bucket_mb()}};
  if (!p.plan.shares.equal()) order["shares"] = p.plan.shares.counts();
  if (reducer.name == "nccl" && p.options.ranks.nccl_max_ctas > 0)
    order["ctas"] = p.options.ranks.nccl_max_ctas;
  return order;
}

/// A value of config.toml. Most values of TOML are JSON too.
Json typed(const std::string& value) {
  Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? Json(value) : parsed;
}

Json options_json(const Options& options) {
  Json object = Json::object();
  for (const OptionValue& option : options.values)
    if (!option.value.empty()) object[option.name] = typed(option.value);
  return object;
}

Json buckets_json(const TrainingStep& step) {
  std::vector<std::int64_t> bytes;
  for (const Range& bucket : step.buckets())
    bytes.push_back(bucket.count * static_cast<std::int64_t>(sizeof(float)));
  if (bytes.empty()) return nullptr;
  const auto [least, most] = std::ranges::minmax(bytes);
  return {{"count", bytes.size()}, {"smallest_bytes", least}, {"largest_bytes", most}};
}

Json memory_json(const RunParts& p) {
  Json memory = Json::object();
  for (const auto& [part, bytes] : p.memory) memory[part] = bytes;
  return memory;
}

Json places_json(const RunParts& p) {
  constexpr std::size_t kMostPlaces = 256;  // a list of 4096 ranks helps no reader
  std::vector<std::string> lines = placement_lines(p.comm, p.placement);
  lines.resize(std::min(lines.size(), kMostPlaces));
  return lines;
}

/// The first `count` words of the command line.
std::string command_of(const Options& options, int ranks, std::size_t count) {
  const auto begin = options.words.begin();
  return fmt::format("{}{}", ranks > 1 ? fmt::format("mpirun -np {} ", ranks) : "",
                     fmt::join(begin, begin + std::min(count, options.words.size()), " "));
}

/// The commands that resume and repeat the run from its config.toml; empty: it has no folder.
Json commands_json(const RunParts& p) {
  std::string resume;
  if (!p.folder.empty()) {
    resume =
        fmt::format("{} --config {} --run {}", command_of(p.options, p.comm.size(), 1),
                    shell_word(fmt::format("{}/{}", p.folder, kConfigFile)), shell_word(p.folder));
  }
  return {{"resume", resume}, {"repeat", resume.empty() ? "" : resume + " --new"}};
}

/// The names of the options whose `which` is true.
Json names_of(const Options& options, bool OptionValue::*which) {
  std::vector<std::string> names;
  for (const OptionValue& option : options.values)
    if (option.*which) names.push_back(option.name);
  return names;
}

Json communication_json(const RunParts& p) {
  return {{"reducer", p.step.reducer().traits().description},
          {"progress", policy_text(p.step.policy())},
          {"order", order_words(order_of_sums(p))},
          {"buckets", buckets_json(p.step)}};
}

/// Whether the rate before the end depends on the end. The schedule itself answers, so that a new
/// one needs no line here.
bool depends_on_end(const Options& options) {
  const RateOptions& rate = options.schedule.rate;
  const double middle = rate.warmup_epochs + 1;
  return learning_rate(rate, middle, 2 * middle) != learning_rate(rate, middle, 3 * middle);
}

/// The form of a value. `texts`: a text, or a list with that of each rank.
enum class Kind : std::uint8_t { text, number, list, object, texts };

/// A row of the table.
struct Fact {
  const char* name;
  Kind kind;
  /// The value; null: the run has no such fact. Collective if it asks other ranks.
  Json (*value)(const RunParts&);
  Meaning meaning = Meaning::free;
  const char* subject = "";  ///< Change::subject
  std::string (*words)(const Json&) = words_of;
  /// The value that the command line decides before anything is measured; null: none yet.
  Json (*chosen)(const Options&, int ranks) = nullptr;
  /// Whether another value counts; null: always.
  bool (*counts)(const Options&) = nullptr;
  bool free_if_portable = false;  ///< `meaning` is free between runs of portable arithmetic
};

const Fact kTable[] = {
    {"id", Kind::text, [](const RunParts& p) -> Json { return p.resumption.run; }},
    {"parent", Kind::text, [](const RunParts& p) -> Json { return p.resumption.parent; }},
    {"began", Kind::text, [](const RunParts& p) -> Json { return p.resumption.began; }},
    {"program", Kind::text, [](const RunParts& p) -> Json { return p.options.program; }},
    {"command", Kind::text,
     [](const RunParts& p) -> Json {
       return command_of(p.options, p.comm.size(), p.options.words.size());
     }},
    {"commands", Kind::object, commands_json},
    {"version", Kind::text, [](const RunParts&) -> Json { return version_name(); },
     Meaning::last_bits, "the version of Lockstep"},
    {"compiler", Kind::text, [](const RunParts&) -> Json { return compiler_name(); },
     Meaning::last_bits, "the compiler", words_of, nullptr, nullptr, /*free_if_portable=*/true},
    {"dataset", Kind::text, [](const RunParts& p) -> Json { return p.options.data.dataset; },
     Meaning::other_run, "--dataset", words_of,
     [](const Options& o, int) -> Json { return o.data.dataset; }},
    {"model", Kind::text, [](const RunParts& p) -> Json { return p.options.model.name; },
     Meaning::other_run, "--model", words_of,
     [](const Options& o, int) -> Json { return o.model.name; },
     [](const Options& o) { return o.model.network.empty(); }},
    {"network", Kind::text, [](const RunParts& p) -> Json { return p.options.model.network; },
     Meaning::other_run, "--model", network_words,
     [](const Options& o, int) -> Json { return o.model.network; }},
    {"precision", Kind::text,
     [](const RunParts& p) -> Json { return name_of(p.options.model.precision); }},
    {"options", Kind::object, [](const RunParts& p) { return options_json(p.options); },
     Meaning::free, "", words_of, [](const Options& o, int) { return options_json(o); }},
    {"changed_options", Kind::list,
     [](const RunParts& p) { return names_of(p.options, &OptionValue::changed); }},
    {"recipe_options", Kind::list,
     [](const RunParts& p) { return names_of(p.options, &OptionValue::of_recipe); }},
    {"seed", Kind::number, [](const RunParts& p) -> Json { return p.plan.seed; },
     Meaning::other_run, "--seed", words_of,
     [](const Options& o, int) { return o.schedule.seed_given ? Json(o.schedule.seed) : Json(); }},
    {"global_batch", Kind::number, [](const RunParts& p) -> Json { return p.plan.global_batch; },
     Meaning::other_run, "the global batch (--batch times the ranks)", words_of,
     [](const Options& o, int ranks) {
       return o.schedule.batch_given ? Json(shape_of(o, ranks).global_batch) : Json();
     }},
    {"shards", Kind::number, [](const RunParts& p) -> Json { return p.plan.shards; },
     Meaning::last_bits, "the number of shards"},
    {"steps", Kind::number, [](const RunParts& p) -> Json { return p.plan.steps; },
     Meaning::other_run, "--steps, on which --lr-schedule depends,", words_of, nullptr,
     depends_on_end},
    {"statistics", Kind::text, [](const RunParts& p) -> Json { return p.step.statistics(); },
     Meaning::other_run, "the batch of batch norm's statistics (--sync-bn)",
     [](const Json& value) { return statistics_text(words_of(value)); }},
    {"class_weights", Kind::list, [](const RunParts& p) -> Json { return p.plan.class_weights; },
     Meaning::other_run, "the weights of the classes (--class-weights)"},
    {"ranks", Kind::number, [](const RunParts& p) -> Json { return p.comm.size(); }},
    {"hosts", Kind::number, [](const RunParts& p) -> Json { return p.placement.hosts; }},
    {"host", Kind::text, [](const RunParts&) -> Json { return host_name(); }},
    {"threads", Kind::number, [](const RunParts& p) -> Json { return p.plan.threads; }},
    {.name = "all_threads",
     .kind = Kind::texts,
     .value =
         [](const RunParts& p) { return of_all_ranks(p.comm, std::to_string(p.plan.threads)); },
     .meaning = Meaning::last_bits,
     .subject = "the number of threads on each rank",
     .free_if_portable = true},
    {"sums", Kind::object, order_of_sums, Meaning::last_bits, "the order of sums", order_words},
    {"arithmetic", Kind::texts,
     [](const RunParts& p) {
       return of_all_ranks(p.comm, p.device.arithmetic(p.step.model().type()));
     },
     Meaning::last_bits, "the arithmetic"},
    {"files", Kind::text, [](const RunParts& p) -> Json { return p.data.identity; }},
    {"sample_format", Kind::object,
     [](const RunParts& p) { return Json::parse(to_text(p.data.train->format())); }},
    {"normalisation", Kind::object,
     [](const RunParts& p) {
       const std::string text = normalisation_of(*p.data.train);
       return text.empty() ? Json() : Json::parse(text);
     }},
    {"words", Kind::text, [](const RunParts& p) -> Json { return words_of_texts(p.data); }},
    {"class_names", Kind::list, [](const RunParts& p) -> Json { return p.data.class_names; }},
    {"data", Kind::text, [](const RunParts& p) -> Json { return p.data.train->describe(); }},
    {"device", Kind::text, [](const RunParts& p) -> Json { return p.device.traits().description; }},
    {"libraries", Kind::text,
     [](const RunParts& p) -> Json { return p.device.traits().libraries; }},
    {"placement", Kind::list, places_json},
    {"memory", Kind::object, memory_json},
    {"communication", Kind::object, communication_json},
    {"compute", Kind::object, [](const RunParts& p) -> Json {
       const double epochs = p.plan.epoch_at(p.plan.steps),
                    full = p.step.model().training_flops() * p.plan.own_shards;
       return {{"parameters", p.step.layout().trainable()},
               {"gflop_per_step_and_rank", full * p.step.work(0, epochs) / epochs * 1e-9}};
     }}};

bool is_of(Kind kind, const Json& value) {
  switch (kind) {
    case Kind::text:
      return value.is_string();
    case Kind::number:
      return value.is_number_integer();
    case Kind::list:
      return value.is_array();
    case Kind::object:
      return value.is_object();
    case Kind::texts:
      return value.is_string() || value.is_array();
  }
  return false;
}

/// Adds a change, unless there is one of the same subject.
void add(std::vector<Change>& changes, Meaning meaning, const std::string& name,
         const std::string& subject, const std::string& is, const std::string& was) {
  for (const Change& other : changes)
    if (other.subject == subject) return;
  std::string text = fmt::format("{} is {}, not {}", subject, is, was);
  if (is == kNotSet) text = fmt::format("{} is not set, and was {}", subject, was);
  if (was == kNotSet) text = fmt::format("{} is {}, and was not set", subject, is);
  changes.push_back({meaning, name, subject, text, was});
}

/// Adds the options that differ from those of `before`.
void compare_options(const Json& before, const Options& options, bool unnamed,
                     std::vector<Change>& changes) {
  constexpr std::array<std::string_view, 7> kOfCheckpoint = {
      "seed", "batch", "global-batch", "accumulate", "shards", "data", "resume"};
  for (const OptionValue& option : options.values) {
    const auto value = [](const std::string& text) { return text.empty() ? Json() : typed(text); };
    const Json is = value(option.value), was = before.value(option.name, value(option.by_default));
    const bool of_checkpoint = std::ranges::count(kOfCheckpoint, option.name) > 0;
    if ((option.shapes || (unnamed && of_checkpoint)) && is != was)
      add(changes, Meaning::other_run, option.name, "--" + option.name, words_of(is),
          words_of(was));
  }
}

/// The facts whose value_of(fact) is not null.
/// All ranks walk the table in its order, because some values are collective.
RunFacts facts_with(const auto& value_of) {
  Json values = Json::object();
  for (const Fact& fact : kTable)
    if (Json value = value_of(fact); !value.is_null()) values[fact.name] = std::move(value);
  return RunFacts(values);
}

}  // namespace

// Through text, so that facts of this start equal those that a file returns.
RunFacts::RunFacts(const Json& values) : values_(cleaned(Json::parse(json_text(values)))) {}

std::optional<RunFacts> RunFacts::read(const std::string& text) {
  const Json values = object_in(text);
  if (!values.is_object() || !values.value("options", Json::object()).is_object()) return {};
  return RunFacts(values);
}

RunFacts RunFacts::of(const std::filesystem::path& file, const CheckpointMetadata& metadata) {
  const std::string text = metadata.text(kFacts);
  if (text.empty()) {  // weights of another program
    Json values = Json::object();
    if (const std::string model = metadata.text("model"); !model.empty()) values["model"] = model;
    if (const std::string names = metadata.text("class_names"); !names.empty())
      values["class_names"] = lines_of(names);
    return RunFacts(values);
  }
  const auto facts = read(text);
  require(facts.has_value(), "{} is damaged: its facts are no JSON. Use another file.",
          file.string());
  for (const Fact& fact : kTable) {
    require(!facts->has(fact.name) || is_of(fact.kind, facts->value(fact.name)),
            "{} is damaged: its fact {} cannot be {}. Use another file.", file.string(), fact.name,
            facts->value(fact.name).dump().substr(0, 100));
  }
  return *facts;
}

std::string RunFacts::text(const std::string& name) const {
  const Json found = value(name);
  return found.is_string() ? found.get<std::string>() : "";
}

std::vector<std::string> RunFacts::texts(const std::string& name) const {
  std::vector<std::string> result;
  for (const Json& text : value(name)) result.push_back(words_of(text));
  return result;
}

bool RunFacts::portable() const {
  const std::vector<std::string> all = texts("arithmetic");
  return !all.empty() && std::ranges::all_of(all, [](const std::string& text) {
    return text.starts_with(kPortableArithmetic);
  });
}

std::int64_t RunFacts::number(const std::string& name) const {
  const Json found = value(name);
  return found.is_number_integer() ? found.get<std::int64_t>() : 0;
}

std::string RunFacts::object_text(const std::string& name) const {
  return has(name) ? json_text(value(name)) : "";
}

std::string RunFacts::dump() const { return json_text(values_); }

RunFacts facts_of(const RunParts& parts) {
  return facts_with([&](const Fact& fact) { return fact.value(parts); });
}

RunFacts chosen_facts(const Options& options, int ranks) {
  return facts_with(
      [&](const Fact& fact) { return fact.chosen ? fact.chosen(options, ranks) : Json(); });
}

std::string Change::note() const {
  return fmt::format("{} as before: {}", text,
                     meaning == Meaning::other_run ? "this is no longer the same run"
                                                   : "the last bits of weights may differ");
}

std::vector<Change> differences(const RunFacts& before, const RunFacts& now, const Options& options,
                                bool unnamed) {
  std::vector<Change> changes;
  const std::string file = before.text("network"), own = now.text("network");
  const bool two_files = !file.empty() && !own.empty();
  if (const std::string text = two_files ? network_difference(file, own) : ""; !text.empty()) {
    changes.push_back(
        {Meaning::other_run, "network", "--model",
         fmt::format("the network of --model {} differs: {}", options.model.given, text), ""});
  }
  const bool portable = before.portable() && now.portable();
  for (const Fact& fact : kTable) {
    const bool both = before.has(fact.name) && now.has(fact.name);
    if (!both || fact.meaning == Meaning::free || (fact.counts && !fact.counts(options))) continue;
    if (portable && fact.free_if_portable) continue;
    if (two_files && std::string_view(fact.name) == "network") continue;
    const Json is = now.value(fact.name), was = before.value(fact.name);
    if (is == was) continue;
    add(changes, fact.meaning, fact.name, fact.subject, fact.words(is), fact.words(was));
  }
  if (before.has("options")) compare_options(before.value("options"), options, unnamed, changes);
  return changes;
}

std::string other_run_text(const std::vector<Change>& changes) {
  std::vector<std::string> texts;
  for (const Change& change : changes)
    if (change.meaning == Meaning::other_run) texts.push_back(change.text);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string policy_text(Policy policy) {
  for (const PolicyEntry& entry : policies())
    if (entry.policy == policy) return fmt::format("{}: {}", entry.name, entry.about);
  return "";
}

}  // namespace lockstep
