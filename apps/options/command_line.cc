#include "apps/options/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include "src/base/table.h"

namespace lockstep {
namespace {

/// What other trainers call our options, in the spelling of plain(): PyTorch's examples,
/// torchvision, Lightning, Keras, TensorFlow's tutorials.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"arch", "model"},
    {"batch-size", "batch"},
    {"checkpoint-interval", "checkpoint-every"},
    {"ckpt-dir", "checkpoint-dir"},
    {"data-dir", "data"},
    {"data-path", "data"},
    {"decay-rate", "lr-decay"},
    {"dtype", "precision"},
    {"eval-interval", "eval-every"},
    {"gamma", "lr-decay"},
    {"init-lr", "lr"},
    {"initial-learning-rate", "lr"},
    {"iterations", "steps"},
    {"l2", "weight-decay"},
    {"learning-rate", "lr"},
    {"learning-rate-schedule", "lr-schedule"},
    {"log-frequency", "log-every"},
    {"log-interval", "log-every"},
    {"lr-scheduler", "lr-schedule"},
    {"max-epochs", "epochs"},
    {"max-steps", "steps"},
    {"max-to-keep", "keep"},
    {"min-lr", "lr-end"},
    {"network", "model"},
    {"num-epochs", "epochs"},
    {"num-steps", "steps"},
    {"num-threads", "threads"},
    {"num-workers", "threads"},
    {"opt", "optimizer"},
    {"output-dir", "checkpoint-dir"},
    {"random-seed", "seed"},
    {"restore", "resume"},
    {"resume-from", "resume"},
    {"save-dir", "checkpoint-dir"},
    {"save-every", "checkpoint-every"},
    {"scheduler", "lr-schedule"},
    {"tensorboard", "log-dir"},
    {"train-dir", "checkpoint-dir"},
    {"train-steps", "steps"},
    {"val-every", "eval-every"},
    {"warmup", "warmup-epochs"},
    {"wd", "weight-decay"},
    {"workers", "threads"},
};

/// `name` in small letters, with - for _.
std::string plain(std::string_view name) {
  std::string result(name);
  for (char& c : result)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& option_name : option->get_lnames()) known.push_back(option_name);
  }
  const std::string asked = plain(name);
  std::string meant;
  for (const auto& [theirs, ours] : kElsewhere) {
    if (asked == theirs && std::find(known.begin(), known.end(), ours) != known.end()) meant = ours;
  }
  if (meant.empty()) meant = nearest(asked, known);
  return meant.empty() ? "" : fmt::format(" (did you mean {}{}?)", prefix, meant);
}

std::string home_path(std::string_view option, const std::string& path) {
  if (!path.starts_with('~')) return path;
  if (path.size() > 1 && path[1] != '/') {
    fail_usage("{}: \"{}\" begins with the home of another user. Pass the full path, or ./{}.",
               option, path, path);
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    fail_usage("{}: \"{}\" needs the variable HOME. Pass the full path.", option, path);
  return home + path.substr(1);
}

void fail_extra(const CLI::App& app) {
  const std::string word = app.remaining().front();
  if (word.rfind("-", 0) != 0)
    fail_usage("\"{}\" is not understood: options begin with --; see --help", word);
  std::string name = word.substr(0, word.find('='));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  fail_usage("unknown option {}{}; --help lists all options", word, hint(app, name, "--"));
}

}  // namespace lockstep
