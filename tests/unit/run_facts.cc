// Facts of runs: their differences, and what a run that resumes takes over, refuses and notes.
#include "apps/record/run_facts.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "apps/record/data_facts.h"
#include "apps/record/fact_words.h"
#include "apps/record/resumption.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using Json = RunFacts::Json;

const char* const kData = "one.bin = crc32c 00000001\ntwo.bin = crc32c 00000002\n";

/// A run that has done 10 steps of 120 samples in 12 shards.
Resumption ten_steps(const Json& others = Json::object()) {
  Resumption r;
  r.file = "c/step-0000000010.h5";
  r.metadata = {{10, 1200, 0, 7}, {}};
  Json facts{{"global_batch", 120}, {"shards", 12},        {"threads", 3},
             {"seed", 7},           {"model", "tutorial"}, {"dataset", "cifar10"},
             {"files", kData},      {"network", ""},       {"id", "4a11"}};
  facts.update(others);
  r.before = RunFacts(facts);
  r.run = "4a11";
  return r;
}

/// Options of a command line that could go on with ten_steps().
Options on_cifar() {
  Options options;
  options.data.dataset = "cifar10";
  options.data.place.folders = {std::string("d")};
  options.model.name = "tutorial";
  return options;
}

TEST(Resumption, TakesOpenNumbersFromTheCheckpoint) {
  std::vector<std::string> notes;
  const RunShape shape = resumed_shape(on_cifar(), ten_steps(), 4, notes);
  EXPECT_EQ(shape.seed, 7u);
  EXPECT_EQ(shape.threads, 3);
  EXPECT_EQ(shape.shards, 12);
  EXPECT_EQ(shape.global_batch, 120);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(mentions(notes[0], {"batch 120"}));
}

TEST(Resumption, KeepsOptionsThatTheUserSet) {
  Options options = on_cifar();
  options.device.threads = 5;
  options.schedule.seed = 7;
  options.schedule.shards = 4;
  options.schedule.batch = 32;
  options.schedule.seed_given = options.schedule.shards_given = options.schedule.batch_given = true;
  std::vector<std::string> notes;
  const RunShape shape = resumed_shape(options, ten_steps(), 4, notes);
  EXPECT_EQ(shape.threads, 5);
  EXPECT_EQ(shape.shards, 4);
  EXPECT_EQ(shape.global_batch, 128);
  EXPECT_TRUE(notes.empty()) << fmt::format("{}", fmt::join(notes, "\n"));
}

TEST(Resumption, KeepsTheShardsWhenRanksDoNotDivideThem) {
  std::vector<std::string> notes;
  EXPECT_EQ(resumed_shape(on_cifar(), ten_steps(), 5, notes).shards, 12);
}

TEST(Resumption, NotesAnIdleAccumulate) {
  Options options = on_cifar();
  options.schedule.accumulate = 3;
  std::vector<std::string> notes;
  EXPECT_EQ(resumed_shape(options, ten_steps(), 2, notes).shards, 12);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_TRUE(mentions(notes[1], {"--accumulate 3"}));
  notes.clear();
  EXPECT_EQ(resumed_shape(options, ten_steps(), 4, notes).shards, 12);
  EXPECT_EQ(notes.size(), 1u) << "3 on each of 4 ranks, as --accumulate says";
}

TEST(RunFacts, OptionsMissingInTheCheckpointHadTheirDefaults) {
  const auto changed = [](const Json& before, std::vector<OptionValue> values) {
    Options options;
    options.values = std::move(values);
    return other_run_text(differences(RunFacts(before), RunFacts(Json::object()), options));
  };
  const Json before{{"options", {{"lr", 0.1}}}};
  EXPECT_EQ(changed(before, {{"lr", "0.1", "0.5", true}, {"mixup", "0", "0", true}}), "");
  EXPECT_EQ(changed(before, {{"lr", "0.1", "0.5", true},
                             {"mixup", "0.2", "0", true},
                             {"keep", "7", "3", false},
                             {"init", "\"a.h5\"", "", true}}),
            "--mixup is 0.2, not 0, --init is a.h5, and was not set");
  EXPECT_EQ(changed(Json::object(), {{"lr", "0.2", "0.5", true}}), "") << "without options";
}

