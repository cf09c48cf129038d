#include "collectives/node/backoff.h"

#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "src/base/clock.h"

namespace lockstep {
namespace {

constexpr auto kNap = std::chrono::microseconds(50);
constexpr double kNapping = 4, kReading = 1e-3, kSpan = 5e-3;  // seconds
constexpr double kOwn = 0.7;  ///< part of a core with which no others want it

CoreContention::Reading reading_at(double now) {
  timespec worked{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return {now, static_cast<double>(worked.tv_sec) + static_cast<double>(worked.tv_nsec) * 1e-9,
          used.ru_nvcsw + used.ru_nivcsw};
}

}  // namespace

bool CoreContention::shared(const Reading& reading) {
  span_.now += reading.now - last_.now;
  span_.worked += reading.worked - last_.worked;
  span_.left += reading.left - last_.left;
  last_ = reading;
  if (span_.now < kSpan) return false;
  bad_ = span_.worked < kOwn * span_.now && span_.left > 0 ? bad_ + 1 : 0;
  span_ = {};
  if (bad_ < 2) return false;
  bad_ = 0;
  return true;
}

void Backoff::between() {
  const double now = now_seconds();
  if (now < until_) return std::this_thread::sleep_for(kNap);
  // Time outside of the wait is not polling, so the readings begin anew with each wait.
  if (fresh_) {
    fresh_ = judged_ = false;
    read_ = now;
  }
  sched_yield();
  if (now - read_ < kReading) return;
  read_ = now;
  if (!std::exchange(judged_, true)) return judge_.begin(reading_at(now));
  if (!judge_.shared(reading_at(now))) return;
  // After the naps the thread polls and judges again, because the others may have ended.
  until_ = now + kNapping;
  fresh_ = true;
}

bool Backoff::naps() const { return now_seconds() < until_; }

}  // namespace lockstep
