// JSON lines: numbers read back exactly, a resumed run drops what it will do again, failures are
// told.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <regex>

#include "src/base/random.h"
#include "src/report/report.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

/// The contents of `path` without the times of its lines.
std::string timeless(const std::filesystem::path& path) {
  return std::regex_replace(contents(path), std::regex("\"time\":[0-9]+\\.[0-9]{3},"), "");
}

TEST(JsonLines, WholeNumbersHaveNoFractionAndOrderIsKept) {
  const TemporaryDirectory directory;
  JsonLines lines(directory / "metrics.jsonl", -1);
  lines.write("train", {{"step", 10}, {"loss", 4.625}, {"epoch", 0}, {"batch", -3}});
  EXPECT_EQ(timeless(directory / "metrics.jsonl"),
            R"({"kind":"train","step":10,"loss":4.625,"epoch":0,"batch":-3})"
            "\n")
      << "and it is not held back";
  lines.write("evaluation", {{"step", 9007199254740991.0}, {"large", 1e300}});
  EXPECT_EQ(timeless(directory / "metrics.jsonl").substr(61),
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

TEST(JsonLines, NanAndInfinitiesAreStrings) {
  const TemporaryDirectory directory;
  const double infinity = std::numeric_limits<double>::infinity();
  JsonLines(directory / "a", -1)
      .write("train", {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}});
  EXPECT_EQ(timeless(directory / "a"),
            R"({"kind":"train","a":"NaN","b":"Infinity","c":"-Infinity"})"
            "\n");
}

TEST(JsonLines, EachLineHasATimeAndObjectsMayBeText) {
  const TemporaryDirectory directory;
  const double before = wall_time();
  JsonLines(directory / "a", -1).write("run", R"({"step":0,"options":{"lr":0.1}})");
  const std::string text = contents(directory / "a");
  EXPECT_EQ(timeless(directory / "a"), R"({"kind":"run","step":0,"options":{"lr":0.1}})"
                                       "\n");
  const double time = std::strtod(text.c_str() + text.find("\"time\":") + 7, nullptr);
  EXPECT_GE(time, before - 0.001);
  EXPECT_LE(time, wall_time() + 0.001);
}

TEST(JsonLines, AResumedRunDropsLaterSteps) {
  const TemporaryDirectory directory;
  const std::string a = R"({"kind":"train","step":10})", b = R"({"kind":"train","step":20})",
                    c = R"({"kind":"evaluation","step":20})", d = R"({"kind":"train","step":30})",
                    note = R"({"kind":"note"})";
  put(directory / "a", a + "\n" + b + "\n" + note + "\n" + c + "\n" + d + "\n");
  JsonLines(directory / "a", 20).write("train", {{"step", 20}});
  EXPECT_EQ(timeless(directory / "a"), a + "\n" + note + "\n" + b + "\n");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"a"});

  const std::string run = R"({"kind":"run","step":20})",
                    before = R"({"kind":"evaluation","step":10})";
  put(directory / "a", before + "\n" + run + "\n" + b + "\n" + c + "\n" + d + "\n");
  JsonLines(directory / "a", 21, "evaluation").write("evaluation", {{"step", 20}});
  EXPECT_EQ(timeless(directory / "a"), before + "\n" + run + "\n" + b + "\n" + c + "\n")
      << "and of its last step what it redoes";
}

TEST(JsonLines, DropsTheHalfLineOfACrash) {
  const TemporaryDirectory directory;
  const std::string whole = R"({"kind":"train","step":10})";
  for (const char* rest : {R"({"kind":"tra)", R"({"kind":"train","step":20})", "\n\n", "17\n"}) {
    put(directory / "a", whole + "\n" + rest);
    JsonLines(directory / "a", -1).write("train", {{"step", 10}});
    EXPECT_EQ(timeless(directory / "a"), whole + "\n" + whole + "\n") << rest;
  }
}

TEST(JsonLines, ReportsAFullDisk) {
  JsonLines lines("/dev/full", 5);
  const std::string text = error_of([&] { lines.write("train", {{"step", 1}}); });
  EXPECT_TRUE(mentions(text, {"/dev/full", "No space left on device"}));
}

TEST(JsonLines, WritesPendingLinesWhenThereIsRoom) {
  const TemporaryDirectory directory;
  JsonLines lines(directory / "a", -1);
  std::string one;
  {
    const FileSizeLimit limit(100);
    lines.write("train", {{"step", 1}});
    one = contents(directory / "a");
    for (int step = 2; step < 9; ++step) {
      try {
        lines.write("train", {{"step", step}});
      } catch (const Error&) {
      }
    }
    EXPECT_TRUE(contents(directory / "a").ends_with("}\n")) << "no half line";
    EXPECT_NE(error_of([&] { lines.flush(); }), "");
  }
  lines.flush();
  const std::string text = contents(directory / "a");
  EXPECT_TRUE(text.starts_with(one));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
  for (int step = 1; step < 9; ++step)
    EXPECT_TRUE(mentions(text, {fmt::format("\"step\":{}}}\n", step)})) << step;
}

TEST(JsonLines, LimitsPendingLines) {
  const TemporaryDirectory directory;
  JsonLines lines(directory / "a", -1);
  {
    const FileSizeLimit limit(100);
    const std::string object = "{\"x\":\"" + std::string(65 << 20, 'x') + "\"}";
    EXPECT_THROW(lines.write("train", object), Error);
  }
  lines.write("train", {{"step", 1}});
  EXPECT_EQ(timeless(directory / "a"), "{\"kind\":\"train\",\"step\":1}\n");
}

TEST(JsonLines, ReportsAMissingDirectory) {
  const TemporaryDirectory directory;
  const std::string text = error_of([&] { JsonLines(directory / "none/a", -1); });
  EXPECT_TRUE(mentions(text, {(directory / "none/a").string(), "No such file or directory"}));
}

TEST(Logs, NameTheirRun) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(logged_run(directory.path()).begun) << "no file";
  const std::string run = R"({"kind":"run","step":0,"id":")",
                    step = R"({"kind":"train","step":1})";
  put(directory / "metrics.jsonl", run + "one\"}\n17\n");
  EXPECT_FALSE(logged_run(directory.path()).begun) << "it failed before its first report";
  put(directory / "metrics.jsonl", run + "one\"}\n" + step + "\n" + run + "two\"}\n{\"kind\":");
  EXPECT_TRUE(logged_run(directory.path()).begun);
  EXPECT_EQ(logged_run(directory.path()).run, "two");
}

TEST(Logs, AreSetAsideAndNeverOverwritten) {
  const TemporaryDirectory directory;
  for (const char* run : {"one", "two"}) {
    put(directory / "metrics.jsonl", run);
    put(directory / "events.out.tfevents.1", run);
    put(directory / "notes.txt", run);
    const auto folder = set_logs_aside(directory.path());
    EXPECT_EQ(folder, directory / (std::string(run) == "one" ? "earlier-1" : "earlier-2"));
  }
  EXPECT_EQ(contents(directory / "earlier-1/metrics.jsonl"), "one");
  EXPECT_EQ(contents(directory / "earlier-1/events.out.tfevents.1"), "one");
  EXPECT_EQ(contents(directory / "earlier-2/metrics.jsonl"), "two");
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"earlier-1", "earlier-2", "notes.txt"}));
}

}  // namespace
}  // namespace lockstep
