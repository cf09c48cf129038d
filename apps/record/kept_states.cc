#include "apps/record/kept_states.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "apps/record/broadcast.h"
#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {

using nlohmann::json;

/// Its extents.
void to_json(json& list, const Shape& shape) {
  list = json::array();
  for (int axis = 0; axis < shape.rank(); ++axis) list.push_back(shape[axis]);
}
void from_json(const json& list, Shape& shape) {
  std::vector<std::int64_t> n = list;
  const std::size_t rank = n.size();
  require(rank <= Shape::kMaxRank, "a shape has too many extents");
  n.resize(Shape::kMaxRank);
  const Shape shapes[] = {{}, {n[0]}, {n[0], n[1]}, {n[0], n[1], n[2]}, {n[0], n[1], n[2], n[3]}};
  shape = shapes[rank];
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Range, begin, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Parameter, name, shape, range, follow)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Layout, parameters, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ConstSection, name, trained_only)

KeptStates::KeptStates(const std::filesystem::path& file) : file_(file) {
  // O_NONBLOCK, because a pipe of this name would block the start.
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
  // Text and arenas are compared one by one first, so that their sum in bytes() cannot overflow.
  const bool whole = data_ != nullptr && marks().magic == SnapshotMarks::kMagic &&
                     marks().places.copies == SnapshotPlaces::kMostCopies &&
                     marks().places.text < bytes_ && marks().places.arenas < bytes_ &&
                     marks().places.bytes() == bytes_;
  if (!whole) unmap();
  require(whole, "{} has another form", file.string());
}

std::optional<KeptStates::State> KeptStates::newest() const {
  std::string problem;
  // If the newest copy is damaged, the one before it is still a state. The checksum covers the
  // arrays. A damaged text is found when it is parsed.
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

void KeptStates::free_others(const State& kept) const {
  const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  for (std::uint64_t copy = 0; copy < SnapshotPlaces::kMostCopies; ++copy) {
    if (copy == kept.copy) continue;
    // A hole returns the pages, while the file keeps its size and stays mapped.
    ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(marks().places.arenas_at(copy)),
                static_cast<off_t>(marks().places.arenas));
  }
  ::close(descriptor);
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
  const json object = json::from_cbor(text, text + text_bytes);
  State state{object.at("layout"), object.at("sections"), object.at("metadata"), copy};
  const Layout& layout = state.layout;
  // The text has no checksum. So every number that becomes an address is tested. Damage then ends
  // as an error, and not outside of the mapped memory.
  for (const Parameter& parameter : layout.parameters) {
    const Range& range = parameter.range;
    require(range.begin >= 0 && range.count >= 0 && range.begin <= layout.count - range.count &&
                parameter.shape.count() == range.count,
            "{} is outside of the arena", parameter.name);
  }
  require(layout.count > 0 && state.sections.size() <= places.arenas / sizeof(float) /
                                                           static_cast<std::uint64_t>(layout.count),
          "its arenas are too long");
  const auto* arena = reinterpret_cast<const float*>(data_ + places.arenas_at(copy));
  for (ConstSection& section : state.sections) {
    section.arena = arena;
    arena += layout.count;
  }
  return state;
}

std::string state_text(const Layout& layout, const std::vector<ConstSection>& sections,
                       const CheckpointMetadata& metadata) {
  std::string text;
  json::to_cbor({{"layout", layout}, {"sections", sections}, {"metadata", metadata}}, text);
  return text;
}

}  // namespace lockstep
