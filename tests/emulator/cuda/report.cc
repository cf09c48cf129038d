#include "tests/emulator/cuda/report.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/emulator/emulator.h"

namespace emulator {
namespace {

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const char* variable, const std::string& accepted) {
  stop(std::string(variable) + " is \"" + value_of(variable) + "\". Set it to " + accepted + ".");
}

/// false: not a decimal number.
bool parse(const std::string& text, std::uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::uint64_t number_of(const char* variable, std::uint64_t otherwise, std::uint64_t most) {
  const std::string text = value_of(variable);
  std::uint64_t number = otherwise;
  if (text.empty()) return number;
  if (!parse(text, number) || number > most)
    refuse(variable, "a number from 0 to " + std::to_string(most));
  return number;
}

Order order_of_work() {
  const std::string text = value_of("EMULATOR_ORDER");
  if (text.empty() || text == "late") return Order::late;
  if (text == "eager") return Order::eager;
  if (text == "random") return Order::random;
  if (text == "thread") return Order::thread;
  refuse("EMULATOR_ORDER", "late, eager, random or thread");
}

Settings read_environment() {
  Settings result;
  result.order = order_of_work();
  result.seed = number_of("EMULATOR_SEED", 1, ~std::uint64_t{0});
  result.devices = static_cast<int>(number_of("EMULATOR_DEVICES", 1, 64));
  result.fail_call = 0;
  const std::string text = value_of("EMULATOR_FAIL");
  const std::size_t space = text.find(' ');
  result.fail = text.substr(0, space);
  const bool whole = space != std::string::npos && space > 0 &&
                     parse(text.substr(space + 1), result.fail_call) && result.fail_call > 0;
  if (!text.empty() && !whole) refuse("EMULATOR_FAIL", "a function and a number, \"cudaMalloc 7\"");
  return result;
}

struct Reports {
  std::mutex mutex;
  std::map<std::string, long> counts;
};
Reports& reports() {
  static auto* const all = new Reports;
  return *all;
}

/// Before main, so that a wrong setting stops each program, also one that calls nothing.
[[gnu::constructor]] void begin() { settings(); }

[[gnu::destructor(101)]] void end() {
  const std::lock_guard lock(reports().mutex);
  for (const auto& [kind, count] : reports().counts)
    print((std::to_string(count) + " times: " + kind).c_str());
  if (reports().counts.empty()) return;
  std::fflush(nullptr);
  _exit(kExitReported);
}

}  // namespace

const Settings& settings() {
  static const auto* const all = new Settings(read_environment());
  return *all;
}

void print(const char* text) {
  char line[1024];
  const int written = std::snprintf(line, sizeof line - 1, "emulator[%d]: %s", getpid(), text);
  const auto length = std::min<std::size_t>(written, sizeof line - 2);
  line[length] = '\n';
  // One call, so that lines of several processes do not mix. A failure cannot be told to anybody.
  [[maybe_unused]] const auto ignored = write(STDERR_FILENO, line, length + 1);
}

void stop(const std::string& reason) {
  print(reason.c_str());
  std::fflush(nullptr);
  _exit(kExitReported);
}

void report(const std::string& kind, const std::string& detail) {
  const std::lock_guard lock(reports().mutex);
  if (reports().counts[kind]++ > 0) return;
  print((detail.empty() ? kind : kind + ": " + detail).c_str());
}

std::vector<std::string> take_reports() {
  const std::lock_guard lock(reports().mutex);
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : reports().counts) kinds.push_back(kind);
  reports().counts.clear();
  return kinds;
}

std::uint32_t random_below(std::uint32_t n) {
  // SplitMix64: a counter, mixed. So threads need no lock.
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  static std::atomic<std::uint64_t> state{settings().seed};
  std::uint64_t mixed = state.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return static_cast<std::uint32_t>((mixed >> 32) * n >> 32);
}

bool is_to_fail(const char* function) {
  static std::atomic<std::uint64_t> calls{0};
  return settings().fail == function && ++calls == settings().fail_call;
}

}  // namespace emulator
