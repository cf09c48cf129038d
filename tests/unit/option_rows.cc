// The rows of options: their conditions, and that every option that a row names exists.
#include "src/base/option_rows.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "apps/options/run_options.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

/// All options of the training program for the data set `name`.
void declare_all(OptionRows& rows, Options& o, std::string_view name) {
  const DatasetEntry& data = find(datasets(), name);
  o.data.declare(rows, data);
  o.model.declare(rows, data.model, "tutorial");
  o.declare(rows, data);
}

/// The options that `text` names.
std::vector<std::string> options_in(const std::string& text) {
  static const std::regex pattern("--[a-z0-9-]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), pattern), {}};
}

TEST(OptionRows, NameOnlyOptionsThatExist) {
  for (const DatasetEntry& data : datasets()) {
    Options o;
    OptionRows rows;
    declare_all(rows, o, data.name);
    EXPECT_NO_THROW(rows.check_exclusions());
    EXPECT_EQ(rows.idle(), std::vector<std::string>{});
    std::set<std::string> names, elsewhere;
    for (const OptionRow& row : rows.all()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
    for (const OptionRow& row : rows.all()) {
      SCOPED_TRACE(row.name);
      std::string named = row.leader + " " + row.example_text;
      for (const auto& condition : row.conditions) {
        EXPECT_TRUE(condition.option.starts_with("--")) << condition.option;
        named += " " + condition.option;
      }
      for (const auto& [option, what] : row.exclusions) named += " " + option;
      for (const std::string& option : options_in(named))
        EXPECT_TRUE(names.contains(option)) << option;
      for (const std::string& other : row.other_names) {
        const std::size_t end = std::min(other.find(' '), other.size());
        EXPECT_TRUE(elsewhere.insert(other.substr(0, end)).second) << other;
        EXPECT_FALSE(names.contains("--" + other.substr(0, end))) << other;
        if (end == other.size()) continue;
        EXPECT_NO_THROW(row.read(other.substr(end + 1))) << other;
      }
    }
  }
}

/// Three options, of which `a` excludes `b`, `c` has an effect only with `a`, and `d` follows `c`.
struct Few {
  bool a = false, b = false, c = false, d = false, e = false;
  OptionRows rows;

  Few() {
    rows.flag("--a", a, "A").excludes("--b", "length");
    rows.flag("--b", b, "B").only_with("--d on", [this] { return d; });
    rows.flag("--c", c, "C").only_with("--a").excludes("--d");
    rows.flag("--d", d, "D").follows("--c");
    rows.flag("--e", e, "E").follows("--d");
  }
  void set(const char* name, OptionRow::Source from = OptionRow::Source::command_line) {
    rows.at(name).set("true", from);
  }
};

TEST(OptionRows, ThatExcludeEachOtherAreRefused) {
  Few one;
  EXPECT_NO_THROW(one.rows.check_exclusions());
  one.set("--b");
  EXPECT_NO_THROW(one.rows.check_exclusions());
  one.set("--a", OptionRow::Source::file);
  one.rows.at("--a").place = "x.toml:3";
  EXPECT_EQ(error_of([&] { one.rows.check_exclusions(); }),
            "--a (x.toml:3) and --b both set the length. Pass one of them.");
  Few other;
  other.set("--d");
  other.set("--c", OptionRow::Source::recipe);
  EXPECT_EQ(error_of([&] { other.rows.check_exclusions(); }),
            "--c does not work with --d. Pass one of them.");
}

TEST(OptionRows, WithoutEffectAreNamed) {
  using Names = std::vector<std::string>;
  Few few;
  few.set("--c");
  few.set("--b");
  EXPECT_EQ(few.rows.idle(),
            (Names{"--b does nothing without --d on", "--c does nothing without --a"}));
  few.set("--a");
  few.set("--d");
  EXPECT_EQ(few.rows.idle(), Names{});
}

TEST(OptionRows, OfTheUserOverrideARecipe) {
  Few few;
  const auto overridden = [&] {
    std::string names;
    for (const OptionRow& row : few.rows.all())
      if (few.rows.overrides_recipe(row)) names += row.name[2];
    return names;
  };
  few.set("--b", OptionRow::Source::recipe);
  EXPECT_EQ(overridden(), "");
  few.set("--b", OptionRow::Source::file);
  EXPECT_EQ(overridden(), "ab");
  Few other;
  other.set("--c");
  EXPECT_TRUE(other.rows.overrides_recipe(other.rows.at("--d")));
  EXPECT_TRUE(other.rows.overrides_recipe(other.rows.at("--e"))) << "the leader of its leader";
  EXPECT_FALSE(other.rows.overrides_recipe(other.rows.at("--a")));
}

TEST(OptionRows, ThatNameAnUnknownOptionAreFound) {
  bool flag = false;
  OptionRows excluding, idle;
  excluding.flag("--a", flag, "A").excludes("--nothing");
  EXPECT_THROW(excluding.check_exclusions(), Error);
  idle.flag("--a", flag, "A").only_with("--nothing");
  idle.at("--a").set("true", OptionRow::Source::file);
  EXPECT_THROW(idle.idle(), Error);
}

}  // namespace
}  // namespace lockstep
