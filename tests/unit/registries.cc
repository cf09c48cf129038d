// All registries, entry by entry: one idiom for all, so that a new entry needs no line here.
#include <gtest/gtest.h>

#include <set>

#include "apps/options/help.h"
#include "collectives/algorithms/algorithms.h"
#include "collectives/progress.h"
#include "collectives/reducer.h"
#include "net/description/layer_kinds.h"
#include "net/model.h"
#include "net/optimizer.h"
#include "net/rate.h"
#include "src/base/table.h"
#include "src/data/dataset.h"
#include "src/device/cpu/arithmetic.h"
#include "src/device/cpu/convolution.h"
#include "src/device/devices.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

/// The text of --list about `registry`, from its first line to the next heading.
std::string listed(const std::string& text, const std::string& heading) {
  const std::size_t begin = ("\n" + text).find("\n" + heading + "\n");
  if (begin == std::string::npos) return "";
  std::size_t end = text.find('\n', begin) + 1;
  while (end < text.size() && text[end] == ' ') end = text.find('\n', end) + 1;
  return text.substr(begin, end - begin);
}

/// `heading`: in --list; empty for a registry that stands within another.
template <class Entry>
void check(std::span<const Entry> registry, const std::string& heading) {
  SCOPED_TRACE(Entry::kind);
  ASSERT_FALSE(registry.empty());
  const std::string list = listed(registries_text(), heading);
  const std::string refusal = error_of([&] { find(registry, "no such thing"); });
  EXPECT_TRUE(mentions(refusal, {fmt::format("unknown {} \"no such thing\"", Entry::kind)}));
  EXPECT_FALSE(mentions(refusal, {"did you mean"})) << "no name is near";
  std::set<std::string_view> names;
  for (const Entry& entry : registry) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " stands there twice";
    EXPECT_EQ(entry.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
              entry.name.npos)
        << entry.name;
    EXPECT_FALSE(entry.about.empty()) << entry.name;
    EXPECT_EQ(&find(registry, entry.name), &entry);
    EXPECT_TRUE(mentions(refusal, {entry.name})) << entry.name << " in: " << refusal;
    if (heading.empty()) continue;
    EXPECT_TRUE(mentions(list, {fmt::format("\n  {} ", entry.name)}))
        << entry.name << " in: " << list;
  }
}

TEST(Registries, HoldWhatIsFoundByNameAndListed) {
  check(models(), "models");
  check(layer_kinds(), "layers of a file");
  check(datasets(), "data sets");
  check(optimizers(), "optimizers");
  check(rate_schedules(), "learning-rate schedules");
  check(reducers(), "reducers");
  check(policies(), "progress policies");
  check(devices(), "devices");
  check(convolutions(), "convolutions");
  check(arithmetics(), "arithmetics");
  check(algorithms(), "");  // each is a reducer
}

TEST(Registries, EachAlgorithmIsAReducer) {
  for (const AlgorithmEntry& entry : algorithms()) EXPECT_NO_THROW(find(reducers(), entry.name));
}

}  // namespace
}  // namespace lockstep
