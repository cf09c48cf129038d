#include "tests/support/async_device.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "tests/support/device_pages.h"

namespace lockstep {
namespace {

using Work = std::function<void()>;

/// Outlives streams, events and memory, which share it.
struct Shared {
  explicit Shared(const AsyncOptions& o) : options(o), pages(o.guard_pages, o.check_pointers) {}
  const AsyncOptions options;
  DevicePages pages;
  std::uint32_t streams = 0;
  /// The calls of enqueue, record and wait that capture() records, in the host's order.
  std::vector<Work>* recording = nullptr;
};

/// A thread with a queue. Only synchronize() tells the host of what the thread has done: a lock
/// around the queue would order the streams that the host gives to in turn, and hide races.
class AsyncStream : public Stream {
 public:
  explicit AsyncStream(std::shared_ptr<Shared> shared)
      : Stream(true),
        shared_(std::move(shared)),
        random_(shared_->options.seed, Purpose::generate, 0, shared_->streams++),
        thread_([this] { run(); }) {}
  ~AsyncStream() override {
    push({}, false);
    thread_.join();
    delete last_;
  }

  void synchronize() override {
    for (std::int64_t done = done_; done < enqueued_; done = done_) done_.wait(done);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  int threads() const override { return 1; }

  /// `delayed`: it is work, and not a mark between two pieces of it.
  void push(Work work, bool delayed) {
    auto* piece = new Piece{std::move(work), delayed};
    ++enqueued_;
    last_->next.store(piece);
    last_->next.notify_one();
    last_ = piece;
  }

 private:
  struct Piece {
    Work work;  ///< none: the end
    bool delayed = false;
    std::atomic<Piece*> next = nullptr;
  };

  void append(Work work) override {
    shared_->pages.hide_host(work);
    if (shared_->recording == nullptr) return push(std::move(work), true);
    shared_->recording->push_back([this, work = std::move(work)] { push(work, true); });
  }

  void run() {
    omp_set_num_threads(1);  // of what this thread does
    for (;;) {
      first_->next.wait(nullptr);
      Piece* piece = first_->next;
      delete std::exchange(first_, piece);
      if (!piece->work) return;
      try {
        perform(*piece);
      } catch (...) {
        error_ = std::current_exception();
      }
      piece->work = nullptr;
      ++done_;
      done_.notify_all();
    }
  }

  void perform(const Piece& piece) {
    if (!piece.delayed) return piece.work();
    const int most = shared_->options.most_delay_us;
    // Not each piece: a pause takes 60 us at least, far longer than the work.
    if (most > 0 && random_.below(8) == 0) {
      const std::uint32_t delay = random_.below(static_cast<std::uint32_t>(most) + 1);
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
    }
    const DevicePages::Open open(shared_->pages);
    DevicePages::run(piece.work);
  }

  std::shared_ptr<Shared> shared_;
  Random random_;
  Piece* first_ = new Piece;   ///< the thread's: done already
  Piece* last_ = first_;       ///< the host's
  std::int64_t enqueued_ = 0;  ///< pieces
  std::atomic<std::int64_t> done_ = 0;
  std::exception_ptr error_;
  std::thread thread_;  ///< last: it runs as soon as it is made
};

class AsyncEvent : public Event {
 public:
  explicit AsyncEvent(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), state_(std::make_shared<State>()) {}

  void record(Stream& stream) override {
    auto& on = dynamic_cast<AsyncStream&>(stream);
    call([state = state_, &on] {
      const auto reach = [state, number = ++state->recorded] {
        state->reached = number;
        state->reached.notify_all();
      };
      on.push(reach, false);
    });
  }

  void wait(Stream& stream) override {
    auto& on = dynamic_cast<AsyncStream&>(stream);
    call([state = state_, &on] {
      const auto wait = [state, number = state->recorded.load()] {
        for (std::int64_t at = state->reached; at < number; at = state->reached)
          state->reached.wait(at);
      };
      on.push(wait, false);
    });
  }

  bool done() const override { return state_->reached >= state_->recorded; }

 private:
  struct State {
    std::atomic<std::int64_t> recorded = 0;  ///< calls of record()
    std::atomic<std::int64_t> reached = 0;   ///< the last of them that its stream came to
  };

