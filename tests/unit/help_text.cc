// The help of the training programs: its limits, and the full text of every option.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "src/base/text.h"
#include "tests/support/error_of.h"
#include "tests/support/parsed_options.h"

namespace lockstep {
namespace {

const Program kReuters{"train_reuters", "reuters", "reuters_as_published"};

/// The printed answer to these words; "a run" if the program would train.
std::string answer(const std::vector<std::string>& words, const Program& program = kReuters) {
  std::string text;
  return parsed_options(words, program, text) ? "a run" : text;
}

/// The options of a help, each with its text, without the default.
std::vector<std::pair<std::string, std::string>> options_in(const std::string& help) {
  std::vector<std::pair<std::string, std::string>> options;
  for (const std::string& line : lines_of(help)) {
    if (std::smatch found; std::regex_match(line, found, std::regex("  (--[a-z0-9-]+).*?(  +.*)?")))
      options.emplace_back(found[1], found[2]);
    else if (line.starts_with("      ") && !options.empty())
      options.back().second.append(line, line.find_first_not_of(' ') - 1);
  }
  for (auto& [name, text] : options) text = std::regex_replace(text, std::regex("^ +| *\\[.*"), "");
  return options;
}

TEST(Help, ShowsTheCommonOptionsOnOnePage) {
  const std::vector<std::string> lines = lines_of(answer({"--help"}));
  EXPECT_LE(lines.size(), 60u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_EQ(options_in(answer({"--help"})).size(), 25u);
  EXPECT_TRUE(mentions(lines.back(), {"--help-all"}));
  EXPECT_EQ(answer({"-h"}), answer({"--help"}));
  EXPECT_LE(lines_of(answer({"--help"}, {"train_texts", "texts"})).size(), 62u);
}

TEST(Help, DescribesEachOptionByANounPhrase) {
  const auto options = options_in(answer({"--help-all"}));
  EXPECT_GE(options.size(), 75u);
  for (const auto& [name, text] : options) {
    std::istringstream words(text);
    const auto count = std::distance(std::istream_iterator<std::string>(words), {});
    EXPECT_GE(count, 1) << name;
    EXPECT_LE(count, 12) << name << ": " << text;
    EXPECT_TRUE(std::regex_match(text, std::regex("[A-Z].*[^.]"))) << name << ": " << text;
  }
}

/// The words of the example in the help of an option, after the name of the program.
std::vector<std::string> example_in(const std::string& help, const Program& program) {
  const std::string whole = std::regex_replace(help, std::regex("\n    "), " ");
  std::smatch example;
  const std::regex pattern("Example +(?:lockstep_run -np 4 )?" + program.name + " (.*)");
  if (!std::regex_search(whole, example, pattern)) return {};
  std::istringstream words(std::regex_replace(example[1].str(), std::regex("'"), ""));
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(Help, ExplainsEachOptionWithAnExampleThatIsAccepted) {
  for (const Program& program : {Program{"train_cifar"},
                                 {"train_mnist", "mnist"},
                                 kReuters,
                                 {.name = "train_images", .dataset = "folder", .resizes = true},
                                 {"train_texts", "texts"}}) {
    for (const auto& [name, about] : options_in(answer({"--help-all"}, program))) {
      const std::string text = answer({"--help", name}, program);
      EXPECT_EQ(answer({"--help=" + name.substr(2)}, program), text);
      EXPECT_TRUE(text.starts_with(name)) << text;
      for (const char* fact : {"Type", "Default", "Group", "Example"})
        EXPECT_TRUE(mentions(text, {fmt::format("\n    {} ", fact)}));
      const std::vector<std::string> words = example_in(text, program);
      ASSERT_FALSE(words.empty()) << text;
      if (name == "--config") continue;  // its file does not exist here
      EXPECT_NE(answer(words, program), "") << text;
    }
  }
  EXPECT_TRUE(mentions(answer({"--help", "momentum"}), {"number from 0 to 1"}));
  const std::string end = answer({"--help", "lr-end"});
  EXPECT_TRUE(mentions(
      end, {"Only with --lr-schedule cosine or linear", "--lr-end 0.001 --lr-schedule cosine"}));
  EXPECT_TRUE(mentions(answer({"--help", "steps"}), {"Not with  --epochs"}));
}

TEST(Help, ShowsTheDefaultsThatApply) {
  const std::string reuters = answer({"--help"});
  EXPECT_TRUE(mentions(reuters, {"[nadam]", "Learning rate [0.001]", "--steps [10]",
                                 "Training steps [set by --epochs]", "[set by --global-batch]"}));
  EXPECT_TRUE(mentions(answer({"--help"}, {"train_texts", "texts"}), {"Learning rate [0.002]"}));
  const Program images{.name = "train_images", .dataset = "folder", .resizes = true};
  const std::string photos = answer({"--help-all"}, images);
  EXPECT_TRUE(
      mentions(photos, {"--steps [90; 10 with", "together [48]", "warm-up from 0 [0; 1 with",
                        "Learning rate [0.1 for a batch of 256; 512 with", "[resnet18, below 64",
                        "[set by --epochs]"}));
  EXPECT_TRUE(mentions(answer({"--help", "sync-bn"}, images), {"Default   on\n"}));
}

TEST(Help, NamesTheNearestOptions) {
  for (const auto& [topic, near] :
       {std::pair("momentun", "--momentum"), {"decay", "--weight-decay"}}) {
    try {
      answer({"--help", topic});
      FAIL() << topic;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), kExitUsage);
      EXPECT_TRUE(mentions(std::string(error.what()), {near})) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
