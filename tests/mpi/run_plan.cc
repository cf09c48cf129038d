// What a run that goes on takes over from its checkpoint, refuses, and notes.
#include "apps/run_plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "apps/circumstances.h"
#include "tests/mpi/world.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSamples = 12800;
const char* const kData = "one.bin = crc32c 00000001\ntwo.bin = crc32c 00000002\n";

/// A run that has done 10 steps of 120 samples in 12 shards.
Resumption ten_steps() {
  Resumption r;
  r.file = "c/step-0000000010.h5";
  r.metadata = {{10, 1200, 0, 1},
                {{"global_batch", "120"}, {"shards", "12"}, {"threads", "1"}, {"data", kData}}};
  r.run = "4a11";
  r.parent = "77 at step 5";
  return r;
}

RunPlan plan(const Options& options, const Resumption& resumption,
             const std::string& data = kData) {
  return plan_run(options, world().comm(), 1, kSamples, data, resumption);
}

TEST(RunPlan, EpochsCountSamplesWhateverTheBatchWas) {
  Options options;
  options.epochs = 1;
  EXPECT_EQ(plan(options, ten_steps()).steps, 107);  // 12800 / 120
  options.global_batch = 240;
  options.batch_given = true;
  EXPECT_EQ(plan(options, ten_steps()).steps, 10 + 48);  // the other 11600, 240 at a time
  options.epochs = 0.05;
  EXPECT_EQ(plan(options, ten_steps()).steps, 10) << "more is done already";
}

TEST(RunPlan, KeepsItsRun) {
  const RunPlan p = plan({}, ten_steps());
  EXPECT_EQ(p.run, "4a11");
  EXPECT_EQ(p.parent, "77 at step 5");
  EXPECT_EQ(p.shards, 12);
  EXPECT_EQ(p.notes.size(), 1u) << fmt::format("{}", fmt::join(p.notes, "\n"));
}

TEST(RunPlan, RefusesOtherDataByTheNameOfTheFile) {
  try {
    plan({}, ten_steps(), "one.bin = crc32c 00000001\ntwo.bin = crc32c 00000003\n");
    FAIL() << "took other data";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), kExitUsage);
    EXPECT_EQ(std::string(error.what()),
              "step-0000000010.h5 was trained on other data: two.bin = crc32c 00000003, not crc32c "
              "00000002; say --data with the files that it had, or train anew in another "
              "--checkpoint-dir");
  }
}

TEST(RunPlan, AnEarlyCheckpointWithoutChecksumsIsNoted) {
  Resumption early = ten_steps();
  early.metadata.texts.erase("data");
  const RunPlan p = plan({}, early);
  EXPECT_NE(fmt::format("{}", fmt::join(p.notes, "\n")).find("does not say on which data"),
            std::string::npos);
}

TEST(Circumstances, EachChangeIsOneNote) {
  const Circumstances before = {
      {"options", "lr=0.1\nlog-every=1\n"},     {"version", "0.1"},    {"all_threads", "2"},
      {"arithmetic", "oneDNN 2.6.3 with AVX2"}, {"sums", "canonical"}, {"steps", "100"}};
  RateOptions rate;
  EXPECT_TRUE(changes(before, before, rate).empty());
  EXPECT_TRUE(changes({}, before, rate).empty()) << "what is not known has not changed";
  const auto note_of = [&](const char* name, const char* value) {
    Circumstances now = before;
    now[name] = value;
    const std::vector<std::string> notes = changes(before, now, rate);
    EXPECT_LE(notes.size(), 1u);
    return notes.empty() ? "" : notes.front();
  };
  EXPECT_EQ(note_of("options", "lr=0.2\nlog-every=5\n"),
            "--lr is now 0.2, not 0.1 as before: this is no longer the same run");
  EXPECT_EQ(note_of("version", "0.2"),
            "this is Lockstep 0.2, not 0.1 as before: weights may differ in the last bits");
  EXPECT_EQ(note_of("all_threads", "2, 1"),
            "now 2, 1 threads on each rank, not 2 as before: weights will differ in the last bits "
            "(--threads 2 keeps them)");
  EXPECT_EQ(
      note_of("arithmetic", "oneDNN 2.6.3 with AVX-512"),
      "the arithmetic is now oneDNN 2.6.3 with AVX-512, not oneDNN 2.6.3 with AVX2 as before: "
      "weights will differ in the last bits");
  EXPECT_EQ(note_of("sums", "that of mpi on 2 ranks in buckets of 1 MiB"),
            "the order of sums is now that of mpi on 2 ranks in buckets of 1 MiB, not canonical as "
            "before: weights will differ in the last bits");
  EXPECT_EQ(note_of("steps", "200"), "") << "this schedule does not look at the end";
  for (const char* schedule : {"cosine", "linear"}) {
    rate.schedule = schedule;
    EXPECT_EQ(note_of("steps", "200"),
              fmt::format("the run now ends at step 200, not 100 as before, and --lr-schedule {} "
                          "depends on it: this is no longer the same run",
                          schedule));
  }
}

}  // namespace
}  // namespace lockstep