  /// Calls now, or has a graph call again and again.
  void call(const Work& work) {
    if (shared_->recording == nullptr) return work();
    shared_->recording->push_back(work);
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<State> state_;
};

class AsyncGraph : public Graph {
 public:
  explicit AsyncGraph(std::vector<Work> calls) : calls_(std::move(calls)) {}
  void launch(Stream&) override {
    for (const Work& call : calls_) call();
  }

 private:
  std::vector<Work> calls_;
};

constexpr std::size_t kLine = 64;

/// oneDNN is not compiled for ThreadSanitizer: what its kernels read and write is touched for them,
/// a byte per line.
void reads(View view) {
  if (!view) return;
  const auto* bytes = static_cast<const std::byte*>(view.data);
  for (std::size_t i = 0; i < view.bytes(); i += kLine)
    static_cast<void>(*static_cast<const volatile std::byte*>(bytes + i));
}
void writes(View view) {
  if (!view) return;
  auto* bytes = static_cast<std::byte*>(view.data);
  for (std::size_t i = 0; i < view.bytes(); i += kLine) {
    volatile std::byte* place = bytes + i;
    *place = *place;
  }
}

/// Writes NaN, as fp32 and as bf16, because scratch holds no numbers between calls.
void spoil(Stream& stream, void* scratch, std::size_t bytes) {
  stream.enqueue([=] { std::memset(scratch, 0xff, bytes); });
}

/// The CPU's plan, done later. All that it receives lies in memory of the device.
class AsyncAffine : public AffinePlan {
 public:
  AsyncAffine(std::unique_ptr<AffinePlan> plan, bool frozen, std::shared_ptr<Shared> shared)
      : plan_(std::move(plan)), frozen_(frozen), shared_(std::move(shared)) {}

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    check({{"x", x}, {"w", w}, {"y", y}}, b, scratch);
    stream.enqueue([=] { reads(x), reads(w), reads(b), writes(y); });
    plan_->forward(stream, x, w, b, y, scratch);
    spoil(stream, scratch, scratch_bytes());
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    check({{"dy", dy}, {"w", w}, {"dx", dx}}, {}, scratch);
    stream.enqueue([=] { reads(dy), reads(w), writes(dx); });
    plan_->backward_data(stream, dy, w, dx, scratch);
    spoil(stream, scratch, scratch_bytes());
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    check({{"x", x}, {"dy", dy}, {"dw", frozen_ ? dy : dw}}, db, scratch);
    stream.enqueue([=] { reads(x), reads(dy), writes(dw), writes(db); });
    plan_->backward_weights(stream, x, dy, dw, db, scratch);
    spoil(stream, scratch, scratch_bytes());
  }
  std::size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  std::string implementation() const override { return plan_->implementation(); }

 private:
  /// `biases`, or their gradient, may be null: a plan that has some follows it and dies.
  void check(std::initializer_list<std::pair<const char*, View>> views, View biases,
             void* scratch) {
    for (const auto& [name, view] : views) shared_->pages.check(name, view);
    if (biases) shared_->pages.check("biases", biases);
    if (scratch_bytes() > 0) shared_->pages.check("scratch", scratch, scratch_bytes());
  }

  std::unique_ptr<AffinePlan> plan_;
  bool frozen_;
  std::shared_ptr<Shared> shared_;
};

/// The same for response norm.
class AsyncResponseNorm : public ResponseNormPlan {
 public:
  AsyncResponseNorm(std::unique_ptr<ResponseNormPlan> plan, std::shared_ptr<Shared> shared)
      : plan_(std::move(plan)), shared_(std::move(shared)) {}

  void forward(Stream& stream, View x, View y) override {
    shared_->pages.check("x", x);
    shared_->pages.check("y", y);
    plan_->forward(stream, x, y);
  }
  void backward(Stream& stream, View x, View dy, View dx, void* scratch) override {
    shared_->pages.check("x", x);
    shared_->pages.check("dy", dy);
    shared_->pages.check("dx", dx);
    if (scratch_bytes() > 0) shared_->pages.check("scratch", scratch, scratch_bytes());
    plan_->backward(stream, x, dy, dx, scratch);
    spoil(stream, scratch, scratch_bytes());
  }
  std::size_t scratch_bytes() const override { return plan_->scratch_bytes(); }

