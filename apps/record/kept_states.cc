#include "apps/record/kept_states.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "apps/record/run_facts.h"
#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

using Json = RunFacts::Json;

Shape shape_of(const Json& sizes) {
  const auto n = [&](std::size_t axis) { return sizes.at(axis).get<std::int64_t>(); };
  switch (sizes.size()) {
    case 0:
      return {};
    case 1:
      return {n(0)};
    case 2:
      return {n(0), n(1)};
    case 3:
      return {n(0), n(1), n(2)};
    default:
      return {n(0), n(1), n(2), n(3)};
  }
}

}  // namespace

KeptStates::KeptStates(const std::filesystem::path& file) : file_(file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) fail_to_read(file, errno);
  struct stat status {};
  ::fstat(descriptor, &status);
  bytes_ = static_cast<std::size_t>(status.st_size);
  void* const data = bytes_ < sizeof(SnapshotMarks)
                         ? MAP_FAILED
                         : ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (data != MAP_FAILED) data_ = static_cast<const std::byte*>(data);
  const bool whole = data_ != nullptr && marks().magic == SnapshotMarks::kMagic &&
                     marks().places.copies == SnapshotPlaces::kMostCopies &&
                     marks().places.text < bytes_ && marks().places.arenas < bytes_ &&
                     marks().places.bytes() == bytes_;
  if (!whole) unmap();
  require(whole, "{} has another form", file.string());
}

std::optional<KeptStates::State> KeptStates::newest() const {
  std::string problem;
  for (const std::uint64_t copy : by_age()) {
    try {
      State state = read(copy);
      if (print_of(state.layout, state.sections) == marks().copy[copy].print) return state;
      problem = "its checksum is wrong";
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  require(problem.empty(), "{} is damaged: {}", file_.string(), problem);
  return {};
}

std::int64_t KeptStates::newest_step() const {
  const std::vector<std::uint64_t> copies = by_age();
  return copies.empty() ? -1 : read(copies.front()).metadata.position.step;
}

void KeptStates::unmap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), bytes_);
  data_ = nullptr;
}

/// Numbers of the whole copies, the last one first.
std::vector<std::uint64_t> KeptStates::by_age() const {
  std::vector<std::uint64_t> copies;
  for (std::uint64_t i = 0; i < SnapshotPlaces::kMostCopies; ++i)
    if (marks().copy[i].order > 0) copies.push_back(i);
  std::ranges::sort(copies, std::greater(), [&](auto i) { return marks().copy[i].order; });
  return copies;
}

KeptStates::State KeptStates::read(std::uint64_t copy) const {
  const SnapshotPlaces& places = marks().places;
  const std::uint64_t text_bytes = marks().copy[copy].text_bytes;
  require(text_bytes <= places.text, "its text is too long");
  const auto* const text = reinterpret_cast<const std::uint8_t*>(data_ + places.text_at(copy));
  const Json json = Json::from_cbor(text, text + text_bytes);
  State state;
  const auto& position = json.at("position");
  state.metadata = {{position.at(0), position.at(1), position.at(2), position.at(3)},
                    json.at("texts")};
  state.layout.count = json.at("count");
  for (const Json& row : json.at("parameters")) {
    Parameter parameter;
    parameter.name = row.at(0);
    parameter.shape = shape_of(row.at(1));
    parameter.range = {row.at(2), parameter.shape.count()};
    parameter.follow = row.at(3);
    const Range& range = parameter.range;
    require(range.begin >= 0 && range.count >= 0 && range.end() <= state.layout.count,
            "{} is outside of the arena", parameter.name);
    state.layout.parameters.push_back(std::move(parameter));
  }
  const auto* arena = reinterpret_cast<const float*>(data_ + places.arenas_at(copy));
  for (const Json& row : json.at("sections")) {
    state.sections.push_back({row.at(0), arena, row.at(1)});
    arena += state.layout.count;
  }
  require(state.layout.count > 0 &&
              state.sections.size() <=
                  places.arenas / sizeof(float) / static_cast<std::uint64_t>(state.layout.count),
          "its arenas are too long");
  return state;
}

std::string state_text(const Layout& layout, const std::vector<ConstSection>& sections,
                       const CheckpointMetadata& metadata) {
  const Position& at = metadata.position;
  Json json{{"position", {at.step, at.samples, at.epoch, at.seed}},
            {"texts", metadata.texts},
            {"count", layout.count},
            {"parameters", Json::array()},
            {"sections", Json::array()}};
  for (const Parameter& parameter : layout.parameters) {
    const Shape& shape = parameter.shape;
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
    json["parameters"].push_back({parameter.name, sizes, parameter.range.begin, parameter.follow});
  }
  for (const ConstSection& section : sections)
    json["sections"].push_back({section.name, section.trained_only});
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

}  // namespace lockstep
