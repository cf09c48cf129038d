#include "net/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/files/file_kind.h"
#include "src/files/hdf5.h"

namespace lockstep {
namespace {

/// The step that a file name stands for: "step-0000001000.h5". Nothing for other names. A name must
/// be exactly the one that is written for its step. So a copy with a longer name is no checkpoint,
/// and no step has two files.
std::optional<std::int64_t> step_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  std::int64_t step = -1;
  if (name.starts_with("step-")) std::from_chars(&name[5], &name[name.size()], step);
  return step >= 0 && name == checkpoint_name(step) ? std::optional(step) : std::nullopt;
}

/// Throws unless `checkpoint` holds `section` with exactly the parameters of `layout`. Those of the
/// layer `without` may have other shapes.
void compare(const Checkpoint& checkpoint, const Hdf5Reader& reader, const Layout& layout,
             const Section& section, int without) {
  const std::string file = checkpoint.file().string();
  const std::string prefix = section.name + "/";
  std::set<std::string> spare;
  for (const std::string& name : reader.arrays()) {
    if (name.starts_with(prefix)) spare.insert(name);
  }
  if (spare.empty()) {
    fail(
        "{} has no section '{}', because its run had other options. Pass the same options, or use "
        "another checkpoint or checkpoint directory.",
        file, section.name);
  }
  const auto differs = [&](const std::string& difference) {
    const auto& texts = checkpoint.metadata().texts;
    const auto model = texts.find("model");
    fail(
        "{} belongs to another model{}: {}. Use that model, or another checkpoint or checkpoint "
        "directory.",
        file, model != texts.end() ? " ('" + model->second + "')" : "", difference);
  };
  for (const Parameter& parameter : layout.parameters) {
    if (!section.holds(parameter)) continue;
    const std::string name = prefix + parameter.name;
    if (spare.erase(name) == 0)
      differs(fmt::format("it has no {} ({})", name, parameter.shape.text()));
    const Shape there = reader.shape(name);
    if (there != parameter.shape && parameter.layer != without) {
      differs(fmt::format("{} is {} in the file and {} in this model", name, there.text(),
                          parameter.shape.text()));
    }
  }
  if (!spare.empty()) differs(fmt::format("it has {}, which this model lacks", *spare.begin()));
}

/// Texts lose their control characters here, because the file may come from others: the name of a
/// class could command the terminal.
CheckpointMetadata facts_of(const Hdf5Reader& reader, const std::filesystem::path& file) {
  CheckpointMetadata metadata;
  metadata.position = {reader.integer("step"), reader.integer("samples"), reader.integer("epoch"),
                       reader.unsigned_integer("seed")};
  for (const auto& [name, value] :
       {std::pair("step", metadata.position.step), std::pair("samples", metadata.position.samples),
        std::pair("epoch", metadata.position.epoch)}) {
    if (value < 0 || value > kLastSample)
      fail("{} is damaged: it contains {} {}. Use another file.", file.string(), name, value);
  }
  for (const auto& [name, value] : reader.attributes()) {
    if (const auto* text = std::get_if<std::string>(&value))
      metadata.texts[printable(name)] = printable(*text);
  }
  return metadata;
}

}  // namespace

std::vector<ConstSection> read_only(const std::vector<Section>& sections) {
  std::vector<ConstSection> result;
  for (const Section& section : sections)
    result.push_back({section.name, section.arena, section.trained_only});
  return result;
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:010}.h5", step); }

std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const Layout& layout,
                                      const std::vector<ConstSection>& sections,
                                      const CheckpointMetadata& metadata) {
  const auto file = directory / checkpoint_name(metadata.position.step);
  Hdf5Writer writer(file);
  writer.attribute("step", metadata.position.step);
  writer.attribute("samples", metadata.position.samples);
  writer.attribute("epoch", metadata.position.epoch);
  writer.attribute("seed", metadata.position.seed);
  for (const auto& [name, text] : metadata.texts) writer.attribute(name, text);
  for (const ConstSection& section : sections) {
    for (const Parameter& parameter : layout.parameters) {
      if (!section.holds(parameter)) continue;
      writer.array(section.name + "/" + parameter.name, parameter.shape, section.values(parameter));
    }
  }
  writer.commit();
  return file;
}

std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& directory) {
  std::vector<std::pair<std::int64_t, std::filesystem::path>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto step = step_of(entry->path())) found.emplace_back(*step, entry->path());
  }
  // Any other error must not look like an empty directory, or the run would begin again at step 0.
  if (error && error != std::errc::no_such_file_or_directory) {
    fail("cannot read the checkpoint directory {}: {}. Use another one.", directory.string(),
         error.message());
  }
  std::ranges::sort(found, std::ranges::greater{});
  std::vector<std::filesystem::path> files;
  for (auto& [step, file] : found) files.push_back(std::move(file));
  return files;
}

