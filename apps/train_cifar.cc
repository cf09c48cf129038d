// Trains an image classifier on CIFAR-10 (or its generated stand-in) in lockstep on all ranks:
// mpirun -np N ./train_cifar

#include <cstdio>

#include "apps/help.h"
#include "apps/options.h"
#include "apps/signals.h"
#include "apps/trainer.h"
#include "collectives/comm.h"
#include "src/machine.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const Signals signals;
  const auto answer = [&] {
    std::string text;
    parse_options(argc, argv, "train_cifar", text);
    return text;
  };
  if (answered_without_ranks(answer)) return kExitSuccess;
  return run_main(argc, argv, "train_cifar", [&](World& world) {
    std::optional<Options> options;
    std::string text;
    agree(world.comm(), [&] { options = parse_options(argc, argv, "train_cifar", text); });
    expect_same(world.comm(), "builds",
                fmt::format("build = {}, checksum {}", build_name(), program_checksum()));
    expect_same(world.comm(), "options", options ? options->text : "--help, --version or --list");
    if (options) return train(world, *options, [&] { return signals.stop_requested(); });
    if (world.comm().rank() == 0) print_answer(text);
    return static_cast<int>(kExitSuccess);
  });
}
