#include "src/data/validation.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/checksum.h"
#include "src/data/class_weights.h"
#include "src/data/copies.h"
#include "src/data/names.h"

namespace lockstep {
namespace {

/// Some samples of another set.
class Part : public Dataset {
 public:
  /// `counted`: whether bytes() includes the memory of `all`.
  Part(std::shared_ptr<const Dataset> all, std::vector<std::uint32_t> samples, const char* name,
       bool counted)
      : Dataset(all->format()),
        all_(std::move(all)),
        samples_(std::move(samples)),
        name_(name),
        counted_(counted) {}

  std::int64_t size() const override { return std::ssize(samples_); }
  int classes() const override { return all_->classes(); }
  std::int32_t label(std::int64_t index) const override { return all_->label(samples_[index]); }
  std::string file(std::int64_t index) const override { return all_->file(samples_[index]); }
  std::string excerpt(std::int64_t index) const override { return all_->excerpt(samples_[index]); }
  std::string describe() const override {
    return fmt::format("{}: {} of them for {}", all_->describe(), size(), name_);
  }
  std::size_t bytes() const override {
    return (counted_ ? all_->bytes() : 0) + samples_.size() * sizeof samples_[0];
  }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    return all_->stored(samples_[index], buffer);
  }
  Shape sample_shape() const override { return all_->sample_shape(); }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    // Without stored bytes only the whole set can read. With them the part does it itself, because
    // pad_crops() and the like change only the part.
    if (format().kind == SampleFormat::Kind::values) {
      all_->read(samples_[index], random, out, type);
    } else {
      Dataset::read(index, random, out, type);
    }
  }

 private:
  std::shared_ptr<const Dataset> all_;
  std::vector<std::uint32_t> samples_;  ///< their indices in `all_`
  const char* name_;
  bool counted_;
};

void divide(OpenedData& pair, const Split& split) {
  const std::shared_ptr<const Dataset> all = std::move(pair.train);
  std::vector<std::int32_t> labels(all->size());
  for (std::int64_t i = 0; i < all->size(); ++i) labels[i] = all->label(i);
  const std::vector<bool> held =
      held_out(split, labels, [](std::int64_t i) { return std::to_string(i); });
  std::vector<std::uint32_t> training, validation;
  for (std::int64_t i = 0; i < all->size(); ++i) (held[i] ? validation : training).push_back(i);
  require(!training.empty() && !validation.empty(),
          "{} leaves {} of {} training samples. Pass another one.", split.text(), training.size(),
          all->size());
  // Another split is another training set, so a resume must notice it.
  pair.identity += fmt::format("validation samples = {} of {}, crc32c {:08x}\n", validation.size(),
                               all->size(), crc32c_of(validation));
  pair.train = std::make_unique<Part>(all, std::move(training), "training", true);
  pair.validation = std::make_unique<Part>(all, std::move(validation), "validation", false);
}

/// Notes classes that look alike, classes without samples, and very unequal classes.
void note_classes(OpenedData& pair) {
  constexpr std::int64_t kUnequal = 3;
  const std::string alike = look_alikes(pair.class_names);
  if (!alike.empty()) pair.notes.push_back(alike);
  const std::vector<std::string> names = all_class_names(pair);
  for (const auto& [set, part] : {std::pair(pair.train.get(), "training"),
                                  {pair.validation.get(), "validation"},
                                  {pair.test.get(), "test"}}) {
    if (set == nullptr) continue;
    const std::vector<std::int64_t> counts = samples_by_class(*set);
    const auto name = [&](auto count) { return names[count - counts.begin()]; };
    std::vector<std::string> empty;
    auto least = std::ranges::max_element(counts), most = least;
    for (auto count = counts.begin(); count != counts.end(); ++count) {
      if (*count == 0) empty.push_back(name(count));
      if (*count > 0 && *count < *least) least = count;
    }
    if (!empty.empty())
      pair.notes.push_back(fmt::format("the {} set has no samples of {}", part, listed(empty)));
    if (set == pair.train.get() && *most > kUnequal * *least) {
      pair.notes.push_back(fmt::format(
          "the classes are unequal: {} training samples of {}, {} of {}. Accuracy favours large "
          "classes; --class-weights balanced and --best f1 do not.",
          *most, name(most), *least, name(least)));
    }
  }
}

}  // namespace

OpenedData open_data(const DatasetEntry& entry, const DataSource& source) {
  OpenedData pair;
  with_exit_code(kExitData, [&] {
    require_source(entry, source);
    pair = entry.open(source);
    if (source.validation.any() && !pair.validation) divide(pair, source.validation);
    note_classes(pair);
    if (entry.own && source.host.rank == 0) note_copies(pair, source.host.progress);
  });
  return pair;
}

}  // namespace lockstep
