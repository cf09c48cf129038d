// The budget of the house: lines of C++ and options of train_cifar. A change that needs more edits
// these numbers in the same commit, and its message gives the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/run/training_program.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostLines = 60918, kMostLinesInTests = 36672, kMostOptions = 97;

constexpr const char* kAdvice =
    ". Make the change smaller, remove what costs more than it brings, or raise the number in "
    "tests/unit/budget.cc in this commit, with the reason in its message.";

/// Lines of .cc, .h, .cu and .cuh files below a folder of the sources.
std::int64_t lines_in(const std::string& folder) {
  std::int64_t lines = 0;
  const std::filesystem::path root = std::filesystem::path(SOURCE_DIR) / folder;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cc" && extension != ".h" && extension != ".cu" && extension != ".cuh")
      continue;
    std::ifstream in(entry.path());
    lines += std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }
  return lines;
}

TEST(Budget, LinesOfCode) {
  std::int64_t lines = 0;
  for (const char* folder : {"src", "collectives", "net", "apps", "bench"})
    lines += lines_in(folder);
  EXPECT_GT(lines, kMostLines / 2) << "SOURCE_DIR is not the source folder";
  EXPECT_LE(lines, kMostLines) << "C++ outside tests has too many lines" << kAdvice;
}

TEST(Budget, LinesOfTests) {
  const std::int64_t lines = lines_in("tests");
  EXPECT_GT(lines, kMostLinesInTests / 2);
  EXPECT_LE(lines, kMostLinesInTests) << "tests have too many lines of C++" << kAdvice;
}

TEST(Budget, OptionsOfTrainCifar) {
  std::string name = "train_cifar", all = "--help-all", help;
  char* words[] = {name.data(), all.data()};
  parse_options(2, words, {.name = name}, help);
  const std::vector<std::string> lines = lines_of(help);
  const std::int64_t options = std::count_if(
      lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("  --"); });
  EXPECT_GT(options, kMostOptions / 2);
  EXPECT_LE(options, kMostOptions) << "train_cifar has too many options" << kAdvice;
}

}  // namespace
}  // namespace lockstep
