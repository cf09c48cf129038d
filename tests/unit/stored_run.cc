// Folders of runs as other people may send them: deep values, and more columns than a run has.
#include "src/report/stored_run.h"

#include <gtest/gtest.h>

#include <fstream>

#include "src/report/run_page.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

class StoredRunFiles : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  StoredRun read() const { return read_run(folder_ / "."); }
  /// All that prints values: it ends by a stack overflow if one is too deep.
  void print() const {
    const StoredRun run = read();
    EXPECT_NE(report_page({}, run), "");
    EXPECT_NE(comparison_page({}, {run, run}, {"a", "b"}), "");
    EXPECT_NE(results_of(run).dump(), "");
  }
  TemporaryDirectory folder_;
};

std::string deep(const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < 120'000; ++i) text += open;
  text += "1";
  for (int i = 0; i < 120'000; ++i) text += close;
  return text;
}

TEST_F(StoredRunFiles, LeavesOutValuesThatAreTooDeep) {
  for (const auto& value : {deep("[[", "]]"), deep("[{\"a\":", "}]")}) {
    put("summary.json", "{\"status\":\"complete\",\"step\":3,\"deep\":" + value + "}");
    put("evaluation.json", "{\"classes\":" + value + "}");
    put("metrics.jsonl", "{\"kind\":\"run\",\"steps\":7,\"deep\":" + value +
                             ",\"options\":{\"lr\":" + value +
                             ",\"seed\":5}}\n{\"kind\":\"train\",\"step\":1,\"loss\":" + value +
                             "}\n{\"kind\":\"train\",\"step\":2,\"loss\":0.5}\n");
    print();
    const StoredRun run = read();
    EXPECT_EQ(results_of(run)["status"], "complete");
    EXPECT_EQ(results_of(run)["step"], 3);
    EXPECT_EQ(results_of(run)["train_loss"], 0.5) << "the other rows stay";
    EXPECT_EQ(run.option("seed"), "5");
    put("summary.json", value);
    print();
    EXPECT_TRUE(read().summary.is_null());
  }
}

TEST_F(StoredRunFiles, HasALimitOfColumns) {
  std::string rows = "{\"kind\":\"train\",\"step\":1,\"loss\":0.5}\n";
  for (int i = 0; i < 12'000; ++i)
    rows += "{\"kind\":\"train\",\"x" + std::to_string(i) + "\":1}\n";
  put("metrics.jsonl", rows + "{\"kind\":\"train\",\"step\":2,\"loss\":0.25}\n");
  const StoredRun run = read();
  std::size_t numbers = 0;
  for (const auto& [name, column] : run.of("train").columns) numbers += column.size();
  EXPECT_LE(numbers, 200 * 12'002u) << "not one for each row and name";
  EXPECT_EQ(run.of("train").count, 12'002u);
  EXPECT_EQ(results_of(run)["train_loss"], 0.25) << "known columns go on";
}

}  // namespace
}  // namespace lockstep
