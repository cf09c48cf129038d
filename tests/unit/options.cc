// Options: every number is held to plain decimals and its range, files of options are TOML, and
// errors name the option or the file, line and column.
#include "apps/options/options.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "net/model.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

Options parse(const Words& words) {
  Words all = words;
  all.insert(all.begin(), "train_cifar");
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string text;
  const auto options =
      parse_options(static_cast<int>(all.size()), argv.data(), {"train_cifar"}, text);
  if (!options) throw std::logic_error("said all: " + text);
  return *options;
}

/// The error for these words; "" where they are taken.
std::string refusal(const Words& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), kExitUsage);
    EXPECT_EQ(std::string(error.what()).find_first_of("\n\r\t"), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

/// Names of the options that take numbers (whole: whole ones alone), as the help tells them.
Words numeric(bool whole) {
  const char* argv[] = {"train_cifar", "--help", nullptr};
  std::string help, line;
  parse_options(2, const_cast<char**>(argv), {"train_cifar"}, help);
  Words names;
  for (std::istringstream lines(help); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, type;
    words >> name >> type;
    type = type.substr(0, type.find('='));
    if (name.starts_with("--") && (type == "N" || (!whole && type == "NUMBER")))
      names.push_back(name);
  }
  return names;
}

TEST(Options, NoNumberIsTakenThatIsNotOne) {
  const Words names = numeric(false);
  EXPECT_GE(names.size(), 20u);
  for (const std::string& name : names) {
    for (const char* text : {"many",    "0x10",
                             "0X1p3",   "010",
                             "-01",     "00",
                             "1_000",   "1,5",
                             "1.000,0", "+5",
                             " 5",      "5 ",
                             "5\t",     "inf",
                             "-inf",    "Infinity",
                             "nan",     "NaN",
                             "-nan",    "nan(1)",
                             "1e",      "e5",
                             "--5",     "1e5x",
                             "5f",      "5L",
                             ".",       "-",
                             "-.",      "1.2.3",
                             "١",       "0b1",
                             "0o7",     "1e999999",
                             "-1",      "1'000",
                             "[1]",     "99999999999999999999999999"}) {
      EXPECT_NE(refusal({name + "=" + text}), "") << name << " takes \"" << text << '"';
    }
    EXPECT_NE(refusal({name + "="}), "") << name;
    EXPECT_NE(refusal({name, ""}), "") << name;
  }
  for (const std::string& name : numeric(true)) {
    for (const char* text : {"1.5", "1e3", "5.", ".5", "1e-3", "18446744073709551616"}) {
      EXPECT_NE(refusal({name + "=" + text}), "") << name << " takes \"" << text << '"';
    }
  }
}

TEST(Options, ALeadingTildeIsTheHomeFolder) {
  const std::string before = std::getenv("HOME") ? std::getenv("HOME") : "";
  ASSERT_EQ(::setenv("HOME", "/home/user", 1), 0);
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "run.toml") << "log-dir = \"~/logs\"\ntrace = \"~\"\n";
  const Options o =
      parse({"--data=~/images", "--checkpoint-dir", "~/a/~b", "--resume", "~/a.h5", "--init",
             "x/~/y.h5", "--config", (folder.path() / "run.toml").string()});
  EXPECT_EQ(o.data.folder, "/home/user/images");
  EXPECT_EQ(o.checkpoints.dir, "/home/user/a/~b");
  EXPECT_EQ(o.checkpoints.resume, "/home/user/a.h5");
  EXPECT_EQ(o.model.init, "x/~/y.h5");
  EXPECT_EQ(o.reports.log_dir, "/home/user/logs");
  EXPECT_EQ(o.reports.trace, "/home/user");
  EXPECT_NE(refusal({"--config", "~/none.toml"}).find("/home/user/none.toml"), std::string::npos);
  EXPECT_NE(refusal({"--data", "~other/x"}).find("./~other/x"), std::string::npos);
  ASSERT_EQ(::unsetenv("HOME"), 0);
  EXPECT_NE(refusal({"--data", "~/x"}).find("HOME"), std::string::npos);
  EXPECT_EQ(refusal({"--data", "x"}), "");
  ::setenv("HOME", before.c_str(), 1);
}

