#include "collectives/all_gather.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/exchange.h"
#include "src/base/machine.h"
#include "src/base/round_up.h"
#include "src/device/memory.h"

namespace lockstep {

struct AllGather::Body {
  Body(const Comm& on, std::size_t most)
      : comm(on),
        most(most),
        room(round_up(most, kPageBytes)),
        piece(chunk_for(on)),
        pieces(ceil_div(most, piece)),
        sizes(comm.size()),
        requests(2 * pieces * comm.size(), MPI_REQUEST_NULL),
        statuses(requests.size()) {
    agree(comm, [&] {
      const std::size_t bytes = room * comm.size();
      // Asked first: the kernel promises more than there is, and kills whoever takes it at its
      // word.
      if (bytes <= available_memory_bytes()) memory = allocate_pages(bytes);
      require(memory != nullptr, "no memory for {} MiB that the ranks send each other",
              bytes >> 20);
    });
  }

  std::byte* of(int rank) const { return memory.get() + room * rank; }
  /// Of `bytes`.
  int piece_of(std::size_t bytes, std::size_t number) const {
    const std::size_t begin = std::min(bytes, number * piece);
    return static_cast<int>(std::min(piece, bytes - begin));
  }
  std::size_t place(int rank, std::size_t number) const { return rank * pieces + number; }

  Comm comm;
  std::size_t most, room, piece, pieces;
  Memory memory;                      ///< by rank
  std::vector<std::size_t> sizes;     ///< by rank
  std::vector<MPI_Request> requests;  ///< receives by rank and piece, then sends
  std::vector<MPI_Status> statuses;
  bool done = true;
};

AllGather::AllGather(const Comm& comm, std::size_t most) {
  expect_same(comm, "arguments of AllGather", fmt::format("most = {}\n", most), kSameArguments);
  body_ = std::make_unique<Body>(comm, most);
}

AllGather::~AllGather() = default;

std::byte* AllGather::own() { return body_->of(body_->comm.rank()); }
void AllGather::start() { start(body_->most); }
bool AllGather::done() const { return body_->done; }
std::size_t AllGather::bytes() const { return body_->room * body_->comm.size(); }
std::span<std::byte> AllGather::of(int rank) { return {body_->of(rank), body_->sizes[rank]}; }

void AllGather::start(std::size_t bytes) {
  Body& b = *body_;
  require(bytes <= b.most, "AllGather has room for {} bytes of a rank, but {} are to be sent",
          b.most, bytes);
  const int me = b.comm.rank(), size = b.comm.size();
  b.sizes[me] = bytes;
  b.done = size == 1;
  // As many messages whatever there is to send, for nobody knows what others have: empty ones too.
  for (int i = 1; i < size; ++i) {
    const int rank = (me + i) % size;
    for (std::size_t n = 0; n < b.pieces; ++n) {
      check(MPI_Irecv(b.of(rank) + n * b.piece, b.piece_of(b.most, n), MPI_BYTE, rank,
                      static_cast<int>(n), raw(b.comm), &b.requests[b.place(rank, n)]));
    }
  }
  for (std::size_t n = 0; n < b.pieces; ++n) {
    for (int i = 1; i < size; ++i) {  // not all to the same one first
      const int rank = (me + i) % size;
      check(MPI_Isend(b.of(me) + n * b.piece, b.piece_of(bytes, n), MPI_BYTE, rank,
                      static_cast<int>(n), raw(b.comm), &b.requests[b.place(size + rank, n)]));
    }
  }
}

bool AllGather::advance() {
  Body& b = *body_;
  if (b.done) return true;
  int done = 0;
  check(MPI_Testall(static_cast<int>(b.requests.size()), b.requests.data(), &done,
                    b.statuses.data()));
  b.done = done != 0;
  for (int rank = 0; b.done && rank < b.comm.size(); ++rank) {
    if (rank == b.comm.rank()) continue;
    b.sizes[rank] = 0;
    for (std::size_t n = 0; n < b.pieces; ++n) {
      int bytes = 0;
      check(MPI_Get_count(&b.statuses[b.place(rank, n)], MPI_BYTE, &bytes));
      b.sizes[rank] += static_cast<std::size_t>(bytes);
    }
  }
  return b.done;
}

double cost_of_gather(std::span<const int> ranks_on, double bytes, const Link& link) {
  const int ranks = std::accumulate(ranks_on.begin(), ranks_on.end(), 0);
  int most = 0;  // messages that a host receives, or sends: as many
  for (const int own : ranks_on) most = std::max(most, own * (ranks - own));
  return link.latency + most * bytes / link.bandwidth;
}

}  // namespace lockstep
