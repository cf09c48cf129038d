// TensorBoard event files, read back record by record.
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "event.pb.h"
#include "src/base/crc32c.h"
#include "src/report/report.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/pattern.h"

namespace lockstep {
namespace {

std::uint64_t little_endian(const std::string& bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

/// The events of a file whose every checksum is right.
std::vector<proto::Event> events_of(const std::filesystem::path& file) {
  const std::string bytes = contents(file);
  std::vector<proto::Event> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = little_endian(bytes, at, 8);
    EXPECT_EQ(little_endian(bytes, at + 8, 4), masked_crc32c(bytes.substr(at, 8)));
    if (at + 16 + length > bytes.size()) {
      ADD_FAILURE() << "the last record is cut";
      break;
    }
    const std::string event = bytes.substr(at + 12, length);
    EXPECT_EQ(little_endian(bytes, at + 12 + length, 4), masked_crc32c(event));
    EXPECT_TRUE(events.emplace_back().ParseFromString(event));
    at += 16 + length;
  }
  return events;
}

class EventFileTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
};

TEST_F(EventFileTest, ReadsBackWhatWasWritten) {
  EventFile file(directory_.path(), 7);
  const Histogram h = histogram(std::vector<float>{-1.0f, 0.5f, 0.5f, 3.0f});
  file.scalars(10, {{"train/loss", 4.5}, {"train/learning_rate", 0.1}});
  file.histograms(20, {{"conv1/weights", h}, {"nothing", Histogram{}}});
  file.scalars(std::int64_t{1} << 40, {{"train/loss", std::nan("")}});
  file.flush();
  const std::vector<proto::Event> events = events_of(file.path());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_NEAR(events[0].wall_time(), static_cast<double>(std::time(nullptr)), 60);
  EXPECT_EQ(events[1].session_log().status(), proto::SessionLog::START);
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[2].step(), 10);
  ASSERT_EQ(events[2].summary().value_size(), 2);
  EXPECT_EQ(events[2].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 4.5f);
  EXPECT_EQ(events[2].summary().value(1).simple_value(), 0.1f);
  ASSERT_EQ(events[3].summary().value_size(), 2);
  const proto::HistogramProto& histo = events[3].summary().value(0).histo();
  EXPECT_EQ(histo.min(), -1);
  EXPECT_EQ(histo.max(), 3);
  EXPECT_EQ(histo.num(), 4);
  EXPECT_EQ(histo.sum(), 3);
  EXPECT_EQ(histo.sum_squares(), 10.5);
  EXPECT_EQ(std::vector<double>(histo.bucket_limit().begin(), histo.bucket_limit().end()),
            h.limits);
  EXPECT_EQ(std::vector<double>(histo.bucket().begin(), histo.bucket().end()), h.counts);
  EXPECT_EQ(events[4].step(), std::int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[4].summary().value(0).simple_value()));
}

TEST_F(EventFileTest, ASessionHasTheOptions) {
  EventFile file(directory_.path());
  file.begin_session({{"lr", 0.1}, {"nesterov", true}, {"model", "keras"}});
  file.end_session();
  file.flush();
  const std::vector<proto::Event> events = events_of(file.path());
  ASSERT_EQ(events.size(), 3u);
  std::vector<proto::HParamsPluginData> data;
  for (std::size_t i = 1; i < events.size(); ++i) {
    const proto::Summary::Value& value = events[i].summary().value(0);
    EXPECT_TRUE(value.tag().starts_with("_hparams_/session_"));
    EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "hparams");
    EXPECT_TRUE(data.emplace_back().ParseFromString(value.metadata().plugin_data().content()));
  }
  const auto& options = data[0].session_start_info().hparams();
  EXPECT_EQ(options.at("lr").number_value(), 0.1);
  EXPECT_TRUE(options.at("nesterov").bool_value());
  EXPECT_EQ(options.at("model").string_value(), "keras");
  EXPECT_EQ(data[1].session_end_info().status(), proto::SessionEndInfo::SUCCESS);
}

TEST_F(EventFileTest, NamesDifferEvenWithinASecond) {
  EventFile a(directory_.path()), b(directory_.path()), c(directory_.path());
  EXPECT_EQ(directory_.names().size(), 3u);
  const std::string name = a.path().filename().string();
  EXPECT_TRUE(matches(name, "events\\.out\\.tfevents\\.\\d{10}\\..+\\.\\d+\\.0")) << name;
  a.flush();
  EXPECT_EQ(events_of(a.path()).size(), 1u) << "a reader knows the file before its first value";
}

TEST_F(EventFileTest, TheDestructorWritesTheRest) {
  std::filesystem::path path;
  {
    EventFile file(directory_.path());
    path = file.path();
    for (int step = 0; step < 50000; ++step)
      file.scalars(step, {{"train/loss", step}});  // more than a buffer
    EXPECT_GT(std::filesystem::file_size(path), 1u << 20) << "nor is all of it kept in memory";
  }
  const std::vector<proto::Event> events = events_of(path);
  ASSERT_EQ(events.size(), 50001u);
  EXPECT_EQ(events.back().summary().value(0).simple_value(), 49999.0f);
}

TEST_F(EventFileTest, ReportsAFullDisk) {
  const FileSizeLimit limit(200);
  EventFile file(directory_.path());
  file.scalars(1, {{std::string(300, 'x'), 1}});
  expect_error({file.path().string(), "File too large"}, [&] { file.flush(); });
}

TEST_F(EventFileTest, ReportsAMissingDirectory) {
  expect_error({"No such file or directory"}, [&] { EventFile file(directory_ / "none"); });
}

/// Not a test of its own: tests/apps/tensorboard.sh reads with TensorBoard what this writes to
/// $EVENT_DIRECTORY: a run, and the run that goes on from step 20 of it.
TEST(EventFile, DISABLED_WritesForTensorBoard) {
  const char* directory = std::getenv("EVENT_DIRECTORY");
  ASSERT_NE(directory, nullptr) << "EVENT_DIRECTORY is not set";
  std::vector<float> values;
  for (int i = -1000; i <= 1000; ++i) values.push_back(static_cast<float>(i) / 1000);
  {
    EventFile first(directory, 1);
    first.begin_session({{"lr", 0.1}, {"nesterov", true}, {"model", "keras"}});
    for (const int step : {10, 20, 30}) first.scalars(step, {{"train/loss", 1.0 / step}});
    first.histograms(10, {{"conv1/weights", histogram(values)},
                          {"conv1/biases", histogram(std::vector<float>(64, 0.0f))}});
  }
  EventFile second(directory, 21);
  for (const int step : {30, 40}) second.scalars(step, {{"train/loss", 2.0 / step}});
  second.end_session();
}

}  // namespace
}  // namespace lockstep
