#include "collectives/reducers/direct_all_reduce.h"

#include <algorithm>
#include <cstring>

#include "collectives/rounding.h"
#include "collectives/schedule.h"
#include "collectives/sum.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlock = 512;  ///< floats of each rank that are summed at a time

}  // namespace

DirectAllReduce::DirectAllReduce(const Comm& comm, std::int64_t count, std::int64_t exact,
                                 Type wire, bool overflows, float* residual, std::size_t chunk,
                                 int tag)
    : comm_(comm),
      exact_(exact),
      wire_(wire),
      overflows_(overflows),
      residual_(residual),
      chunk_(chunk),
      tag_(tag) {
  std::size_t end = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    parts_.push_back(part_of({exact, count - exact}, rank, comm.size(), kLineFloats));
    out_at_.push_back(end);
    end += round_up(message_bytes(part(rank).count), std::size_t{64});
  }
  in_each_ = round_up(message_bytes(part(comm.rank()).count), std::size_t{64});
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (ranks == 1) return;
  out_.resize(end);
  in_.resize(in_each_ * ranks);
  const std::int64_t row = std::max(kBlock, exact);
  block_.resize(static_cast<std::size_t>(row) * ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    rows_.push_back(block_.data() + rank * static_cast<std::size_t>(row));
}

/// The exact elements are at the beginning.
std::size_t DirectAllReduce::message_bytes(std::int64_t elements) const {
  return exact_ * sizeof(float) + static_cast<std::size_t>(elements) * size_of(wire_);
}

std::size_t DirectAllReduce::bytes() const {
  return out_.size() + in_.size() + block_.size() * sizeof(float);
}

void DirectAllReduce::start(float* bucket) {
  bucket_ = bucket;
  if (comm_.size() == 1) return;
  state_ = State::scatter;
  send_scatter();
}

void DirectAllReduce::post(bool send, int peer, char* memory, std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes; begin += chunk_) {
    const int length = static_cast<int>(std::min(chunk_, bytes - begin));
    MPI_Request& request = pending_.emplace_back();
    char* const place = memory + begin;
    check(send ? MPI_Isend(place, length, MPI_CHAR, peer, tag_, raw(comm_), &request)
               : MPI_Irecv(place, length, MPI_CHAR, peer, tag_, raw(comm_), &request));
  }
  left_ = pending_.size();
}

/// Receives before sends, so that messages arrive in their final place. Sends to the next rank
/// first, so that not all send to the same rank.
void DirectAllReduce::send_scatter() {
  const int ranks = comm_.size(), own = comm_.rank();
  const std::size_t head = message_bytes(0);
  pending_.clear();
  for (int i = 1; i < ranks; ++i) {
    const int peer = (own + ranks - i) % ranks;
    post(false, peer, incoming(peer), message_bytes(part(own).count));
  }
  for (int i = 1; i < ranks; ++i) {
    const int peer = (own + i) % ranks;
    const Range range = part(peer);
    std::memcpy(outgoing(peer), bucket_, head);
    dispatch(wire_, [&]<class T>(T*) {
      round_with_feedback(bucket_ + range.begin, residual(range.begin),
                          reinterpret_cast<T*>(outgoing(peer) + head), range.count, overflows_);
    });
    post(true, peer, outgoing(peer), message_bytes(range.count));
  }
}

bool DirectAllReduce::advance(bool wait) {
  while (!done()) {
    if (left_ > 0) {
      completed_.resize(pending_.size());
      int count = 0;
      const auto test = wait ? MPI_Waitsome : MPI_Testsome;
      check(test(static_cast<int>(pending_.size()), pending_.data(), &count, completed_.data(),
                 MPI_STATUSES_IGNORE));
      left_ -= static_cast<std::size_t>(count);
      if (left_ > 0) return true;
    }
    if (state_ == State::scatter) {
      sum_exact();
      sum_own();
      state_ = State::gather;
      send_gather();
    } else {
      copy_gathered();
      state_ = State::done;
    }
  }
  return false;
}

void DirectAllReduce::sum_exact() {
  const std::size_t head = message_bytes(0);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const void* const from = rank == comm_.rank() ? static_cast<void*>(bucket_) : incoming(rank);
    std::memcpy(rows_[rank], from, head);
  }
  sum_canonically(rows_, exact_);
  std::memcpy(bucket_, rows_.front(), head);
}

/// Adds the residual of this rank's own part, which it does not send, to its values.
void DirectAllReduce::sum_own() {
  const Range own = part(comm_.rank());
  const std::size_t head = message_bytes(0);
  dispatch(wire_, [&]<class T>(T*) {
    T* const sums = reinterpret_cast<T*>(incoming(comm_.rank()) + head);
    for (std::int64_t begin = 0; begin < own.count; begin += kBlock) {
      const std::int64_t count = std::min(kBlock, own.count - begin);
      float* const values = bucket_ + own.begin + begin;
      float* const own_residual = residual(own.begin + begin);
      for (int rank = 0; rank < comm_.size(); ++rank) {
        float* const row = rows_[rank];
        if (rank != comm_.rank()) {
          widen(reinterpret_cast<const T*>(incoming(rank) + head) + begin, row, count);
          continue;
        }
        widen(values, row, count);
        if (own_residual == nullptr) continue;
        add(row, own_residual, count);
        std::fill_n(own_residual, count, 0.0f);
      }
      sum_canonically(rows_, count);
      round_with_feedback(rows_.front(), own_residual, sums + begin, count, overflows_);
      widen(sums + begin, values, count);
    }
  });
}

void DirectAllReduce::send_gather() {
  const int ranks = comm_.size(), own = comm_.rank();
  const std::size_t head = message_bytes(0);
  const auto bytes = [&](int owner) { return message_bytes(part(owner).count) - head; };
  pending_.clear();
  for (int i = 1; i < ranks; ++i) {
    const int peer = (own + ranks - i) % ranks;
    post(false, peer, outgoing(peer) + head, bytes(peer));
  }
  for (int i = 1; i < ranks; ++i) post(true, (own + i) % ranks, incoming(own) + head, bytes(own));
}

void DirectAllReduce::copy_gathered() {
  const std::size_t head = message_bytes(0);
  dispatch(wire_, [&]<class T>(T*) {
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (rank == comm_.rank()) continue;
      const Range range = part(rank);
      widen(reinterpret_cast<const T*>(outgoing(rank) + head), bucket_ + range.begin, range.count);
    }
  });
}

}  // namespace lockstep
