#include "tests/emulator/cuda/capture.h"

#include <algorithm>
#include <set>

namespace emulator {
namespace {

/// Captures that have not ended.
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* const all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}
std::multiset<const Capture*>& graphs() {
  static auto* const all = new std::multiset<const Capture*>;
  return *all;
}

/// The capture that this thread began; null: none.
Capture* own_capture() {
  for (const auto& capture : captures())
    if (capture->thread == std::this_thread::get_id()) return capture.get();
  return nullptr;
}

/// The names of nodes that the first stream does not follow.
std::set<std::string> unjoined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<std::uint32_t> todo = capture.streams[0]->tail;
  while (!todo.empty()) {
    const std::uint32_t node = todo.back();
    todo.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    const auto& before = capture.nodes[node].before;
    todo.insert(todo.end(), before.begin(), before.end());
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < reached.size(); ++i)
    if (!reached[i]) names.insert(*capture.nodes[i].work->name);
  return names;
}

void add_nodes(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& nodes) {
  for (const std::uint32_t node : nodes)
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

}  // namespace

CUstream_st& stream_of(cudaStream_t stream) {
  static auto* const standard = new CUstream_st{.lane = new_lane(), .priority = 0, .device = -1};
  return stream == nullptr || stream == cudaStreamLegacy ? *standard : *stream;
}

cudaError_t invalidate(Capture& capture, const std::string& mistake, cudaError_t error) {
  report(mistake);
  capture.invalid = true;
  return error;
}

bool is_barred(const char* function) {
  Capture* const capture = own_capture();
  if (capture == nullptr) return false;
  invalidate(*capture, std::string(function) + " in a capture", cudaSuccess);
  return true;
}

cudaError_t begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CUstream_st& stream = stream_of(handle);
  if (stream.capture != nullptr || own_capture() != nullptr) return cudaErrorIllegalState;
  if (&stream == &stream_of(nullptr)) return cudaErrorStreamCaptureUnsupported;
  if (mode != cudaStreamCaptureModeThreadLocal) report("a capture that is not thread-local");
  stream.capture = std::make_shared<Capture>();
  stream.capture->streams = {handle};
  stream.tail.clear();
  captures().push_back(stream.capture);
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  CUstream_st& stream = stream_of(handle);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->streams[0] != handle)
    return invalidate(*capture, "a capture ends in another stream",
                      cudaErrorStreamCaptureUnmatched);
  if (capture->thread != std::this_thread::get_id())
    return invalidate(*capture, "a capture ends in another thread",
                      cudaErrorStreamCaptureWrongThread);
  const std::set<std::string> missing = unjoined(*capture);
  for (CUstream_st* const captured : capture->streams) {
    captured->capture = nullptr;
    captured->tail.clear();
  }
  capture->ended = true;
  std::erase(captures(), capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  for (const std::string& name : missing) report("a capture ends without [" + name + "]");
  if (!missing.empty()) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st(capture);
  return cudaSuccess;
}

void record(CUevent_st& event, CUstream_st& stream) {
  event.recorded = true;
  event.capture = stream.capture;
  event.nodes = stream.tail;
  event.point = stream.capture == nullptr ? stream.point : Point{};
}

