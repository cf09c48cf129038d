// Prints the classes of image files by a trained checkpoint.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/record/checkpoint_use.h"
#include "apps/run/classifier.h"
#include "apps/run/predictions.h"
#include "apps/run/run_setup.h"
#include "apps/step/placement.h"
#include "apps/step/replica_check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/photos.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

struct ClassifyOptions : CheckpointUse {
  std::vector<std::string> files;
  bool json = false, csv = false;
  int top = 5, batch = 16;
};

void declare(OptionRows& rows, ClassifyOptions& o) {
  o.CheckpointUse::declare(rows);
  rows.list(
          "FILES", o.files, "",
          "Image files, folders of them, or - for names on standard input\n"
          "Formats: JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF. Names on standard input stand "
          "one on a line, and are answered while it is open.")
      .example("new.jpg");
  rows.number("--top", o.top, Bounds::at_least(1), "Number of most probable classes to print")
      .idle_with("--csv");
  rows.flag("--json", o.json, "One JSON object per file instead of text");
  rows.flag("--csv", o.csv,
            "CSV with the probabilities of all classes instead of text\n"
            "The columns are those of evaluate --predictions without the true class.")
      .excludes("--json", "form of the answers");
  rows.number("--batch", o.batch, Bounds::at_least(1, 4096), "Images per batch").example("64");
}

void complain(const std::string& text) { print_error(fmt::format("classify: {}\n", text)); }

/// The lines of standard input as they arrive.
class InputLines {
 public:
  /// Reads what has arrived, with `wait` until next() has an answer. Whether it has one.
  bool ready(bool wait = false) {
    std::array<char, 4096> some;
    while (!ended_ && text_.find('\n') == text_.npos) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (!wait && ::poll(&input, 1, 0) == 0) return false;
      const ssize_t count = ::read(STDIN_FILENO, some.data(), some.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot read standard input: {}. Pass names.", std::strerror(errno));
      require(text_.size() < kLongest, "a line of standard input is no name. Pass one on a line.");
      text_.append(some.data(), count);
      ended_ = count == 0;
      if (ended_ && !text_.empty()) text_ += '\n';  // the last line may lack it
    }
    return true;
  }
  /// Waits for a line. Nothing: the input has ended.
  std::optional<std::string> next() {
    ready(/*wait=*/true);
    const std::size_t end = text_.find('\n');
    if (end == text_.npos) return {};
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    if (line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }

 private:
  static constexpr std::size_t kLongest = 1 << 16;

  std::string text_;  ///< that was read and not returned
  bool ended_ = false;
};

/// Calls `each` with the files that the user names, in that order. Folders are replaced by their
/// image files. Calls `pause` before it waits for standard input. False: a folder has no image or
/// cannot be read.
bool for_each_file(const std::vector<std::string>& names,
                   const std::function<void(const std::string&)>& each,
                   const std::function<void()>& pause) {
  bool all = true;
  const auto add = [&](const std::string& name) {
    std::error_code unreadable;
    if (!std::filesystem::is_directory(name, unreadable)) return each(name);
    std::vector<FoundFile> found;
    try {
      found = files_of_class(name);
      std::erase_if(found, [](const FoundFile& file) { return !has_image_name(file.name); });
      require(!found.empty(), "{} contains no image files. Pass another folder.", one_line(name));
    } catch (const Error& error) {
      complain(error.what());
      all = false;
    }
    for (const FoundFile& file : found) each(std::filesystem::path(name) / file.name);
  };
  for (const std::string& name : names) {
    if (name != "-") {
      add(name);
      continue;
    }
    InputLines lines;
    for (;;) {
      if (!lines.ready()) pause();
      const std::optional<std::string> line = lines.next();
      if (!line) break;
      if (!line->empty()) add(*line);
    }
  }
  return all;
}

/// One line for a file: the most probable classes.
std::string line_of(const std::string& file, const std::vector<std::string>& classes,
                    const double* probabilities, const ClassifyOptions& o) {
  if (o.csv) {
    const std::span row(probabilities, classes.size());
    const auto best = std::ranges::max_element(row) - row.begin();
    return fmt::format("{},{}{}", csv_field(file), csv_field(classes[best]),
                       csv_probabilities(row));
  }
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return probabilities[a] > probabilities[b];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(o.top)));
  if (o.json) {
    nlohmann::ordered_json object{{"file", file}, {"classes", nlohmann::json::array()}};
    for (const std::size_t i : order)
      object["classes"].push_back({{"name", classes[i]}, {"probability", probabilities[i]}});
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::vector<std::string> parts;
  for (const std::size_t i : order)
    parts.push_back(fmt::format("{} {:.2f} %", one_line(classes[i]), 100 * probabilities[i]));
  return fmt::format("{}: {}", one_line(file), fmt::join(parts, ", "));
}

