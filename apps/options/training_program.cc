#include "apps/options/training_program.h"

#include "apps/options/help.h"
#include "apps/run/signals.h"
#include "apps/run/trainer.h"
#include "collectives/world.h"
#include "src/base/machine.h"

namespace lockstep {

int run_training_program(int argc, char** argv, const Program& program) {
  const Signals signals;
  std::unique_ptr<const Options> options;
  const auto parse = [&](std::string& answer) {
    options = parse_options(argc, argv, program, answer);
    return options != nullptr;
  };
  return run_or_print_help(argc, argv, program.name.c_str(), parse, [&](World& world) {
    expect_same(world.comm(), "builds",
                fmt::format("build = {}, checksum {}", build_name(), program_checksum()));
    expect_same(world.comm(), "options", options->text);
    return train(world, *options, [&] { return signals.stop_requested(); });
  });
}

}  // namespace lockstep
