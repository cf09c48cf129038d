#include "apps/options/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr std::size_t kColumns = 99, kText = 32;  // of a help; the column at which texts begin

/// Examples that no default and no registry gives: "[PROGRAM ]OPTION VALUE[ OTHER OPTIONS]".
constexpr std::string_view kExamples =
    ", accumulate 4, alternate-flips @images, batch 64, brightness 0.2, bucket-mb 4, "
    "check-images decode @photos, clip-norm 1, compute-ms 20 "
    "--network deep_mnist, "
    "config runs/first/config.toml, contrast 0.2, core-gb 1.4 --hosts 4, crop-padding 4 @images, "
    "cutmix 1 @images, cutout 8 @images, data photos, bench_step data data/cifar10, "
    "train_cifar data data/cifar10, train_mnist data data/mnist, "
    "train_reuters data data/reuters, dataset packed --data photos.h5, "
    "bench_loader dataset folder, bench_step dataset cifar10_32 --data data/cifar10, "
    "train_cifar dataset cifar10_32 --data data/cifar10, train_mnist dataset digits, "
    "train_reuters dataset topics, draw ring, elements 16 --draw ring, epochs 10, explain ring, "
    "find-lr 100, gbit 25 --hosts 4, global-batch 256, group '*/biases:lr=0.1,weight-decay=0', "
    "hosts 4, hosts-per-core 2 --hosts 4, hue 0.1, image-size 64 @photos, "
    "init runs/first/checkpoints/best.h5, interval 10 --follow, iters 20, label-smoothing 0.1, "
    "latency-us 5 --hosts 4, logits logits.h5, "
    "loss-scale-steps 1000 --loss-scale dynamic, lr 0.03 --lr-schedule cosine, "
    "lr-decay 0.1 --lr-schedule exponential, lr-decay-epochs 30 --lr-schedule exponential, "
    "lr-end 0.001 --lr-schedule cosine, lr-scale-batch 128 --global-batch 512, "
    "lr-smooth --lr-schedule exponential, mixup 0.2 @images, model resnet20, momentum 0.9, "
    "train_reuters model reuters_as_published, nccl-max-ctas 8, nesterov --momentum 0.9, "
    "output runs.html, patience 5 --validation 0.1, random-erase 0.25 @images, "
    "ranks 8 --draw ring, run first, saturation 0.2, seed 2, shards 4, "
    "skip-damaged @photos, steps 1000, "
    "sync-bn @images, target 94, test-views @images, threads 2, trace trace.json, "
    "validation 0.1, warmup-epochs 5, weight-decay 0.0001, weights raw, workers 4 @photos, ";

/// Words of kExamples and of a usage, and their text in examples.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"@images", "--dataset cifar10_32 --data data/cifar10 --model resnet20"},
    {"@photos", "--dataset folder --data photos --image-size 32 --model resnet20"},
    {"CHECKPOINT", "runs/first"},
    {"DIR", "photos"},
    {"FILES...", "new.jpg"},
    {"FOLDER FILE", "photos photos.h5"},
    {"OUT", "first.onnx"},
    {"RUNS...", "first second"},
    {"RUN...", "first"}};

void print_answer(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  Console().line(std::string(text));
}

