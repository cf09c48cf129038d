// Streams, events, and captures of streams into graphs.
//
// A stream that is captured collects nodes instead of operations: each node has the nodes that the
// stream has to follow. An event that is recorded there contains nodes too, and a stream that waits
// for it joins the capture. The rules are those of a thread-local capture. The thread that captures
// must not allocate, release or synchronize (900). A captured stream must not wait for an event of
// another capture (902) or from outside of its capture (905). At the end all nodes have to come
// before the first stream (904). After a mistake the end fails too (901). Each mistake is also a
// report.
//
// A graph is launched as one operation for each node. Each captured stream is a lane (races.h) of
// the executable graph, because its nodes are ordered.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulator/cuda/work.h"

namespace emulator {

struct Node {
  std::shared_ptr<const Work> work;
  std::vector<std::uint32_t> before;  ///< nodes
  std::uint32_t branch;               ///< the index of its stream in the capture
  int priority;                       ///< of its stream
};

struct Capture {
  std::vector<Node> nodes;
  std::vector<cudaStream_t> streams;  ///< the first one began it
  std::thread::id thread = std::this_thread::get_id();
  bool invalid = false, ended = false;
};

}  // namespace emulator

struct CUstream_st {
  std::uint32_t lane;
  int priority, device;
  emulator::Point point = {};  ///< after its last operation
  std::shared_ptr<emulator::Capture> capture = {};
  std::vector<std::uint32_t> tail = {};  ///< nodes that its next node follows
};

struct CUevent_st {
  bool timing, recorded = false;
  emulator::Point point = {};
  std::shared_ptr<emulator::Capture> capture = {};  ///< it was recorded in; null: in none
  std::vector<std::uint32_t> nodes = {};
};

struct CUgraph_st {
  explicit CUgraph_st(std::shared_ptr<const emulator::Capture> content);
  ~CUgraph_st();
  CUgraph_st(const CUgraph_st&) = delete;
  CUgraph_st& operator=(const CUgraph_st&) = delete;
  std::shared_ptr<const emulator::Capture> content;
};

struct CUgraphExec_st {
  explicit CUgraphExec_st(std::shared_ptr<const emulator::Capture> content);
  ~CUgraphExec_st();
  CUgraph_st graph;  ///< it exists at least as long as this
  std::vector<std::uint32_t> lanes;
  emulator::Point last_launch;
};

namespace emulator {

/// The default stream for null.
CUstream_st& stream_of(cudaStream_t stream);

/// Whether this thread captures a stream, and so must not call `function`. Then it is reported and
/// the capture is invalid.
bool is_barred(const char* function);
/// Reports a mistake in a capture, which is invalid then. Returns `error`.
cudaError_t invalidate(Capture& capture, const std::string& mistake, cudaError_t error);

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph);
void record(CUevent_st& event, CUstream_st& stream);
cudaError_t wait(CUstream_st& stream, const CUevent_st& event);
cudaError_t instantiate(cudaGraphExec_t* executable, const CUgraph_st& graph,
                        unsigned long long flags);
cudaError_t launch(CUgraphExec_st& executable, CUstream_st& stream);

/// Enqueues `work` or adds it to the stream's capture. Under the lock.
void add_work(std::shared_ptr<const Work> work, CUstream_st& stream);

}  // namespace emulator
