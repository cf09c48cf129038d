// Comm: a group of ranks, its collective calls, and agreement on errors among its ranks. MPI itself
// is behind collectives/comm/communicator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/machine.h"

namespace lockstep {

struct Communicator;

/// An Error that every rank throws at the same place for the same reason: rank 0 prints it and MPI
/// is shut down in order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// A group of ranks. Cheap to copy. Methods are collective unless marked local, and throw Error
/// where MPI fails. What duplicate() and node() made is freed with its last copy, which is
/// collective too, but not while an exception unwinds: a rank that fails alone must not wait for
/// the others.
class Comm {
 public:
  explicit Comm(std::shared_ptr<const Communicator> communicator);  ///< local

  int rank() const { return rank_; }  ///< local
  int size() const { return size_; }  ///< local
  /// Local; collectives/comm/communicator.h says what that is.
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
  /// Each element becomes its sum over the ranks. For integers alone: the order is MPI's own.
  void sum(std::span<std::int64_t> values) const;
  /// Rank `root`'s. Of char, std::int64_t, std::uint64_t, float and double.
  template <class T>
  void broadcast(std::span<T> values, int root = 0) const;
  /// The `values` of all ranks one after the other, in rank order. Of std::uint64_t.
  template <class T>
  std::vector<T> all_gather(std::span<const T> values) const;

  /// Elements of one MPI call: it counts in an int, and more go in several.
  std::size_t largest_message() const { return largest_message_; }  ///< local
  /// The same ranks and the same communicator with another: tests have no 2^31 elements. Local
  Comm with_largest_message(std::size_t elements) const;

 private:
  std::shared_ptr<const Communicator> communicator_;
  int rank_ = 0, size_ = 1;
  std::size_t largest_message_ = std::size_t{1} << 30;
};

/// Runs `body` on every rank, then compares notes: if it threw anywhere, all ranks throw the
/// AgreedError of the lowest rank that failed, so that everybody leaves together. `body` holds no
/// collective after a place where one rank alone may throw. The line of rank 0 stays as it is; that
/// of another begins with "rank 3 (host): ". If `comm` is only a part of the run, the exception is
/// an Error and no AgreedError: the other ranks do not know of it, and run_main() ends them.
void agree(const Comm& comm, const std::function<void()>& body);

/// The exception in flight as the line that a user reads. Call it within a catch block.
Error current_error();

/// Compares `text` (lines of "key = value") with rank 0's. Where it differs, all ranks throw the
/// same AgreedError, which names the lowest rank that differs, the first line that does, and both
/// values. `what` is the heading ("command lines"), `cure` what the user can do.
void expect_same(
    const Comm& comm, const std::string& what, const std::string& text,
    const std::string& cure = "start all ranks with the same build, options and files");

/// The cure of expect_same() for arguments of a program.
inline constexpr const char* kSameArguments = "pass the same on all ranks";

}  // namespace lockstep
