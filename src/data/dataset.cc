#include "src/data/dataset.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/augment.h"
#include "src/data/copies.h"
#include "src/data/names.h"
#include "src/data/samples.h"

namespace lockstep {

Shape SampleFormat::shape() const {
  if (kind == Kind::crops) return crop_shape();
  if (kind == Kind::words) return {1, size.width};
  return {1, size.height, size.width, size.channels};
}

std::size_t SampleFormat::bytes() const {
  const std::size_t each = kind == Kind::words || kind == Kind::values ? 4 : 1;
  return size.count() * each;
}

void DamageLog::found(const DamagedSample& sample) {
  if (!skip_) throw Error(sample.fact + ". " + advice_);
  const std::lock_guard lock(mutex_);
  if (known_.insert(sample.fact).second) fresh_.push_back(sample.fact);
}

std::vector<std::string> DamageLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

const std::uint8_t* Dataset::stored(std::int64_t, std::uint8_t*) const {
  expect(false, "a data set without stored samples was asked for one");
  return nullptr;
}

std::uint64_t Dataset::fingerprint(std::int64_t index) const {
  const bool computed = format_.kind == SampleFormat::Kind::values;  // no bytes are stored
  std::vector<std::uint8_t> buffer(computed ? sample_shape().count() * sizeof(float)
                                            : format_.bytes());
  const std::uint8_t* bytes = buffer.data();
  if (computed) {
    read(index, nullptr, buffer.data(), Type::f32);
  } else {
    bytes = stored(index, buffer.data());
  }
  return fingerprint_of({reinterpret_cast<const char*>(bytes), buffer.size()});
}

void Dataset::read(std::int64_t index, Random* random, void* out, Type type) const {
  const auto buffer = std::make_unique_for_overwrite<std::uint8_t[]>(format_.bytes());
  make_sample(format_, {stored(index, buffer.get()), random, {}}, nullptr, out, type);
}

bool Dataset::read_if_whole(std::int64_t index, Random* random, void* out, Type type) const {
  try {
    read(index, random, out, type);
    return true;
  } catch (const DamagedSample& sample) {
    if (!damage_) throw;
    damage_->found(sample);
    return false;
  }
}

std::int64_t Dataset::read_whole(std::int64_t index, Random* random, void* out, Type type) const {
  constexpr int kMost = 100;
  // The limit ends a run on a disk that returns nothing but damage.
  for (int tried = 0; tried < kMost; ++tried, index = (index + 1) % size()) {
    if (read_if_whole(index, random, out, type)) return index;
  }
  fail("{} samples in a row are damaged. Replace the files of {}.", kMost, describe());
}

std::string DataPlace::text() const { return fmt::format("{}", fmt::join(folders, ", ")); }

namespace {

void require_path(const DatasetEntry& entry, const std::filesystem::path& path) {
  std::error_code unreadable;  // opening the data reports it
  const auto type = std::filesystem::status(path, unreadable).type();
  const std::string name = one_line(path.string());
  if (path.empty() || entry.files.empty()) return;
  if (entry.own && type == std::filesystem::file_type::not_found)
    fail_usage("{} does not exist. Pass --data with the right path.", name);
  if (entry.one_file && type == std::filesystem::file_type::directory) {
    fail_usage(
        "{} is a folder, and data set {} needs a file. Pack the folder with pack_images, or train "
        "with --dataset folder.",
        name, entry.name);
  }
  if (entry.one_file || entry.texts || type != std::filesystem::file_type::regular) return;
  const std::string ending = ending_of(path);
  const char* advice = "Pass the folder.";
  if (ending == ".h5" || ending == ".hdf5")
    advice = "A file of pack_images needs a run with --dataset packed.";
  if (advice_of(path) == kUnpack) advice = "Unpack it, and pass the folder.";
  fail_usage("{} is a file, and data set {} needs a folder with {}. {}", name, entry.name,
             entry.files, advice);
}

}  // namespace

void require_source(const DatasetEntry& entry, const DataSource& source) {
  for (const std::filesystem::path& path : source.place.folders) require_path(entry, path);
}

}  // namespace lockstep
