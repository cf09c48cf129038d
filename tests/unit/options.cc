// Options: every number is held to plain decimals and its range, and errors name the option, or the
// file, line and key.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "net/model.h"
#include "src/data/photo_augmentations.h"
#include "tests/support/environment.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/parsed_options.h"
#include "tests/support/pattern.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

Options parse(const Words& words, const Program& program = {"train_cifar"}) {
  std::string text;
  const auto options = parsed_options(words, program, text);
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

/// Names of the options whose value is a number (or a whole number) in the help.
Words numeric(bool whole) {
  std::string help, line;
  parsed_options({"--help-all"}, {"train_cifar"}, help);
  Words names;
  for (std::istringstream lines(help); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, type;
    words >> name >> type;
    if (name.starts_with("--") && (type == "N" || (!whole && type == "NUMBER")))
      names.push_back(name);
  }
  return names;
}

TEST(Options, MalformedNumbersAreRefused) {
  const Words names = numeric(false);
  EXPECT_GE(names.size(), 20u);
  for (const std::string& name : names) {
    for (const char* text :
         {"many", "0x10",     "0X1p3",  "010",   "-01",   "1_000",
          "1,5",  "+5",       " 5",     "5 ",    "5\t",   "inf",
          "-inf", "NaN",      "nan(1)", "1e",    "e5",    "--5",
          "5f",   ".",        "-",      "-.",    "1.2.3", "١",
          "0b1",  "1e999999", "-1",     "1'000", "[1]",   "99999999999999999999999999"}) {
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
  const Variable home("HOME", "/home/user");
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "run.toml") << "trace = \"~\"\n";
  const Options o = parse({"--data=~/images", "--run", "~/a/~b", "--resume", "~/a.h5", "--init",
                           "x/~/y.h5", "--config", (folder.path() / "run.toml").string()});
  EXPECT_EQ(o.data.place.folder(), "/home/user/images");
  EXPECT_EQ(o.run.name, "/home/user/a/~b");
  EXPECT_EQ(o.checkpoints.resume, "/home/user/a.h5");
  EXPECT_EQ(o.model.init, "x/~/y.h5");
  EXPECT_EQ(o.reports.trace, "/home/user");
  EXPECT_TRUE(mentions(refusal({"--config", "~/none.toml"}), {"/home/user/none.toml"}));
  EXPECT_TRUE(mentions(refusal({"--data", "~other/x"}), {"./~other/x"}));
  const Variable homeless("HOME", nullptr);
  EXPECT_TRUE(mentions(refusal({"--data", "~/x"}), {"HOME"}));
  EXPECT_EQ(refusal({"--data", "x"}), "");
}

TEST(Options, NumbersAreReadExactly) {
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

/// Words of a command line, and a pattern of the error.
using Refusals = std::vector<std::pair<Words, const char*>>;

void expect_refusals(const Refusals& cases) {
  for (const auto& [words, pattern] : cases) {
    EXPECT_TRUE(has_match(refusal(words), pattern)) << refusal(words) << "\nwants " << pattern;
  }
}

TEST(Options, RefusalsNameTheOptionAndTheCause) {
  expect_refusals({
      {{"--steps=010"}, "^--steps: \"010\" .*number"},
      {{"--steps=1.5"}, "^--steps: 1.5 .*whole"},
      {{"--steps=9223372036854775808"}, "^--steps: 9223372036854775808 .*large"},
      {{"--shards=2147483648"}, "^--shards: 2147483648 .*to 1048576"},
      {{"--weight-decay=1e39"}, "^--weight-decay: 1e39 .*large"},
      {{"--weight-decay=1e-60"}, "^--weight-decay: 1e-60 .*close to 0"},
      {{"--lr=1e-400"}, "^--lr: 1e-400 .*close to 0"},
      {{"--lr=1e400"}, "^--lr: 1e400 .*large"},
      {{"--lr=-0"}, "^--lr: -0 .*above 0"},
      {{"--momentum=1.5"}, "^--momentum: 1.5 .*from 0 to 1"},
      {{"--timeout=1e10"}, "^--timeout: 1e10 .*at most"},
      {{"--nesterov=3"}, "^--nesterov: \"3\""},
      {{"--data="}, "^--data:"},
      {{"--group", ""}, "^--group: .*empty"},
      {{"--group=a:lr=1", "--group", ""}, "^--group: .*empty"},
      {{"--nesterov="}, "^--nesterov: .*empty"},
      {{"--trace=", "foo"}, "^--trace: .*empty"},
      {{"--seed", ""}, "^--seed: .*empty"},
      {{""}, "\"\" is not understood"},
      {{"--trace=a\nb"}, "^--trace: .*control"},
      {{"--init=\x1b[2J"}, "^--init: .*control"},
      {{"--\x1b[2J"}, R"(^unknown option --\?\[2J\.)"},
      {{"--checkpoint-every=010"}, "^--checkpoint-every: \"010\" .*1000.*600s"},
      {{"--checkpoint-every=1e9h"}, "^--checkpoint-every: \"1e9h\" .*1000.*600s"},
      {{"--precision", "fp8"}, "^--precision: \"fp8\" .*fp32 .*bf16"},
      {{"--steps"}, "--steps.* missing"},
      {{"--help="}, "^--help: .*empty"},
      {{"--help", "--"}, "^--help: .*empty"},
      {{"--version=true"}, "^--version .*without ="},
      {{"--help-all=true"}, "^--help-all .*without ="},
      {{"--", "--lr=1"}, "^unknown option --\\."},
  });
}

TEST(Options, OfFormerVersionsNameWhatToPass) {
  expect_refusals({
      {{"--precision", "fp16"}, "^--precision fp16 .*--precision bf16"},
      {{"--loss-scale=dynamic"}, "^--loss-scale .*bf16"},
      {{"--sampling=weighted"}, "^--sampling weighted .*--sampling balanced.*--class-weights"},
      {{"--loss", "focal"}, "^--loss .*--class-weights"},
      {{"--focal-gamma=2"}, "^--focal-gamma .*--class-weights"},
      {{"--reducer", "factors"}, "^--reducer factors .*--wire bf16"},
      {{"--reducer=owners"}, "^--reducer owners .*--reducer direct"},
  });
}

TEST(Options, TheLastValueCounts) {
  const Options options = parse({"--lr=0.1", "--nesterov", "--lr", "0.2", "--momentum=0.9"});
  EXPECT_EQ(options.schedule.rate.base, 0.2);
}

TEST(Options, ErrorsNameTheNearest) {
  expect_refusals({
      {{"--stpes=3"}, R"(^unknown option --stpes=3 \(did you mean --steps\?\))"},
      {{"--frobnicate"}, "^unknown option --frobnicate\\. .*--help-all"},
      {{"--learning-rate", "0.1"}, R"(option --learning-rate \(did you mean --lr\?\))"},
      {{"--batch_size=64"}, R"(option --batch_size=64 \(did you mean --batch\?\))"},
      {{"--Num_Epochs", "3"}, R"(option --Num_Epochs \(did you mean --epochs\?\))"},
      {{"--amp"}, R"(option --amp \(did you mean --precision bf16\?\))"},
      {{"--gpus=2"}, R"(option --gpus=2 \(did you mean lockstep_run -np N\?\))"},
      {{"-x"}, "^unknown option -x\\. .*--help-all"},
      {{"steps", "3"}, "^\"steps\" .*--"},
      {{"--optimizer", "sgdd"}, R"("sgdd": did you mean "sgd"\? choose from: sgd)"},
      {{"--reducer", "rign"}, R"("rign": did you mean "ring"\? .*, to_one)"},
      {{"--dataset", "cifar"}, R"("cifar": did you mean "cifar10"\? .*, synthetic)"},
      {{"--lr-schedule", "cosin"}, R"("cosin": did you mean "cosine"\? .*constant)"},
      {{"--progress", "pol"}, R"("pol": did you mean "poll"\? .*thread)"},
  });
}

TEST(Options, ThatDoNotGoTogetherAreRefused) {
  expect_refusals({
      {{"--steps", "5", "--epochs", "1"}, "^--steps and --epochs"},
      {{"--batch=5", "--global-batch=10"}, "^--batch and --global-batch"},
      {{"--dataset", "cifar10"}, "^--dataset cifar10 .*--data DIR"},
      {{"--dataset=synthetic", "--data=."}, "^--dataset synthetic .*--data"},
      {{"--nesterov"}, "^--nesterov .*--momentum"},
  });
}

TEST(Options, WithoutEffectAreNoted) {
  const auto notes = [](const Words& words) { return parse(words).notes; };
  EXPECT_EQ(notes({"--lr-end=0.1"}),
            Words{"--lr-end does nothing without --lr-schedule cosine or linear"});
  EXPECT_EQ(notes({"--lr-end=0.1", "--lr-schedule=linear"}), Words{});
  EXPECT_EQ(notes({"--crop-area=0.5", "--target=9", "--eval-every=0"}),
            (Words{"--crop-area does nothing without --image-size",
                   "--target does nothing without --eval-every"}));
  EXPECT_EQ(notes({"--crop-area=0.5", "--image-size=8", "--target=9", "--eval-every=epoch"}),
            Words{});
  EXPECT_EQ(notes({"--check-images=skip"}),
            Words{"--check-images does nothing without --dataset folder"});
  EXPECT_EQ(notes({"--no-run", "--resume=never", "--keep=1"}),
            (Words{"--keep does nothing with --no-run", "--resume does nothing with --no-run"}));
  EXPECT_EQ(notes({"--no-run", "--resume=a.h5", "--summary-every=0"}), Words{});
}

TEST(Options, ForDebuggingAreVariables) {
  EXPECT_EQ(parse({}).ranks.nccl_max_ctas, 0);
  EXPECT_FALSE(parse({}).device.no_graph);
  const Variable eight("LOCKSTEP_NCCL_MAX_CTAS", "8"), off("LOCKSTEP_GRAPH", "off");
  EXPECT_EQ(parse({}).ranks.nccl_max_ctas, 8);
  EXPECT_TRUE(parse({}).device.no_graph);
  const Variable zero("LOCKSTEP_GRAPH", "0");
  expect_refusals({{{}, "^LOCKSTEP_GRAPH is \"0\"\\. .*off"}});
  const Variable on("LOCKSTEP_GRAPH", "on"), many("LOCKSTEP_NCCL_MAX_CTAS", "65");
  expect_refusals({{{}, "^LOCKSTEP_NCCL_MAX_CTAS: 65 .*64"}});
}

TEST(Options, AScheduleHasItsNumbers) {
  const auto rate = [](const std::string& text) {
    return parse({"--lr-schedule", text}).schedule.rate;
  };
  const RateOptions by_default = parse({}).schedule.rate;
  EXPECT_EQ(by_default.text(), "exponential:0.1@350");
  EXPECT_EQ(rate("exponential").text(), by_default.text());
  EXPECT_EQ(rate("cosine").text(), "cosine");
  const RateOptions half = rate("exponential:.5@1e1");
  EXPECT_EQ(half.text(), "exponential:0.5@10");
  EXPECT_EQ(half.decay, 0.5);
  EXPECT_EQ(half.decay_epochs, 10);
  EXPECT_FALSE(half.smooth);
  EXPECT_TRUE(rate("exponential:0.5@10:smooth").smooth);
  EXPECT_EQ(rate("exponential:0.5@10:smooth").text(), "exponential:0.5@10:smooth");
  for (const char* text : {"exponential:", "exponential:1", "exponential:1@", "exponential:0@1",
                           "exponential:1@2@3", "exponential:1@2:", "exponential:1@2:steps",
                           "exponential:1@2:smooth:smooth", "exponential:a@2"}) {
    expect_refusals({{{"--lr-schedule", text}, "^--lr-schedule: .*exponential:0.1@350"}});
  }
  expect_refusals({{{"--lr-schedule", "cosine:1"}, "\"cosine:1\": did you mean \"cosine\""}});
}

TEST(Options, ChecksOfImagesAreCombined) {
  const auto images = [](const std::string& how) {
    return parse({"--check-images", how}).data.images;
  };
  EXPECT_FALSE(images("skip").decodes() || images("headers").decodes());
  EXPECT_TRUE(images("skip").skips() && images("decode,skip").skips());
  EXPECT_TRUE(images("decode").decodes() && images("decode,skip").decodes());
  EXPECT_FALSE(images("decode").skips() || images("headers").skips());
  for (const char* how : {"headers", "decode", "skip", "decode,skip"})
    EXPECT_TRUE(mentions(parse({"--check-images", how}).text(),
                         {fmt::format("\ncheck-images=\"{}\"\n", how)}));
  expect_refusals({{{"--check-images", "skip,decode"}, "^--check-images: .*decode,skip"}});
}

TEST(Options, AnOptionCannotBeAValue) {
  for (const char* name : {"--run", "--trace", "--data", "--resume"})
    expect_refusals({{{name, "--check"}, "missing.*--check"}});
  EXPECT_EQ(parse({"--trace", "./--check"}).reports.trace, "./--check");
}

TEST(Options, ColorJitterNeedsFourBounds) {
  EXPECT_EQ(parse({"--color-jitter=0.4,0,1,.1"}).data.images.augmentations->ColorJitter::bounds,
            (std::array{0.4, 0.0, 1.0, 0.1}));
  expect_refusals({{{"--color-jitter=0.4"}, "^--color-jitter: .*0.4.* four numbers"},
                   {{"--color-jitter=1,1,1,0.6"}, "^--color-jitter: hue: 0.6 .*0.5"},
                   {{"--color-jitter=1,x,1,0"}, "^--color-jitter: contrast: .*x"}});
}

TEST(Options, OfAnotherOptimizerAreRefused) {
  expect_refusals({
      {{"--optimizer", "adam", "--momentum", "0.9"},
       "^--momentum .* sgd, lars, muon, .*adam, .*--beta1, --beta2, --epsilon"},
      {{"--beta2=0.9"}, "^--beta2 .* adam, adamw, nadam, lamb, .*sgd, .*--momentum, --nesterov"},
      {{"--optimizer=adam", "--beta1=1"}, "^--beta1: 1 .*from 0 to 0.999999"},
      {{"--optimizer=adam", "--epsilon=0"}, "^--epsilon: 0 .*above 0"},
      {{"--optimizer=muon", "--newton-schulz=2.5"}, "^--newton-schulz: 2.5 .*whole"},
  });
  EXPECT_EQ(parse({"--optimizer=muon", "--newton-schulz=3"}).optimizer.own.at("newton-schulz"), 3);
}

TEST(Options, OfTheOptimizerAreRecordedAndNoOthers) {
  const Options o = parse({"--optimizer", "adamw", "--beta1=0.5", "--weight-decay=0.01"});
  EXPECT_EQ(o.optimizer.own,
            (OptimizerOptions{{"beta1", 0.5f}, {"beta2", 0.999f}, {"epsilon", 1e-8f}}));
  EXPECT_TRUE(mentions(o.text(), {"beta1=0.5\n"}));
  EXPECT_EQ(o.text().find("momentum"), std::string::npos) << o.text();
  EXPECT_EQ(o.schedule.rate.base, 0.001) << "the optimizer's own";
  EXPECT_EQ(parse({"--optimizer", "adam", "--lr=0.1"}).schedule.rate.base, 0.1);
  EXPECT_TRUE(mentions(parse({}).text(), {"momentum=0\n"}));
  const Options nadam = parse({"--optimizer", "nadam"});
  EXPECT_EQ(nadam.optimizer.own.at("epsilon"), 1e-7f) << "its own default";
  EXPECT_TRUE(mentions(nadam.text(), {"epsilon=1e-07\n"}));
  EXPECT_EQ(parse({"--optimizer", "nadam", "--epsilon=1e-8"}).optimizer.own.at("epsilon"), 1e-8f);
}

TEST(Options, OfTheUserOverrideAProgramsRecipe) {
  const Program photos{.name = "p", .recipe = {{"eval-every", "epoch"}, {"batch", "3"}}};
  EXPECT_TRUE(parse({}, photos).reports.epoch_lines);
  EXPECT_EQ(parse({}, photos).reports.eval_every, 0);
  EXPECT_FALSE(parse({"--eval-every", "5"}, photos).reports.epoch_lines);
  EXPECT_EQ(parse({"--eval-every", "5"}, photos).reports.eval_every, 5);
  EXPECT_EQ(parse({}, photos).schedule.batch, 3);
  const Words keras{"--dataset", "digits", "--model", "keras"};
  EXPECT_EQ(parse(keras, photos).schedule.batch, 128) << "the model's recipe overrides";
}

TEST(Options, OfTheUserOverrideAModelsRecipe) {
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
  const Options repeated = parse({"--model", "resnet20", "--optimizer", "sgd"});
  EXPECT_EQ(repeated.optimizer.own.at("momentum"), 0.9f) << "the recipe has this optimizer";
  EXPECT_EQ(parse({"--model", "resnet20", "--optimizer", "adam"}).schedule.rate.base, 0.001);
  EXPECT_EQ(parse({"--model", "resnet20", "--momentum", "0.5"}).optimizer.own.at("momentum"), 0.5f);
  EXPECT_EQ(parse({"--model", "tutorial"}).text(), parse({}).text()) << "no recipe, no trace";
}

TEST(Options, OfTheUserSetTheRateWithoutARecipesBatch) {
  const auto batch_of = [](const Words& more) {
    Words words{"--data", "photos", "--model", "resnet18"};
    words.insert(words.end(), more.begin(), more.end());
    return parse(words, {.name = "p", .dataset = "folder", .resizes = true}).schedule.rate_batch;
  };
  EXPECT_EQ(batch_of({}), 256);
  EXPECT_EQ(batch_of({"--global-batch=96"}), 256);
  EXPECT_EQ(batch_of({"--lr=0.1"}), 0);
  EXPECT_EQ(batch_of({"--optimizer=adam"}), 0);
  EXPECT_EQ(batch_of({"--find-lr=20"}), 0) << "its suggestion is for --lr";
  EXPECT_EQ(batch_of({"--find-lr=20", "--lr-scale-batch=8"}), 8);
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
  EXPECT_TRUE(mentions(o.text(), {"\ngroup=[\"conv?/*:lr=0.5\", \"*:lr=0,weight-decay=1e-4\"]\n"}));
  EXPECT_TRUE(mentions(parse({}).text(), {"\ngroup=[]\n"})) << "for a resume to compare";
}

TEST(Options, AnInvalidGroupIsRefused) {
  expect_refusals({
      {{"--group=conv1"}, "^--group: \"conv1\" .*PATTERN:"},
      {{"--group=conv1:"}, "^--group: \"conv1:\" .*PATTERN:"},
      {{"--group=:lr=1"}, "^--group: \":lr=1\" .*PATTERN:"},
      {{"--group=conv1:lr"}, "conv1: lr: \"\" .*number"},
      {{"--group=conv1:momentum=1"}, "conv1: \"momentum=1\" .*lr=.*weight-decay="},
      {{"--group=conv1:lr=1,"}, "conv1: \"\" .*lr="},
      {{"--group=conv1:lr=-1"}, "conv1: lr: -1 .*at least 0"},
      {{"--group=conv1:weight-decay=1e99"}, "conv1: weight-decay: 1e99 .*large"},
      {{"--group=conv1:lr=1,weight-decay=0,lr=1"}, "conv1: lr is given twice"},
      {{"--group=a:lr=1", "--group=b"}, "\"b\""},
      {{"--group"}, "--group"},
  });
}

TEST(Options, OfImagesMayNameSeveralFolders) {
  const Program program{.name = "train_images", .dataset = "folder", .resizes = true};
  const Options one = parse({"--data", "a"}, program),
                two = parse({"--data", "a", "--data=~/b b"}, program);
  EXPECT_TRUE(mentions(one.text(), {"data=\"a\"\n"}));
  EXPECT_EQ(two.data.place.folders, (Words{"a", fmt::format("{}/b b", std::getenv("HOME"))}));
  TemporaryDirectory folder;
  const std::string file = (folder / "run.toml").string();
  put(file, "data = [\"a\", \"b\", \"c\"]\n");
  const Options three = parse({"--config", file}, program);
  EXPECT_EQ(three.data.place.folders, (Words{"a", "b", "c"}));
  EXPECT_TRUE(mentions(three.text(), {"data=[\"a\", \"b\", \"c\"]\n"}));
  EXPECT_EQ(parse({"--config", file, "--data=d"}, program).data.place.folders, Words{"d"});
  for (const Words& more : {Words{"--dataset=packed"},
                            {"--dataset=synthetic"},
                            {"--labels=x.csv"},
                            {"--data="},
                            {"--data", "--steps"},
                            {"--data=x\ny"}}) {
    Words words{"--data=a", "--data=b"};
    words.insert(words.end(), more.begin(), more.end());
    expect_error({"--data"}, [&] { parse(words, program); });
  }
  EXPECT_EQ(parse({"--dataset=cifar10", "--data=a", "--data=b"}).data.place.folders, Words{"b"})
      << "the last one";
}

/// The defaults of the options that shape the weights.
std::map<std::string, std::string> shaping_options(const Options& o) {
  std::map<std::string, std::string> shaping;
  for (const OptionValue& option : o.values)
    if (option.shapes) shaping[option.name] = option.by_default;
  return shaping;
}

TEST(Options, AreDeclaredAsShapingTheWeightsOrNot) {
  auto shaping = shaping_options(parse({}));
  shaping.merge(shaping_options(parse({"--optimizer=nadam"})));
  for (const char* name : {"precision", "optimizer", "momentum", "beta1", "weight-decay", "ema",
                           "lr", "lr-schedule", "warmup-epochs", "group", "lr-scale-batch"}) {
    EXPECT_TRUE(shaping.contains(name)) << name;
  }
  // Those of the last kind are compared by what they come to (apps/record/run_facts.cc).
  for (const char* name : {"run", "keep", "timeout", "resume", "check", "threads", "steps", "batch",
                           "shards", "seed", "model", "data"}) {
    EXPECT_FALSE(shaping.contains(name)) << name;
  }
}

TEST(Options, ThatShapeTheWeightsNameTheirDefaults) {
  for (const OptimizerEntry& optimizer : optimizers()) {
    const Options o = parse({"--optimizer", std::string(optimizer.name), "--lr=0.1"});
    for (const OptionValue& option : o.values) {
      if (option.name == "optimizer" || !option.shapes || option.value.empty()) continue;
      EXPECT_EQ(option.value, option.by_default) << option.name << " of " << optimizer.name;
    }
  }
  const auto shaping =
      shaping_options(parse({"--optimizer=nadam", "--epsilon=0.1", "--mixup=0.2"}));
  EXPECT_EQ(shaping.at("epsilon"), "1e-07") << "the optimizer's own";
  EXPECT_EQ(shaping.at("mixup"), "0");
  EXPECT_EQ(shaping.at("group"), "[]");
  EXPECT_EQ(shaping.at("init"), "");
  EXPECT_EQ(shaping.at("optimizer"), "\"sgd\"");
}

class ConfigFile : public testing::Test {
 protected:
  Words words_for(const std::string& text, Words words = {}) {
    put(file_, text);
    words.insert(words.begin(), {"--config", file_.string()});
    return words;
  }
  Options options_of(const std::string& text, const Words& words = {}) {
    return parse(words_for(text, words));
  }
  /// The error of a file with `text` matches `pattern`, in which F is the name of the file.
  void expect_refusal(const std::string& text, const std::string& pattern,
                      const Words& words = {}) {
    const std::string full = replaced(pattern, "F:", file_.string() + ":");
    expect_refusals({{words_for(text, words), full.c_str()}});
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_ / "run.toml";
};

TEST_F(ConfigFile, IsNamesAndValues) {
  const Options o = options_of(
      "# A comment\n\nlr = 5e-2  # another\nbatch=10\nnesterov = true\r\n\tmomentum = 0.9\n"
      "checkpoint-every = 7\ntrace = 'a\\b c, d'\nmodel = \"tutorial\"\nresume = \"never\"\nseed = "
      "3");
  EXPECT_EQ(o.schedule.rate.base, 0.05);
  EXPECT_EQ(o.schedule.batch, 10);
  EXPECT_EQ(o.optimizer.own.at("nesterov"), 1);
  EXPECT_EQ(o.checkpoints.every.steps, 7);
  EXPECT_EQ(o.reports.trace, "a\\b c, d");
  EXPECT_EQ(o.model.name, "tutorial");
  EXPECT_EQ(o.checkpoints.resume, "never");
  EXPECT_TRUE(o.schedule.seed_given && o.schedule.batch_given);
  EXPECT_FALSE(o.schedule.shards_given);
  EXPECT_EQ(options_of("").text(), parse({}).text());
  const Options wins = options_of("lr = 0.2\nnesterov = true", {"--lr=0.3", "--nesterov=false"});
  EXPECT_EQ(wins.schedule.rate.base, 0.3) << "the command line wins";
}

TEST_F(ConfigFile, OfANetworkSetsOnlyHowItTrains) {
  const std::string layers = "sample = [24, 24, 3]\nlayers = [{type = \"dense\", features = 10}]\n";
  const auto network = (directory_ / "net.toml").string();
  put(network, layers + "[recipe]\nlr = 0.25\nglobal-batch = 6\ngroup = [\"dense/*:lr=0\"]\n");
  const Options o = parse({"--model", network});
  EXPECT_EQ(o.schedule.rate.base, 0.25);
  EXPECT_EQ(o.schedule.global_batch, 6);
  for (const std::string line :
       {"run = \"x\"", "new = true", "trace = \"x\"", "data = \"x\"", "dataset = \"mnist\"",
        "model = \"tutorial\"", "init = \"x\"", "resume = \"x\"", "config = \"x\"", "help = true",
        "nothing = 1"}) {
    put(network, layers + "[recipe]\n" + line + "\n");
    EXPECT_TRUE(mentions(refusal({"--model", network}), {"net.toml", "recipe", line.substr(0, 3)}))
        << line;
  }
}

TEST_F(ConfigFile, MayBeginWithAByteOrderMark) {
  EXPECT_EQ(options_of("\xef\xbb\xbfsteps = 5\r\nseed = 3\r\n").text(),
            options_of("steps = 5\nseed = 3\n").text());
  expect_refusal("seed = 3\n\xef\xbb\xbfsteps = 5\n", "^F:2: TOML: ");
}

TEST_F(ConfigFile, MistakesAreNamedWithFileLineAndKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"seed = 3\nlr = [0.15\n", "^F:[23]: TOML: .*array.*name = value"},
      {"batch = 010\n", "^F:1: TOML: .*zero"},
      {"batch = 1_0\n", "^F:1: --batch: \"1_0\""},
      {"seed = 0x10\n", "^F:1: --seed: \"0x10\""},
      {"lr 0.1\n", "^F:1: TOML: .*name = value"},
      {"lr\n", "^F:1: TOML: .*name = value"},
      {"lr = \n", "^F:1: TOML: .*name = value"},
      {"lr = 0.1 0.2", "^F:1: TOML: "},
      {"lr = [0.1, 0.2]", "^F:1: --lr .*one"},
      {"model = [\"tutorial\", \"keras\"]", "^F:1: --model .*one"},
      {"model = tutorial", "^F:1: TOML: .*quotes"},
      {"lr = 0.1\nlr = 0.1\n", "^F:2: TOML: .*lr"},
      {"nesterov = 1", "^F:1: --nesterov: \"1\""},
      {"seed = 99999999999999999999", "^F:1: TOML: .*99999999999999999999"},
      {"seed = \"99999999999999999999\"", "^F:1: --seed: .*large"},
      {"lr = \"0.1", "^F:1: TOML: "},
      {"data = \"open", "^F:1: TOML: "},
      {";lr = 1", "^F:1: TOML: .*;"},
      {"data = \"a\" b", "^F:1: TOML: .*name = value"},
      {"group = [\"a:lr=1\"] 2", "^F:1: TOML: .*name = value"},
      {"group = [\"a:lr=1\", 2]", "^F:1: --group .*text"},
      {"lr = 1,", "^F:1: TOML: .*,"},
      {"group = [\"a:lr=1\" # see [1]", "^F:1: TOML: .*array"},
      {"data = \"\"", "^F:1: --data: .*empty"},
      {"data = \"a\x1b[2J\"", "^F:1: TOML: .*control"},
      {"data = \"a\\u001b[2J\"", "^F:1: --data: .*control"},
      {"\x7f"
       "ELF\x02=\x01",
       "^F:1: TOML: "},
      {"lr = [}", "^F:1: TOML: "},
      {"[training]\nlr = 1", "^F:1: \"training\" .*name = value"},
      {"training.lr = 1", "^F:1: \"training\" .*name = value"},
      {"steps = 5.0", "^F:1: --steps: 5.0 .*whole"},
      {"lr = inf", "^F:1: --lr: \"inf\""},
      {"\n\nbatch = 0", "^F:3: --batch: 0 "},
      {"amp = true", R"(^F:1: unknown option "amp" \(did you mean precision\?\))"},
      {"lrr = 1", R"(^F:1: unknown option "lrr" \(did you mean lr\?\))"},
      {"help = true", "^F:1: .*--help on the command line"},
      {"config = \"x\"", "^F:1: .*--config on the command line"},
      {"checkpoint-every = \"10x\"", "^F:1: --checkpoint-every: \"10x\""},
      {"steps = 5\nepochs = 2", R"(^--steps \(F:1\) and --epochs \(F:2\))"},
      {"\nmodel = \"tutrial\"", "^F:2: .*\"tutrial\": did you mean"},
      {"group = [\"a:lr=0\", \"b\"]", "^F:1: --group: \"b\" .*PATTERN"},
  };
  for (const auto& [text, pattern] : cases) expect_refusal(text, pattern);
}

TEST_F(ConfigFile, ThatCannotBeReadIsNamed) {
  expect_refusals({{{"--config", "/nowhere/x.toml"}, "--config /nowhere/x.toml: No such file"},
                   {{"--config", "/dev/zero"}, "--config /dev/zero: .*not a file"},
                   {{"--config", "/"}, "--config /: .*not a file"},
                   {{"--config", "/proc/self/mem"}, "cannot read --config /proc/self/mem"},
                   {{"--config", ""}, "--config"}});
}

TEST_F(ConfigFile, TakesTheOptimizersOptions) {
  const Options o = options_of("optimizer = \"adam\"\nbeta2 = 0.5\nepsilon = 1e-3");
  EXPECT_EQ(o.optimizer.own.at("beta2"), 0.5f);
  EXPECT_EQ(options_of(o.text()).text(), o.text());
  expect_refusal("beta2 = 0.5\nmomentum = 0.5", R"(^--momentum \(F:2\) .* sgd, lars, muon, )",
                 {"--optimizer=adam"});
}

TEST_F(ConfigFile, TakesArraysForLists) {
  const Options o = options_of("group = [\"a:lr=0,weight-decay=1\", 'b*:weight-decay=0.5']");
  ASSERT_EQ(o.optimizer.groups.size(), 2u);
  EXPECT_EQ(o.optimizer.groups[0].decay, 1.0f);
  EXPECT_EQ(o.optimizer.groups[1].decay, 0.5f);
  EXPECT_EQ(options_of(o.text()).text(), o.text());
  EXPECT_EQ(options_of("group = [\n  'a:lr=0',  # first\n  'ü:lr=1',\n]").optimizer.groups.size(),
            2u);
  EXPECT_EQ(options_of("group = []").optimizer.groups.size(), 0u);
  EXPECT_EQ(options_of("group = [\"a:lr=0\"]", {"--group=c:lr=2"}).optimizer.groups.size(), 1u)
      << "the command line wins";
}

TEST_F(ConfigFile, TheOptionsTextIsOne) {
  const Options o = parse({"--seed=18446744073709551615", "--data", "a \"b\" \\c ü", "--lr=1e-7",
                           "--checkpoint-every", "1.5m", "--momentum", "0.1", "--nesterov",
                           "--init=a, [b]", "--threads=3", "--resume=x.h5 #1 it's", "--trace='a"});
  const Options again = options_of(o.text());
  EXPECT_EQ(again.text(), o.text());
  EXPECT_EQ(again.data.place.folders, o.data.place.folders);
  EXPECT_EQ(again.model.init, o.model.init);
  EXPECT_EQ(again.checkpoints.every.seconds, 90);
  EXPECT_EQ(again.checkpoints.resume, "x.h5 #1 it's");
  EXPECT_EQ(again.reports.trace, "'a");
  const std::string quotes = parse({"--trace=it's \"a\\b\""}).text();
  EXPECT_EQ(options_of(quotes).reports.trace, "it's \"a\\b\"");
  EXPECT_EQ(options_of(quotes).text(), quotes);
}

}  // namespace
}  // namespace lockstep
