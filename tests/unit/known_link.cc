// The file of a measured link: what is written reads back exactly, and nothing else is believed.
#include "collectives/known_link.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

TEST(KnownLink, TextGivesBackWhatWasMeasured) {
  const Link link{5.123456789e-5, 1.17e8 / 3, 1.2e10 / 7};
  const std::string text = text_of(link, "a cpu 0-1; b cpu 0-1");
  EXPECT_EQ(text.substr(0, text.find('\n')), "lockstep link, by pieces, of a cpu 0-1; b cpu 0-1");
  const Link read = link_from(text, "a cpu 0-1; b cpu 0-1");
  EXPECT_EQ(read.latency, link.latency);
  EXPECT_EQ(read.bandwidth, link.bandwidth);
  EXPECT_EQ(read.add_rate, link.add_rate);
}

TEST(KnownLink, WhatCannotBeIsRefused) {
  const std::string title = "lockstep link, by pieces, of here\n", good = text_of(Link(), "here");
  EXPECT_NO_THROW(link_from(good, "here"));
  EXPECT_NE(error_of([&] { link_from(good, "there"); }).find("other circumstances"),
            std::string::npos);
  for (const auto& [text, part] :
       {std::pair<std::string, std::string>{"", "no end"},
        {std::string(5000, 'x'), "no end"},
        {title, "no end"},
        {title + "latency = 1e-5\n", "no end"},
        {title + "bandwidth = 1e9\nlatency = 1e-5\nadd_rate = 1e9\n", "does not say its latency"},
        {title + "latency = 1e-5\nbandwidth = 1e99\nadd_rate = 1e9\n", "its bandwidth cannot be"},
        {title + "latency = 1e-5\nbandwidth = -1e9\nadd_rate = 1e9\n", "its bandwidth cannot be"},
        {title + "latency = 0\nbandwidth = 1e9\nadd_rate = 1e9\n", "its latency cannot be"},
        {title + "latency = nan\nbandwidth = 1e9\nadd_rate = 1e9\n", "its latency cannot be"},
        {title + "latency = 1e-5 s\nbandwidth = 1e9\nadd_rate = 1e9\n", "its latency cannot be"},
        {title + "latency = 1e-5\nbandwidth = 1e9\nadd_rate = inf\n", "its add_rate cannot be"},
        {good + "rm = -rf\n", "more than it should"}}) {
    EXPECT_NE(error_of([&, &text = text] { link_from(text, "here"); }).find(part),
              std::string::npos)
        << text;
  }
}

TEST(KnownLink, HoldsAsLongAsLatencyAndBandwidthAreNear) {
  const Link known{5e-5, 1e8, 1e10};
  for (const double times : {0.55, 1.0, 1.9}) {
    EXPECT_TRUE(still_holds(known, {times * 5e-5, 1e8, 1e10}));
    EXPECT_TRUE(still_holds(known, {5e-5, times * 1e8, 1e10}));
  }
  for (const double times : {0.01, 0.45, 2.1, 100.0}) {
    EXPECT_FALSE(still_holds(known, {times * 5e-5, 1e8, 1e10})) << times;
    EXPECT_FALSE(still_holds(known, {5e-5, times * 1e8, 1e10})) << times;
    EXPECT_TRUE(still_holds(known, {5e-5, 1e8, times * 1e10})) << "adding is the core's";
  }
}

}  // namespace
}  // namespace lockstep
