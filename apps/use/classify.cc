// Prints the classes of image files or texts by a trained checkpoint.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "apps/evaluate/classifier.h"
#include "apps/evaluate/predictions.h"
#include "apps/record/checkpoint_use.h"
#include "apps/run/run_setup.h"
#include "apps/step/placement.h"
#include "apps/step/replica_check.h"
#include "apps/use/run_use.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/image/photos.h"
#include "src/data/rows/class_folders.h"
#include "src/data/rows/labelled_rows.h"
#include "src/data/text/text_file.h"
#include "src/data/text/words.h"
#include "src/files/file.h"
#include "src/report/report.h"
#include "src/report/stored_run.h"

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
          "Files of images or texts, folders of them, or - for standard input\n"
          "Formats of images: JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF. Names of images "
          "stand "
          "one on a line of standard input, and are answered while it is open. For a run on texts "
          "each line is a text, and a file is a text in UTF-8. A table (.csv, .tsv, .jsonl) is "
          "answered row by row. It has the column of texts or files of training, or only one. "
          "Names are relative to the table.")
      .example("new.jpg");
  rows.number("--top", o.top, Bounds::at_least(1), "Number of most probable classes to print")
      .idle_with("--csv");
  rows.flag("--json", o.json, "One JSON object per file or text, instead of lines");
  rows.flag("--csv", o.csv,
            "CSV with the probabilities of all classes instead of text\n"
            "The columns are those of evaluate --predictions without the true class.")
      .excludes("--json", "form of the answers");
  rows.number("--batch", o.batch, Bounds::at_least(1, 4096), "Images or texts per batch")
      .example("64");
}

/// The lines of standard input as they arrive.
/// It reads the descriptor itself. A stream would hold lines back that poll() does not see.
class InputLines {
 public:
  /// `longest`: bytes of a line.
  explicit InputLines(std::size_t longest) : longest_(longest) {}

  /// Reads what has arrived, with `wait` until next() has an answer. Whether it has one.
  bool ready(bool wait = false) {
    std::array<char, 4096> some;
    while (!ended_ && text_.find('\n') == text_.npos) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (!wait && ::poll(&input, 1, 0) == 0) return false;
      const ssize_t count = ::read(STDIN_FILENO, some.data(), some.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot read standard input: {}. Pass names.", std::strerror(errno));
      require(text_.size() < longest_,
              "a line of standard input is no name or text. Pass one on a line.");
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
  const std::size_t longest_;
  std::string text_;  ///< that was read and not returned
  bool ended_ = false;
};

/// A sample to classify: a file, or with `is_text` a text, perhaps of a row of a table.
struct Input {
  std::string words;
  bool is_text = false;
  std::string row = {};  ///< "tickets.csv:1"

  std::string shown() const {
    if (!row.empty()) return row;
    return is_text ? excerpt_of(words, 60) : words;
  }
};

/// Calls `each` with the files that the user names, in that order. Folders are replaced by their
/// files of images, or with `texts` of texts, and tables by their rows. Calls `pause` before it
/// waits for standard input, each line of which is a name or a text. False: a folder has no such
/// file or cannot be read.
bool for_each_input(const ClassifyOptions& o, bool texts,
                    const std::function<void(const Input&)>& each,
                    const std::function<void()>& pause) {
  bool all = true;
  const auto add = [&](const std::string& name) {
    std::error_code unreadable;
    const std::filesystem::path path = name;
    const bool inner = std::filesystem::is_directory(path, unreadable),
               table = !inner && is_table(path);
    if (!table && !inner) return each({name});
    std::vector<Input> found;
    const auto add_row = [&](const LabelledRow& row) {
      if (!texts) return found.push_back({path.parent_path() / row.content});
      found.push_back(
          {row.content, true, fmt::format("{}:{}", path.filename().string(), found.size() + 1)});
    };
    try {
      using Names = std::span<const std::string_view>;
      const ContentColumn column{texts ? "text" : "file",
                                 texts ? Names(kTextNames) : Names(kFileNames),
                                 /*labelled=*/false};
      if (table) {
        read_labelled_rows(path, column, /*required=*/true, add_row);
      } else {
        for (const FoundFile& file : files_of_class(path))
          if (texts ? has_text_name(file.name) : has_image_name(file.name))
            found.push_back({path / file.name});
      }
      require(!found.empty(), "{} contains no {} {}. Pass another.", one_line(name),
              texts ? "text" : "image", table ? "rows" : "files");
    } catch (const Error& error) {
      o.complain(error.what());
      all = false;
    }
    for (const Input& input : found) each(input);
  };
  for (const std::string& name : o.files) {
    if (name != "-") {
      add(name);
      continue;
    }
    InputLines lines(texts ? 1 << 20 : 1 << 16);
    for (;;) {
      // A program at the other end of a pipe may wait for its answers before it writes more names.
      // So a batch that is not full is answered first.
      if (!lines.ready()) pause();
      const std::optional<std::string> line = lines.next();
      if (!line) break;
      if (texts) {
        each({*line, true});  // an empty one too, so that the answers are those of the lines
      } else if (!line->empty()) {
        add(*line);
      }
    }
  }
  return all;
}

/// One line for an input: the most probable classes.
std::string line_of(const Input& input, const std::vector<std::string>& classes,
                    const double* probabilities, const ClassifyOptions& o) {
  if (o.csv) {
    const std::span row(probabilities, classes.size());
    const auto best = std::ranges::max_element(row) - row.begin();
    return fmt::format("{},{}{}", csv_field(input.words), csv_field(classes[best]),
                       csv_probabilities(row));
  }
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return probabilities[i]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(o.top)));
  if (o.json) {
    nlohmann::ordered_json object{{input.is_text ? "text" : "file", input.words}};
    if (!input.row.empty()) object["row"] = input.row;
    object["classes"] = nlohmann::ordered_json::array();
    for (const std::size_t i : order)
      object["classes"].push_back({{"name", classes[i]}, {"probability", probabilities[i]}});
    return json_text(object);
  }
  std::vector<std::string> parts;
  for (const std::size_t i : order)
    parts.push_back(fmt::format("{} {:.2f} %", one_line(classes[i]), 100 * probabilities[i]));
  return fmt::format("{}: {}", one_line(input.shown()), fmt::join(parts, ", "));
}