TEST(Options, NumbersAreTakenAsTheyStand) {
  const Options o = parse({"--seed=18446744073709551615", "--lr", ".5", "--momentum=0.9",
                           "--weight-decay", "1e-4", "--epochs=1E-3", "--lr-end", "-0.0"});
  EXPECT_EQ(o.schedule.seed, 18446744073709551615u);
  EXPECT_EQ(o.schedule.rate.base, 0.5);
  EXPECT_EQ(o.optimizer.own.at("momentum"), 0.9f);
  EXPECT_EQ(o.optimizer.weight_decay, 1e-4f);
  EXPECT_EQ(o.schedule.epochs, 1e-3);
  EXPECT_FALSE(std::signbit(o.schedule.rate.end));
  EXPECT_EQ(parse({"--steps=9223372036854775807"}).schedule.steps, 9223372036854775807);
  EXPECT_EQ(parse({"--lr=1e-300"}).schedule.rate.base, 1e-300);
}

TEST(Options, RefusalsSayWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"--steps=010", "--steps: \"010\" is not a number (in plain decimals)"},
      {"--steps=1.5", "--steps: 1.5 is not a whole number"},
      {"--steps=9223372036854775808", "--steps: 9223372036854775808 is too large"},
      {"--shards=2147483648", "--shards: 2147483648 is too large"},
      {"--weight-decay=1e39", "--weight-decay: 1e39 is too large"},
      {"--weight-decay=1e-60", "--weight-decay: 1e-60 is too close to 0"},
      {"--lr=1e-400", "--lr: 1e-400 is too close to 0"},
      {"--lr=1e400", "--lr: 1e400 is too large"},
      {"--lr=-0", "--lr: -0 is not above 0"},
      {"--momentum=1.5", "--momentum: 1.5 is not between 0 and 1"},
      {"--timeout=1e10", "--timeout: 1e10 is too large"},
      {"--nesterov=3", "--nesterov: \"3\" is neither true nor false"},
      {"--data=", "--data: its value is empty (a variable that is not set?)"},
      {"--log-dir=a\nb", "\"--log-dir=a?b\" holds control characters"},
      {"--log-dir=[a]",
       "--log-dir=[a]: a value in brackets is not understood; a path may begin with ./"},
      {"--checkpoint-every=010",
       "--checkpoint-every: \"010\" is neither a number of steps (1000) nor "
       "a time (600s, 10m, 2h)"},
      {"--checkpoint-every=1e9h",
       "--checkpoint-every: \"1e9h\" is neither a number of steps (1000) nor "
       "a time (600s, 10m, 2h)"},
  };
  for (const auto& [word, text] : cases) EXPECT_EQ(refusal({word}), text);
}

TEST(Options, WhatIsUnknownIsToldWithTheNearest) {
  const std::pair<Words, const char*> cases[] = {
      {{"--stpes=3"}, R"(^unknown option --stpes=3 \(did you mean --steps\?\))"},
      {{"--frobnicate"}, "^unknown option --frobnicate; --help"},
      {{"--learning-rate", "0.1"}, R"(option --learning-rate \(did you mean --lr\?\))"},
      {{"--batch_size=64"}, R"(option --batch_size=64 \(did you mean --batch\?\))"},
      {{"--Num_Epochs", "3"}, R"(option --Num_Epochs \(did you mean --epochs\?\))"},
      {{"--train_dir", "x"}, R"(option --train_dir \(did you mean --checkpoint-dir\?\))"},
      {{"--global_batch", "8"}, R"(option --global_batch \(did you mean --global-batch\?\))"},
      {{"-x"}, "^unknown option -x; --help"},
      {{"steps", "3"}, "^\"steps\" is not understood: options begin with --"},
      {{"--optimizer", "sgdd"},
       R"(^unknown optimizer "sgdd": did you mean "sgd"\? known are: sgd)"},
      {{"--reducer", "rign"}, R"(^unknown reducer "rign": did you mean "ring"\? .*, to_one)"},
      {{"--reducer", "owners"}, "owners .* direct"},
      {{"--dataset", "cifar"},
       R"(^unknown data set "cifar": did you mean "cifar10"\? .*, synthetic)"},
      {{"--lr-schedule", "cosin"},
       R"(^unknown learning-rate schedule "cosin": did you mean "cosine"\? .*constant)"},
      {{"--progress", "pol"}, R"(^unknown progress policy "pol": did you mean "poll"\? .*thread)"},
  };
  for (const auto& [words, pattern] : cases) {
    EXPECT_TRUE(std::regex_search(refusal(words), std::regex(pattern)))
        << refusal(words) << "\nwants " << pattern;
  }
}

