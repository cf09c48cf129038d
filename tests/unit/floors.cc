// The floors of the house: which folder may include what. Every #include line is held against the
// table.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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

struct Floor {
  std::string folder;
  std::vector<std::string> may_include;  ///< prefixes of quoted includes
};

const std::vector<Floor> kFloors = {
    {"src/", {"src/"}},
    {"collectives/", {"collectives/", "src/"}},
    {"net/", {"net/", "src/"}},
    {"apps/", {"apps/", "net/", "collectives/", "src/"}},
    {"bench/", {"bench/", "tests/", "apps/", "net/", "collectives/", "src/"}},
    {"tests/", {"bench/", "tests/", "apps/", "net/", "collectives/", "src/"}},
};

struct Library {
  std::regex name;
  std::string only;  ///< regex of the files that may include it
  std::string why;
};

const std::vector<Library> kLibraries = {
    {std::regex("^(mpi|collectives/communicator)\\.h$"), "^(collectives|tests)/|^bench/allreduce",
     "MPI is behind collectives/comm/comm.h"},
    {std::regex("^(oneapi/)?dnnl"), "^(src/device/cpu|bench|tests)/",
     "oneDNN is behind src/device/device.h"},
    {std::regex("^(cuda|cudnn|cublas|nccl)"),
     "^(src/device/cuda/|collectives/reducers/cuda/|tests/(cuda|gpu)/)",
     "CUDA's libraries are behind src/device/device.h and collectives/reducer.h"},
    {std::regex("^zlib"), "^(src/data|tests)/", "zlib is for compressed files of data"},
    {std::regex("^(png|jpeglib)\\.h$"), "^(src/data|tests)/", "images are read in src/data"},
    {std::regex("^hdf5"), "^(src/hdf5_|tests/)", "HDF5 is behind src/files/hdf5.h"},
};

/// Headers that the build writes, and the folder that may include them (tests may too).
struct Generated {
  std::string name, folder;
};

const std::vector<Generated> kGenerated = {{"event.pb.h", "src/report/"},
                                           {"src/report/event.pb.h", "src/report/"},
                                           {"revision.h", "src/"}};

/// What is wrong with `include` in `file` (a path from the root); empty if nothing is.
std::string offence(const std::string& file, const Include& include) {
  for (const Library& library : kLibraries) {
    if (std::regex_search(include.name, library.name) &&
        !std::regex_search(file, std::regex(library.only))) {
      return library.why;
    }
  }
  const auto starts = [](const std::string& text, const std::string& prefix) {
    return text.rfind(prefix, 0) == 0;
  };
  for (const Generated& header : kGenerated) {
    if (include.name != header.name) continue;
    return starts(file, header.folder) || starts(file, "tests/") ? ""
                                                                 : "it is behind " + header.folder;
  }
  for (const Floor& floor : kFloors) {
    if (!starts(file, floor.folder)) continue;
    const bool allowed =
        std::any_of(floor.may_include.begin(), floor.may_include.end(),
                    [&](const std::string& prefix) { return starts(include.name, prefix); });
    const bool ours = std::any_of(kFloors.begin(), kFloors.end(), [&](const Floor& other) {
      return starts(include.name, other.folder);
    });
    // <src/base/view.h> is as much an include of the floor as "src/base/view.h"; "view.h" hides
    // from which floor it comes.
    if (include.quoted || ours) return allowed ? "" : floor.folder + " must not include it";
    return "";
  }
  return "a file outside every floor";
}

TEST(Floors, EveryIncludeIsPermitted) {
  int files = 0, includes = 0;
  for (const Floor& floor : kFloors) {
    const std::filesystem::path root(SOURCE_DIR);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / floor.folder)) {
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

/// The includes of `file`, which is read once.
const std::vector<Include>& includes_of(const std::string& file) {
  static std::map<std::string, std::vector<Include>> known;
  const auto [place, fresh] = known.try_emplace(file);
  if (!fresh) return place->second;
  std::ifstream in(std::filesystem::path(SOURCE_DIR) / file);
  std::string line;
  while (std::getline(in, line)) {
    if (const std::optional<Include> include = include_of(line)) place->second.push_back(*include);
  }
  return place->second;
}

/// All that `file` includes, and what that includes, as it stands in the lines.
void collect(const std::string& file, std::set<std::string>& names) {
  for (const Include& include : includes_of(file)) {
    if (names.insert(include.name).second && include.quoted) collect(include.name, names);
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
  for (const Floor& floor : kFloors) {
    const std::filesystem::path root(SOURCE_DIR);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / floor.folder)) {
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
    for (const char* host : {"parallel_for", "stream.give(", "stream->give(", "memory_is_host"})
      EXPECT_EQ(text.find(host), std::string::npos) << entry.path() << " has " << host;
  }
  EXPECT_GE(files, 40);
}

TEST(Floors, TheTestSeesOffences) {
  const auto allowed = [](const std::string& file, const std::string& line) {
    const std::optional<Include> include = include_of(line);
    return include && offence(file, *include).empty();
  };
  for (const auto& [file, line] : {std::pair("net/model.cc", "#include \"src/base/view.h\""),
                                   {"net/model.cc", "#include <vector>"},
                                   {"src/report/event_file.cc", "#include \"event.pb.h\""},
                                   {"src/device/cpu/device.cc", "#include <dnnl.hpp>"},
                                   {"collectives/comm/communicator.h", "#include <mpi.h>"}})
    EXPECT_TRUE(allowed(file, line)) << file << line;
  for (const auto& [file, line] :
       {std::pair("net/model.cc", "  #  include <collectives/comm/comm.h>"),
        {"collectives/comm/comm.cc", "#include \"net/model.h\""},
        {"src/base/view.h", "#include \"net/model.h\""},
        {"src/base/view.h", "#include \"check.h\""},
        {"src/base/view.h", "#include \"../src/check.h\""},
        {"apps/run/trainer.cc", "#include \"tests/support/files.h\""},
        {"apps/run/trainer.cc", "#include <mpi.h>"},
        {"apps/run/trainer.cc", "#include \"collectives/comm/communicator.h\""},
        {"net/layers/dense.cc", "#include <oneapi/dnnl/dnnl.hpp>"},
        {"net/checkpoint.cc", "#include <hdf5.h>"},
        {"net/loss.cc", "#include <cuda_runtime.h>"},
        {"net/model.cc", "#include \"event.pb.h\""}})
    EXPECT_FALSE(allowed(file, line)) << file << line;
}

}  // namespace
