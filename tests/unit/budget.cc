// The budget of the house: tokens of C++ by folder, and options of train_cifar. Tokens and not
// lines, because long lines and short comments save nothing that a reader would notice.
//
// These numbers only fall. A change that makes a folder smaller also lowers its number.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "src/base/text.h"
#include "tests/support/parsed_options.h"

namespace lockstep {
namespace {

struct Budget {
  const char* folder;
  std::int64_t most;  ///< tokens
};

constexpr Budget kBudgets[] = {{"apps", 128'000}, {"bench", 12'900}, {"collectives", 47'300},
                               {"net", 77'000},   {"src", 189'900},  {"tests", 317'700}};
constexpr std::int64_t kMostOptions = 94;

constexpr const char* kAdvice =
    ". The number only falls: make the change simpler, or leave out what costs more than it "
    "brings.";

/// `text` with "r" for each raw string, which may be too long for a regex.
std::string without_raw_strings(std::string text) {
  for (std::size_t at = 0; (at = text.find("R\"", at)) != std::string::npos; ++at) {
    const std::size_t open = text.find('(', at);
    if (open == std::string::npos) break;
    const std::string close = ")" + text.substr(at + 2, open - at - 2) + "\"";
    const std::size_t end = text.find(close, open);
    if (end != std::string::npos) text.replace(at, end + close.size() - at, "\"r\"");
  }
  return text;
}

/// A literal is one token, a comment is none.
std::int64_t tokens_of(const std::string& source) {
  static const std::regex comment(R"re(("(?:\\[\s\S]|[^"\\\n])*")|//[^\n]*|/\*[\s\S]*?\*/)re");
  static const std::regex token(
      R"re("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\d[\w.']*|::|->|\+\+|--|)re"
      R"re(<<=|>>=|<=>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|<<|\S)re");
  const std::string text = std::regex_replace(without_raw_strings(source), comment, "$1 ");
  return std::distance(std::sregex_iterator(text.begin(), text.end(), token), {});
}

/// Tokens of the .cc, .h, .cu and .cuh files below a folder of the sources.
std::int64_t tokens_in(const std::string& folder) {
  std::int64_t tokens = 0;
  const std::filesystem::path root = std::filesystem::path(SOURCE_DIR) / folder;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cc" && extension != ".h" && extension != ".cu" && extension != ".cuh")
      continue;
    std::ifstream in(entry.path());
    tokens += tokens_of({std::istreambuf_iterator<char>(in), {}});
  }
  return tokens;
}

TEST(Budget, TokensOfCode) {
  for (const auto& [folder, most] : kBudgets) {
    const std::int64_t tokens = tokens_in(folder);
    EXPECT_GT(tokens, most / 2) << folder << ": lower its number, or SOURCE_DIR is wrong";
    EXPECT_LE(tokens, most) << folder << " has too many tokens" << kAdvice;
  }
}

TEST(Budget, WhatATokenIs) {
  for (const auto& [source, tokens] : std::initializer_list<std::pair<const char*, int>>{
           {"a<<=b->c; // d\n/* e\n */ f", 7},
           {"x = \"// \\\" a\" + 'b' + 1'000.5f;", 8},
           {"R\"end(// a\n\" )end\" b", 2},
           {"a >> b ? c::d : e++", 11}})
    EXPECT_EQ(tokens_of(source), tokens) << source;
}

TEST(Budget, OptionsOfTrainCifar) {
  std::string help;
  parsed_options({"--help-all"}, {.name = "train_cifar"}, help);
  const std::vector<std::string> lines = lines_of(help);
  const std::int64_t options = std::count_if(
      lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("  --"); });
  EXPECT_GT(options, kMostOptions / 2);
  EXPECT_LE(options, kMostOptions) << "train_cifar has too many options" << kAdvice;
}

}  // namespace
}  // namespace lockstep
