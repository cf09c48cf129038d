// Options of evaluations and reports.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/option_rows.h"

namespace lockstep {

struct ReportOptions {
  std::string log_dir;  ///< empty: none
  std::string trace;    ///< file; empty: none
  std::int64_t log_every = 10, summary_every = 100, eval_every = 1000, verify_every = 1000;
  bool test_views = false;   ///< evaluations see each image six times (apps/run/test_views.h)
  double target = 0;         ///< test accuracy in per cent at which the run ends; 0: none
  bool epoch_lines = false;  ///< an evaluation and a line at the end of each epoch
  bool placement = false;    ///< each layer's kernel, each rank's host and cores

  void declare(OptionRows& rows);
};

}  // namespace lockstep
