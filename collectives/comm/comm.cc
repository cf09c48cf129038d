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

MPI_Datatype type_of(std::span<const char>) { return MPI_CHAR; }
MPI_Datatype type_of(std::span<const std::int64_t>) { return MPI_INT64_T; }
MPI_Datatype type_of(std::span<const std::uint64_t>) { return MPI_UINT64_T; }
MPI_Datatype type_of(std::span<const float>) { return MPI_FLOAT; }
MPI_Datatype type_of(std::span<const double>) { return MPI_DOUBLE; }

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

template <class T>
void Comm::broadcast(std::span<T> values, int root) const {
  const Waiting waiting;
  for_each_message(values, largest_message_, [&](std::span<T> part) {
    check(MPI_Bcast(part.data(), int_size(part), type_of(part), root, raw(*this)));
  });
}
template void Comm::broadcast(std::span<char>, int) const;
template void Comm::broadcast(std::span<std::int64_t>, int) const;
template void Comm::broadcast(std::span<std::uint64_t>, int) const;
template void Comm::broadcast(std::span<float>, int) const;
template void Comm::broadcast(std::span<double>, int) const;

std::vector<std::uint64_t> Comm::all_gather(std::span<const std::uint64_t> values) const {
  const Waiting waiting;
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> all(values.size() * ranks), parts;
  std::uint64_t* place = all.data();
  for_each_message(values, largest_message_, [&](std::span<const std::uint64_t> part) {
    parts.resize(part.size() * ranks);
    check(MPI_Allgather(part.data(), int_size(part), MPI_UINT64_T, parts.data(), int_size(part),
                        MPI_UINT64_T, raw(*this)));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::copy_n(parts.data() + rank * part.size(), part.size(), place + rank * values.size());
    }
    place += part.size();
  });
  return all;
}

std::vector<std::string> Comm::gather(const std::string& text) const {
  const auto own = static_cast<std::int64_t>(text.size());
  const std::int64_t longest = max(own);
  const Waiting waiting;
  const std::size_t ranks = rank_ == 0 ? static_cast<std::size_t>(size_) : 0;
  std::vector<std::int64_t> lengths(ranks);
  check(MPI_Gather(&own, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, 0, raw(*this)));

  // MPI counts the bytes of all ranks together in an int. Each call takes a chunk of every text.
  const std::int64_t chunk = std::max<std::int64_t>(1, largest_message_ / size_);
  std::vector<std::string> result(ranks);
  std::vector<int> counts(ranks), offsets(ranks);
  std::string all;
  for (std::int64_t begin = 0; begin < longest; begin += chunk) {
    const auto part = [&](std::int64_t length) {
      return static_cast<int>(std::clamp<std::int64_t>(length - begin, 0, chunk));
    };
    int total = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      counts[i] = part(lengths[i]);
      offsets[i] = std::exchange(total, total + counts[i]);
    }
    all.resize(total);
    check(MPI_Gatherv(text.data() + std::min(begin, own), part(own), MPI_CHAR, all.data(),
                      counts.data(), offsets.data(), MPI_CHAR, 0, raw(*this)));
    for (std::size_t i = 0; i < ranks; ++i) result[i].append(all, offsets[i], counts[i]);
  }
  return result;
}

}  // namespace lockstep