TEST(Options, ThatDoNotGoTogetherAreRefused) {
  const std::pair<Words, const char*> cases[] = {
      {{"--precision", "fp8"}, "--precision: \"fp8\" is neither fp32 nor bf16 nor fp16"},
      {{"--steps"}, "--steps.* missing"},
      {{"--checkpoint-dir", ""}, "--checkpoint-dir: its value is empty"},
      {{"--steps", "5", "--epochs", "1"}, "^--steps and --epochs both say how long"},
      {{"--batch=5", "--global-batch=10"}, "^--batch, per rank, and --global-batch say the same"},
      {{"--dataset", "cifar10"}, "^--dataset cifar10 needs its files: say --data DIR"},
      {{"--dataset=synthetic", "--data=."}, "^--dataset synthetic is generated: leave --data out"},
      {{"--nesterov"}, "^--nesterov .*add --momentum"},
      {{"--lr=0.1", "--lr=0.2"}, "--lr: At Most 1 required but received 2"},
  };
  for (const auto& [words, pattern] : cases) {
    EXPECT_TRUE(std::regex_search(refusal(words), std::regex(pattern)))
        << refusal(words) << "\nwants " << pattern;
  }
}

TEST(Options, TheLossIsScaledAsThePrecisionNeeds) {
  const auto scaling = [](const Words& words) {
    const LossScaling is = parse(words).loss_scaling();
    return !is.on() ? "none"
                    : fmt::format("{} {}", is.scale,
                                  is.dynamic ? fmt::format("for {}", is.growth_steps) : "fixed");
  };
  EXPECT_EQ(scaling({}), "none");
  EXPECT_EQ(scaling({"--precision", "bf16"}), "none");
  EXPECT_EQ(scaling({"--precision", "fp16"}), "65536 for 2000");
  EXPECT_EQ(scaling({"--precision", "fp16", "--loss-scale", "none"}), "none");
  EXPECT_EQ(scaling({"--loss-scale", "dynamic", "--loss-scale-steps", "7"}), "65536 for 7");
  EXPECT_EQ(scaling({"--loss-scale=dynamic:1.5e3"}), "1500 for 2000");
  EXPECT_EQ(scaling({"--loss-scale=1024"}), "1024 fixed");
  EXPECT_EQ(scaling({"--loss-scale=1"}), "none");
  for (const char* how : {"many", "0.5", "dynamic:", "dynamic:0", "dynamic:1e38", "inf", "-2"}) {
    EXPECT_EQ(refusal({fmt::format("--loss-scale={}", how)}).rfind("--loss-scale: ", 0), 0u) << how;
  }
  EXPECT_EQ(refusal({"--loss-scale=dynamic:4e37", "--clip-norm=1"}),
            "--loss-scale dynamic:4e37 leaves --clip-norm no room: use one of at most 1.84467e+19");
  EXPECT_EQ(parse({"--loss-scale=dynamic", "--clip-norm=1"}).loss_scaling().highest, 0x1p64f);
}

