#include "apps/step/step_header.h"

#include "src/device/each.h"

namespace lockstep {
namespace {

enum Header : int { kLoss, kTop1, kStop, kSave, kUsed };
static_assert(kUsed <= Layout::kHeader);

struct WriteHeader {
  Score* score;
  const StepInput* now;
  std::int64_t global_batch;
  bool last_shard;
  float* header;

  HOST_DEVICE void operator()(std::int64_t) const {
    const double loss = score->loss_sum();
    // The ranks sum unused elements too, so these must be numbers.
    for (std::int64_t i = kUsed; i < Layout::kHeader; ++i) header[i] = 0;
    header[kTop1] = static_cast<float>(score->top1);
    header[kStop] = last_shard ? now->stop : 0;
    header[kSave] = last_shard ? now->save : 0;
    *score = {};
    // Last: on a GPU a division of doubles is a call, which would keep other values in registers.
    header[kLoss] = static_cast<float>(loss / static_cast<double>(global_batch));
  }
};

}  // namespace

void write_header(Stream& stream, Score* score, const StepInput* now, std::int64_t global_batch,
                  bool last_shard, float* header) {
  each(stream, 1, WriteHeader{score, now, global_batch, last_shard, header});
}

StepTotals read_header(const float* header, std::int64_t global_batch) {
  return {header[kLoss], header[kTop1] / static_cast<double>(global_batch), header[kStop] > 0,
          header[kSave] > 0};
}

}  // namespace lockstep
