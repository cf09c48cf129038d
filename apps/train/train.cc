#include "apps/train/train.h"

#include <fmt/format.h>

#include <string_view>

#include "apps/run/training_program.h"
#include "apps/use/use.h"

namespace lockstep {
namespace {

/// The work of the program if `word` is the first of its command line.
struct Use {
  std::string_view word;
  int (*main)(int argc, char** argv, const UseProgram& program);
};

constexpr Use kUses[] = {{"evaluate", evaluate_main},
                         {"classify", classify_main},
                         {"export", export_model_main},
                         {"export_model", export_model_main}};

}  // namespace

int train_main(int argc, char** argv, const TrainProgram& program) {
  // The command line may be read twice. An entry that is refused is refused again.
  std::size_t model = 0, dataset = 0;
  const auto register_entries = [&] {
    for (; model < program.models.size(); ++model) register_model(program.models[model]);
    for (; dataset < program.datasets.size(); ++dataset)
      register_dataset(program.datasets[dataset]);
  };
  for (const Use& use : kUses) {
    if (argc > 1 && use.word == argv[1])
      return use.main(argc - 1, argv + 1, {program.name + " " + argv[1], register_entries});
  }
  const std::string about = fmt::format(
      "Trains a classifier on the data set {0}, on all ranks.\n"
      "{1} evaluate, {1} classify and {1} export use its runs; each has --help",
      program.dataset, program.name);
  return run_training_program(argc, argv,
                              {.name = program.name,
                               .dataset = program.dataset,
                               .model = program.model,
                               .resizes = true,
                               .about = about,
                               .begin = register_entries});
}

}  // namespace lockstep