TEST(Options, WhatDoesNothingIsNoted) {
  const auto notes = [](const Words& words) { return parse(words).notes; };
  EXPECT_EQ(notes({"--loss-scale-steps=7"}),
            Words{"--loss-scale-steps does nothing without --loss-scale dynamic"});
  EXPECT_EQ(notes({"--loss-scale-steps=7", "--precision=fp16"}), Words{});
  EXPECT_EQ(notes({"--nccl-max-ctas=8", "--reducer=tree"}),
            Words{"--nccl-max-ctas does nothing without --reducer nccl"});
  EXPECT_EQ(notes({"--nccl-max-ctas=8"}), Words{});
  EXPECT_EQ(parse({"--nccl-max-ctas=8"}).ranks.nccl_max_ctas, 8);
  EXPECT_NE(refusal({"--nccl-max-ctas=65"}), "");
}

TEST(Options, AnOptionIsNoValue) {
  for (const char* name : {"--checkpoint-dir", "--log-dir", "--data", "--resume"}) {
    EXPECT_EQ(refusal({name, "--check"}),
              fmt::format("{}: its value is missing, for --check is an option; a path may begin "
                          "with ./",
                          name));
  }
  EXPECT_EQ(parse({"--log-dir", "./--check"}).reports.log_dir, "./--check");
  EXPECT_EQ(refusal({""}), "an argument: its value is empty (a variable that is not set?)");
  EXPECT_EQ(refusal({"--seed", ""}), "--seed: its value is empty (a variable that is not set?)");
}

TEST(Options, OfAnotherOptimizerAreRefused) {
  EXPECT_EQ(refusal({"--optimizer", "adam", "--momentum", "0.9"}),
            "--momentum is an option of --optimizer sgd, lars, muon, and this is adam, which takes "
            "--beta1, "
            "--beta2, --epsilon");
  EXPECT_EQ(
      refusal({"--beta2=0.9"}),
      "--beta2 is an option of --optimizer adam, adamw, nadam, lamb, and this is sgd, which takes "
      "--momentum, --nesterov");
  EXPECT_EQ(refusal({"--optimizer=adam", "--beta1=1"}), "--beta1: 1 is not between 0 and 0.999999");
  EXPECT_EQ(refusal({"--optimizer=adam", "--epsilon=0"}), "--epsilon: 0 is not above 0");
  EXPECT_EQ(refusal({"--optimizer=muon", "--newton-schulz=2.5"}),
            "--newton-schulz: 2.5 is not a whole number");
  EXPECT_EQ(parse({"--optimizer=muon", "--newton-schulz=3"}).optimizer.own.at("newton-schulz"), 3);
}

TEST(Options, OfTheOptimizerAreRecordedAndNoOthers) {
  const Options o = parse({"--optimizer", "adamw", "--beta1=0.5", "--weight-decay=0.01"});
  EXPECT_EQ(o.optimizer.own,
            (OptimizerOptions{{"beta1", 0.5f}, {"beta2", 0.999f}, {"epsilon", 1e-8f}}));
  EXPECT_NE(o.text.find("beta1=0.5\n"), std::string::npos) << o.text;
  EXPECT_EQ(o.text.find("momentum"), std::string::npos) << o.text;
  EXPECT_EQ(o.schedule.rate.base, 0.001) << "the optimizer's own";
  EXPECT_EQ(parse({"--optimizer", "adam", "--lr=0.1"}).schedule.rate.base, 0.1);
  EXPECT_NE(parse({}).text.find("momentum=0\n"), std::string::npos);
  const Options nadam = parse({"--optimizer", "nadam"});
  EXPECT_EQ(nadam.optimizer.own.at("epsilon"), 1e-7f) << "its own default";
  EXPECT_NE(nadam.text.find("epsilon=1e-07\n"), std::string::npos) << nadam.text;
  EXPECT_EQ(parse({"--optimizer", "nadam", "--epsilon=1e-8"}).optimizer.own.at("epsilon"), 1e-8f);
}

