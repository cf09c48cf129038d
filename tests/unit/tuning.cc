#include "src/device/tuning.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

TEST(Tuning, TakesItsOwnText) {
  Tuning tuning("cuDNN 9.19.0 on a GPU");
  EXPECT_EQ(tuning.text(), "lockstep tuning for cuDNN 9.19.0 on a GPU\n");
  tuning.note("forward bf16 8x1x1x4", "eng2");
  tuning.note("backward_data bf16 8x1x1x4", "eng1_k2=4_k13=1");
  tuning.note("forward bf16 8x1x1x4", "eng3_k2=0");
  EXPECT_EQ(tuning.text(),
            "lockstep tuning for cuDNN 9.19.0 on a GPU\n"
            "backward_data bf16 8x1x1x4 = eng1_k2=4_k13=1\n"
            "forward bf16 8x1x1x4 = eng3_k2=0\n");
  Tuning other("cuDNN 9.19.0 on a GPU");
  other.note("of before", "eng9");
  EXPECT_TRUE(other.set_text(tuning.text()));
  EXPECT_EQ(other.text(), tuning.text());
  EXPECT_EQ(*other.find("backward_data bf16 8x1x1x4"), "eng1_k2=4_k13=1");
  EXPECT_EQ(other.find("of before"), nullptr);
}

TEST(Tuning, IgnoresTheTextOfAnotherPlatform) {
  Tuning theirs("cuDNN 9.20.0 on a GPU"), ours("cuDNN 9.19.0 on a GPU");
  theirs.note("work", "eng1");
  ours.note("work", "eng2");
  EXPECT_FALSE(ours.set_text(theirs.text()));
  EXPECT_EQ(*ours.find("work"), "eng2");
}

TEST(Tuning, RefusesInvalidTextAndChangesNothing) {
  const std::string title = "lockstep tuning for here\n";
  for (const auto& [text, part] : {std::pair<std::string, std::string>{"", ""},
                                   {"lockstep tuning for here", ""},
                                   {"work = eng1\n", "\"work = eng1\""},
                                   {title + "work\n", "line 2 "},
                                   {title + "a = eng1\n = eng1\n", "line 3 "},
                                   {title + "a = \n", "line 2 "},
                                   {title + "a = eng1\nb = eng", "line 3 "},
                                   {title + "a = eng1\n\nb = eng2\n", "line 3 "},
                                   {title + "a = eng1\na = eng2\n", "line 3 "}}) {
    Tuning tuning("here");
    tuning.note("work", "eng0");
    expect_error({part}, [&, &text = text] { tuning.set_text(text); });
    EXPECT_EQ(*tuning.find("work"), "eng0") << text;
  }
}

}  // namespace
}  // namespace lockstep