cudaError_t wait(CUstream_st& stream, const CUevent_st& event) {
  if (!event.recorded) return cudaSuccess;
  if (event.capture != nullptr && event.capture->ended) {
    report("a stream waits for an event of a capture that has ended");
    return cudaErrorCapturedEvent;
  }
  if (event.capture == nullptr && stream.capture == nullptr) {
    stream.point.add(event.point);
    return cudaSuccess;
  }
  if (event.capture == nullptr) {
    return invalidate(*stream.capture, "a captured stream waits for an event from outside",
                      cudaErrorStreamCaptureIsolation);
  }
  if (stream.capture == nullptr) {
    if (&stream == &stream_of(nullptr)) {
      return invalidate(*event.capture, "the default stream joins a capture",
                        cudaErrorStreamCaptureImplicit);
    }
    stream.capture = event.capture;
    stream.capture->streams.push_back(&stream);
  }
  if (stream.capture != event.capture) {
    event.capture->invalid = true;
    return invalidate(*stream.capture, "a captured stream waits for another capture",
                      cudaErrorStreamCaptureMerge);
  }
  add_nodes(stream.tail, event.nodes);
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* executable, const CUgraph_st& graph,
                        unsigned long long flags) {
  const std::vector<Node>& nodes = graph.content->nodes;
  const bool differ = std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.priority != nodes[0].priority;
  });
  if (differ && (flags & cudaGraphInstantiateFlagUseNodePriority) == 0) {
    report(
        "a graph was instantiated without cudaGraphInstantiateFlagUseNodePriority although its "
        "streams have different priorities");
  }
  *executable = new CUgraphExec_st(graph.content);
  return cudaSuccess;
}

cudaError_t launch(CUgraphExec_st& executable, CUstream_st& stream) {
  if (stream.capture != nullptr) {
    return invalidate(*stream.capture, "cudaGraphLaunch in a capture",
                      cudaErrorStreamCaptureUnsupported);
  }
  Point begin = stream.point, end;
  begin.add(executable.last_launch);
  const std::vector<Node>& nodes = executable.graph.content->nodes;
  std::vector<Point> points(nodes.size());
  std::vector<bool> last(nodes.size(), true);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Point& point = points[i];
    if (nodes[i].before.empty()) point = begin;
    for (const std::uint32_t earlier : nodes[i].before) {
      point.add(points[earlier]);
      last[earlier] = false;
    }
    add_operation(nodes[i].work, executable.lanes[nodes[i].branch], point);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (last[i]) end.add(points[i]);
  if (nodes.empty()) end = begin;
  stream.point = executable.last_launch = end;
  after_enqueue(end);
  return cudaSuccess;
}

void add_work(std::shared_ptr<const Work> work, CUstream_st& stream) {
  if (stream.capture == nullptr) {
    if (own_capture() != nullptr) report("a capture misses [" + *work->name + "]");
    add_operation(work, stream.lane, stream.point);
    after_enqueue(stream.point);
    return;
  }
  Capture& capture = *stream.capture;
  const auto found = std::find(capture.streams.begin(), capture.streams.end(), &stream);
  const auto branch = static_cast<std::uint32_t>(found - capture.streams.begin());
  capture.nodes.push_back({std::move(work), stream.tail, branch, stream.priority});
  stream.tail = {static_cast<std::uint32_t>(capture.nodes.size() - 1)};
}

void enqueue(const std::string& name, cudaStream_t stream, std::vector<Touch> touches,
             std::function<bool()> run) {
  const Lock lock;
  Work work{stored(name), std::move(touches), std::move(run)};
  add_work(std::make_shared<const Work>(std::move(work)), stream_of(stream));
}

bool is_captured(cudaStream_t stream) {
  const Lock lock;
  return stream_of(stream).capture != nullptr;
}

int graphs_with(const std::string& name) {
  const Lock lock;
  return static_cast<int>(std::count_if(graphs().begin(), graphs().end(), [&](const Capture* c) {
    return std::any_of(c->nodes.begin(), c->nodes.end(),
                       [&](const Node& node) { return *node.work->name == name; });
  }));
}

}  // namespace emulator

CUgraph_st::CUgraph_st(std::shared_ptr<const emulator::Capture> captured)
    : content(std::move(captured)) {
  emulator::graphs().insert(content.get());
}
CUgraph_st::~CUgraph_st() { emulator::graphs().erase(emulator::graphs().find(content.get())); }

CUgraphExec_st::CUgraphExec_st(std::shared_ptr<const emulator::Capture> captured)
    : graph(std::move(captured)) {
  for (std::size_t i = 0; i < graph.content->streams.size(); ++i)
    lanes.push_back(emulator::new_lane());
}
CUgraphExec_st::~CUgraphExec_st() {
  for (const std::uint32_t lane : lanes) emulator::release_lane(lane);
}