TEST(Options, OfAModelsRecipeGiveWayToTheUsersWords) {
  const Words keras{"--dataset", "digits", "--model", "keras"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), keras.begin(), keras.end());
    return parse(more);
  };
  const Options o = with({});
  EXPECT_EQ(o.optimizer.name, "rmsprop");
  EXPECT_EQ(o.schedule.rate.base, 0.001);
  EXPECT_EQ(o.optimizer.own.at("rho"), 0.9f);
  EXPECT_EQ(o.schedule.batch, 128);
  EXPECT_EQ(o.schedule.epochs, 12);
  EXPECT_EQ(o.optimizer.ema, 0);
  EXPECT_TRUE(o.reports.epoch_lines);
  EXPECT_FALSE(o.schedule.batch_given);
  EXPECT_EQ(with({"--steps", "7"}).schedule.epochs, 0);
  EXPECT_EQ(with({"--global-batch", "64"}).schedule.batch, 0);
  EXPECT_FALSE(with({"--eval-every", "5"}).reports.epoch_lines);
  EXPECT_EQ(with({"--ema", "0.5"}).optimizer.ema, 0.5f);
  EXPECT_EQ(with({"--optimizer", "sgd"}).schedule.rate.base, 0.1);
  EXPECT_EQ(parse({"--model", "resnet20"}).optimizer.own.at("momentum"), 0.9f);
  EXPECT_EQ(parse({"--model", "resnet20", "--optimizer", "adam"}).schedule.rate.base, 0.001);
  EXPECT_EQ(parse({"--model", "resnet20", "--momentum", "0.5"}).optimizer.own.at("momentum"), 0.5f);
  EXPECT_EQ(parse({"--model", "tutorial"}).text, parse({}).text) << "no recipe, no trace";
}

TEST(Options, EveryModelsRecipeIsUnderstood) {
  for (const ModelEntry& entry : models()) {
    EXPECT_NO_THROW(parse({"--model", std::string(entry.name)})) << entry.name;
  }
}

TEST(Options, AGroupIsAPatternAndItsSettings) {
  const Options o =
      parse({"--group", "conv?/*:lr=0.5", "--lr=0.2", "--group=*:lr=0,weight-decay=1e-4"});
  ASSERT_EQ(o.optimizer.groups.size(), 2u);
  EXPECT_EQ(o.optimizer.groups[0].pattern, "conv?/*");
  EXPECT_EQ(o.optimizer.groups[0].rate, 0.5f);
  EXPECT_FALSE(o.optimizer.groups[0].decay);
  EXPECT_EQ(o.optimizer.groups[1].pattern, "*");
  EXPECT_EQ(o.optimizer.groups[1].rate, 0);
  EXPECT_EQ(o.optimizer.groups[1].decay, 1e-4f);
  EXPECT_EQ(parse({"--group=a:weight-decay=0"}).optimizer.groups[0].rate, 1);
  EXPECT_NE(o.text.find("\ngroup=[\"conv?/*:lr=0.5\", \"*:lr=0,weight-decay=1e-4\"]\n"),
            std::string::npos)
      << o.text;
  EXPECT_NE(parse({}).text.find("\ngroup=[]\n"), std::string::npos) << "for a resume to compare";
}

TEST(Options, AGroupThatIsNoneIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"conv1", "\"conv1\" is not PATTERN:NAME=VALUE,..., as in 'conv*:lr=0.1,weight-decay=0'"},
      {"conv1:", "\"conv1:\" is not PATTERN:"},
      {":lr=1", "\":lr=1\" is not PATTERN:"},
      {"conv1:lr", "conv1: lr: \"\" is not a number"},
      {"conv1:momentum=1",
       "--group conv1: \"momentum=1\" is neither lr=FACTOR nor weight-decay=NUMBER"},
      {"conv1:lr=1,", "conv1: \"\" is neither lr=FACTOR"},
      {"conv1:lr=-1", "--group conv1: lr: -1 is below 0"},
      {"conv1:lr=x", "--group conv1: lr: \"x\" is not a number"},
      {"conv1:weight-decay=1e99", "--group conv1: weight-decay: 1e99 is too large"},
      {"conv1:lr=1,weight-decay=0,lr=1", "--group conv1: lr stands there twice"},
  };
  for (const auto& [word, text] : cases)
    EXPECT_NE(refusal({"--group", word}).find(text), std::string::npos)
        << refusal({"--group", word});
  EXPECT_NE(refusal({"--group=a:lr=1", "--group=b"}), "") << "the second";
  EXPECT_NE(refusal({"--group"}), "");
}

