#include "src/data/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/text.h"
#include "src/data/names.h"
#include "src/files/sha256.h"

namespace lockstep {
namespace {

struct Sample {
  std::uint64_t fingerprint;
  std::size_t part;
  std::int64_t index;

  auto operator<=>(const Sample&) const = default;
};

std::string digest_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digest();
}

}  // namespace

std::uint64_t fingerprint_of(std::string_view bytes) {
  return std::stoull(digest_of(bytes).substr(0, 16), nullptr, 16);
}

void note_copies(OpenedData& data, const std::function<void()>& progress) {
  const Dataset* const sets[kParts]{data.train.get(), data.validation.get(), data.test.get()};
  std::vector<Sample> all;
  // Samples of one fingerprint are neighbours after the sort. The order of parts makes a training
  // sample the first of its copies, so notes count the others.
  for (std::size_t part = 0; part < kParts; ++part)
    for (std::int64_t i = 0; sets[part] != nullptr && i < sets[part]->size(); ++i)
      all.push_back({sets[part]->fingerprint(i), part, i});
  std::ranges::sort(all);
  const auto name = [&](const Sample& sample) {
    const std::string file = sets[sample.part]->file(sample.index);
    return file.empty() ? fmt::format("sample {}", sample.index) : one_line(file);
  };
  std::map<std::string, std::pair<std::int64_t, std::string>> notes;  // number, example
  const auto note = [&](const std::string& what, const std::string& example) {
    auto& [count, first] = notes[what];
    if (count++ == 0) first = example;
  };
  std::map<std::string, Sample> firsts;  // by content, of one fingerprint
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Sample& copy = all[i];
    const auto is_alike = [&](std::size_t other) {
      return other < all.size() && all[other].fingerprint == copy.fingerprint;
    };
    if (!is_alike(i - 1)) firsts.clear();
    // Most samples are alone, and their content is never read. i - 1 wraps for the first sample and
    // is then beyond the end.
    if (!is_alike(i - 1) && !is_alike(i + 1)) continue;
    progress();
    const Dataset& set = *sets[copy.part];
    const std::vector<std::uint8_t> bytes = set.content(copy.index);
    const std::string content =
        digest_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    // A fingerprint may be that of the ends of a file only. So the whole content decides.
    const Sample& first = firsts.emplace(content, copy).first->second;
    if (copy.part != first.part) {
      note(fmt::format("of {} {} samples are {} samples too, so the accuracy is too high",
                       set.size(), kPartNames[copy.part], kPartNames[first.part]),
           name(copy));
    }
    if (set.label(copy.index) != sets[first.part]->label(first.index)) {
      note(fmt::format("of {} {} samples have a copy in another class", set.size(),
                       kPartNames[copy.part]),
           fmt::format("{} of {}", name(copy), name(first)));
    }
  }
  for (const auto& [what, found] : notes)
    data.notes.push_back(fmt::format("{} {}: {}", found.first, what, found.second));
}

}  // namespace lockstep
