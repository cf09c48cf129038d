// The floors of the house: which folder may include what. Every #include line is held against the
// table.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

struct Include {
  std::string name;
  bool quoted = false;  ///< "..." and not <...>
};

/// The include of a line, if it is one. Lines that pretend to be one in a comment count too: better
/// one too many.
std::optional<Include> include_of(const std::string& line) {
  static const std::regex pattern(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return {};
  return Include{match[2], match[1] == "\""};
}

/// A group: the files of one folder, and of those folders within it that are no group.
struct Floor {
  std::string folder;
  std::vector<std::string> may_include;  ///< groups besides itself, which stand above in the table
};

const std::vector<std::string> kAllGroups = {"*"};

// From the ground up.
const std::vector<Floor> kFloors = {
    {"src/base", {}},
    {"src/files", {"src/base"}},
    {"src/device", {"src/base"}},
    {"src/device/cpu", {"src/base", "src/device"}},
    {"src/device/cuda", {"src/base", "src/device"}},
    {"src/data", {"src/base", "src/files", "src/device"}},
    {"src/data/text", {"src/base", "src/files", "src/data"}},
    {"src/data/rows", {"src/base", "src/data", "src/data/text"}},
    {"src/data/image", {"src/base", "src/files", "src/data", "src/data/rows"}},
    {"src/data/formats", {"src/base", "src/data/image"}},
    {"src/data/sets",
     {"src/base", "src/files", "src/data", "src/data/text", "src/data/rows", "src/data/image"}},
    {"src/report", {"src/base", "src/files"}},
    {"collectives/comm", {"src/base"}},
    {"collectives/watch", {"src/base", "collectives/comm"}},
    {"collectives/node", {"src/base", "src/device", "collectives/comm"}},
    {"collectives",
     {"src/base", "src/device", "collectives/comm", "collectives/watch", "collectives/node"}},
    {"collectives/algorithms", {"collectives"}},
    {"collectives/reducers",
     {"src/base", "src/device", "collectives/comm", "collectives/node", "collectives",
      "collectives/algorithms"}},
    {"collectives/reducers/cuda",
     {"src/base", "src/device/cuda", "collectives", "collectives/reducers"}},
    {"net", {"src/base", "src/files", "src/device", "src/data"}},
    {"net/layers", {"src/base", "src/device", "net"}},
    {"net/optimizers", {"src/base", "src/device", "net"}},
    {"net/description", {"src/base", "src/files", "net"}},
    {"net/export", {"src/base", "src/data", "net"}},
    {"apps/step",
     {"src/base", "src/files", "src/device", "src/device/cpu", "src/data", "collectives/comm",
      "collectives/watch", "collectives/node", "collectives", "collectives/algorithms",
      "collectives/reducers", "net"}},
    {"apps/evaluate",
     {"src/base", "src/files", "src/device", "src/data", "collectives/comm", "net", "apps/step"}},
    {"apps/options",
     {"src/base", "src/files", "src/device", "src/device/cpu", "src/data", "src/report",
      "collectives/comm", "collectives/watch", "collectives", "net", "net/description", "apps/step",
      "apps/evaluate"}},
    {"apps/record",
     {"src/base", "src/files", "src/device", "src/device/cpu", "src/data", "src/data/image",
      "src/report", "collectives/comm", "net", "net/description", "apps/step", "apps/evaluate",
      "apps/options"}},
    {"apps/tell",
     {"src/base", "src/device", "src/device/cpu", "src/data", "src/report", "collectives/comm",
      "collectives/watch", "collectives", "net", "apps/step", "apps/evaluate", "apps/options",
      "apps/record"}},
    {"apps/run",
     {"src/base", "src/files", "src/device", "src/device/cpu", "src/data", "src/report",
      "collectives/comm", "collectives/watch", "collectives", "net", "net/description", "apps/step",
      "apps/evaluate", "apps/options", "apps/record", "apps/tell"}},
    {"apps/use",
     {"src/base", "src/files", "src/device", "src/device/cpu", "src/data", "src/data/text",
      "src/data/rows", "src/data/image", "src/report", "collectives/comm", "net", "net/export",
      "apps/step", "apps/evaluate", "apps/options", "apps/record", "apps/tell", "apps/run"}},
    {"apps/train", {"src/data", "net", "apps/run", "apps/use"}},
    {"apps/supervise", {"src/base", "src/files"}},
    {"apps/audit",
     {"src/base", "src/files", "src/report", "net", "apps/evaluate", "apps/options", "apps/record",
      "apps/supervise"}},
    {"apps",
     {"src/base", "src/files", "src/data", "src/data/image", "src/report", "net", "apps/evaluate",
      "apps/options", "apps/record", "apps/run", "apps/use", "apps/supervise", "apps/audit"}},
    {"bench", kAllGroups},
    {"tests", kAllGroups},
};

/// Includes that point upwards: they join a back end to the house.
struct Offence {
  std::string file, include;  ///< prefixes
};
const std::vector<Offence> kKnownOffences = {
    {"src/device/each.h", "src/device/cuda/"},      // bodies become kernels
    {"src/device/devices.cc", "src/device/cuda/"},  // the registry of back ends
};

bool starts(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

/// The group of a path from the root: the longest folder that it lies in; null: none.
const Floor* floor_of(const std::string& path) {
  const Floor* found = nullptr;
  for (const Floor& floor : kFloors) {
    if (!starts(path, floor.folder + "/")) continue;
    if (found == nullptr || floor.folder.size() > found->folder.size()) found = &floor;
  }
  return found;
}

bool may_include(const Floor& floor, const Floor& other) {
  const auto& names = floor.may_include;
  return floor.folder == other.folder || names == kAllGroups ||
         std::find(names.begin(), names.end(), other.folder) != names.end();
}

/// The top of the house: src, collectives, and so on.
std::set<std::string> roots() {
  std::set<std::string> names;
  for (const Floor& floor : kFloors) names.insert(floor.folder.substr(0, floor.folder.find('/')));
  return names;
}

struct Library {
  std::regex name;
  std::string only;  ///< regex of the files that may include it
  std::string why;
};

const std::vector<Library> kLibraries = {
    {std::regex("^(mpi|collectives/comm/communicator)\\.h$"),
     "^(collectives|tests)/|^bench/allreduce", "MPI is behind collectives/comm/comm.h"},
    {std::regex("^(oneapi/)?dnnl"), "^src/device/cpu/onednn/",
     "oneDNN is behind src/device/cpu/library.h"},
    {std::regex("^(cuda|cudnn|cublas|nccl)"),
     "^(src/device/cuda/|collectives/reducers/cuda/|tests/(cuda|emulator|gpu)/)",
     "CUDA's libraries are behind src/device/device.h and collectives/reducer.h"},
    {std::regex("^zlib"), "^(src/data/|src/files/zip\\.|tests/)",
     "zlib is for compressed files of data and for checksums of archives"},
    {std::regex("^(png|jpeglib|tiffio|libheif/.*|webp/.*)\\.h$"),
     "^(src/data/formats|bench|tests)/", "images are read in src/data/formats"},
    {std::regex("^hdf5"), "^(src/files/hdf5_|tests/)", "HDF5 is behind src/files/hdf5.h"},
    {std::regex("^openssl"), "^src/files/sha256\\.cc$", "libcrypto is behind src/files/sha256.h"},
    {std::regex("^toml"), "^src/files/toml\\.h$", "toml++ is behind src/files/toml.h"},
};

/// Headers that the build writes, and the folder that may include them (tests may too).
struct Generated {
  std::string name, folder;
};

const std::vector<Generated> kGenerated = {{"event.pb.h", "src/report/"},
                                           {"src/report/event.pb.h", "src/report/"},
                                           {"onnx.pb.h", "net/export/"},
                                           {"revision.h", "src/base/"}};

/// The rule that `include` in `file` (a path from the root) breaks; empty: none.
std::string offence(const std::string& file, const Include& include) {
  for (const Library& library : kLibraries) {
    if (std::regex_search(include.name, library.name) &&
        !std::regex_search(file, std::regex(library.only))) {
      return library.why;
    }
  }
  for (const Generated& header : kGenerated) {
    if (include.name != header.name) continue;
    return starts(file, header.folder) || starts(file, "tests/") ? ""
                                                                 : "it is behind " + header.folder;
  }
  const Floor *floor = floor_of(file), *other = floor_of(include.name);
  if (floor == nullptr) return "a file outside every floor";
  // <src/base/view.h> is as much an include of the floor as "src/base/view.h"; "view.h" hides from
  // which floor it comes.
  if (other == nullptr) return include.quoted ? "from which floor is it?" : "";
  if (may_include(*floor, *other)) return "";
  const bool known =
      std::any_of(kKnownOffences.begin(), kKnownOffences.end(), [&](const Offence& offence) {
        return starts(file, offence.file) && starts(include.name, offence.include);
      });
  return known ? "" : floor->folder + " must not include " + other->folder;
}

TEST(Floors, EveryIncludeIsPermitted) {
  int files = 0, includes = 0;
  for (const std::string& folder : roots()) {
    const std::filesystem::path root(SOURCE_DIR);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh")
        continue;
      ++files;
      const std::string file = std::filesystem::relative(entry.path(), root).generic_string();
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        const std::optional<Include> include = include_of(line);
        if (!include) continue;
        ++includes;
        EXPECT_EQ(offence(file, *include), "") << file << ":" << number << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 20) << "SOURCE_DIR is not the source folder";
  EXPECT_GT(includes, 100) << "the includes were not recognised";
}

/// Groups include what stands above them in the table, so that no circle can be.
TEST(Floors, NoGroupIncludesAHigherOne) {
  for (std::size_t i = 0; i < kFloors.size(); ++i) {
    EXPECT_TRUE(
        std::filesystem::is_directory(std::filesystem::path(SOURCE_DIR) / kFloors[i].folder))
        << kFloors[i].folder;
    for (const std::string& name : kFloors[i].may_include) {
      if (kFloors[i].may_include == kAllGroups) continue;
      const bool below = std::any_of(kFloors.begin(), kFloors.begin() + i,
                                     [&](const Floor& floor) { return floor.folder == name; });
      EXPECT_TRUE(below) << kFloors[i].folder << " includes " << name;
    }
  }
}

/// All that `file` includes, and what that includes, as it stands in the lines.
void collect(const std::string& file, std::set<std::string>& names) {
  std::ifstream in(std::filesystem::path(SOURCE_DIR) / file);
  std::string line;
  while (std::getline(in, line)) {
    const std::optional<Include> include = include_of(line);
    if (include && names.insert(include->name).second && include->quoted)
      collect(include->name, names);
  }
}

/// With src/device/each.h among its includes, by whatever way.
bool holds_bodies(const std::set<std::string>& names) {
  return names.count("src/device/each.h") > 0;
}

bool formats(const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "src/base/check.h" || name.rfind("fmt/", 0) == 0;
  });
}