TEST(Options, SayWhereTheyAreDeclaredWhetherTheyShapeTheWeights) {
  const auto shaping = parse({}).shaping;
  for (const char* name :
       {"precision", "optimizer", "momentum", "beta1", "weight-decay", "ema", "lr", "lr-schedule",
        "lr-smooth", "warmup-epochs", "group", "lr-scale-batch"}) {
    EXPECT_TRUE(shaping.contains(name)) << name;
  }
  // Those of the last kind are compared by what they come to (apps/step/run_plan.cc).
  for (const char* name : {"log-dir", "keep", "timeout", "resume", "check", "threads", "steps",
                           "batch", "shards", "seed", "model", "data"}) {
    EXPECT_FALSE(shaping.contains(name)) << name;
  }
}

TEST(Options, ThatShapeTheWeightsSayWhatTheyUsuallyAre) {
  for (const OptimizerEntry& optimizer : optimizers()) {
    const Options o = parse({"--optimizer", std::string(optimizer.name), "--lr=0.1"});
    for (const auto& [name, usual] : o.shaping) {
      if (name == "optimizer" || o.text.find("\n" + name + "=") == std::string::npos) continue;
      EXPECT_NE(o.text.find(fmt::format("\n{}={}\n", name, usual)), std::string::npos)
          << name << " of " << optimizer.name << " is usually " << usual;
    }
  }
  const auto shaping = parse({"--optimizer=nadam", "--epsilon=0.1", "--mixup=0.2"}).shaping;
  EXPECT_EQ(shaping.at("epsilon"), "1e-07") << "the optimizer's own";
  EXPECT_EQ(shaping.at("mixup"), "0");
  EXPECT_EQ(shaping.at("group"), "[]");
  EXPECT_EQ(shaping.at("init"), "");
  EXPECT_EQ(shaping.at("optimizer"), "\"sgd\"");
}

class ConfigFile : public testing::Test {
 protected:
  std::string refusal_of(const std::string& text, Words words = {}) {
    put(file_, text);
    words.insert(words.begin(), {"--config", file_.string()});
    // Columns are left to the versions of toml++.
    const std::regex place(file_.string() + "(:[0-9]+)(:[0-9]+)");
    return std::regex_replace(refusal(words), place, "F$1");
  }
  Options options_of(const std::string& text, Words words = {}) {
    put(file_, text);
    words.insert(words.begin(), {"--config", file_.string()});
    return parse(words);
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_ / "run.toml";
};

TEST_F(ConfigFile, IsToml) {
  const Options o = options_of(
      "# A comment\n\nlr = 5e-2  # another\nbatch = 1_0\nnesterov = true\nmomentum = 0.9\n"
      "checkpoint-every = 7\n\"log-dir\" = 'a\\b'\nseed = 0x10\nresume = \"never\"");
  EXPECT_EQ(o.schedule.rate.base, 0.05);
  EXPECT_EQ(o.schedule.batch, 10);
  EXPECT_EQ(o.optimizer.own.at("nesterov"), 1);
  EXPECT_EQ(o.checkpoints.every.steps, 7);
  EXPECT_EQ(o.reports.log_dir, "a\\b");
  EXPECT_EQ(o.schedule.seed, 16u);
  EXPECT_TRUE(o.schedule.seed_given && o.schedule.batch_given);
  EXPECT_FALSE(o.schedule.shards_given);
  EXPECT_EQ(options_of("").text, parse({}).text);
  EXPECT_EQ(options_of("lr = 0.2\nnesterov = true", {"--lr", "0.3", "--nesterov=false"})
                .schedule.rate.base,
            0.3)
      << "the command line wins";
}

TEST_F(ConfigFile, WhatIsNoTomlIsToldWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"seed = 3\nlr = [0.15\n", "F:2: "},
      {"batch = 010\n", "F:1: "},
      {"lr 0.1\n", "F:1: "},
      {"lr = \n", "F:1: "},
      {"lr = 0.1 0.2", "F:1: "},
      {"lr = 0.1\nlr = 0.1\n", "F:2: "},
      {"lr = +-1", "F:1: "},
      {"nesterov = maybe", "F:1: "},
      {"seed = 99999999999999999999", "F:1: "},
      {"lr = \"0.1", "F:1: "},
      {"\x7f"
       "ELF\x02\x01\x01",
       "F:1: "},
      {"data = \"\xff\xfe\"", "F:1: "},
  };
  for (const auto& [text, place] : cases) {
    const std::string error = refusal_of(text);
    EXPECT_TRUE(error.starts_with(place)) << text << "\n" << error;
  }
}

