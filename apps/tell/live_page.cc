#include "apps/tell/live_page.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace lockstep {

LivePage::LivePage(std::function<void(double)> write) : write_(std::move(write)) {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    pthread_setname_np(thread_.native_handle(), "live page");
  } catch (const std::system_error& error) {
    failure_ = fmt::format("no thread writes the page during training: {}", error.what());
  }
}

void LivePage::rethrow() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(std::exchange(failure_, {}));
}

void LivePage::run(const std::stop_token& stop) {
  constexpr double kEvery = 10, kFirst = 1, kShare = 0.01;
  const double begin = now_seconds();
  double cost = 0;  // seconds of the last call
  std::unique_lock lock(mutex_);
  while (true) {
    const double age = now_seconds() - begin;  // early pages are soon out of date
    const double wait = std::max(std::clamp(age, kFirst, kEvery), cost / kShare);
    stopped_.wait_for(lock, stop, std::chrono::duration<double>(wait), [] { return false; });
    if (stop.stop_requested()) return;
    // rethrow() is called in the training loop, and must not wait for a page.
    lock.unlock();
    std::string failure;
    const double start = now_seconds();
    try {
      write_(std::max(kEvery, cost / kShare));
    } catch (const std::exception& error) {  // also std::bad_alloc: the page is worth no run
      failure = error.what();
    }
    cost = now_seconds() - start;
    lock.lock();
    if (!failure.empty()) failure_ = std::move(failure);
  }
}

}  // namespace lockstep