/// Writes the sample of an input to memory of a batch. Throws Error that names the input.
using ReadInput = std::function<void(const Input& input, void* to, Type type)>;

ReadInput image_reader(const SampleFormat& format, int classes) {
  return [format, classes](const Input& input, void* to, Type type) {
    images_for_use({{}, {input.words}, {0}, classes}, format)->read(0, nullptr, to, type);
  };
}

ReadInput text_reader(const SampleFormat& format, const Vocabulary& vocabulary) {
  return [length = format.size.width, &vocabulary](const Input& input, void* to, Type) {
    require(input.is_text || !is_gone(input.words),
            "{} does not exist. Pass a text as a line of standard input, with - for FILES.",
            one_line(input.words));
    const std::string text = input.is_text ? input.words : read_text_file(input.words);
    require(invalid_utf8(text) == text.npos,
            "a line of standard input is no UTF-8: {}. Convert it.", input.shown());
    const std::vector<std::int32_t> numbers = vocabulary.numbers(text, length);
    std::memcpy(to, numbers.data(), numbers.size() * sizeof numbers[0]);
  };
}

/// Prints one line for each input, of a batch at a time.
class AnswerLines {
 public:
  /// `column`: the head of the inputs in CSV.
  AnswerLines(Classifier& classifier, ReadInput read, const char* column,
              const std::vector<std::string>& classes, const ClassifyOptions& o)
      : classifier_(classifier), read_(std::move(read)), classes_(classes), options_(o) {
    if (o.csv) console_.data(fmt::format("{},predicted{}", column, csv_class_heads(classes)));
  }

  /// Reads an input, and names one that cannot be read.
  void add(const Input& input) {
    try {
      read_(input, classifier_.sample(std::ssize(batch_)), classifier_.model().input_type());
      batch_.push_back(input);
    } catch (const Error& error) {
      options_.complain(error.what());
      all_ = false;
    }
    if (std::ssize(batch_) == options_.batch) finish();
  }
  /// Prints the answers for all inputs so far.
  void finish() {
    if (batch_.empty()) return;
    const std::vector<double> probabilities = classifier_.classify(std::ssize(batch_));
    for (std::size_t i = 0; i < batch_.size(); ++i)
      console_.data(line_of(batch_[i], classes_, &probabilities[i * classes_.size()], options_));
    batch_.clear();
  }
  /// False: at least one input could not be read.
  bool all() const { return all_; }

 private:
  Classifier& classifier_;
  ReadInput read_;
  const std::vector<std::string>& classes_;
  const ClassifyOptions& options_;
  Console console_;
  std::vector<Input> batch_;
  bool all_ = true;
};

int run(World& world, const ClassifyOptions& o) {
  const Comm comm = world.comm();
  Placement placement = place(comm, o.threads);
  const std::unique_ptr<Device> device = make_device(comm, o.device, {}, placement);
  const ChosenCheckpoint chosen =
      open_checkpoint(o, [&](const std::string& text) { o.complain(text); });
  const EvaluatedCheckpoint subject = describe(comm, chosen.checkpoint.get(), o.weights);
  const std::vector<std::string>& classes = subject.images.class_names;
  const SampleFormat format = sample_format(subject);
  const bool texts = format.kind == SampleFormat::Kind::words;
  require(!texts || !subject.images.vocabulary.empty(),
          "{} was trained on numbers of words and has no vocabulary. Use evaluate.", subject.file);
  const Type type = o.type(subject);
  require_precision(*device, type);
  const int count = static_cast<int>(classes.size());
  const auto shape = texts ? format.shape() : images_for_use({}, format)->sample_shape();
  const Vocabulary vocabulary(lines_of(subject.images.vocabulary));
  Classifier classifier(*device, subject.entry(), shape, count, o.batch, type);
  classifier.load(load_on_devices(comm, chosen.checkpoint.get(), classifier.model().layout(),
                                  subject.section(), *device));
  if (!o.json && !o.csv) chosen.print();
  AnswerLines answers(classifier,
                      texts ? text_reader(format, vocabulary) : image_reader(format, count),
                      texts ? "text" : "file", classes, o);
  bool any = false;
  const auto add = [&](const Input& input) {
    any = true;
    answers.add(input);
  };
  const bool found = for_each_input(o, texts, add, [&] { answers.finish(); });
  answers.finish();
  if (found && !any)
    fail_usage("FILES contains no {0} files. Pass {0} files or folders of them.",
               texts ? "text" : "image");
  return found && answers.all() ? kExitSuccess : kExitFailure;
}

}  // namespace

int classify_main(int argc, char** argv, const UseProgram& program) {
  return run_use<ClassifyOptions>(
      argc, argv, program,
      {program.name, "Prints the classes of image files or texts by a trained checkpoint",
       program.name + " [OPTIONS] RUN FILES..."},
      declare, run);
}

}  // namespace lockstep