TEST_F(ConfigFile, ValuesOfAnotherKindOrRangeAreToldWithTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"lr = [0.15]", "F:1: lr is an array: each option has one value"},
      {"lr = {a = 1}",
       "F:1: lr begins a table: write name = value lines without sections and dots"},
      {"[training]\nlr = 1",
       "F:1: training begins a table: write name = value lines without "
       "sections and dots"},
      {"lr = 2026-11-21", "F:1: lr is a date or a time: no option is one"},
      {"steps = \"5\"", "F:1: steps wants a whole number, without quotes"},
      {"steps = 5.0", "F:1: steps wants a whole number, without quotes"},
      {"steps = true", "F:1: steps wants a whole number, without quotes"},
      {"lr = \"0.1\"", "F:1: lr wants a number, without quotes"},
      {"nesterov = 3", "F:1: nesterov wants true or false, without quotes"},
      {"nesterov = \"true\"", "F:1: nesterov wants true or false, without quotes"},
      {"model = 3", "F:1: model wants a text in quotes"},
      {"lr = inf", "F:1: --lr: \"inf\" is not a number (in plain decimals)"},
      {"lr = nan", "F:1: --lr: \"nan\" is not a number (in plain decimals)"},
      {"\n\nbatch = 0", "F:3: --batch: 0 is below 1"},
      {"data = \"\"", "F:1: --data: its value is empty (a variable that is not set?)"},
      {"data = \"a\\u0000b\"", "F:1: data holds control characters"},
      {"lrr = 1",
       "F:1: unknown option \"lrr\" (did you mean lr?); a line is name = value, and --help "
       "lists all names"},
      {"help = true", "F:1: --help belongs on the command line"},
      {"config = \"x\"", "F:1: --config belongs on the command line"},
      {"checkpoint-every = \"10x\"",
       "F:1: --checkpoint-every: \"10x\" is neither a number of steps "
       "(1000) nor a time (600s, 10m, 2h)"},
      {"steps = 0\nbatch = 0", "F:1: --steps: 0 is below 1"},
      {"steps = 5\nepochs = 2",
       "--steps (F:1) and --epochs (F:2) both say how long to train: "
       "give one of them"},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_EQ(refusal_of(text), error) << text;
  }
  EXPECT_TRUE(refusal_of("\nmodel = \"tutrial\"")
                  .starts_with("F:2: unknown model \"tutrial\": did you mean"));
}

