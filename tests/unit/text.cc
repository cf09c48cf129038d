// Texts of files for a terminal, lists of names, and unique names.
#include "src/base/text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

TEST(Printable, ControlCharactersAreReplacedAndLineEndsStay) {
  EXPECT_EQ(printable("cat\ndog\n"), "cat\ndog\n");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "?]0;title?");
  EXPECT_EQ(printable("a\rb\tc\x7f"), "a?b?c?");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("caf\xc3\xa9 \xe7\x8c\xab"), "caf\xc3\xa9 \xe7\x8c\xab");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\xa0"),
            "?31m\xc2\xa0")
      << "CSI in UTF-8";
  EXPECT_EQ(printable("\xc2"), "\xc2");
}

TEST(LinesOf, HaveNoEndsAndMayBeEmpty) {
  EXPECT_EQ(lines_of(""), Names());
  EXPECT_EQ(lines_of("a\n\nb"), (Names{"a", "", "b"}));
  EXPECT_EQ(lines_of("a\n"), Names{"a"});
  EXPECT_EQ(split("a::b", ':'), (Names{"a", "", "b"}));
  EXPECT_EQ(split("", ':'), Names{""});
}

TEST(NamedValues, SkipOtherLines) {
  using Values = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(named_values("a=1\nno\nb=x=y\nc="), (Values{{"a", "1"}, {"b", "x=y"}, {"c", ""}}));
  EXPECT_EQ(named_values("a = 1\nb=2\n", " = "), (Values{{"a", "1"}}));
}

TEST(Listed, EndsWithANumberIfThereAreMany) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a", "b"}), "a, b");
  EXPECT_EQ(listed(Names(12, "a")), "a, a, a, a, a, a, a, a, a, a and 2 more");
}

TEST(UniqueHex, HasTwoDigitsPerByteAndDiffers) {
  EXPECT_EQ(unique_hex(16).size(), 32u);
  EXPECT_NE(unique_hex(16), unique_hex(16));
}

TEST(MissingFrom, KeepsTheOrder) {
  EXPECT_EQ(missing_from({"b"}, {"c", "b", "a"}), (Names{"c", "a"}));
}

}  // namespace
}  // namespace lockstep
