#include "apps/step/step_mail.h"

#include <limits>

#include "src/device/each.h"

namespace lockstep {
namespace {

enum Mail : int { kLoss, kTop1, kStop, kSave, kUsed };
static_assert(kUsed <= Layout::kMail);

struct WriteMail {
  Score* score;
  const StepInput* now;
  std::int64_t global_batch;
  bool last_shard;
  float* mail;

  HOST_DEVICE void operator()(std::int64_t) const {
    const double loss = score->loss_sum();
    for (std::int64_t i = kUsed; i < Layout::kMail; ++i) mail[i] = 0;
    mail[kTop1] = static_cast<float>(score->top1);
    mail[kStop] = last_shard ? now->stop : 0;
    mail[kSave] = last_shard ? now->save : 0;
    *score = {};
    // Last: on a GPU a division of doubles is a call, and nothing else is then to be kept over it.
    mail[kLoss] = static_cast<float>(loss / static_cast<double>(global_batch));
  }
};

}  // namespace

void write_mail(Stream& stream, Score* score, const StepInput* now, std::int64_t global_batch,
                bool last_shard, float* mail) {
  each(stream, 1, WriteMail{score, now, global_batch, last_shard, mail});
}

StepTotals read_mail(const float* mail, std::int64_t global_batch) {
  return {mail[kLoss],
          mail[kTop1] / static_cast<double>(global_batch),
          mail[kStop] > 0,
          mail[kSave] > 0,
          0,
          {}};
}

}  // namespace lockstep
