#include "apps/train/train.h"

#include "apps/run/training_program.h"

namespace lockstep {

int train_main(int argc, char** argv, const TrainProgram& program) {
  // The command line may be read twice. An entry that is refused is refused again.
  std::size_t model = 0, dataset = 0;
  const auto register_entries = [&] {
    for (; model < program.models.size(); ++model) register_model(program.models[model]);
    for (; dataset < program.datasets.size(); ++dataset)
      register_dataset(program.datasets[dataset]);
  };
  return run_training_program(argc, argv,
                              {.name = program.name,
                               .dataset = program.dataset,
                               .model = program.model,
                               .resizes = true,
                               .begin = register_entries});
}

}  // namespace lockstep
