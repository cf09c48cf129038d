#include "collectives/comm/comm.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"

namespace lockstep {
namespace {

std::atomic<RankRecorder*> own_recorder = nullptr;  ///< of Waiting::report_to()

void report(bool inside) {
  if (RankRecorder* recorder = own_recorder) recorder->collective(inside);
}

std::int64_t reduce(const Comm& comm, std::int64_t value, MPI_Op operation) {
  const Waiting waiting;
  std::int64_t result = 0;
  check(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, operation, raw(comm)));
  return result;
}

template <class T>
int int_size(std::span<T> part) {
  return static_cast<int>(part.size());
}

template <class T, class Visit>
void for_each_message(std::span<T> values, std::size_t largest, Visit visit) {
  for (std::size_t begin = 0; begin < values.size(); begin += largest) {
    visit(values.subspan(begin, std::min(largest, values.size() - begin)));
  }
}

}  // namespace

Waiting::Waiting() { report(true); }
Waiting::~Waiting() { report(false); }
void Waiting::report_to(RankRecorder* recorder) { own_recorder = recorder; }

void check(int code, std::source_location at) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("MPI failed in {} with \"{}\". Another rank may be gone. Look for an earlier message.",
       place_of(at), text);
}

Communicator::Communicator(MPI_Comm handle, bool owned) : handle(handle), owned(owned) {
  check(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN));
}

Communicator::~Communicator() {
  // An error here is harmless.
  if (owned && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle);
}

Comm::Comm(std::shared_ptr<const Communicator> communicator)
    : communicator_(std::move(communicator)) {
  check(MPI_Comm_rank(raw(*this), &rank_));
  check(MPI_Comm_size(raw(*this), &size_));
}

Comm Comm::duplicate() const {
  const Waiting waiting;
  MPI_Comm copy;
  check(MPI_Comm_dup(raw(*this), &copy));
  return Comm(std::make_shared<Communicator>(copy, true)).with_largest_message(largest_message_);
}

Comm Comm::node() const {
  const Waiting waiting;
  MPI_Comm node;
  check(MPI_Comm_split_type(raw(*this), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
  return Comm(std::make_shared<Communicator>(node, true)).with_largest_message(largest_message_);
}

std::optional<Comm> leaders_of(const Comm& all, const Comm& node) {
  const Waiting waiting;
  MPI_Comm leaders = MPI_COMM_NULL;
  check(MPI_Comm_split(raw(all), node.rank() == 0 ? 0 : MPI_UNDEFINED, all.rank(), &leaders));
  if (leaders == MPI_COMM_NULL) return std::nullopt;
  return Comm(std::make_shared<const Communicator>(leaders, /*owned=*/true));
}

Comm Comm::with_largest_message(std::size_t elements) const {
  Comm comm = *this;
  comm.largest_message_ = elements;
  return comm;
}

void Comm::barrier() const {
  const Waiting waiting;
  check(MPI_Barrier(raw(*this)));
}

std::string Comm::broadcast(std::string text, int root) const {
  std::uint64_t length = text.size();
  broadcast(std::span(&length, 1), root);
  text.resize(length);
  broadcast(std::span(text), root);
  return text;
}

std::int64_t Comm::sum(std::int64_t value) const { return reduce(*this, value, MPI_SUM); }
std::int64_t Comm::min(std::int64_t value) const { return reduce(*this, value, MPI_MIN); }
std::int64_t Comm::max(std::int64_t value) const { return reduce(*this, value, MPI_MAX); }

void Comm::sum(std::span<std::int64_t> values) const {
  const Waiting waiting;
  for_each_message(values, largest_message_, [&](std::span<std::int64_t> part) {
    check(
        MPI_Allreduce(MPI_IN_PLACE, part.data(), int_size(part), MPI_INT64_T, MPI_SUM, raw(*this)));
  });
}

void Comm::broadcast_bytes(std::span<std::byte> bytes, int root) const {
  const Waiting waiting;
  for_each_message(bytes, largest_message_, [&](std::span<std::byte> part) {
    check(MPI_Bcast(part.data(), int_size(part), MPI_BYTE, root, raw(*this)));
  });
}

void Comm::all_gather_bytes(std::span<const std::byte> own, std::byte* all) const {
  const Waiting waiting;
  std::vector<std::byte> parts;
  for_each_message(own, largest_message_, [&](std::span<const std::byte> part) {
    // MPI returns the same part of all ranks one after another. Each goes to the place in its own
    // rank's values.
    parts.resize(part.size() * size_);
    check(MPI_Allgather(part.data(), int_size(part), MPI_BYTE, parts.data(), int_size(part),
                        MPI_BYTE, raw(*this)));
    for (int rank = 0; rank < size_; ++rank)
      std::copy_n(parts.data() + rank * part.size(), part.size(), all + rank * own.size());
    all += part.size();
  });
}

std::vector<std::string> Comm::gather(const std::string& text) const {
  // Not MPI_Gatherv, whose displacements are int: the texts of many ranks together exceed it.
  const std::size_t length = text.size();
  const std::vector<std::size_t> lengths = of_all(length);
  const Waiting waiting;
  if (rank_ > 0) {
    for_each_message(std::span(text), largest_message_, [&](std::span<const char> part) {
      check(MPI_Send(part.data(), int_size(part), MPI_CHAR, 0, 0, raw(*this)));
    });
    return {};
  }
  std::vector<std::string> texts{text};
  for (int rank = 1; rank < size_; ++rank) {
    std::string& other = texts.emplace_back(lengths[rank], '\0');
    for_each_message(std::span(other), largest_message_, [&](std::span<char> part) {
      check(
          MPI_Recv(part.data(), int_size(part), MPI_CHAR, rank, 0, raw(*this), MPI_STATUS_IGNORE));
    });
  }
  return texts;
}

}  // namespace lockstep
