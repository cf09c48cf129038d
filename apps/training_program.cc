#include "apps/training_program.h"

#include "apps/help.h"
#include "apps/signals.h"
#include "apps/trainer.h"
#include "collectives/comm.h"
#include "src/machine.h"

namespace lockstep {

int run_training_program(int argc, char** argv, const Program& program) {
  const Signals signals;
  const auto answer = [&] {
    std::string text;
    parse_options(argc, argv, program, text);
    return text;
  };
  if (answered_without_ranks(answer)) return kExitSuccess;
  return run_main(argc, argv, program.name.c_str(), [&](World& world) {
    std::optional<Options> options;
    std::string text;
    agree(world.comm(), [&] { options = parse_options(argc, argv, program, text); });
    expect_same(world.comm(), "builds",
                fmt::format("build = {}, checksum {}", build_name(), program_checksum()));
    expect_same(world.comm(), "options", options ? options->text : "--help, --version or --list");
    if (options) return train(world, *options, [&] { return signals.stop_requested(); });
    if (world.comm().rank() == 0) print_answer(text);
    return static_cast<int>(kExitSuccess);
  });
}

}  // namespace lockstep
