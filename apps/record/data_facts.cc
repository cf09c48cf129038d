#include "apps/record/data_facts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/normalisation.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

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

/// "150, crc32c of names and sizes 6f3c9a01" is "150".
/// For people, a count of files tells more than a checksum.
std::string without_checksums(const std::string& value) {
  const std::string text = ", " + value;
  return text.substr(2, std::max<std::size_t>(text.find(", crc32c"), 2) - 2);
}

}  // namespace

std::string normalisation_of(const Dataset& data) {
  const SampleFormat& format = data.format();
  return is_normalised(format) ? to_text(format.normalisation, format.size.channels) : "";
}

std::string words_of_texts(const OpenedData& data) {
  if (data.vocabulary.empty()) return "";
  return fmt::format("{}, crc32c {:08x}", 1 + std::ranges::count(data.vocabulary, '\n'),
                     crc32c(data.vocabulary));
}

std::string first_other_file(const std::string& before, const std::string& now, bool only_now) {
  constexpr std::string_view kIs = " = ";
  // Only some identities contain a checksum of the contents. It counts if both have it.
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

void keep_fingerprints(const std::filesystem::path& folder, const OpenedData& data) {
  std::vector<std::uint64_t> all;
  for (const Dataset* set : {data.train.get(), data.validation.get()})
    for (std::int64_t i = 0; set != nullptr && i < set->size(); ++i)
      all.push_back(set->fingerprint(i));
  // For the binary search in note_of_trained().
  std::ranges::sort(all);
  replace_file(folder / kFingerprints,
               {reinterpret_cast<const char*>(all.data()), all.size() * sizeof all[0]});
}

std::string note_of_trained(const std::filesystem::path& checkpoint, const Dataset& test) {
  // The run's folder is two levels above: checkpoints/ lies in it.
  const auto folder = std::filesystem::absolute(checkpoint).parent_path().parent_path();
  const std::string text = read_file(folder / kFingerprints).value_or("");
  const std::span all(reinterpret_cast<const std::uint64_t*>(text.data()),
                      text.size() / sizeof(std::uint64_t));
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < test.size() && !all.empty(); ++i)
    count += std::ranges::binary_search(all, test.fingerprint(i));
  if (count == 0) return "";
  return fmt::format(
      "{} of {} evaluated samples are training samples of this run, or validation samples. The "
      "accuracy is too high.",
      count, test.size());
}

void require_same_data(const Resumption& resumption, const OpenedData& data) {
  if (resumption.file.empty()) return;
  const RunFacts& before = resumption.before;
  const std::string difference = first_other_file(before.text("files"), data.identity);
  if (difference.empty()) return;
  const std::string name = std::filesystem::path(resumption.file).filename();
  const std::string with_its_weights =
      fmt::format("use --new. Add --init {} to begin with its weights", resumption.file);
  // Other classes come with other files, and name the mistake more clearly.
  if (const std::string classes = other_classes(before.texts("class_names"), data.class_names);
      !classes.empty()) {
    fail_usage("{} was trained on other classes: {}. Pass --data with its classes, or {}.", name,
               classes, with_its_weights);
  }
  fail_usage("{} was trained on other data: {}. Pass --data with its files, or {}.", name,
             difference, with_its_weights);
}

void normalise(Dataset& data, const std::string& text, const std::string& file) {
  if (text.empty() || !is_normalised(data.format())) return;
  try {
    data.standardise(normalisation_from(text, data.format().size.channels));
  } catch (const Error& error) {
    fail("{} does not fit these images: {}", file, error.what());
  }
}

bool has_other_classes(const Resumption& resumption, const std::string& model,
                       const OpenedData& data) {
  const std::vector<std::string> before = resumption.initial.texts("class_names");
  return !before.empty() && before != data.class_names && resumption.initial.text("model") == model;
}

void follow_checkpoint(const Resumption& resumption, const Options& options, OpenedData& data,
                       std::vector<std::string>& notes) {
  const bool resumed = !resumption.file.empty();
  const std::string& file = resumed ? resumption.file : resumption.init;
  if (file.empty()) return;
  const RunFacts& before = resumed ? resumption.before : resumption.initial;
  const std::string own = normalisation_of(*data.train), text = before.object_text("normalisation");
  if (!resumed && has_other_classes(resumption, options.model.name, data)) {
    const std::string difference = other_classes(before.texts("class_names"), data.class_names);
    notes.push_back(fmt::format("{} was trained on other classes: {}", file,
                                difference.empty() ? "their order differs" : difference));
  }
  // A word is a row of the embedding. With another list the same number would be another word.
  if (const std::string words = words_of_texts(data); words != before.text("words")) {
    fail_usage("{} was trained on texts with other words, so its vectors do not fit. {}", file,
               resumed ? "Pass the --words of its run, or use --new." : "Omit --init.");
  }
  const bool same = own.empty() || RunFacts::Json::parse(own) == before.value("normalisation");
  normalise(*data.train, text, file);
  for (const auto& held : {data.validation.get(), data.test.get()})
    if (held) normalise(*held, text, file);
  if (resumed || same) return;
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
