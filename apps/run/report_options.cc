#include "apps/run/report_options.h"

namespace lockstep {

void ReportOptions::declare(OptionRows& rows) {
  rows.group("Reports");
  rows.text("--log-dir", log_dir, "DIR",
            "Folder for metrics.jsonl and TensorBoard's event file [none]")
      .common();
  rows.text("--trace", trace, "FILE",
            "Timeline of all ranks, for Chrome or ui.perfetto.dev [none]\n"
            "It is written at the end of the run. It contains the last 32768 compute spans of each "
            "rank and as many of communication. They need 2 MiB of memory. From 33 ranks on each "
            "rank keeps fewer, so that all ranks together keep 2 million.");
  rows.number("--log-every", log_every, Bounds::at_least(1), "Steps between log lines");
  rows.number("--summary-every", summary_every, Bounds::at_least(0),
              "Steps between histograms of parameters and gradients; 0: never");
  rows.number("--eval-every", eval_every, Bounds::at_least(0),
              "Steps between evaluations on the test set; 0: never\n"
              "Another evaluation follows at the end of the run.")
      .common();
  rows.flag("--test-views", test_views,
            "Evaluation with the mean logits of six views of each image\n"
            "The views are mirrored and moved by a pixel.");
  rows.number("--target", target, Bounds::at_least(0, 100),
              "Test accuracy in percent that ends the run; 0: none\n"
              "The run prints how long it took to reach the target.");
  rows.flag("--epoch-lines", epoch_lines,
            "Evaluation after each epoch, with its seconds, loss and accuracy");
  rows.number("--verify-every", verify_every, Bounds::at_least(0),
              "Steps between comparisons of all ranks' weights; 0: with checkpoints");
  rows.flag("--log-device-placement", placement,
            "Log lines with each layer's kernel and each rank's cores");
}

}  // namespace lockstep