std::set<std::string> included_by(const std::string& file) {
  std::set<std::string> names;
  collect(file, names);
  return names;
}

TEST(Floors, FilesWithBodiesAreFreeOfFmt) {
  int files = 0;
  for (const std::string& folder : roots()) {
    const std::filesystem::path root(SOURCE_DIR);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string file = std::filesystem::relative(entry.path(), root).generic_string();
      const std::set<std::string> names = included_by(file);
      if (!holds_bodies(names)) continue;
      ++files;
      EXPECT_FALSE(formats(names)) << file << ": a compiler of kernels cannot read it";
    }
  }
  EXPECT_GE(files, 10);
  EXPECT_TRUE(holds_bodies(included_by("net/optimizers/sgd.cc"))) << "by way of net/update.h";
  EXPECT_TRUE(formats(included_by("src/base/table.cc"))) << "by way of its header";
}

/// So that each has a body for every back end.
TEST(Floors, LayersComputeByBodiesAndPlansAlone) {
  int files = 0;
  const std::filesystem::path root(SOURCE_DIR);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "net")) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    ++files;
    std::ifstream in(entry.path());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    for (const char* host :
         {"parallel_for", "stream.enqueue(", "stream->enqueue(", "memory_is_host"})
      EXPECT_EQ(text.find(host), std::string::npos) << entry.path() << " has " << host;
  }
  EXPECT_GE(files, 40);
}

