// The sweep over the layers whose work is done later, and with rows that threads share as a warp
// does, under ThreadSanitizer.
#include "tests/unit/layers.cc"

#include "tests/support/host_team.h"

namespace lockstep {
namespace {

TEST_P(EveryLayer, SharedByATeamIsAloneWithinRounding) {
  for (const Type type : {Type::f32, Type::bf16}) {
    Outcome alone;
    try {
      alone = run_case(GetParam(), type, 1, true);
    } catch (const std::exception& error) {
      GTEST_SKIP() << "skipped: no bf16 kernel on this processor (" << error.what() << ")";
    }
    host_team = true;
    const Outcome team = run_case(GetParam(), type, 1, true);
    host_team = false;
    const double tolerance = type == Type::f32 ? 1e-5 : GetParam().narrow;
    expect_near(team, alone, tolerance);
  }
}

}  // namespace
}  // namespace lockstep
