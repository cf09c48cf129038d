#include "apps/run/report_options.h"

namespace lockstep {

void ReportOptions::declare(OptionRows& rows) {
  rows.group("Reports");
  rows.text("--log-dir", log_dir, "DIR",
            "Folder for metrics.jsonl and TensorBoard's event file [none]")
      .common();
  rows.text("--trace", trace, "FILE",
            "Timeline of all ranks for Chrome or ui.perfetto.dev, written at the end: their last "
            "32768 spans of compute and as many of communication (2 MiB of memory; fewer from 33 "
            "ranks on, so that all have 2 million) [none]");
  rows.number("--log-every", log_every, Bounds::at_least(1), "Steps between lines").common();
  rows.number("--summary-every", summary_every, Bounds::at_least(0),
              "Steps between histograms of parameters and gradients; 0: never");
  rows.number("--eval-every", eval_every, Bounds::at_least(0),
              "Steps between evaluations on the test set, with one at the end; 0: never")
      .common();
  rows.flag("--test-views", test_views,
            "Evaluate on six views of each image, mirrored and moved by a pixel: the mean of their "
            "logits");
  rows.number("--target", target, Bounds::at_least(0, 100),
              "Stop once test accuracy reaches this percentage, and print how long that took; 0: "
              "never");
  rows.flag("--epoch-lines", epoch_lines,
            "Evaluate after each epoch, with a line of its seconds, loss and accuracy");
  rows.number("--verify-every", verify_every, Bounds::at_least(0),
              "Steps between comparisons of all ranks' weights; 0: with checkpoints");
  rows.flag("--log-device-placement", placement,
            "Print each layer's kernel and each rank's host and cores");
}

}  // namespace lockstep
