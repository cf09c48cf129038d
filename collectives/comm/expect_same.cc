// expect_same() of collectives/comm/comm.h.
#include <sstream>
#include <utility>

#include "collectives/comm/comm.h"

namespace lockstep {
namespace {

/// The first line in which `here` and `there` differ, one text each; "(nothing)" where one has
/// ended.
std::pair<std::string, std::string> first_difference(const std::string& here,
                                                     const std::string& there) {
  std::istringstream left(here), right(there);
  for (;;) {
    std::string a, b;
    if (!std::getline(left, a)) a = "(nothing)";
    if (!std::getline(right, b)) b = "(nothing)";
    if (a != b || (!left && !right)) return {a, b};
  }
}

}  // namespace

void expect_same(const Comm& comm, const std::string& what, const std::string& text,
                 const std::string& cure) {
  const std::string reference = comm.broadcast(text);
  agree(comm, [&] {
    if (text == reference) return;
    const auto [here, there] = first_difference(text, reference);
    fail_usage("{} differ: \"{}\" here, \"{}\" on rank 0; {}", what, here, there, cure);
  });
}

}  // namespace lockstep