/// Prints one line for each file, of a batch at a time.
class AnswerLines {
 public:
  AnswerLines(Classifier& classifier, const SampleFormat& format,
              const std::vector<std::string>& classes, const ClassifyOptions& o)
      : classifier_(classifier), format_(format), classes_(classes), options_(o) {
    if (o.csv) console_.data("file,predicted" + csv_class_heads(classes));
  }

  /// Reads a file, and names one that is no image.
  void add(const std::string& file) {
    try {
      const auto image =
          images_for_use({{}, {file}, {0}, static_cast<int>(classes_.size())}, format_);
      image->read(0, nullptr, classifier_.sample(std::ssize(batch_)),
                  classifier_.model().input_type());
      batch_.push_back(file);
    } catch (const Error& error) {
      complain(error.what());
      all_ = false;
    }
    if (std::ssize(batch_) == options_.batch) finish();
  }
  /// Prints the answers for all files so far.
  void finish() {
    if (batch_.empty()) return;
    const std::vector<double> probabilities = classifier_.classify(std::ssize(batch_));
    for (std::size_t i = 0; i < batch_.size(); ++i)
      console_.data(line_of(batch_[i], classes_, &probabilities[i * classes_.size()], options_));
    batch_.clear();
  }
  /// False: at least one file was no image.
  bool all() const { return all_; }

 private:
  Classifier& classifier_;
  const SampleFormat& format_;
  const std::vector<std::string>& classes_;
  const ClassifyOptions& options_;
  Console console_;
  std::vector<std::string> batch_;
  bool all_ = true;
};

int run(World& world, const ClassifyOptions& o) {
  const Comm comm = world.comm();
  Placement placement = place(comm, o.threads);
  const std::unique_ptr<Device> device = make_device(comm, o.device, {}, placement);
  const ChosenCheckpoint chosen = open_checkpoint(o, complain);
  const EvaluatedCheckpoint subject = describe(comm, chosen.checkpoint.get(), o.weights);
  const std::vector<std::string>& classes = subject.images.class_names;
  const SampleFormat format = sample_format(subject);
  require(format.kind != SampleFormat::Kind::words,
          "{} was trained on words, and classify needs images. Use evaluate.", subject.file);
  const Type type = o.type(subject);
  require_precision(*device, type);
  const auto shape = images_for_use({}, format)->sample_shape();
  Classifier classifier(*device, subject.entry(), shape, static_cast<int>(classes.size()), o.batch,
                        type);
  classifier.load(load_on_devices(comm, chosen.checkpoint.get(), classifier.model().layout(),
                                  subject.section(), *device));
  if (!o.json && !o.csv) chosen.print();
  AnswerLines answers(classifier, format, classes, o);
  bool any = false;
  const auto add = [&](const std::string& file) {
    any = true;
    answers.add(file);
  };
  const bool found = for_each_file(o.files, add, [&] { answers.finish(); });
  answers.finish();
  if (found && !any)
    fail_usage("FILES contains no image files. Pass image files or folders of them.");
  return found && answers.all() ? kExitSuccess : kExitFailure;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  ClassifyOptions options;
  const ProgramText program{"classify", "Prints the classes of image files by a trained checkpoint",
                            "classify [OPTIONS] RUN FILES..."};
  return run_or_print_help(
      argc, argv, "classify",
      reader_of(argc, argv, program, [&](OptionRows& rows) { declare(rows, options = {}); }),
      [&](World& world) { return run(world, options); }, Start::single);
}
