// Comm: a group of ranks, its collective calls, and agreement on errors among its ranks. MPI types
// are in collectives/comm/communicator.h.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "src/base/check.h"
#include "src/base/machine.h"

namespace lockstep {

struct Communicator;

/// An Error that every rank throws at the same place for the same reason. Rank 0 prints it, and MPI
/// is finalized.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// A group of ranks. Cheap to copy. Methods are collective unless marked local. MPI failures throw
/// Error. The results of duplicate() and node() are freed with their last copy, which is collective
/// too. While an exception unwinds they are not freed, because a rank that fails must not wait for
/// the others.
class Comm {
 public:
  explicit Comm(std::shared_ptr<const Communicator> communicator);  ///< local

  int rank() const { return rank_; }  ///< local
  int size() const { return size_; }  ///< local
  /// MPI's communicator (collectives/comm/communicator.h). Local.
  const Communicator& communicator() const { return *communicator_; }

  Comm duplicate() const;  ///< for another thread or library
  Comm node() const;       ///< the ranks that share memory with this one, in rank order

  void barrier() const;
  std::string broadcast(std::string text, int root = 0) const;
  std::int64_t sum(std::int64_t value) const;
  std::int64_t min(std::int64_t value) const;
  std::int64_t max(std::int64_t value) const;
  /// All texts in rank order on rank 0; empty elsewhere.
  std::vector<std::string> gather(const std::string& text) const;

  // For any number of elements, the same on each rank.
  /// Replaces each element by its sum over the ranks.
  void sum(std::span<std::int64_t> values) const;
  /// Copies the values of rank `root`, as bytes.
  template <class T>
  void broadcast(std::span<T> values, int root = 0) const {
    broadcast_bytes(std::as_writable_bytes(values), root);
  }
  /// The `values` (a vector, array or span) of all ranks, in rank order, as bytes.
  template <class Values>
  auto all_gather(const Values& values) const {
    const std::span own(values);
    using T = std::remove_cv_t<typename decltype(own)::element_type>;
    static_assert(std::is_trivially_copyable_v<T>, "sent as bytes");
    std::vector<T> all(own.size() * size_);
    all_gather_bytes(std::as_bytes(own), std::as_writable_bytes(std::span(all)).data());
    return all;
  }
  /// The value of each rank, in rank order, as bytes.
  template <class T>
  std::vector<T> of_all(const T& value) const {
    return all_gather(std::span(&value, 1));
  }

  /// The most elements or bytes of one MPI call, which counts in an int; more need several calls.
  std::size_t largest_message() const { return largest_message_; }  ///< local
  /// The same communicator with another limit, because tests do not have 2^31 elements. Local.
  Comm with_largest_message(std::size_t elements) const;

 private:
  void broadcast_bytes(std::span<std::byte> bytes, int root) const;
  void all_gather_bytes(std::span<const std::byte> own, std::byte* all) const;

  std::shared_ptr<const Communicator> communicator_;
  int rank_ = 0, size_ = 1;
  std::size_t largest_message_ = std::size_t{1} << 30;
};

/// Runs `body` on every rank. If it threw on any, all ranks throw the AgreedError of the lowest
/// rank that failed. `body` makes no collective call after a place where only some ranks may throw.
/// The error of a rank other than 0 begins with "rank 3 (host): ". If `comm` is only a part of the
/// run, agree() throws an Error and no AgreedError: other ranks do not know of it, and run_main()
/// ends them.
void agree(const Comm& comm, const std::function<void()>& body);

/// agree() on `body`, which only rank 0 runs.
inline void agree_on_rank_0(const Comm& comm, const std::function<void()>& body) {
  agree(comm, [&] {
    if (comm.rank() == 0) body();
  });
}

/// The current exception as the line that a user reads. Call it within a catch block.
Error current_error();

/// Compares `text` (lines of "key = value") with rank 0's. If it differs, all ranks throw the same
/// AgreedError. It names the lowest rank that differs, the first line that differs, and both
/// values. `what`: the heading ("command lines"). `advice`: a sentence without its period.
void expect_same(
    const Comm& comm, const std::string& what, const std::string& text,
    const std::string& advice = "Start all ranks with the same build, options and files");

/// The advice of expect_same() for arguments of a function.
inline constexpr const char* kSameArguments = "Pass the same values on all ranks";

/// The difference between the clocks of two hosts.
struct ClockOffset {
  std::int64_t ns = 0;        ///< the clock of rank 0 minus this rank's clock
  std::int64_t error_ns = 0;  ///< largest error of `ns`
};

/// The present offset of `clock`, by 20 round trips between rank 0 and the first rank of every
/// other node. The ranks of a node share a clock. `node`: the caller's part of `comm`. Collective.
/// Source: F. Cristian, "Probabilistic clock synchronization", 1989: the other clock is read in the
/// middle of the shortest round trip.
ClockOffset clock_offset(const Comm& comm, const Comm& node,
                         const std::function<std::int64_t()>& clock);

}  // namespace lockstep