TEST_F(ConfigFile, WhatCannotBeReadIsTold) {
  const auto refused = [&](const std::string& file) { return refusal({"--config", file}); };
  EXPECT_EQ(refused("/nowhere/x.toml"),
            "cannot read --config /nowhere/x.toml: No such file or directory");
  EXPECT_EQ(refused("-"), "cannot read --config -: No such file or directory");
  EXPECT_EQ(refused("/dev/zero"), "cannot read --config /dev/zero: it is not a file");
  EXPECT_EQ(refused(directory_.path().string()),
            fmt::format("cannot read --config {}: it is not a file", directory_.path().string()));
  EXPECT_NE(refused(""), "");
  EXPECT_EQ(refusal_of(std::string(1 << 20, '#')),
            file_.string() + " is longer than 64 KiB: it is not a file of options");
  std::string deep = "a", nested = "a = ";
  while (deep.size() < 60000) deep += ".a", nested += "[";
  EXPECT_NE(refusal_of(deep + " = 1"), "") << "dots without end";
  EXPECT_NE(refusal_of(nested), "") << "arrays without end";
}

TEST_F(ConfigFile, TakesTheOptimizersOptions) {
  const Options o = options_of("optimizer = \"adam\"\nbeta2 = 0.5\nepsilon = 1e-3");
  EXPECT_EQ(o.optimizer.own.at("beta2"), 0.5f);
  EXPECT_EQ(options_of(o.text).text, o.text);
  EXPECT_EQ(
      refusal_of("beta2 = 0.5\nmomentum = 0.5", {"--optimizer=adam"}),
      "--momentum (F:2) is an option of --optimizer sgd, lars, muon, and this is adam, which takes "
      "--beta1, --beta2, --epsilon");
}

TEST_F(ConfigFile, TakesArraysOfTextsForListsAlone) {
  const Options o = options_of("group = [\"a:lr=0\", 'b*:weight-decay=0.5']");
  ASSERT_EQ(o.optimizer.groups.size(), 2u);
  EXPECT_EQ(o.optimizer.groups[1].decay, 0.5f);
  EXPECT_EQ(options_of(o.text).text, o.text);
  EXPECT_EQ(options_of("group = []").optimizer.groups.size(), 0u);
  EXPECT_EQ(options_of("group = [\"a:lr=0\"]", {"--group=c:lr=2"}).optimizer.groups.size(), 1u)
      << "the command line wins";
  EXPECT_EQ(refusal_of("group = \"a:lr=0\""),
            "F:1: group wants an array of texts: [\"...\", \"...\"]");
  EXPECT_EQ(refusal_of("group = [1]"), "F:1: group wants an array of texts: [\"...\", \"...\"]");
  EXPECT_EQ(refusal_of("group = [\"a\\nb:lr=0\"]"),
            "F:1: group wants an array of texts: [\"...\", \"...\"]");
  EXPECT_EQ(refusal_of("model = [\"tutorial\"]"),
            "F:1: model is an array: each option has one value");
  EXPECT_EQ(refusal_of("group = [\"a:lr=0\", \"b\"]").find("F:1: --group: \"b\" is not PATTERN"),
            0u);
}

TEST_F(ConfigFile, TheOptionsTextIsOne) {
  const Options o = parse({"--seed=18446744073709551615", "--data", "a \"b\" \\c ü",
                           "--log-dir=\xff/x", "--lr=1e-7", "--checkpoint-every", "1.5m",
                           "--momentum", "0.1", "--nesterov", "--threads=3"});
  const Options again = options_of(o.text);
  EXPECT_EQ(again.schedule.seed, o.schedule.seed);
  EXPECT_EQ(again.data.folder, o.data.folder);
  EXPECT_EQ(again.reports.log_dir, "") << "TOML cannot hold it";
  EXPECT_EQ(again.schedule.rate.base, o.schedule.rate.base);
  EXPECT_EQ(again.checkpoints.every.seconds, 90);
  EXPECT_EQ(again.optimizer.own.at("momentum"), o.optimizer.own.at("momentum"));
  EXPECT_EQ(again.optimizer.own.at("nesterov"), 1);
  EXPECT_EQ(again.device.threads, 3);
  EXPECT_NE(o.text.find("# log-dir is not UTF-8: ff2f78\n"), std::string::npos) << o.text;
}

}  // namespace
}  // namespace lockstep
