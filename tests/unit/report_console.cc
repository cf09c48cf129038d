// The console: plain lines in a file, a bar below the lines on a terminal. For readers that pause
// or leave see tests/apps/lost_reports.sh.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>

#include "src/report/report.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"
#include "tests/support/pattern.h"

namespace lockstep {
namespace {

/// A terminal of `columns` (0: it does not say) and what was written to it.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    termios raw{};
    ::tcgetattr(slave, &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(slave, TCSANOW, &raw);
    const winsize size{24, columns, 0, 0};
    ::ioctl(slave, TIOCSWINSZ, &size);
    out_ = ::fdopen(slave, "w");
  }
  ~Terminal() {
    std::fclose(out_);
    ::close(master_);
  }
  std::FILE* out() { return out_; }
  /// All that has been written since the last call. The system hands it over in its own time, so a
  /// mark is sent after it and waited for.
  std::string written() {
    constexpr char kMark = '\x1e';
    std::fflush(out_);
    EXPECT_EQ(::write(::fileno(out_), &kMark, 1), 1);
    std::string text;
    for (char next = 0; ::read(master_, &next, 1) == 1 && next != kMark;) text += next;
    return text;
  }

 private:
  int master_;
  std::FILE* out_;
};

/// The environment of an ordinary terminal.
struct Plain {
  const Variable columns{"COLUMNS", nullptr}, terminal{"TERM", "xterm"},
      rank{"OMPI_COMM_WORLD_RANK", nullptr};
};

/// The screen of a terminal of one row after `text`. It knows only \r and "erase to the end of the
/// line".
std::string shown(const std::string& text) {
  std::string lines, row;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "\033[K") == 0) {
      row.resize(column);
      i += 2;
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\n') {
      lines += row + "\n";
      row.clear();
      column = 0;
    } else {
      row.resize(std::max(row.size(), column + 1), ' ');
      row[column++] = text[i];
    }
  }
  return lines + row;
}

TEST(Console, AFileReceivesOnlyPlainLines) {
  const TemporaryDirectory directory;
  std::FILE* file = std::fopen((directory / "log").c_str(), "w");
  {
    std::fputs("zero\n", file);
    Console console(file);
    console.line("one");
    console.progress(1, 2, "note");
    console.line("two");
    console.clear();
    EXPECT_EQ(contents(directory / "log"), "zero\none\ntwo\n") << "not held back, in order";
    console.progress(2, 2, "note");
    EXPECT_EQ(console.columns(), 0) << "a line in a file may be long";
  }
  std::fclose(file);
  EXPECT_EQ(contents(directory / "log"), "zero\none\ntwo\n");
}

TEST(Console, TheBarStaysBelowTheLines) {
  const Plain plain;
  Terminal terminal(60);
  {
    Console console(terminal.out());
    console.line("one");
    EXPECT_EQ(terminal.written(), "one\n");
    console.progress(0, 100, "loss 4.6");
    console.line("two");
    console.line("three");
    std::string text = shown(terminal.written());
    EXPECT_EQ(text, "two\nthree\n" + progress_bar(0, 100, -1, "loss 4.6", 59));
    console.progress(100, 100, "loss 0.5");  // the end is drawn, however soon
    text = shown(terminal.written());
    EXPECT_TRUE(matches(text, "\\[=+\\] 100/100 ETA 0:00 loss 0.5")) << text;
    EXPECT_EQ(text.size(), 59u);
    console.clear();
    console.line("four");
    EXPECT_EQ(shown(terminal.written()), "four\n");
    console.progress(100, 100, "");
    terminal.written();
  }
  EXPECT_EQ(terminal.written(), "\r\033[K") << "the end takes the bar away";
}

TEST(Console, TheBarIsDrawnTenTimesASecondAtMost) {
  const Plain plain;
  Terminal terminal(60);
  Console console(terminal.out());
  console.progress(0, std::int64_t{1} << 40, "");
  terminal.written();
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t calls = 0;
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(250))
    console.progress(++calls, std::int64_t{1} << 40, "");
  const std::string text = terminal.written();
  // More can only be drawn in as much more time, when the machine is busy.
  const double tenths =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() * 10;
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), static_cast<long>(tenths) + 1);
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 1);
}

TEST(Console, TheWidthIsTheTerminals) {
  const auto width = [](unsigned short columns, const char* variable) {
    const Plain plain;
    const Variable environment("COLUMNS", variable);
    Terminal terminal(columns);
    Console console(terminal.out());
    console.progress(1, 2, std::string(500, 'x'));
    const std::size_t size = shown(terminal.written()).size();
    EXPECT_EQ(console.columns(), static_cast<int>(size)) << "lines have as much room as the bar";
    return size;
  };
  EXPECT_EQ(width(60, nullptr), 59u);
  EXPECT_EQ(width(200, nullptr), 199u);
  EXPECT_EQ(width(200, "100"), 99u);
  EXPECT_EQ(width(200, "nonsense"), 199u);
  EXPECT_EQ(width(200, "-5"), 199u);
  EXPECT_EQ(width(0, nullptr), 79u);
}

TEST(Console, NoBarOnADumbTerminal) {
  const Plain plain;
  const Variable dumb("TERM", "dumb");
  Terminal terminal(60);
  Console(terminal.out()).progress(1, 2, "");
  EXPECT_EQ(terminal.written(), "");
}

TEST(ProgressBar, ShowsWhatFits) {
  EXPECT_EQ(progress_bar(480, 1000, 3909, "loss 1.2", 42),
            "[====>     ] 480/1000 ETA 1:05:09 loss 1.2");
  EXPECT_EQ(progress_bar(5, 10, 309, "", 100),
            "[====================>                   ] 5/10 ETA 5:09");
  EXPECT_EQ(progress_bar(5, 10, -1, "", 17), "[=====>    ] 5/10");
  EXPECT_EQ(progress_bar(5, 10, -1, "abc", 14), "5/10 abc");
  EXPECT_EQ(progress_bar(5, 10, -1, "abc", 7), "5/10 ab");
  EXPECT_EQ(progress_bar(5, 10, -1, "abc", 4), "5/10");
  EXPECT_EQ(progress_bar(5, 10, -1, "abc", 3), "");
  EXPECT_EQ(progress_bar(0, 0, -1, "", 16), "[==========] 0/0");
  for (int width = 0; width < 120; ++width) {
    for (const std::int64_t done : {-1, 0, 1, 99, 100, 101}) {
      EXPECT_LE(progress_bar(done, 100, 1e300, "a note", width).size(),
                static_cast<std::size_t>(width));
    }
  }
}

TEST(Fitted, KeepsWhatFitsButAlwaysTheFirst) {
  const std::vector<std::string> parts{"step 1/2", "one", "three"};
  EXPECT_EQ(fitted(parts, 0), "step 1/2, one, three");
  EXPECT_EQ(fitted(parts, 20), "step 1/2, one, three");
  EXPECT_EQ(fitted(parts, 19), "step 1/2, one");
  EXPECT_EQ(fitted(parts, 12), "step 1/2");
  EXPECT_EQ(fitted(parts, 1), "step 1/2");
  EXPECT_EQ(fitted({}, 10), "");
}

}  // namespace
}  // namespace lockstep
