// A whole run on an asynchronous device, stopped and resumed or not, writes the same as one on the
// CPU.
#include "apps/run/trainer.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "collectives/comm/flight_recorder.h"
#include "net/checkpoint.h"
#include "net/model.h"
#include "src/base/random.h"
#include "src/base/table.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/files.h"
#include "tests/support/idx.h"
#include "tests/support/parsed_options.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

/// Names of the regular files of all calls of fsync() by any thread, in order.
Words& synced() {
  static Words names;
  return names;
}
std::mutex synced_lock;
bool sync_of_lines_fails = false;

}  // namespace
}  // namespace lockstep

/// Replaces the C library's function.
extern "C" int fsync(int descriptor) {
  using namespace lockstep;
  std::error_code error;
  const auto path =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
  if (std::filesystem::is_regular_file(path, error)) {
    const std::lock_guard lock(synced_lock);
    synced().push_back(path.filename());
  }
  if (sync_of_lines_fails && path.filename() == "metrics.jsonl") {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace lockstep {
namespace {

/// `count` digits of noise in MNIST's format.
void put_digits(const std::filesystem::path& folder, const std::string& part, std::int64_t count) {
  Random random(1, Purpose::generate, 0, 0);
  const auto pixel = [&](std::int64_t i, std::int64_t place) {
    const auto image = static_cast<std::uint32_t>(i);
    if (place == 0) random = Random(1, Purpose::generate, 0, image);
    return static_cast<int>(random.below(20 * (1 + image % 10)));
  };
  put(folder / (part + "-images-idx3-ubyte"), idx_images(count, pixel));
  put(folder / (part + "-labels-idx1-ubyte"),
      idx_labels(count, [](std::int64_t i) { return i % 10; }));
}

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    if (world().comm().rank() == 0) {
      owned_.emplace();
      put_digits(owned_->path(), "train", 70);
      put_digits(owned_->path(), "t10k", 30);
    }
    folder_ = world().comm().broadcast(owned_ ? owned_->path().string() : "");
  }
  void TearDown() override { world().comm().barrier(); }

  std::string logs(const std::string& name) const { return folder_ + "/runs/" + name; }
  std::string checkpoints(const std::string& name) const { return logs(name) + "/checkpoints"; }
  std::string checkpoint(const std::string& name, int step) const {
    return fmt::format("{}/step-{:010}.h5", checkpoints(name), step);
  }

  /// Runs `name` on `device` with `more` options. The last rank stops it at the `stop`th vote.
  int run(const std::string& name, Device& device, int stop = 0, const std::string& rate = "0.01",
          const Words& more = {}) {
    Words words;
    for (const auto& [option, value] :
         std::map<std::string, std::string>{{"--data", folder_},
                                            {"--model", "resnet_small"},
                                            {"--batch", "4"},
                                            {"--steps", "16"},
                                            {"--log-every", "3"},
                                            {"--eval-every", "10"},
                                            {"--summary-every", "9"},
                                            {"--checkpoint-every", "8"},
                                            {"--keep", "0"},
                                            {"--momentum", "0.9"},
                                            {"--lr", rate},
                                            {"--threads", "1"},
                                            {"--bucket-mb", "0.1"},
                                            {"--run", logs(name)}}) {
      words.insert(words.end(), {option, value});
    }
    words.insert(words.end(), more.begin(), more.end());
    std::string text;
    const auto options = parsed_options(words, {"train_mnist", "mnist"}, text);
    const bool last = world().comm().rank() == world().comm().size() - 1;
    int asked = 0, code = kExitFailure;
    try {
      code = train(
          world(), *options, [&] { return stop > 0 && last && ++asked >= stop; }, &device);
    } catch (const AgreedError& error) {
      if (error.exit_code() != kExitRequeue) throw;
      code = error.exit_code();
    }
    world().comm().barrier();
    return code;
  }

  /// The lines of run `name` about training and evaluations, without times.
  std::vector<std::string> lines(const std::string& name) const {
    std::ifstream in(logs(name) + "/metrics.jsonl");
    std::vector<std::string> result;
    for (std::string line; std::getline(in, line);) {
      auto row = nlohmann::json::parse(line);
      if (row["kind"] == "run" || row["kind"] == "checkpoint" || row["kind"] == "host") continue;
      for (const char* field :
           {"time", "images_per_s", "seconds_per_batch", "exposed_communication", "loader_wait",
            "straggler", "straggler_seconds", "forward", "backward", "optimizer"})
        row.erase(field);
      result.push_back(row.dump());
    }
    return result;
  }

  /// The arenas in the checkpoint of `step`.
  std::vector<std::vector<float>> state(const std::string& name, int step) const {
    const auto device = make_cpu_device(1);
    const Model model(*device, find(models(), "resnet_small"), {1, 28, 28, 1}, 10, Type::f32, true);
    const auto count = static_cast<std::size_t>(model.layout().count);
    std::vector<std::vector<float>> arenas(3, std::vector<float>(count));
    const Checkpoint file(checkpoint(name, step));
    EXPECT_EQ(file.metadata().position.step, step);
    file.load(model.layout(), {{"parameters", arenas[0].data()},
                               {"optimizer/momentum", arenas[1].data(), true},
                               {"ema", arenas[2].data()}});
    return arenas;
  }

  void expect_same_runs(const std::string& is, const std::string& wanted) const {
    if (world().comm().rank() != 0) return;
    SCOPED_TRACE(is);
    EXPECT_EQ(lines(is), lines(wanted));
    for (const int step : {8, 16})
      EXPECT_EQ(state(is, step), state(wanted, step)) << "step " << step;
  }

 private:
  std::optional<TemporaryDirectory> owned_;
  std::string folder_;
};

TEST_F(Runs, SyncTheirRowsBeforeEachCheckpoint) {
  for (const bool fails : {false, true}) {
    const std::string name = fails ? "failing" : "synced";
    synced().clear();
    sync_of_lines_fails = fails;
    EXPECT_EQ(run(name, *make_cpu_device(1)), kExitSuccess) << "a failure is a warning";
    sync_of_lines_fails = false;
    if (world().comm().rank() != 0) continue;
    int saved = 0;
    bool rows = false;  // since the checkpoint before
    for (const std::string& file : synced()) {
      rows |= file == "metrics.jsonl";
      if (!file.starts_with("step-")) continue;
      ++saved;
      EXPECT_TRUE(std::exchange(rows, false)) << file;
    }
    EXPECT_GE(saved, 2);
  }
}

TEST_F(Runs, OnAnAsynchronousDeviceEqualTheCpus) {
  EXPECT_EQ(run("cpu", *make_cpu_device(1)), kExitSuccess);
  if (world().comm().rank() == 0) {
    ASSERT_EQ(lines("cpu").size(), 9u);  // steps 1, 3, 6, 9, 12, 15 and 16; two evaluations
    EXPECT_GT(nlohmann::json::parse(lines("cpu")[0])["penalty"], 0);
  }
  for (const int ahead : {0, 4}) {
    const std::string name = "ahead" + std::to_string(ahead);
    const auto device = make_async_device({.guard_pages = ahead > 0, .run_ahead = ahead});
    EXPECT_EQ(run(name, *device, 0, "0.01", {"--progress", ahead > 0 ? "poll" : "auto"}),
              kExitSuccess);
    expect_same_runs(name, "cpu");
  }
}

TEST_F(Runs, StoppedAndResumedAreTheSameAtAnyLag) {
  EXPECT_EQ(run("whole", *make_cpu_device(1)), kExitSuccess);
  for (const int ahead : {0, 4}) {
    const std::string name = "stopped" + std::to_string(ahead);
    const auto device = make_async_device({.guard_pages = false, .run_ahead = ahead});
    // Votes with the third step. The run stops when up to `ahead` others are under way: none right
    // after a state in memory, for which all steps are collected.
    EXPECT_EQ(run(name, *device, 5 + 3), kExitRequeue);
    const std::int64_t stopped =
        read_metadata(list_checkpoints(checkpoints(name)).front()).position.step;
    EXPECT_GE(stopped, 3);
    EXPECT_LE(stopped, 3 + ahead);
    // Resumed on the other device, and again on this one.
    EXPECT_EQ(run(name, *make_cpu_device(1), 5 + 2), kExitRequeue);
    EXPECT_TRUE(std::filesystem::exists(checkpoint(name, stopped + 2)));
    EXPECT_EQ(run(name, *device), kExitSuccess);
    if (world().comm().rank() == 0) {
      EXPECT_EQ(state(name, 16), state("whole", 16));
      const std::vector<std::string> told = lines(name);  // also the first step of each start
      for (const std::string& line : lines("whole"))
        EXPECT_EQ(std::count(told.begin(), told.end(), line), 1) << line;
    }
  }
}

TEST_F(Runs, ThatDivergeNameTheStepAndSaveNothing) {
  std::string wanted;
  for (const bool later : {false, true}) {
    const std::string name = later ? "later" : "cpu";
    const auto device = later ? make_async_device() : make_cpu_device(1);
    const std::string error = agreed_error_of([&] { run(name, *device, 0, "1e18"); });
    EXPECT_TRUE(mentions(error, {"diverged", "step"}));
    if (!later) wanted = error;
    EXPECT_EQ(error, wanted);
    EXPECT_TRUE(list_checkpoints(checkpoints(name)).empty());
    world().comm().barrier();
  }
}

/// A convolution that records the last mark of this rank at the beginning of each pass.
class MarkedAffine : public AffinePlan {
 public:
  MarkedAffine(std::unique_ptr<AffinePlan> plan, std::vector<std::int64_t>& marks)
      : plan_(std::move(plan)), marks_(marks) {}

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    note(stream);
    plan_->forward(stream, x, w, b, y, scratch);
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    note(stream);
    plan_->backward_data(stream, dy, w, dx, scratch);
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    note(stream);
    plan_->backward_weights(stream, x, dy, dw, db, scratch);
  }
  std::size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  std::string implementation() const override { return plan_->implementation(); }

 private:
  void note(Stream& stream) {
    stream.enqueue(
        [&marks = marks_] { marks.push_back(world().flight_recorder().mine().read().mark_ns); });
  }

  std::unique_ptr<AffinePlan> plan_;
  std::vector<std::int64_t>& marks_;
};

class MarkedDevice : public WrappedDevice {
 public:
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return std::make_unique<MarkedAffine>(WrappedDevice::convolution(spec), marks);
  }
  std::vector<std::int64_t> marks;
};

// A batch may take longer than --timeout if each pass of each layer takes less.
TEST_F(Runs, MarkProgressInEachPassOfEachLayer) {
  for (const Words& more : {Words{}, Words{"--sync-bn", "--accumulate", "2"}}) {
    MarkedDevice device;
    EXPECT_EQ(run("marks" + std::to_string(more.size()), device, 0, "0.01", more), kExitSuccess);
    const std::vector<std::int64_t>& marks = device.marks;
    ASSERT_GT(marks.size(), 16u * 2 * 7);
    for (std::size_t i = 1; i < marks.size(); ++i)
      ASSERT_GT(marks[i], marks[i - 1]) << "pass " << i << " of " << marks.size();
  }
}

}  // namespace
}  // namespace lockstep
