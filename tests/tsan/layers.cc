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
    EXPECT_LT(distance(team.y, alone.y), tolerance);
    EXPECT_LT(distance(team.dx, alone.dx), tolerance);
    for (std::size_t p = 0; p < alone.names.size(); ++p) {
      EXPECT_LT(distance(team.gradients[p], alone.gradients[p]), tolerance) << alone.names[p];
    }
  }
}

}  // namespace
}  // namespace lockstep
