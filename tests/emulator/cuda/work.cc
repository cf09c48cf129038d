#include "tests/emulator/cuda/work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "tests/emulator/cuda/memory.h"
#include "tests/emulator/cuda/report.h"

namespace emulator {
namespace {

using OperationPtr = std::shared_ptr<Operation>;
using Operations = std::vector<OperationPtr>;

struct State {
  std::recursive_mutex mutex;
  std::condition_variable_any changed;
  std::atomic<int> callers{0};  ///< threads of the host that want the lock
  Operations ready;             ///< may run now
  std::size_t pending = 0;
  std::uint64_t waits = 0;
  cudaError_t sticky = cudaSuccess;
};
State& state() {
  static auto* const all = new State;
  return *all;
}

const OperationPtr& any_of(const Operations& operations) {
  return operations[random_below(static_cast<std::uint32_t>(operations.size()))];
}

void make_ready(const OperationPtr& operation) {
  operation->place = state().ready.size();
  state().ready.push_back(operation);
}

void finish(const OperationPtr& operation) {
  Operations& ready = state().ready;
  ready[operation->place] = ready.back();
  ready[operation->place]->place = operation->place;
  ready.pop_back();
  operation->done = true;
  operation->work.reset();  // it may own a large buffer
  operation->before.clear();
  for (const OperationPtr& next : operation->after)
    if (--next->missing == 0) make_ready(next);
  --state().pending;
  state().changed.notify_all();
}

/// false: it waits for another process. A finished operation keeps its `after` for the caller.
bool run(const OperationPtr& operation) {
  const Work& work = *operation->work;
  if (state().sticky == cudaSuccess) {
    begin_running(operation->number, operation->clock);
    if (!operation->begun) {
      for (const Touch& touch : work.touches)
        if (touch.data != nullptr) check_range(touch.data, touch.bytes, touch.writes);
    }
    operation->begun = true;
    const bool complete = work.run();
    end_running();
    if (!complete) return false;
  }
  finish(operation);
  return true;
}

/// The pending operations of the point and before it that may run now. All are marked.
Operations collect(const Point& point, std::uint64_t wait) {
  Operations todo, runnable;
  const auto visit = [&](const OperationPtr& operation) {
    if (operation->done || operation->needed_by == wait) return;
    operation->needed_by = wait;
    todo.push_back(operation);
  };
  for (const OperationPtr& operation : point.open) visit(operation);
  while (!todo.empty()) {
    const OperationPtr operation = std::move(todo.back());
    todo.pop_back();
    if (operation->missing == 0) runnable.push_back(operation);
    for (const OperationPtr& earlier : operation->before) visit(earlier);
  }
  return runnable;
}

constexpr std::uint32_t kAll = ~0u;

/// Runs at most `most` operations that the point needs, and others in between if the order is
/// random. `further`: also those that may run after them. Returns early if all that could run wait
/// for other processes.
void run_needed(const Point& point, std::uint32_t most, bool further = false) {
  const std::uint64_t wait = ++state().waits;
  Operations runnable = collect(point, wait);
  if (runnable.empty()) return;
  const Accessible accessible;
  const bool others = settings().order == Order::random;
  for (std::size_t failures = 0; most > 0 && !runnable.empty() && failures < 2 * runnable.size();) {
    OperationPtr& chosen = runnable[random_below(static_cast<std::uint32_t>(runnable.size()))];
    if (chosen->done) {
      std::swap(chosen, runnable.back());
      runnable.pop_back();
      continue;
    }
    const OperationPtr operation = others && random_below(2) == 0 ? any_of(state().ready) : chosen;
    if (!run(operation)) {
      ++failures;
      continue;
    }
    failures = 0;
    --most;
    for (const OperationPtr& next : operation->after)
      if (next->missing == 0 && (further || next->needed_by == wait)) runnable.push_back(next);
    operation->after.clear();
  }
}

/// Lets other threads of the host, and other processes, move.
void release_for_a_moment() {
  state().changed.wait_for(state().mutex, std::chrono::microseconds(100));
}

/// The order `thread`. Runs until the process ends.
void work_for_ever() {
  State& all = state();
  for (;;) {
    while (all.callers > 0) std::this_thread::yield();
    std::unique_lock lock(all.mutex);
    bool moved = false;
    for (std::size_t tries = all.ready.size(); tries > 0 && !moved; --tries) {
      const OperationPtr operation = any_of(all.ready);
      moved = run(operation);
      if (moved) operation->after.clear();
    }
    if (!moved) release_for_a_moment();
    lock.unlock();
    if (random_below(16) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void start_worker() {
  static const bool started = [] {
    if (settings().order == Order::thread) std::thread(work_for_ever).detach();
    return true;
  }();
  static_cast<void>(started);
}

/// While the process ends no work runs any more.
[[gnu::destructor(102)]] void stop_worker() {
  if (settings().order == Order::thread) state().mutex.lock();
}

}  // namespace

Lock::Lock() {
  ++state().callers;
  state().mutex.lock();
  --state().callers;
}
Lock::~Lock() { state().mutex.unlock(); }

void Point::add(const Point& other) {
  join(clock, other.clock);
  std::erase_if(open, [](const OperationPtr& operation) { return operation->done; });
  for (const OperationPtr& operation : other.open) {
    if (!operation->done && std::find(open.begin(), open.end(), operation) == open.end())
      open.push_back(operation);
  }
}

bool Point::done() const {
  return std::all_of(open.begin(), open.end(), [](const OperationPtr& o) { return o->done; });
}

void add_operation(const std::shared_ptr<const Work>& work, std::uint32_t lane, Point& point) {
  auto operation = std::make_shared<Operation>();
  operation->work = work;
  join(point.clock, host_clock());
  operation->number = add_to_lane(lane, work->name, point.clock);
  operation->clock = point.clock;
  for (const OperationPtr& earlier : point.open) {
    if (earlier->done) continue;
    earlier->after.push_back(operation);
    operation->before.push_back(earlier);
  }
  operation->missing = operation->before.size();
  ++state().pending;
  if (operation->missing == 0) make_ready(operation);
  point.open = {std::move(operation)};
  start_worker();
}

void after_enqueue(const Point& point) {
  if (settings().order == Order::eager) run_needed(point, kAll);
  if (settings().order == Order::thread) state().changed.notify_all();
  if (settings().order != Order::random) return;
  while (!state().ready.empty() && random_below(3) == 0)
    run_needed({{}, {any_of(state().ready)}}, 1);
}

void host_waits_for(const Point& point) {
  while (!point.done()) {
    if (settings().order != Order::thread) run_needed(point, kAll);
    if (!point.done()) release_for_a_moment();
  }
  join(host_clock(), point.clock);
}

void host_waits_for_all() {
  while (state().pending > 0) {
    if (settings().order != Order::thread) run_needed({{}, state().ready}, kAll, true);
    if (state().pending > 0) release_for_a_moment();
  }
  host_waited_for_all();
}

bool host_polls(const Point& point) {
  if (!point.done() && settings().order != Order::thread && random_below(4) == 0)
    run_needed(point, random_below(2) == 0 ? kAll : 1 + random_below(100));
  if (!point.done()) return false;
  join(host_clock(), point.clock);
  return true;
}

void set_sticky_error(cudaError_t error) { state().sticky = error; }
cudaError_t sticky_error() { return state().sticky; }

}  // namespace emulator