/// True if this process has no launcher and the answer is printed. Errors are left to the second
/// reading.
bool answered_without_ranks(const std::function<bool(std::string& answer)>& parse) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  if (has_launcher(environment)) return false;
  try {
    std::string answer;
    if (parse(answer)) return false;
    if (is_first_task(environment)) print_answer(answer);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// The options that this text names, or whose names begin with the same word.
std::string related(OptionRows& rows, const OptionRow& row) {
  const auto first_word = [](const std::string& name) { return name.substr(0, name.find('-', 2)); };
  std::vector<std::string> names;
  for (const OptionRow& other : rows.all()) {
    const bool named = (row.about + " ").find(other.name + " ") != std::string::npos ||
                       first_word(row.name) == first_word(other.name);
    if (named && other.name != row.name) names.push_back(other.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  std::string result;
  for (std::string line : lines_of(text)) {
    while (line.size() > columns) {
      const std::size_t space = line.rfind(' ', columns);
      if (space == std::string::npos || space <= indent) break;
      result += line.substr(0, space) + "\n";
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    result += line + "\n";
  }
  return result;
}

OptionText text_of(const OptionRow& row) {
  using Type = OptionRow::Type;
  OptionText text{.name = row.value.empty() ? row.name : row.name + " " + row.value,
                  .headline = row.about.substr(0, row.about.find('\n')),
                  .by_default = row.type == Type::flag ? "" : row.by_default,
                  .details = row.about,
                  .type = row.value == "DIR"    ? "folder"
                          : row.value == "FILE" ? "file"
                                                : "text",
                  .values = fmt::format("{}", fmt::join(row.values, ", "))};
  text.details.erase(0, text.headline.size() + 1);
  if (const std::size_t bracket = text.headline.rfind(" ["); text.headline.ends_with(']')) {
    const std::string named = text.headline.substr(bracket + 2);
    text.by_default += (text.by_default.empty() ? "" : "; ") + named.substr(0, named.size() - 1);
    text.headline.resize(bracket);
  }
  if (row.type == Type::flag) text.type = "flag";
  if (row.type == Type::list) text.type = "text, may be passed again";
  if (row.type == Type::whole) text.type = "whole number " + row.range;
  if (row.type == Type::number) text.type = "number " + row.range;
  return text;
}

std::string help_text(OptionRows& rows, const ProgramText& program, bool all) {
  all = all || std::none_of(rows.all().begin(), rows.all().end(),
                            [](const OptionRow& row) { return row.is_common; });
  std::string group, lines = fmt::format("Usage: {}\n{}.\nDefaults are in brackets.\n",
                                         program.usage, program.about);
  for (const OptionRow& row : rows.all()) {
    if (!all && !row.is_common) continue;
    if (row.group != group) lines += fmt::format("\n{}:\n", row.group);
    group = row.group;
    const OptionText text = text_of(row);
    lines += fmt::format("  {:<{}}{}", text.name, kText - 2, text.headline);
    lines += text.by_default.empty() ? "\n" : fmt::format(" [{}]\n", text.by_default);
  }
  if (!all) {
    lines += fmt::format("\n--help-all shows all {} options, and --help OPTION explains one.\n",
                         rows.all().size());
  }
  return wrapped(lines, kText, kColumns);
}

std::string example(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  if (row.name == "--help") return fmt::format("{} --help {}", program.name, rows.all()[1].name);
  if (row.group == "Help") return program.name + " " + row.name;
  const bool is_option = row.name.starts_with("--");
  const std::string name = is_option ? row.name.substr(2) : row.name;
  std::string_view known = listed(kExamples, program.name + " " + name);
  if (known.empty()) known = listed(kExamples, name);
  if (known.empty() && row.values.size() > 1) known = row.values[1];
  if (known.empty() && row.type != OptionRow::Type::flag) known = row.by_default;
  std::string words = row.name;
  if (!known.empty()) words += fmt::format(" {}", known);
  if (row.about.find("with --image-size") != row.about.npos) words += " @photos";
  // Programs without --model have their data already, and others may train on photos already.
  if (!rows.find("--model")) words = words.substr(0, words.find(" @"));
  if (program.usage.find(" --data ") != program.usage.npos)
    words = words.substr(0, words.find(" @photos"));
  if (row.group.starts_with("With "))  // "With --optimizer sgd, lars"
    words = row.group.substr(5, row.group.find(',') - 5) + " " + words;
  std::string command = program.usage;
  const auto replace = [&](std::string_view from, std::string_view to) {
    if (const std::size_t at = command.find(from); at != command.npos)
      command.replace(at, from.size(), to);
  };
  replace(is_option ? "[OPTIONS]" : "[OPTIONS] ", is_option ? words : "");
  for (const auto& [word, shown] : kWords) replace(word, shown);
  if (command.find("--data ") != command.rfind("--data ")) replace("--data photos ", "");
  return command;
}

std::string option_help(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  const OptionText text = text_of(row);
  const std::string off = row.type == OptionRow::Type::flag ? "off" : "none";
  const std::pair<const char*, std::string> facts[] = {
      {"Type", text.type},
      {"Values", text.values},
      {"Default", text.by_default.empty() ? off : text.by_default},
      {"Group", fmt::format("{} ({})", row.group, row.is_common ? "common" : "advanced")},
      {"Example", example(rows, row, program)},
      {"Related", related(rows, row)}};
  std::string lines = fmt::format("{}\n    {}.\n", text.name, text.headline);
  for (const std::string& line : lines_of(text.details)) lines += fmt::format("    {}\n", line);
  for (const auto& [name, value] : facts) {
    if (!value.empty()) lines += fmt::format("    {:<10}{}\n", name, value);
  }
  return wrapped(lines, 4, kColumns);
}

int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run, Start start) {
  if (answered_without_ranks(parse)) return kExitSuccess;
  const auto body = [&](World& world) {
    std::string answer;
    bool runs = false;
    agree(world.comm(), [&] { runs = parse(answer); });
    expect_same(world.comm(), "options",
                fmt::format("asked for = {}", runs ? "a run" : "--help or the like"));
    if (runs && start == Start::single && world.comm().size() > 1)
      throw AgreedError(kOneProcess, kExitUsage);
    if (runs) return run(world);
    if (world.comm().rank() == 0) print_answer(answer);
    return static_cast<int>(kExitSuccess);
  };
  return run_main(argc, argv, program, body, start);
}

int run_without_ranks(const char* program, const std::function<bool(std::string& answer)>& parse,
                      const std::function<int()>& run) {
  try {
    std::string answer;
    if (parse(answer)) return run();
    print_answer(answer);
    return kExitSuccess;
  } catch (...) {
    const Error error = current_error();
    print_error(fmt::format("{}: {}\n", program, error.what()));
    return error.exit_code();
  }
}

}  // namespace lockstep
