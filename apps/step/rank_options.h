// Options of the all-reduce and of what ranks wait for.
#pragma once

#include <string>

#include "src/base/option_rows.h"
#include "src/base/view.h"

namespace lockstep {

/// MiB of a bucket if neither --bucket-mb nor a link between hosts sets them.
inline constexpr double kDefaultBucketMb = 1;

struct RankOptions {
  std::string reducer = "auto";
  double bucket_mb = 0;   ///< 0: kDefaultBucketMb, or what suits the link between hosts
  Type wire = Type::f32;  ///< of the numbers in messages between hosts
  std::string progress = "auto";
  double timeout = 60;    ///< seconds without progress after which the run ends with a reason
  int nccl_max_ctas = 0;  ///< of an all-reduce of NCCL; 0: its own choice

  void declare(OptionRows& rows);
};

}  // namespace lockstep
