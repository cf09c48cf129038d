#include "apps/step/compute_options.h"

#include "src/base/table.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {

void ComputeOptions::declare(OptionRows& rows) {
  rows.group("Ranks");
  rows.text("--device", name, "NAME", "Device (see --list)",
            [](const std::string& device) { find(devices(), device); })
      .common();
  rows.text("--conv", convolution, "NAME", "Convolution kernels of CPU cores (see --list)",
            [](const std::string& way) { find(convolutions(), way); });
  rows.text("--isa", isa, "NAME", "Widest instruction set of CPU cores (see --list)",
            [](const std::string& set) { find(instruction_sets(), set); });
  rows.flag("--deterministic", deterministic,
            "Deterministic kernels, which may be slower\n"
            "The device cpu is always deterministic.");
  rows.flag("--tf32", tf32,
            "TF32 tensor cores for fp32 on GPUs\n"
            "Factors keep 10 bits of mantissa. Sums stay fp32.");
  rows.flag("--no-graph", no_graph,
            "Separate kernel launches on devices that could repeat a graph\n"
            "The results are bitwise identical.");
  rows.optional_number("--threads", threads, Bounds::at_least(1),
                       "Threads per rank [an equal share of the node's cores]")
      .common();
}

}  // namespace lockstep
