// Counts the kernels of a training step on a GPU, without a GPU:
//   build/count_kernels airbench94 2000 bf16
//   build/count_kernels airbench94 2000 bf16 muon,newton-schulz=3 --json    # for bench/gpu_step.py
//
// The layers and the optimizer enqueue their work on a stream that only counts it. Lockstep's own
// kernels are counted under their bodies' names. A pass of a library counts as one kernel. Not
// counted: the sample kernel, the loss, copies and communication.

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/step/step_memory.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/device/cuda/affine.h"
#include "src/device/cuda/product.h"
#include "src/device/cuda/response_norm.h"

namespace lockstep {
namespace {

using Counts = std::map<std::string, int>;

/// The body's type in the type of each()'s work, or that type.
std::string name_of_work(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string text = status == 0 ? name.get() : type.name();
  if (const auto end = text.find(">(lockstep::Stream&"); end != std::string::npos)
    text = text.substr(text.find('<') + 1, end - text.find('<') - 1);
  for (const std::string_view noise : {"lockstep::", "(anonymous namespace)::"}) {
    for (auto at = text.find(noise); at != std::string::npos; at = text.find(noise))
      text.erase(at, noise.size());
  }
  return text;
}

class CountingStream : public Stream {
 public:
  explicit CountingStream(Counts& counts) : Stream(/*later=*/true), counts_(counts) {}
  void synchronize() override {}
  int threads() const override { return 1; }

 private:
  void append(std::function<void()> work) override { ++counts_[name_of_work(work.target_type())]; }
  Counts& counts_;
};

class NoEvent : public Event {
 public:
  void record(Stream&) override {}
  void wait(Stream&) override {}
  bool done() const override { return true; }
};

/// A library whose plan for any work is one kernel.
class OneKernel : public cuda::Plan {
 public:
  explicit OneKernel(cuda::Pass pass) : pass_(pass) {}
  void run(Stream& stream, const cuda::Tensors&, void*) const override {
    if (pass_ == cuda::Pass::forward) return stream.enqueue(LibraryForward());
    if (pass_ == cuda::Pass::backward_data) return stream.enqueue(LibraryBackwardData());
    stream.enqueue(LibraryBackwardWeights());
  }
  std::size_t workspace_bytes() const override { return 0; }
  const std::string& name() const override { return name_; }

 private:
  struct LibraryForward {
    void operator()() const {}
  };
  struct LibraryBackwardData {
    void operator()() const {}
  };
  struct LibraryBackwardWeights {
    void operator()() const {}
  };
  cuda::Pass pass_;
  std::string name_ = "library";
};

class AnyLibrary : public cuda::Library {
 public:
  cuda::Plans plans(const cuda::Convolution& work, std::size_t) const override {
    return {std::make_shared<OneKernel>(work.pass)};
  }
  std::string version() const override { return "1"; }
};

/// Memory is zero and never touched, so a large batch needs no memory.
class CountingDevice : public Device {
 public:
  CountingDevice() {
    traits_.types = {Type::f32, Type::bf16, Type::f16};
    traits_.batches_products = true;
    traits_.lanes = cuda::kLanes;
  }
  std::string arithmetic() const override { return "none"; }
  std::unique_ptr<Stream> stream(Priority) override {
    return std::make_unique<CountingStream>(counts);
  }
  std::unique_ptr<Event> event() override { return std::make_unique<NoEvent>(); }
  Memory allocate(std::size_t bytes, Place) override {
    return Memory(static_cast<std::byte*>(std::calloc(bytes + 1, 1)),
                  [](std::byte* data) { std::free(data); });
  }
  void copy(Stream&, void*, const void*, std::size_t) override {}
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override { return {}; }
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return cuda::make_convolution(planner_, spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return cuda::make_dense(planner_, spec);
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return cuda::make_response_norm(spec);
  }
  std::unique_ptr<ProductPlan> product(const ProductSpec& spec) override {
    return cuda::make_product(planner_, spec);
  }

  Counts counts;

