#include "apps/record/checkpoint_use.h"

#include <tuple>
#include <utility>

#include "apps/record/broadcast.h"
#include "apps/record/data_facts.h"
#include "apps/record/progress.h"
#include "apps/record/run_facts.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/normalisation.h"
#include "src/data/validation.h"
#include "src/device/devices.h"
#include "src/files/file.h"
#include "src/report/report.h"
#include "src/report/stored_run.h"

// A checkpoint describes itself: network, classes, form and normalisation of samples, place of the
// data. So the programs that use it need no options of its training. Only rank 0 opens files, and
// describe() sends what it found to the other ranks.
namespace lockstep {

namespace {

Split split_of(const RunFacts& facts) {
  const RunFacts::Json share = facts.option("validation"), seed = facts.option("split-seed");
  Split split;
  if (share.is_number()) split.share = share.get<double>();
  if (seed.is_number()) split.seed = seed.get<std::uint64_t>();
  if (const std::string fold = text_in(facts.values(), "/options/fold"); !fold.empty())
    split.read_fold(fold);
  return split;
}

/// The facts about its images, some of which are options of its run.
DataOfCheckpoint images_of(const RunFacts& facts) {
  std::vector<std::string> folders;
  for (const RunFacts::Json& folder : facts.option("data"))  // a text, or an array of several
    if (folder.is_string()) folders.push_back(folder.get<std::string>());
  return {.class_names = facts.texts("class_names"),
          .normalisation = facts.object_text("normalisation"),
          .format = facts.object_text("sample_format"),
          .identity = facts.text("files"),
          .place = {folders, text_in(facts.values(), "/options/labels")},
          .validation = split_of(facts),
          .check = text_in(facts.values(), "/options/check-images")};
}

EvaluatedCheckpoint describe(const std::string& file, const CheckpointMetadata& metadata,
                             bool averaged, const std::string& weights) {
  const RunFacts facts = RunFacts::of(file, metadata);
  for (const char* name :
       {"dataset", "model", "precision", "files", "class_names", "sample_format"}) {
    require(facts.has(name),
            "{} does not name its {}: no training program wrote it. Use another file.", file, name);
  }
  EvaluatedCheckpoint result{.file = file,
                             .dataset = facts.text("dataset"),
                             .model = facts.text("model"),
                             .precision = facts.text("precision"),
                             .program = facts.text("program"),
                             .weights = weights,
                             .network = facts.text("network"),
                             .images = images_of(facts),
                             .step = metadata.position.step,
                             .seed = metadata.position.seed};
  if (weights == "ema" && !averaged)
    fail_usage("{} contains no moving average of the weights. Pass --weights raw.", file);
  if (weights == "auto") result.weights = averaged ? "ema" : "raw";
  result.images.vocabulary = metadata.text(kVocabulary);
  try {
    const SampleFormat format = format_from(result.images.format);
    require(!is_normalised(format) || facts.has("normalisation"),
            "it does not name its normalisation: no training program wrote it. Use another file.");
    if (is_normalised(format))
      normalisation_from(result.images.normalisation, format.size.channels);
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
  return result;
}

/// Throws the usage Error if `registry` lacks `name`: a program of the user's own may have it.
template <class Entry>
void require_known(std::span<const Entry> registry, std::string_view name,
                   const EvaluatedCheckpoint& checkpoint) {
  if (find_or_null(registry, name)) return;
  const std::string program = one_line(checkpoint.program);
  fail_usage(
      "{} has the {} {}, which is unknown here. If {} is your own program, pass the same words to "
      "{} evaluate, classify or export.",
      checkpoint.file, Entry::kind, one_line(std::string(name)),
      program.empty() ? "the one that trained it" : program, program.empty() ? "it" : program);
}

std::unique_ptr<Checkpoint> verified(const std::filesystem::path& file) {
  auto checkpoint = std::make_unique<Checkpoint>(file);
  checkpoint->verify();
  return checkpoint;
}

/// The folder itself, or checkpoints/ in it.
std::filesystem::path files_in(const std::filesystem::path& folder) {
  std::error_code unreadable;
  std::filesystem::path inner = folder / "checkpoints";
  return std::filesystem::is_directory(inner, unreadable) ? inner : folder;
}

}  // namespace

ModelEntry EvaluatedCheckpoint::entry() const {
  if (network.empty()) require_known(models(), model, *this);
  return model_called(model, network, file + "/" + kNetworkFile);
}

const DatasetEntry& EvaluatedCheckpoint::source() const {
  require_known(datasets(), dataset, *this);
  return find(datasets(), dataset);
}

std::unique_ptr<Checkpoint> CheckpointFolder::next() {
  // A listed file that vanishes made room for a newer one: list again. No run that trains removes
  // files so fast for so long.
  constexpr int kLists = 1000;
  bool vanished = true;
  const std::filesystem::path folder = files_in(directory_);
  for (int list = 0; vanished && list < kLists; ++list) {
    vanished = false;
    for (const std::filesystem::path& file : list_checkpoints(folder)) {
      // The list begins with the newest file. The one of the last call shows that no newer one is
      // whole.
      const std::optional<FileStamp> stamp = stamp_of(file);
      if (stamp && stamp == last_) return nullptr;
      if (stamp && damaged_.contains(*stamp)) continue;
      try {
        auto checkpoint = verified(file);
        // The run saves its last step again when it has evaluated it. The new file has another
        // stamp, but the same step of the same run, and is not returned twice.
        last_ = stamp;
        const CheckpointMetadata& metadata = checkpoint->metadata();
        const auto state = std::pair(RunFacts::of(file, metadata).text("id"), metadata.position);
        return std::exchange(last_state_, state) == state ? nullptr : std::move(checkpoint);
      } catch (const Error& error) {
        // A run replaces a file by another one. The same inode was changed by another program.
        const auto now = stamp_of(file);
        vanished = !now || !stamp || std::get<1>(*now) != std::get<1>(*stamp);
        if (vanished) break;
        // A file that cannot be read now may be whole. Skipping it would choose an older one in
        // silence.
        if (dynamic_cast<const UnreadableFile*>(&error) != nullptr) throw;
        require_unchanged(*stamp);
        damaged_.insert(*stamp);
        warn_(fmt::format("skipping a checkpoint: {}", error.what()));
      }
    }
  }
  return nullptr;
}

std::filesystem::path checkpoint_folder(const std::string& run) {
  std::error_code unreadable;  // opening the file reports the error
  std::filesystem::path path = path_of_run(run);
  return std::filesystem::is_directory(path, unreadable) ? path : std::filesystem::path();
}

namespace {

/// The reason to choose best.h5, which this is.
std::string reason_of_best(const Checkpoint& checkpoint) {
  const std::int64_t step = checkpoint.metadata().position.step;
  try {
    const BestEvaluation best = RunProgress::from(checkpoint.metadata()).best;
    if (best.step == step)
      return (best.by == "accuracy" ? "best accuracy " : "best ") + best.shown();
  } catch (const std::exception&) {  // a file of another program
  }
  return fmt::format("best, step {}", step);
}

/// The checkpoint of `step` in the folder `files`, which may only be one of the best
/// any more.
ChosenCheckpoint of_step(const std::filesystem::path& files, const std::string& step) {
  const std::int64_t number = parse_number<std::int64_t>("--which", step, Bounds::at_least(0));
  const std::filesystem::path file = files / checkpoint_name(number), best = files / kBestFile;
  // --keep removes old checkpoints, but the best ones have copies under other names.
  if (!is_gone(file)) return {verified(file), "step " + step};
  if (const auto kept = files / best_name(number); !is_gone(kept))
    return {verified(kept), fmt::format("among the best, step {}", number)};
  if (!is_gone(best) && read_metadata(best).position.step == number)
    return {verified(best), fmt::format("best, step {}", number)};
  std::vector<std::string> steps;
  for (const std::filesystem::path& other : list_checkpoints(files))
    steps.push_back(std::to_string(std::stoll(other.stem().string().substr(5))));
  fail_usage("{} has no checkpoint of step {}, but {}. Pass another --which.", files.string(),
             number, steps.empty() ? "none of any" : "of " + listed(steps));
}

}  // namespace

void ChosenCheckpoint::print() const {
  if (!reason.empty()) Console().line(fmt::format("{:<12} {}", "model", text()));
}

ChosenCheckpoint open_checkpoint(const CheckpointChoice& choice,
                                 std::function<void(const std::string&)> warn) {
  const std::filesystem::path folder = checkpoint_folder(choice.run);
  const bool best = choice.which == "best", last = choice.which == "last";
  if (folder.empty()) {
    // A name without an extension is meant as a run, so the error speaks of runs.
    const std::filesystem::path file = path_of_run(choice.run);
    if (!file.has_extension() && is_gone(file)) fail_no_run(choice.run);
    if (!best)
      fail_usage("--which {} needs a run, and {} is a file. Omit it.", choice.which, file.string());
    return {verified(file)};
  }
  const std::filesystem::path files = files_in(folder);
  if (!best && !last) return of_step(files, choice.which);
  if (best && !is_gone(files / kBestFile)) {
    ChosenCheckpoint chosen{verified(files / kBestFile)};
    chosen.reason = reason_of_best(*chosen.checkpoint);
    return chosen;
  }
  auto newest = CheckpointFolder(folder, std::move(warn)).next();
  require(newest != nullptr,
          "{} contains no whole checkpoint (step-NNNNNNNNNN.h5). Use another folder.",
          folder.string());
  const std::int64_t step = newest->metadata().position.step;
  return {std::move(newest), fmt::format("newest, step {}{}", step, best ? ", no best.h5" : "")};
}

void CheckpointChoice::complain(const std::string& text) const {
  print_error(fmt::format("{}: {}\n", program, text));
}

void CheckpointChoice::declare(OptionRows& rows) {
  rows.group("Options");
  rows.text("RUN", run, "", "Name of a run in runs/, folder of a run, or file of a checkpoint")
      .example("runs/first");
  rows.text("--which", which, "WHICH",
            "Checkpoint of the run: best, last or a step\n"
            "best is best.h5, or the newest one if the run has none. last is the newest one.",
            [](const std::string& word) {
              if (word.find_first_not_of("0123456789") != word.npos && word != "best" &&
                  word != "last")
                fail_usage("--which {} is no checkpoint. Pass best, last or a step.",
                           one_line(word));
            })
      .suggests({"best", "last"})
      .example("last");
  rows.choice("--weights", weights, "NAME",
              "Weights: auto, ema or raw\n"
              "ema is the moving average. auto is ema if the checkpoint has it, otherwise raw.",
              {"auto", "ema", "raw"})
      .example("raw");
}

void CheckpointUse::declare(OptionRows& rows) {
  CheckpointChoice::declare(rows);
  rows.choice("--precision", precision, "TYPE", "Type of activations: fp32 or bf16 [as trained]",
              {"fp32", "bf16"});
  rows.text("--device", device, "NAME", "Device (see train_cifar --list)",
            [](const std::string& name) { find_device(name); })
      .suggests(names_of(devices()));
  rows.optional_number("--threads", threads, Bounds::at_least(1),
                       "Threads per rank [an equal share of the node's cores]")
      .example("2");
}

EvaluatedCheckpoint describe(const Comm& comm, const Checkpoint* checkpoint,
                             const std::string& weights) {
  // Last the facts of its run's last start, which knows where the data are now.
  std::tuple<std::string, CheckpointMetadata, bool, std::string> content;
  agree_on_rank_0(comm, [&] {
    if (!checkpoint) return;
    const std::filesystem::path& file = checkpoint->file();
    content = {file.string(), checkpoint->metadata(), checkpoint->has("ema"), ""};
    const auto facts = stored_facts(file.parent_path().parent_path());
    const RunFacts own = RunFacts::of(file, checkpoint->metadata());
    if (facts && facts->text("id") == own.text("id")) std::get<3>(content) = facts->dump();
  });
  content = broadcast_object(comm, content);
  EvaluatedCheckpoint result;
  agree(comm, [&] {
    const auto& [file, metadata, averaged, last] = content;
    result = describe(file, metadata, averaged, weights);
    if (const auto facts = RunFacts::read(last)) result.images.place = images_of(*facts).place;
  });
  return result;
}

SampleFormat sample_format(const EvaluatedCheckpoint& checkpoint) {
  SampleFormat format = format_from(checkpoint.images.format);
  require(format.shape().count() > 0,
          "{} was trained on a data set without a form of its samples. Pass a SampleFormat to the "
          "constructor of its Dataset.",
          checkpoint.file);
  if (is_normalised(format))
    format.normalisation =
        normalisation_from(checkpoint.images.normalisation, format.size.channels);
  return format;
}

DataPlace data_of_run(const EvaluatedCheckpoint& checkpoint, DataPlace asked) {
  const DataPlace& run = checkpoint.images.place;
  const bool takes_tables = checkpoint.dataset == "folder";
  std::error_code unreadable;  // opening the data reports the error
  if (!takes_tables && (!asked.labels.empty() || asked.several()))
    fail_usage("{} was trained on the data set {}, which takes one --data and no --labels.",
               checkpoint.file, checkpoint.dataset);
  // Generated samples have no place.
  if (checkpoint.source().files.empty()) return asked;
  const auto require_there = [&](const std::string& path, const char* option) {
    if (std::filesystem::status(path, unreadable).type() == std::filesystem::file_type::not_found)
      fail_usage("{} was trained on {}, which does not exist here. Pass {}{}.", checkpoint.file,
                 one_line(path), option, run.several() ? " for each folder" : "");
  };
  // Labels of the run describe files of its own folder. For another folder they would be wrong.
  const bool own = asked.folders.empty() ||
                   std::filesystem::equivalent(asked.folder(), run.folder(), unreadable);
  if (asked.folders.empty() && run.folders.empty())
    fail_usage("{} does not name its folder of data. Pass --data DIR.", checkpoint.file);
  if (asked.folders.empty()) {
    asked = {run.folders, asked.labels};
    for (const std::string& folder : asked.folders) require_there(folder, "--data DIR");
  }
  if (takes_tables && own && asked.labels.empty() && !run.labels.empty())
    require_there(asked.labels = run.labels, "--labels FILE");
  return asked;
}

OpenedData open_test_set(const EvaluatedCheckpoint& checkpoint, const DataPlace& place,
                         const HostRanks& host, std::vector<std::string>& notes) {
  const DatasetEntry& entry = checkpoint.source();
  const bool generated = entry.files.empty();
  if (generated && !place.folders.empty())
    fail_usage("{} was trained on the generated set. Omit --data.", checkpoint.file);
  const bool test_only = entry.open_test != nullptr;
  // The network expects the images of its training, so their form comes from the checkpoint. The
  // user's options have no say in it.
  const SampleFormat format = format_from(checkpoint.images.format);
  DataSource source{.place = place,
                    .seed = checkpoint.seed,
                    .validation = checkpoint.images.validation,
                    .host = host};
  if (format.files) source.images.size = static_cast<int>(format.size.height);
  if (format.size.channels == 1) source.images.colours = "grey";
  source.images.check = checkpoint.images.check;
  require_source(entry, source);
  OpenedData data =
      test_only ? entry.open_test(source, checkpoint.images) : open_data(entry, source);
  if (!data.test) data.test = std::move(data.validation);
  notes.insert(notes.end(), data.notes.begin(), data.notes.end());
  normalise(*data.test, checkpoint.images.normalisation, checkpoint.file);
  const std::string difference =
      first_other_file(checkpoint.images.identity, data.identity, test_only);
  if (!difference.empty()) {
    notes.push_back(fmt::format("the data differ from those that {} was trained on: {}",
                                checkpoint.file, difference));
    if (entry.own) notes.push_back(note_of_trained(checkpoint.file, *data.test));
    if (notes.back().empty()) notes.pop_back();
  }
  if (checkpoint.images.class_names.size() == data.class_names.size())
    data.class_names = checkpoint.images.class_names;
  return data;
}

}  // namespace lockstep
