// JSON lines: numbers read back exactly, a resumed run drops what it will do again, failures are
// told.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "src/random.h"
#include "src/report/report.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

TEST(JsonLines, WholeNumbersHaveNoFractionAndOrderIsKept) {
  const TemporaryDirectory directory;
  JsonLines lines(directory / "metrics.jsonl", -1);
  lines.write("train", {{"step", 10}, {"loss", 4.625}, {"epoch", 0}, {"batch", -3}});
  EXPECT_EQ(contents(directory / "metrics.jsonl"),
            R"({"kind":"train","step":10,"loss":4.625,"epoch":0,"batch":-3})"
            "\n")
      << "and it is not held back";
  lines.write("evaluation", {{"step", 9007199254740991.0}, {"large", 1e300}});
  EXPECT_EQ(contents(directory / "metrics.jsonl").substr(61),
            R"({"kind":"evaluation","step":9007199254740991,"large":1e+300})"
            "\n");
}

TEST(JsonLines, EveryNumberReadsBackExactly) {
  const TemporaryDirectory directory;
  Random random(3, Purpose::generate, 0, 0);
  std::vector<double> numbers = {0.1,
                                 -0.0,
                                 1.0 / 3,
                                 std::numeric_limits<double>::denorm_min(),
                                 9007199254740993e3,
                                 std::numeric_limits<double>::max(),
                                 -std::numeric_limits<double>::min()};
  while (numbers.size() < 1000) {
    const double value = std::bit_cast<double>(std::uint64_t{random.next()} << 32 | random.next());
    if (std::isfinite(value)) numbers.push_back(value);
  }
  JsonLines::Fields fields;
  for (const double value : numbers) fields.emplace_back(fmt::format("x{}", fields.size()), value);
  JsonLines(directory / "a", -1).write("train", fields);
  const std::string text = contents(directory / "a");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string key = fmt::format("\"x{}\":", i);
    const double back = std::strtod(text.c_str() + text.find(key) + key.size(), nullptr);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(numbers[i]))
        << numbers[i];
  }
}

TEST(JsonLines, WhatJsonHasNoNumbersForIsText) {
  const TemporaryDirectory directory;
  const double infinity = std::numeric_limits<double>::infinity();
  JsonLines(directory / "a", -1)
      .write("train", {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}});
  EXPECT_EQ(contents(directory / "a"),
            R"({"kind":"train","a":"NaN","b":"Infinity","c":"-Infinity"})"
            "\n");
}

TEST(JsonLines, AResumedRunDropsTheStepsItWillDoAgain) {
  const TemporaryDirectory directory;
  const std::string a = R"({"kind":"train","step":10})", b = R"({"kind":"train","step":20})",
                    c = R"({"kind":"evaluation","step":20})", d = R"({"kind":"train","step":30})",
                    note = R"({"kind":"note"})";
  put(directory / "a", a + "\n" + b + "\n" + note + "\n" + c + "\n" + d + "\n");
  JsonLines(directory / "a", 20).write("train", {{"step", 20}});
  EXPECT_EQ(contents(directory / "a"), a + "\n" + note + "\n" + b + "\n");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"a"});
}

TEST(JsonLines, TheHalfLineOfACrashIsDroppedAndTheRestKept) {
  const TemporaryDirectory directory;
  const std::string whole = R"({"kind":"train","step":10})";
  for (const char* rest : {R"({"kind":"tra)", R"({"kind":"train","step":20})", "\n\n", "17\n"}) {
    put(directory / "a", whole + "\n" + rest);
    JsonLines(directory / "a", -1).write("train", {{"step", 10}});
    EXPECT_EQ(contents(directory / "a"), whole + "\n" + whole + "\n") << rest;
  }
}

TEST(JsonLines, AFullDiskIsTold) {
  JsonLines lines("/dev/full", 5);
  const std::string text = error_of([&] { lines.write("train", {{"step", 1}}); });
  EXPECT_NE(text.find("cannot write /dev/full: No space left on device"), std::string::npos)
      << text;
}

TEST(JsonLines, ADirectoryThatIsNotThereIsTold) {
  const TemporaryDirectory directory;
  const std::string text = error_of([&] { JsonLines(directory / "none/a", -1); });
  EXPECT_NE(text.find((directory / "none/a").string() + ": No such file or directory"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace lockstep