Checkpoint::Checkpoint(std::filesystem::path file) : file_(std::move(file)) {
  read_complete(file_, [&] {
    require_kind(file_, kCheckpointFile);
    reader_ = std::make_unique<Hdf5Reader>(file_);
    metadata_ = facts_of(*reader_, file_);
  });
}

Checkpoint::~Checkpoint() = default;

bool Checkpoint::has(const std::string& section) const {
  return std::ranges::any_of(
      reader_->arrays(), [&](const std::string& name) { return name.starts_with(section + "/"); });
}

void Checkpoint::verify() const {
  read_complete(file_, [&] { reader_->verify(); });
}

std::optional<Shape> Checkpoint::shape(const Section& section, const Parameter& parameter) const {
  const std::string name = section.name + "/" + parameter.name;
  return reader_->has(name) ? std::optional(reader_->shape(name)) : std::nullopt;
}

void Checkpoint::load(const Layout& layout, const std::vector<Section>& sections,
                      int without) const {
  for (const Section& section : sections) compare(*this, *reader_, layout, section, without);
  for (const Section& section : sections) {
    for (const Parameter& parameter : layout.parameters) {
      if (!section.holds(parameter) || parameter.layer == without) continue;
      reader_->array(section.name + "/" + parameter.name, section.values(parameter));
    }
  }
}

CheckpointMetadata read_metadata(const std::filesystem::path& file) {
  return Checkpoint(file).metadata();
}

void verify_checkpoint(const std::filesystem::path& file) { Checkpoint(file).verify(); }

Newest newest_good(const std::filesystem::path& directory) {
  Newest result;
  for (const std::filesystem::path& file : list_checkpoints(directory)) {
    // Taken before the read: if the file has changed since, it is being copied and not damaged.
    const std::optional<FileStamp> before = stamp_of(file);
    try {
      verify_checkpoint(file);
      result.file = file;
      return result;
    } catch (const Error& error) {
      // The run that writes here may have removed it since it was listed: nothing to warn of.
      if (is_gone(file)) continue;
      // A file that cannot be read now is not damaged. An older one in its place would lose steps,
      // and the run would write over the newer ones.
      if (dynamic_cast<const UnreadableFile*>(&error) != nullptr) throw;
      if (before) require_unchanged(*before);
      result.warnings.push_back(fmt::format("skipping a checkpoint: {}", error.what()));
    }
  }
  if (!result.warnings.empty()) {
    fail(
        "none of the {} checkpoints in {} can be read (the newest: {}). Use another "
        "directory.",
        result.warnings.size(), directory.string(), result.warnings.front());
  }
  return result;
}

bool CheckpointPruner::is_good(const std::filesystem::path& file,
                               std::vector<std::string>& warnings) {
  const std::optional<FileStamp> stamp = stamp_of(file);
  const auto known = known_.find(file);
  if (known != known_.end() && known->second.stamp == stamp) return known->second.good;
  bool good = true;
  try {
    verify_checkpoint(file);
  } catch (const Error& error) {
    good = false;
    if (!is_gone(file))
      warnings.push_back(fmt::format("--keep does not count a checkpoint: {}", error.what()));
    if (dynamic_cast<const UnreadableFile*>(&error) != nullptr) return good;  // look again
  }
  known_[file] = {stamp, good};
  return good;
}

std::vector<std::string> CheckpointPruner::prune(const std::filesystem::path& newest) {
  std::vector<std::string> warnings;
  if (keep_ == 0) return warnings;
  constexpr double kSeconds = 60;
  const double begin = now_seconds();
  // The run has just written it, so that it is not read again.
  known_[newest] = {stamp_of(newest), true};
  const std::vector<std::filesystem::path> files = list_checkpoints(directory_);
  int good = 0;
  for (auto file = std::ranges::find(files, newest);
       file != files.end() && now_seconds() - begin < kSeconds; ++file) {
    if (!is_good(*file, warnings) || ++good <= keep_) continue;
    std::error_code error;
    std::filesystem::remove(*file, error);
    if (!error) known_.erase(*file);
    if (error && !std::exchange(warned_, true)) {
      warnings.push_back(fmt::format(
          "cannot remove the old checkpoint {}: {}. Check the permissions of its folder.",
          file->string(), error.message()));
    }
  }
  return warnings;
}

}  // namespace lockstep