TEST(Floors, TheTestSeesOffences) {
  const auto allowed = [](const std::string& file, const std::string& line) {
    const std::optional<Include> include = include_of(line);
    return include && offence(file, *include).empty();
  };
  for (const auto& [file, line] : std::vector<std::pair<std::string, std::string>>{
           {"net/model.cc", "#include <vector>"},
           {"src/report/event_file.cc", "#include \"event.pb.h\""},
           {"src/device/cpu/onednn/onednn.h", "#include <dnnl.hpp>"},
           {"collectives/comm/communicator.h", "#include <mpi.h>"},
           {"tests/unit/a.cc", "#include \"apps/run/trainer.h\""},
           {"src/device/cuda/device.cc", "#include <cuda_runtime_api.h>"}})
    EXPECT_TRUE(allowed(file, line)) << line;
  for (const auto& [file, line] : std::vector<std::pair<std::string, std::string>>{
           {"collectives/comm/comm.cc", "#include \"collectives/watch/launch.h\""},
           {"collectives/comm/comm.cc", "#include \"net/model.h\""},
           {"net/model.cc", "#include \"net/layers/dense.h\""},
           {"net/model.cc", "  #  include <collectives/comm/comm.h>"},
           {"src/base/view.h", "#include \"check.h\""},
           {"apps/run/trainer.cc", "#include \"collectives/comm/communicator.h\""},
           {"net/layers/dense.cc", "#include <oneapi/dnnl/dnnl.hpp>"},
           {"net/checkpoint.cc", "#include <hdf5.h>"},
           {"src/device/each.h", "#include <cuda_fp16.h>"},
           {"src/data/rows/rows.cc", "#include \"src/data/image/image.h\""},
           {"src/data/text/words.cc", "#include \"src/data/rows/rows.h\""},
           {"src/data/image/photos.cc", "#include \"src/data/formats/formats.h\""},
           {"src/data/dataset.cc", "#include \"src/data/image/photos.h\""},
           {"net/model.cc", "#include \"event.pb.h\""}})
    EXPECT_FALSE(allowed(file, line)) << line;
}

}  // namespace
