// Evaluation: a data set that does not go with the model is refused before a byte is written.
#include "apps/evaluation.h"

#include <gtest/gtest.h>

#include "src/table.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

/// Images of a shape that no model has.
class Wide : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  int classes() const override { return 10; }
  Shape sample_shape() const override { return {1, 32, 48, 3}; }
  std::int32_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t, Random*, void*, Type) const override { FAIL() << "nothing may be read"; }
  std::string describe() const override { return "a wide set"; }
};

TEST(Evaluation, AnotherShapeThanTheModelsIsToldWithBoth) {
  const auto device = make_cpu_device(1);
  const Wide wide;
  EXPECT_EQ(error_of([&] { Evaluation(*device, find(models(), "tutorial"), wide, Type::f32); }),
            "the model tutorial takes images of 1x24x24x3 and a wide set has 1x32x48x3: choose "
            "another --model or --dataset");
}

}  // namespace
}  // namespace lockstep
