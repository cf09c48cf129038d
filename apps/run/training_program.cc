#include "apps/run/training_program.h"

#include "apps/options/help.h"
#include "apps/run/signals.h"
#include "apps/run/trainer.h"
#include "collectives/comm/comm.h"
#include "src/base/machine.h"

namespace lockstep {

int run_training_program(int argc, char** argv, const Program& program) {
  const Signals signals;
  std::optional<Options> options;
  const auto parse = [&](std::string& answer) {
    options = parse_options(argc, argv, program, answer);
    return options.has_value();
  };
  return run_or_answer(argc, argv, program.name.c_str(), parse, [&](World& world) {
    expect_same(world.comm(), "builds",
                fmt::format("build = {}, checksum {}", build_name(), program_checksum()));
    expect_same(world.comm(), "options", options->text);
    return train(world, *options, [&] { return signals.stop_requested(); });
  });
}

}  // namespace lockstep