 private:
  std::unique_ptr<ResponseNormPlan> plan_;
  std::shared_ptr<Shared> shared_;
};

/// The same for products of matrices.
class AsyncProduct : public ProductPlan {
 public:
  AsyncProduct(std::unique_ptr<ProductPlan> plan, std::shared_ptr<Shared> shared)
      : plan_(std::move(plan)), shared_(std::move(shared)) {}

  void run(Stream& stream, View a, View b, View c, void* scratch) override {
    shared_->pages.check("a", a);
    shared_->pages.check("b", b);
    shared_->pages.check("c", c);
    if (scratch_bytes() > 0) shared_->pages.check("scratch", scratch, scratch_bytes());
    stream.enqueue([=] { reads(a), reads(b), writes(c); });
    plan_->run(stream, a, b, c, scratch);
    spoil(stream, scratch, scratch_bytes());
  }
  std::size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  std::string implementation() const override { return plan_->implementation(); }

 private:
  std::unique_ptr<ProductPlan> plan_;
  std::shared_ptr<Shared> shared_;
};

class AsyncDevice : public Device {
 public:
  explicit AsyncDevice(const AsyncOptions& options)
      : cpu_(make_cpu_device(1)), shared_(std::make_shared<Shared>(options)) {
    traits_ = {.description = "the double of " + cpu_->traits().description,
               .memory_is_host = false,
               .batches_products = true,
               .lanes = options.lanes,
               .run_ahead = options.run_ahead};
    pin_ = [this](std::byte* data, std::size_t bytes) {
      pinned_[data] = bytes;
      return Memory(data, [this](std::byte* p) { pinned_.erase(p); });
    };
  }

  std::string arithmetic(Type type) const override { return cpu_->arithmetic(type); }

  std::unique_ptr<Stream> stream(Priority) override {
    return std::make_unique<AsyncStream>(shared_);
  }
  std::unique_ptr<Event> event() override { return std::make_unique<AsyncEvent>(shared_); }

  Memory allocate(std::size_t bytes, Place place) override {
    if (place == Place::device && bytes > shared_->options.largest)
      throw OutOfMemory("the double is out of memory");
    return Memory(shared_->pages.allocate(bytes, place),
                  [shared = shared_](std::byte* data) { shared->pages.free(data); });
  }
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    if (shared_->options.pageable_copies != nullptr && !(is_pinned(to) && is_pinned(from)))
      ++*shared_->options.pageable_copies;
    stream.enqueue([=] { std::memcpy(to, from, bytes); });
  }
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>& body) override {
    if (!shared_->options.captures) return nullptr;
    std::vector<Work> calls;
    shared_->recording = &calls;
    try {
      body();
    } catch (...) {
      shared_->recording = nullptr;
      throw;
    }
    shared_->recording = nullptr;
    if (shared_->options.captured != nullptr) ++*shared_->options.captured;
    return std::make_unique<AsyncGraph>(std::move(calls));
  }

  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return std::make_unique<AsyncAffine>(cpu_->convolution(spec), spec.input.frozen, shared_);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return std::make_unique<AsyncAffine>(cpu_->dense(spec), spec.input.frozen, shared_);
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return std::make_unique<AsyncResponseNorm>(cpu_->response_norm(spec), shared_);
  }
  std::unique_ptr<ProductPlan> product(const ProductSpec& spec) override {
    return std::make_unique<AsyncProduct>(cpu_->product(spec), shared_);
  }

 private:
  bool is_pinned(const void* data) {
    if (shared_->pages.place_of(data, 0)) return true;
    const auto* byte = static_cast<const std::byte*>(data);
    return std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& block) {
      return byte >= block.first && byte < block.first + block.second;
    });
  }

  std::unique_ptr<Device> cpu_;
  std::shared_ptr<Shared> shared_;
  std::map<const std::byte*, std::size_t> pinned_;  ///< by pin()
};

}  // namespace

std::unique_ptr<Device> make_async_device(const AsyncOptions& options) {
  return std::make_unique<AsyncDevice>(options);
}

}  // namespace lockstep
