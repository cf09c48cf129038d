// train_cifar, deaf to requests: it takes its signals as train_cifar does, counts them, and trains
// on. For tests/apps/signal_storm.sh.

#include <cstdio>

#include "apps/run/training_program.h"
#include "apps/run/trainer.h"
#include "src/base/signals.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const Signals signals;
  return run_main(argc, argv, "signal_storm", [&](World& world) {
    std::string text;
    const auto options = parse_options(argc, argv, {"signal_storm"}, text);
    const int code = train(world, *options, [] { return false; });
    const auto lines = world.comm().gather(
        fmt::format("rank {} received {} signals\n", world.comm().rank(), signals.received()));
    for (const std::string& line : lines) std::fputs(line.c_str(), stdout);
    return code;
  });
}
