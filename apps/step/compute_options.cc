#include "apps/step/compute_options.h"

#include "src/base/table.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {

void ComputeOptions::declare(OptionRows& rows) {
  rows.group("Ranks");
  rows.text("--device", name, "NAME", "Device: auto or one of --list",
            [](const std::string& device) { find(devices(), device); })
      .common();
  rows.text("--conv", convolution, "NAME",
            "How CPU cores convolve: auto, direct, winograd4, ... (--list)",
            [](const std::string& way) { find(convolutions(), way); });
  rows.text("--isa", isa, "NAME",
            "Widest instruction set of CPU cores: auto, avx2, avx512, ... (--list)",
            [](const std::string& set) { find(instruction_sets(), set); });
  rows.flag("--deterministic", deterministic,
            "The same bits in every run like this one, if slower; cpu is always so");
  rows.flag("--tf32", tf32,
            "With fp32 on a GPU: products of 10 bits of mantissa, on tensor cores; sums stay fp32");
  rows.flag("--no-graph", no_graph,
            "Give each step's work anew, where a device could repeat it as a graph: the same bits");
  rows.optional_number("--threads", threads, Bounds::at_least(1),
                       "Threads per rank [the node's cores shared out among its ranks]")
      .common();
}

}  // namespace lockstep
