// agree() and expect_same() of collectives/comm/comm.h.
#include <algorithm>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "collectives/comm/communicator.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// The first lines that differ; "(nothing)" after the end of a text.
std::pair<std::string, std::string> first_difference(const std::string& here,
                                                     const std::string& there) {
  const std::vector<std::string> left = lines_of(here), right = lines_of(there);
  const auto [a, b] = std::ranges::mismatch(left, right);
  return {a == left.end() ? "(nothing)" : *a, b == right.end() ? "(nothing)" : *b};
}

}  // namespace

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return Error(one_line(error.what()), error.exit_code());
  } catch (const std::bad_alloc&) {
    return Error("out of memory. Use a smaller batch or fewer ranks per host.");
  } catch (const std::exception& error) {
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
      return Error(
          "cannot start a thread. Raise the limit of processes (ulimit -u, pids.max) or of "
          "memory.");
    }
    return Error(one_line(fmt::format("unexpected error: {}", error.what())));
  } catch (...) {
    return Error("unexpected error of an unknown kind");
  }
}

void agree(const Comm& comm, const std::function<void()>& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (...) {
    error = current_error();
  }
  // The number of the rank is the flag, and the size means no error. Without an error this
  // all-reduce is the only message.
  const std::int64_t first = comm.min(error ? comm.rank() : comm.size());
  if (first == comm.size()) return;

  const int root = static_cast<int>(first);
  std::string line;
  if (comm.rank() == root) {
    line = root == 0 ? error->what()
                     : fmt::format("rank {} ({}): {}", root, host_name(), error->what());
  }
  line = comm.broadcast(line, root);
  const int code = static_cast<int>(comm.max(comm.rank() == root ? error->exit_code() : 0));
  int all = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &all));
  if (comm.size() < all) throw Error(line, code);  // other ranks do not know of it
  throw AgreedError(line, code);
}

void expect_same(const Comm& comm, const std::string& what, const std::string& text,
                 const std::string& advice) {
  const std::string reference = comm.broadcast(text);
  agree(comm, [&] {
    if (text == reference) return;
    const auto [here, there] = first_difference(text, reference);
    fail_usage("{} differ: \"{}\" here, \"{}\" on rank 0. {}.", what, here, there, advice);
  });
}

}  // namespace lockstep
