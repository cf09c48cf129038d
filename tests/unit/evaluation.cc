// Evaluation: a data set that does not go with the model is refused before a byte is written.
#include "apps/evaluation.h"

#include <gtest/gtest.h>

#include "src/table.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

/// Samples that are no images.
class Flat : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  int classes() const override { return 10; }
  Shape sample_shape() const override { return {1, 500}; }
  std::int32_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t, Random*, void*, Type) const override { FAIL() << "nothing may be read"; }
  std::string describe() const override { return "a flat set"; }
};

TEST(Evaluation, AnotherShapeThanTheModelsIsToldWithBoth) {
  const auto device = make_cpu_device(1);
  const Flat flat;
  EXPECT_NE(error_of([&] {
              Evaluation(*device, find(models(), "tutorial"), flat, Type::f32);
            }).find("the model tutorial takes samples of 1x24x24x3"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
