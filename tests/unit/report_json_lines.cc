// JSON lines: numbers read back exactly, a resumed run drops what it will do again, failures are
// told.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/base/random.h"
#include "src/report/report.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/pattern.h"

namespace lockstep {
namespace {

class JsonLinesTest : public testing::Test {
 protected:
  /// The lines without their times.
  std::string timeless() const {
    return replaced(contents(file_), "\"time\":[0-9]+\\.[0-9]{3},", "");
  }
  const TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_ / "metrics.jsonl";
};

TEST_F(JsonLinesTest, WholeNumbersHaveNoFractionAndOrderIsKept) {
  JsonLines lines(file_, -1);
  lines.write("train", {{"step", 10}, {"loss", 4.625}, {"epoch", 0}, {"batch", -3}});
  EXPECT_EQ(timeless(), R"({"kind":"train","step":10,"loss":4.625,"epoch":0,"batch":-3})"
                        "\n")
      << "and it is not held back";
  lines.write("evaluation", {{"step", 9007199254740991.0}, {"large", 1e300}});
  EXPECT_EQ(timeless().substr(61), R"({"kind":"evaluation","step":9007199254740991,"large":1e+300})"
                                   "\n");
}

TEST_F(JsonLinesTest, EveryNumberReadsBackExactly) {
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
  nlohmann::ordered_json fields;
  for (const double value : numbers) fields[fmt::format("x{}", fields.size())] = value;
  JsonLines(file_, -1).write("train", fields);
  const std::string text = contents(file_);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string key = fmt::format("\"x{}\":", i);
    const double back = std::strtod(text.c_str() + text.find(key) + key.size(), nullptr);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(numbers[i]))
        << numbers[i];
  }
}

TEST_F(JsonLinesTest, NanAndInfinitiesAreStrings) {
  const double infinity = std::numeric_limits<double>::infinity();
  JsonLines(file_, -1).write("train", {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}});
  EXPECT_EQ(timeless(), R"({"kind":"train","a":"NaN","b":"Infinity","c":"-Infinity"})"
                        "\n");
}

TEST_F(JsonLinesTest, EachLineHasATime) {
  const double before = wall_time();
  JsonLines(file_, -1).write("run", {{"step", 0}, {"options", {{"lr", 0.1}}}});
  const std::string text = contents(file_);
  EXPECT_EQ(timeless(), R"({"kind":"run","step":0,"options":{"lr":0.1}})"
                        "\n");
  const double time = std::strtod(text.c_str() + text.find("\"time\":") + 7, nullptr);
  EXPECT_GE(time, before - 0.001);
  EXPECT_LE(time, wall_time() + 0.001);
}

TEST_F(JsonLinesTest, AResumedRunDropsLaterSteps) {
  const std::string a = R"({"kind":"train","step":10})", b = R"({"kind":"train","step":20})",
                    c = R"({"kind":"evaluation","step":20})", d = R"({"kind":"train","step":30})",
                    note = R"({"kind":"note"})";
  put(file_, a + "\n" + b + "\n" + note + "\n" + c + "\n" + d + "\n");
  JsonLines(file_, 20).write("train", {{"step", 20}});
  EXPECT_EQ(timeless(), a + "\n" + note + "\n" + b + "\n");
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"metrics.jsonl"});

  const std::string run = R"({"kind":"run","step":20})",
                    before = R"({"kind":"evaluation","step":10})";
  put(file_, before + "\n" + run + "\n" + b + "\n" + c + "\n" + d + "\n");
  JsonLines(file_, 21, "evaluation").write("evaluation", {{"step", 20}});
  EXPECT_EQ(timeless(), before + "\n" + run + "\n" + b + "\n" + c + "\n")
      << "and of its last step what it redoes";
}

TEST_F(JsonLinesTest, DropsTheHalfLineOfACrash) {
  const std::string whole = R"({"kind":"train","step":10})";
  for (const char* rest : {R"({"kind":"tra)", R"({"kind":"train","step":20})", "\n\n", "17\n"}) {
    put(file_, whole + "\n" + rest);
    JsonLines(file_, -1).write("train", {{"step", 10}});
    EXPECT_EQ(timeless(), whole + "\n" + whole + "\n") << rest;
  }
}

TEST_F(JsonLinesTest, ReportsAFullDisk) {
  JsonLines lines("/dev/full", 5);
  expect_error({"/dev/full", "No space left on device"}, [&] {
    lines.write("train", {{"step", 1}});
  });
}

TEST_F(JsonLinesTest, WritesPendingLinesWhenThereIsRoom) {
  JsonLines lines(file_, -1);
  std::string one;
  {
    const FileSizeLimit limit(100);
    lines.write("train", {{"step", 1}});
    one = contents(file_);
    for (int step = 2; step < 9; ++step) {
      try {
        lines.write("train", {{"step", step}});
      } catch (const Error&) {
      }
    }
    EXPECT_TRUE(contents(file_).ends_with("}\n")) << "no half line";
    EXPECT_NE(error_of([&] { lines.flush(); }), "");
  }
  const std::string waiting = lines.waiting(), written = contents(file_);
  lines.flush();
  lines.recover(waiting);
  const std::string text = contents(file_);
  EXPECT_TRUE(text.starts_with(one));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
  for (int step = 1; step < 9; ++step)
    EXPECT_TRUE(mentions(text, {fmt::format("\"step\":{}}}\n", step)})) << step;
  JsonLines other(directory_ / "other", -1);
  other.recover(waiting + "half a line");
  other.recover("half a line");
  EXPECT_EQ(written + contents(directory_ / "other"), text) << "as another process reads them";
}

TEST_F(JsonLinesTest, LimitsPendingLines) {
  JsonLines lines(file_, -1);
  {
    const FileSizeLimit limit(100);
    EXPECT_THROW(lines.write("train", {{"x", std::string(65 << 20, 'x')}}), Error);
  }
  lines.write("train", {{"step", 1}});
  EXPECT_EQ(timeless(), "{\"kind\":\"train\",\"step\":1}\n");
}

TEST_F(JsonLinesTest, ReportsAMissingDirectory) {
  expect_error({(directory_ / "none/a").string(), "No such file or directory"},
               [&] { JsonLines(directory_ / "none/a", -1); });
}

TEST_F(JsonLinesTest, LogsAreSetAsideAndNeverOverwritten) {
  for (const char* run : {"one", "two"}) {
    put(file_, run);
    put(directory_ / "events.out.tfevents.1", run);
    put(directory_ / "notes.txt", run);
    const auto folder = set_logs_aside(directory_.path());
    EXPECT_EQ(folder, directory_ / (std::string(run) == "one" ? "earlier-1" : "earlier-2"));
  }
  EXPECT_EQ(contents(directory_ / "earlier-1/metrics.jsonl"), "one");
  EXPECT_EQ(contents(directory_ / "earlier-1/events.out.tfevents.1"), "one");
  EXPECT_EQ(contents(directory_ / "earlier-2/metrics.jsonl"), "two");
  EXPECT_EQ(directory_.names(), (std::vector<std::string>{"earlier-1", "earlier-2", "notes.txt"}));
}

}  // namespace
}  // namespace lockstep
