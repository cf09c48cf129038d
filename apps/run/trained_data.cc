#include "apps/run/trained_data.h"

#include <algorithm>
#include <map>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/standard.h"

namespace lockstep {
namespace {

struct Entry {
  std::string name, value;
};

/// The lines "name = value"; the value is empty if a line has none.
std::vector<Entry> entries_of(const std::string& identity) {
  constexpr std::string_view kIs = " = ";
  std::vector<Entry> entries;
  for (const std::string& line : lines_of(identity)) {
    const std::size_t is = std::min(line.find(kIs), line.size());
    entries.push_back({line.substr(0, is), line.substr(std::min(is + kIs.size(), line.size()))});
  }
  return entries;
}

/// "new are wolf; missing are cat"; empty if both lists hold the same names.
std::string other_classes(const std::vector<std::string>& before,
                          const std::vector<std::string>& now) {
  const std::vector<std::string> added = missing_from(before, now),
                                 lost = missing_from(now, before);
  std::vector<std::string> parts;
  if (!added.empty()) parts.push_back("new are " + listed(added));
  if (!lost.empty()) parts.push_back("missing are " + listed(lost));
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// The model fits, but its last layer is of other classes.
void compare_classes(const Options& options, const CheckpointMetadata& initial,
                     const DatasetPair& data, std::vector<std::string>& notes) {
  const std::vector<std::string> before = lines_of(text_of(initial, kClassNames));
  if (before.empty() || before == data.class_names ||
      text_of(initial, "model") != options.model.name)
    return;
  if (before.size() != data.class_names.size()) {
    fail(
        "{} was trained on {} classes ({}), and the data hold {} ({}); --init needs the same "
        "number of classes",
        options.model.init, before.size(), listed(before), data.class_names.size(),
        listed(data.class_names));
  }
  const std::string difference = other_classes(before, data.class_names);
  notes.push_back(fmt::format("the classes of {} are others than those of the data: {}",
                              options.model.init,
                              difference.empty() ? "their order differs" : difference));
}

/// Whether the training images decide how a network sees an image.
bool has_normalisation(const Dataset& data) {
  return data.format().kind == SampleFormat::Kind::images && data.format().moved;
}

}  // namespace

std::string text_of(const CheckpointMetadata& metadata, const char* name) {
  const auto found = metadata.texts.find(name);
  return found == metadata.texts.end() ? "" : found->second;
}

std::string first_other_file(const std::string& before, const std::string& now, bool only_now) {
  std::map<std::string, std::string> present;
  for (const Entry& entry : entries_of(now)) present[entry.name] = entry.value;
  for (const Entry& entry : entries_of(before)) {
    const auto found = present.extract(entry.name);
    if (found && found.mapped() != entry.value)
      return fmt::format("{} = {}, not {}", entry.name, found.mapped(), entry.value);
    if (!found && !only_now) return entry.name + " is missing";
  }
  return present.empty() ? "" : present.begin()->first + " is new";
}

void require_same_data(const Resumption& resumption, const std::string& identity,
                       const std::vector<std::string>& class_names,
                       std::vector<std::string>& notes) {
  if (resumption.file.empty()) return;
  const std::string name = std::filesystem::path(resumption.file).filename();
  const std::string before = text_of(resumption.metadata, "data");
  if (before.empty()) {
    notes.push_back(fmt::format(
        "{} is of an early version and does not say on which data it was trained", name));
    return;
  }
  const std::string difference = first_other_file(before, identity);
  if (difference.empty()) return;
  const auto trained = lines_of(text_of(resumption.metadata, kClassNames));
  if (const std::string classes = other_classes(trained, class_names);
      !trained.empty() && !classes.empty()) {
    fail_usage(
        "{} was trained on other classes: {}; pass --data with the classes that it had, or train "
        "anew in another --checkpoint-dir",
        name, classes);
  }
  fail_usage(
      "{} was trained on other data: {}; say --data with the files that it had, or train anew in "
      "another --checkpoint-dir",
      name, difference);
}

std::string normalisation_of(const Dataset& data) {
  if (!has_normalisation(data)) return "";
  return to_text(data.format().standard, data.format().size.channels);
}

void normalise(Dataset& data, const std::string& text, const std::string& file) {
  if (text.empty() || !has_normalisation(data)) return;
  try {
    data.standardise(standard_from(text, data.format().size.channels));
  } catch (const Error& error) {
    fail("{} does not fit these images: {}", file, error.what());
  }
}

void follow_checkpoint(const Options& options, const Resumption& resumption, DatasetPair& data,
                       std::vector<std::string>& notes) {
  const bool resumed = !resumption.file.empty();
  if (!resumed && options.model.init.empty()) return;
  const std::string file = resumed ? resumption.file : options.model.init,
                    own = normalisation_of(*data.train),
                    text =
                        text_of(resumed ? resumption.metadata : resumption.initial, kNormalisation);
  if (!resumed) compare_classes(options, resumption.initial, data, notes);
  normalise(*data.train, text, file);
  normalise(*data.test, text, file);
  if (resumed || own.empty() || text == own) return;
  if (!text.empty()) {
    notes.push_back(fmt::format(
        "images are normalised as for the weights of {}, not by the training images: {}", file,
        text));
  } else if (find(datasets(), options.data.dataset).own) {
    notes.push_back(fmt::format(
        "{} holds no normalisation, so the training images give mean and deviation", file));
  }
}

}  // namespace lockstep