 private:
  AnyLibrary library_;
  cuda::Planner planner_{{&library_}, "none"};
};

struct NoListener : GradientListener {
  void written(int) override {}
};

/// The kernels of a step by their bodies, in order: forward, backward, optimizer.
struct Kernels {
  std::vector<std::pair<const char*, Counts>> parts;
  std::vector<LayerSummary> layers;
  std::int64_t parameters = 0;
};

/// From "muon,newton-schulz=3".
std::unique_ptr<Optimizer> optimizer_of(const std::string& text) {
  const std::size_t comma = text.find(','), is = text.find('=');
  OptimizerOptions options;
  if (comma != text.npos && is != text.npos) {
    const std::string name = text.substr(comma + 1, is - comma - 1);
    options[name] = parse_number<float>(name, text.substr(is + 1), Bounds::at_least(0));
  }
  return make_optimizer(text.substr(0, comma), options);
}

Kernels count(const ModelEntry& entry, std::int64_t batch, Type type,
              const std::string& optimizer_text) {
  CountingDevice device;
  const auto stream = device.stream(Priority::normal);
  Model model(device, entry, entry.sample, 10, batch, type, /*training=*/true);
  const Layout& layout = model.layout();
  std::vector<float> gradients(layout.count);
  const auto optimizer = optimizer_of(optimizer_text);
  StepMemory memory(device, *stream, layout, *optimizer, 0, /*average=*/false, 1, gradients.data(),
                    nullptr);
  model.bind(memory.state().parameters, gradients.data());
  const Memory images = device.allocate(model.input().count() * sizeof(float), Place::device);
  const View view{images.get(), model.input(), model.input_type()};
  const std::int64_t position = 0;
  device.counts.clear();
  Kernels result{{}, model.layers(), layout.trainable()};
  const auto end = [&](const char* part) {
    result.parts.emplace_back(part, std::exchange(device.counts, {}));
  };
  model.forward(*stream, view, {.seed = 1, .position = &position});
  end("forward");
  NoListener listener;
  model.backward(*stream, view, listener);
  end("backward");
  const UpdateRates now{};
  const auto spans = plan_update(layout, {0, layout.count}, *optimizer);
  update(*stream, spans, *optimizer, memory.state(), &now);
  end("optimizer");
  return result;
}

void print(const Kernels& kernels) {
  for (const auto& [part, counts] : kernels.parts) {
    int sum = 0;
    for (const auto& [name, number] : counts) sum += number;
    fmt::print("{} {}\n", part, sum);
    for (const auto& [name, number] : counts) fmt::print("  {:4} {}\n", number, name.substr(0, 80));
  }
}

void print_json(const Kernels& kernels, Shape input) {
  nlohmann::json all{{"parameters", kernels.parameters}, {"input", input.text()}};
  for (const auto& [part, counts] : kernels.parts) all["kernels"][part] = counts;
  for (const LayerSummary& layer : kernels.layers) {
    all["layers"].push_back({{"name", layer.name},
                             {"kind", layer.kind},
                             {"implementation", layer.implementation},
                             {"output", layer.output.text()},
                             {"inputs", layer.inputs},
                             {"parameters", layer.parameters},
                             {"multiply_adds", layer.multiply_adds}});
  }
  fmt::print("{}\n", all.dump(1));
}

void run(std::vector<std::string> words) {
  const bool json = !words.empty() && words.back() == "--json";
  if (json) words.pop_back();
  if (words.size() < 3 || words.size() > 4)
    fail_usage("usage: count_kernels MODEL BATCH fp32|bf16|fp16 [OPTIMIZER[,OPTION=N]] [--json]");
  const ModelEntry& entry = find(models(), words[0]);
  const auto batch = parse_number<std::int64_t>("BATCH", words[1], Bounds::at_least(1));
  const Kernels kernels =
      count(entry, batch, type_called(words[2]), words.size() > 3 ? words[3] : "sgd");
  if (json) {
    print_json(kernels, entry.sample.with_batch(batch));
  } else {
    print(kernels);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    run({argv + 1, argv + argc});
    return kExitSuccess;
  } catch (const Error& error) {
    print_error(fmt::format("count_kernels: {}\n", error.what()));
    return error.exit_code();
  }
}
