// Lines and the progress bar. The bar is always last on the terminal, without a newline. A line
// replaces the bar, and the bar is drawn again below.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

/// Columns of the terminal `descriptor`; 0 if they are unknown or it is no terminal.
int columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// The output of mpirun, if it started this process. Open MPI gives every rank a terminal of its
/// own for stdout, even if all output ends in a file.
class Launcher {
 public:
  Launcher() {
    if (!std::getenv("OMPI_COMM_WORLD_RANK")) return;
    launched_ = true;
    descriptor_ = ::open(fmt::format("/proc/{}/fd/1", ::getppid()).c_str(),
                         O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Launcher() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  bool hides_terminal() const { return launched_ && !::isatty(descriptor_); }
  int columns() const { return columns_of(descriptor_); }

 private:
  bool launched_ = false;
  int descriptor_ = -1;
};

/// The terminal or pipe of `descriptor`, opened again if possible, so that a write never waits for
/// a reader. The mode of `descriptor` itself stays, because other programs share it.
class Output {
 public:
  explicit Output(int descriptor) : given_(descriptor) {
    struct stat status {};
    if (::fstat(given_, &status) != 0 || !(S_ISFIFO(status.st_mode) || ::isatty(given_))) return;
    own_ = ::open(fmt::format("/proc/self/fd/{}", given_).c_str(),
                  O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Output() {
    if (own_ >= 0) ::close(own_);
  }
  Output& operator=(Output&&) = delete;  ///< neither copied nor moved
  int descriptor() const { return own_ >= 0 ? own_ : given_; }

 private:
  int given_, own_ = -1;
};

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 3.6e9)));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string progress_bar(std::int64_t done, std::int64_t total, double seconds_left,
                         std::string_view note, int width) {
  constexpr int kShortest = 10, kLongest = 40;
  std::string text = fmt::format("{}/{}", done, total);
  if (seconds_left >= 0) text += " ETA " + duration_text(seconds_left);
  const auto room = [&] { return width - static_cast<int>(text.size()); };
  if (room() < 0) return "";
  int bar = std::min(room() - 3 - (note.empty() ? 0 : static_cast<int>(note.size()) + 1), kLongest);
  bar = std::max(bar, kShortest);
  std::string result;
  if (room() >= bar + 3) {
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0;
    const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * bar);
    result += '[';
    result.append(full, '=');
    if (full < static_cast<std::size_t>(bar)) result += '>';
    result.resize(static_cast<std::size_t>(bar) + 1, ' ');
    result += "] ";
  }
  result += text;
  const int left = width - static_cast<int>(result.size()) - 1;
  if (!note.empty() && left > 0) {
    result += ' ';
    result += note.substr(0, left);
  }
  return result;
}

struct Console::Body {
  Body(std::FILE* file, std::function<bool()> wait) : out(file), keep_waiting(std::move(wait)) {}

  std::FILE* const out;
  const std::function<bool()> keep_waiting;
  const Output output{::fileno(out)};
  bool gone = false;  // there is no reader: reported once
  Launcher launcher;
  bool seen = false;  // `out` is a terminal that a person sees
  bool bars = false;
  std::string bar;  // the bar on the terminal now; empty: none
  double begin = 0, drawn = 0;
  std::int64_t first = -1;  // `done` at `begin`
  std::int64_t last = -1;   // `done` when it was drawn last

  /// Without stdio, whose functions do not continue after a signal. Flushes stdio first.
  void print(std::string_view text) {
    if (gone) return;
    // Other code may have printed by stdio, and its text belongs in front.
    std::fflush(out);
    while (!text.empty()) {
      pollfd poll{output.descriptor(), POLLOUT, 0};
      constexpr int kPause = 100;  // ms
      if (::poll(&poll, 1, kPause) == 0) {
        if (!keep_waiting || keep_waiting()) continue;
        gone = true;
        fail("cannot write to standard output: its reader pauses, and the run must end");
      }
      const ssize_t written = ::write(output.descriptor(), text.data(), text.size());
      if (written >= 0) {
        text.remove_prefix(written);
      } else if (errno != EINTR && errno != EAGAIN) {
        gone = errno == EPIPE;
        fail("cannot write to standard output: {}; redirect it to another file",
             std::strerror(errno));
      }
    }
  }
  int width() const {
    const char* columns = std::getenv("COLUMNS");
    for (const int known :
         {columns ? std::atoi(columns) : 0, columns_of(::fileno(out)), launcher.columns()}) {
      if (known > 0) return known - 1;  // the last column makes some terminals wrap
    }
    return 79;
  }
};

Console::Console(std::FILE* out, std::function<bool()> keep_waiting)
    : body_(std::make_unique<Body>(out, std::move(keep_waiting))) {
  const char* terminal = std::getenv("TERM");
  body_->seen = ::isatty(::fileno(out)) && !body_->launcher.hides_terminal();
  body_->bars = body_->seen && !(terminal && std::string_view(terminal) == "dumb");
}

Console::~Console() {
  try {
    clear();
  } catch (const Error&) {
    // There is no reader left.
  }
}

void Console::line(const std::string& text) {
  Body& body = *body_;
  // One write replaces the bar, prints the line and draws the bar again. So lines of other
  // processes rarely come between.
  std::string all = body.bar.empty() ? "" : "\r\033[K";
  all += printable(text) + '\n';
  body.print(all + body.bar);
}

void Console::data(const std::string& text) {
  body_->seen ? line(text) : body_->print(text + '\n');
}

void Console::progress(std::int64_t done, std::int64_t total, std::string_view note) {
  Body& body = *body_;
  if (!body.bars) return;
  const double now = now_seconds();
  // The complete bar is drawn whatever the time. Otherwise a run would end with an incomplete one.
  if (body.first < 0) {
    body.begin = now;
    body.first = done;
  } else if ((done < total || body.last >= total) && now - body.drawn < 0.1) {
    return;
  }
  body.last = done;
  const double seconds = now - body.begin;
  const double pace = done > body.first ? seconds / static_cast<double>(done - body.first) : -1;
  body.bar =
      progress_bar(done, total, pace * static_cast<double>(std::max<std::int64_t>(total - done, 0)),
                   note, body.width());
  body.drawn = now;
  body.print("\r\033[K" + body.bar);
}

void Console::clear() {
  Body& body = *body_;
  if (body.bar.empty()) return;
  body.bar.clear();
  body.last = -1;
  body.print("\r\033[K");
}

int Console::columns() const { return body_->seen ? body_->width() : 0; }

std::string fitted(const std::vector<std::string>& parts, int columns) {
  std::string text;
  for (const std::string& part : parts) {
    const std::size_t size = text.size() + 2 + part.size();
    if (!text.empty() && columns > 0 && size > static_cast<std::size_t>(columns)) break;
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string timestamp() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return text.data();
}

}  // namespace lockstep