TEST(RunFacts, UnnamedRunsHaveTheSameOptionsOfTheCheckpointToo) {
  Options options;
  options.values = {
      {"lr", "0.1", "0.1", true}, {"batch", "8", "", false}, {"keep", "1", "3", false}};
  const RunFacts before(Json{{"options", {{"lr", 0.1}}}}), now;
  EXPECT_EQ(other_run_text(differences(before, now, options)), "");
  EXPECT_EQ(other_run_text(differences(before, now, options, /*unnamed=*/true)),
            "--batch is 8, and was not set");
}

TEST(RunFacts, AreTheSameAfterACheckpoint) {
  const RunFacts facts(
      Json{{"seed", 18446744073709551615U}, {"lr", 0.1f}, {"name", "a\x1b[2J\xff\nb"}});
  EXPECT_EQ(facts.text("name"), "a?[2J\uFFFD\nb");
  EXPECT_EQ(RunFacts::of("c.h5", {{}, {{kFacts, facts.dump()}}}).values(), facts.values());
  EXPECT_TRUE(mentions(error_of([] {
                         RunFacts::of("c.h5", {{}, {{kFacts, "{"}}});
                       }),
                       {"c.h5", "damaged"}));
  EXPECT_FALSE(RunFacts::read(R"({"options": [1]})"));
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_TRUE(RunFacts::read(deep)) << "what is too deep is left out";
  const RunFacts other =
      RunFacts::of("w.safetensors", {{}, {{"model", "m"}, {"class_names", "a\nb"}}});
  EXPECT_EQ(other.texts("class_names"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(other.number("seed"), 0);
}

TEST(RunFacts, OfAnotherKindAreDamage) {
  const std::string whole =
      R"({"id": "4a", "seed": 1, "class_names": ["a"], "sums": {}, "all_threads": "2"})";
  const auto read = [](const std::string& text) {
    return error_of([&] { RunFacts::of("c.h5", {{}, {{kFacts, text}}}); });
  };
  EXPECT_EQ(RunFacts::of("c.h5", {{}, {{kFacts, whole}}}).text("id"), "4a");
  EXPECT_TRUE(mentions(read(whole.substr(0, whole.size() / 2)), {"c.h5", "damaged"}));
  const std::map<std::string, std::vector<Json>> others{{"id", {1, {"a"}, Json()}},
                                                        {"seed", {"1", 1.5, Json()}},
                                                        {"class_names", {"a", 1, Json()}},
                                                        {"sums", {"mpi", {1}, Json()}},
                                                        {"all_threads", {2, Json()}}};
  for (const auto& [name, values] : others) {
    for (const Json& value : values) {
      Json facts = Json::parse(whole);
      facts[name] = value;
      EXPECT_TRUE(mentions(read(facts.dump()), {"c.h5", "damaged", name, value.dump()}));
    }
  }
  for (const Json& sums : {Json{{"ranks", "two"}}, Json{{"reducer", 1}, {"ranks", 2}}})
    EXPECT_EQ(order_words(sums), sums.dump());
}

/// The error of resumed_shape for ten_steps() with other facts.
std::string refusal(const std::function<void(Options&)>& change, int ranks = 4,
                    const Json& facts = Json::object()) {
  Options options = on_cifar();
  change(options);
  std::vector<std::string> notes;
  return error_of([&] { resumed_shape(options, ten_steps(facts), ranks, notes); });
}

TEST(Resumption, RefusesAnotherRun) {
  const auto same = [](Options&) {};
  EXPECT_TRUE(mentions(refusal([](Options& o) { o.model.name = "resnet"; }),
                       {"step-0000000010.h5", "--model tutorial"}));
  EXPECT_TRUE(mentions(refusal([](Options& o) { o.schedule.seed_given = true; }),
                       {"step-0000000010.h5", "--seed 7"}));
  EXPECT_TRUE(mentions(refusal([](Options& o) {
                         o.data.dataset = "synthetic";
                         o.data.place.folders = {};
                       }),
                       {"--dataset cifar10", "--data DIR"}));
  EXPECT_TRUE(mentions(refusal(same, 15), {"12 shards", "at most 12 ranks", "--shards 15"}));
  EXPECT_EQ(refusal(same, 13).find("--shards"), std::string::npos)
      << "13 does not divide the global batch of 120 either";
  for (const char* name : {"global_batch", "shards", "threads"}) {
    for (const Json& value : {Json(), Json(0), Json(-3), Json("many"), Json(4294967298)})
      EXPECT_TRUE(mentions(refusal(same, 4, {{name, value}}), {"c/step-0000000010.h5", name}));
  }
}

TEST(Resumption, RefusesAnotherNetwork) {
  const Json file{{"network", "[recipe]\n"}};
  const auto same = [](Options&) {};
  EXPECT_TRUE(mentions(refusal(same, 4, file), {"--model", "a built-in network"}));
  EXPECT_TRUE(mentions(refusal([](Options& o) { o.model.network = "[other]\n"; }, 4, file),
                       {"--model", "line 1"}));
  EXPECT_TRUE(mentions(refusal([](Options& o) { o.model.network = "[other]\n"; }),
                       {"a network of a file"}));
  EXPECT_TRUE(
      mentions(refusal([](Options& o) { o.model.network = "# mine\n\n[other]\n"; }, 4, file),
               {"line 3 is `[other]`, not `[recipe]`"}));
  const Json about{{"network", "about = 'a # b' # c\nlayers = [1]\n"}};
  const auto with = [&](const char* text) {
    return refusal([&](Options& o) { o.model.network = text; }, 4, about);
  };
  EXPECT_TRUE(mentions(with("# new\nabout = 'a # c'\nlayers = [1]\n"), {"line 2", "a # c"}));
  EXPECT_TRUE(mentions(with("about = 'a #  b'\nlayers = [1]\n"), {"line 1"}));
  EXPECT_TRUE(mentions(with("about = 'a # b'\n"), {"line 2", "layers = [1]"}));
  Options renamed = on_cifar();
  renamed.model.network = "[recipe]\n";
  renamed.model.name = "renamed";
  std::vector<std::string> notes;
  EXPECT_EQ(resumed_shape(renamed, ten_steps(file), 4, notes).shards, 12);
  Options same_network = on_cifar();
  same_network.model.network = "# new\nabout = 'a # b'\n\nlayers   = [\n  1 ] # d\n";
  EXPECT_EQ(resumed_shape(same_network, ten_steps(about), 4, notes).shards, 12);
}

/// Data without samples.
OpenedData data_of(std::string identity, std::vector<std::string> class_names = {}) {
  OpenedData data;
  data.identity = std::move(identity);
  data.class_names = std::move(class_names);
  return data;
}

TEST(Resumption, RefusesOtherDataByTheNameOfTheFile) {
  require_same_data(ten_steps(), data_of(kData));
  const std::string text = error_of([&] {
    require_same_data(ten_steps(),
                      data_of("one.bin = crc32c 00000001\ntwo.bin = crc32c 00000003\n"));
  });
  EXPECT_TRUE(mentions(text, {"content of two.bin", "--init c/step-0000000010.h5"}));
  EXPECT_EQ(first_other_file(kData, "one.bin = crc32c 00000001\n"), "two.bin is missing");
  EXPECT_EQ(first_other_file(kData, "one.bin = crc32c 00000001\n", /*only_now=*/true), "");
  EXPECT_EQ(first_other_file(kData, std::string(kData) + "three.bin = crc32c 1\n"),
            "three.bin is new");
  // Packed images and other data have no such line.
  const std::string folder = std::string(kData) + "training photos = crc32c 00000005\n",
                    other = std::string(kData) + "training photos = crc32c 00000006\n",
                    packed = std::string(kData) + "training packed photos = crc32c 7\n";
  for (const std::string& one : {std::string(kData), folder, packed})
    for (const std::string& now : {std::string(kData), folder, packed})
      EXPECT_EQ(first_other_file(one, now), "");
  EXPECT_EQ(first_other_file(folder, other), "the content of training photos differs");
  const auto difference = [](const std::string& before, const std::string& now) {
    return first_other_file("images = " + before + "\n", "images = " + now + "\n");
  };
  EXPECT_EQ(difference("9, crc32c of names and sizes 1", "8, crc32c of names and sizes 2"),
            "images = 8, not 9");
  EXPECT_EQ(difference("9, crc32c 1 and 2", "9, crc32c 1 and 3"), "the content of images differs");
}

TEST(Resumption, RefusesOtherClassesByTheirNames) {
  const Resumption before =
      ten_steps({{"class_names", {"cat", "dog", "fox"}},
                 {"files", "training images = 90, crc32c 1 and 2\nclasses = cat, dog, fox\n"}});
  const std::string renamed = "training images = 90, crc32c 1 and 3\nclasses = dog, fox, wolf\n";
  const std::string text = error_of([&] {
    require_same_data(before, data_of(renamed, {"dog", "fox", "wolf"}));
  });
  EXPECT_TRUE(mentions(text, {"new are wolf", "missing are cat"}));
  EXPECT_EQ(text.find("crc32c"), std::string::npos) << text;
}

TEST(Resumption, NotesEachChange) {
  const Json before{{"version", "0.1"},
                    {"compiler", "GCC 12"},
                    {"all_threads", "2"},
                    {"arithmetic", "AVX2"},
                    {"sums", {{"canonical", true}}},
                    {"steps", 100},
                    {"statistics", "shard"},
                    {"shards", 2},
                    {"global_batch", 16},
                    {"options", {{"lr", 0.1}, {"log-every", 1}}}};
  struct Case {
    const char* name;
    Json value;
    const char *schedule, *subject, *was;
    bool other_run;
  };
  const auto changes_of = [&](const Case& c) {
    Json now = before;
    now[c.name] = c.value;
    Options options;
    const Json lr = now["options"]["lr"], every = now["options"]["log-every"];
    options.values = {{"lr", lr.dump(), "0.1", true}, {"log-every", every.dump(), "10", false}};
    options.schedule.rate.schedule = c.schedule;
    return differences(RunFacts(before), RunFacts(now), options);
  };
  const Json mpi{{"reducer", "mpi"}, {"ranks", 2}, {"bucket_mb", 1.0}};
  for (const Case& c :
       {Case{"options", {{"lr", 0.2}, {"log-every", 5}}, "constant", "--lr", "0.1", true},
        {"global_batch", 32, "constant", "--batch times the ranks", "16", true},
        {"statistics", "global_batch", "constant", "--sync-bn", "each shard", true},
        {"steps", 200, "cosine", "--steps", "100", true},
        {"steps", 200, "linear", "--steps", "100", true},
        {"version", "0.2", "constant", "version", "0.1", false},
        {"compiler", "GCC 14", "constant", "compiler", "GCC 12", false},
        {"all_threads", {"2", "1"}, "constant", "threads", "2", false},
        {"arithmetic", "AVX-512", "constant", "arithmetic", "AVX2", false},
        {"shards", 4, "constant", "shards", "2", false},
        {"sums", mpi, "constant", "order of sums", "canonical", false}}) {
    const std::vector<Change> changes = changes_of(c);
    ASSERT_EQ(changes.size(), 1u) << c.name;
    EXPECT_TRUE(mentions(changes.front().note(), {c.subject, c.was}));
    EXPECT_EQ(changes.front().meaning, c.other_run ? Meaning::other_run : Meaning::last_bits);
    // A complete run is refused with options that change more than the last bits.
    for (const bool complete : {true, false}) {
      const bool longer = !complete && std::string_view(c.name) == "steps";
      const auto refuse = [&] { require_same_run(ten_steps(), changes, complete); };
      if (c.other_run && !longer)
        EXPECT_TRUE(mentions(error_of(refuse), {c.subject, c.was}));
      else
        EXPECT_NO_THROW(refuse()) << c.name;
      Resumption from_file = ten_steps();
      from_file.run = "another";
      EXPECT_NO_THROW(require_same_run(from_file, changes, complete)) << "of --resume FILE";
    }
  }
  EXPECT_TRUE(changes_of({"steps", 200, "constant"}).empty())
      << "this schedule does not depend on the end";
  EXPECT_TRUE(changes_of({"options", {{"lr", 0.1}, {"log-every", 5}}, "constant"}).empty());
}

TEST(Resumption, PortableRunsMayChangeThreadsAndCompiler) {
  const Json threads{{"all_threads", "2"}, {"compiler", "GCC 12"}};
  const auto count = [&](const Json& was, const Json& is) {
    Json before = threads, now{{"all_threads", {"2", "1"}}, {"compiler", "GCC 14"}};
    before["arithmetic"] = was;
    now["arithmetic"] = is;
    return differences(RunFacts(before), RunFacts(now), Options()).size();
  };
  const std::string portable = "portable 1, convolutions auto", fast = "oneDNN 2.6.3 with AVX2";
  EXPECT_EQ(count(portable, portable), 0u);
  EXPECT_EQ(count(fast, fast), 2u);
  EXPECT_EQ(count(portable, "portable 2, convolutions auto"), 1u) << "another order of sums";
  EXPECT_EQ(count(fast, portable), 3u);
  EXPECT_EQ(count({portable, fast}, {portable, fast}), 2u) << "not all ranks are portable";
}

}  // namespace
}  // namespace lockstep
