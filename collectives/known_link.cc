#include "collectives/known_link.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <optional>
#include <span>

#include "src/check.h"
#include "src/crc32c.h"
#include "src/file.h"
#include "src/machine.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongest = 1 << 20;  // bytes of a file: thousands of ranks fit
constexpr auto kAge = std::chrono::hours(24);

struct Number {
  const char* name;
  double Link::*member;
  double least, most;  ///< that anybody has seen, and then some
};
constexpr Number kNumbers[] = {{"latency", &Link::latency, 1e-8, 10},
                               {"bandwidth", &Link::bandwidth, 1e3, 1e13},
                               {"add_rate", &Link::add_rate, 1e6, 1e14}};

/// The settings by which Open MPI and UCX choose what messages travel on.
std::string transports() {
  std::vector<std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    for (const char* prefix : {"OMPI_MCA_btl", "OMPI_MCA_pml", "UCX_"}) {
      if (text.starts_with(prefix)) settings.emplace_back(text);
    }
  }
  std::sort(settings.begin(), settings.end());
  return fmt::format("{}", fmt::join(settings, " "));
}

/// On rank 0, in one line; elsewhere empty.
std::string circumstances(const Comm& comm) {
  const std::vector<std::string> ranks =
      comm.gather(fmt::format("{} cpu {}", host_name(), core_list(allowed_cores())));
  if (comm.rank() != 0) return "";
  std::string text = fmt::format("{}; {}", fmt::join(ranks, "; "), transports());
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, '?');
  return text;
}

std::string heading(const std::string& circumstances) {
  return "lockstep link, by pieces, of " + circumstances;
}

/// Throws Error with what is wrong; nothing where there is no file, or only an old one.
std::optional<Link> read_link(const std::filesystem::path& file, const std::string& circumstances) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  require(std::filesystem::is_regular_file(file, error), "it is no file");
  require(std::filesystem::file_size(file, error) <= kLongest && !error, "it is too long");
  const auto written = std::filesystem::last_write_time(file, error);
  const auto age = std::filesystem::file_time_type::clock::now() - written;
  if (error || age > kAge) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::string text(kLongest, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  require(!in.bad() && in.gcount() > 0, "it cannot be read");
  text.resize(in.gcount());
  return link_from(text, circumstances);
}

void keep(const std::filesystem::path& file, const std::string& text) {
  try {
    make_directories(file.parent_path(), "cache directory");
    replace_file(file, text);
  } catch (const Error&) {  // it costs the next run the time
  }
}

}  // namespace

std::string text_of(const Link& link, const std::string& circumstances) {
  std::string text = heading(circumstances) + "\n";
  for (const Number& number : kNumbers)
    text += fmt::format("{} = {}\n", number.name, link.*number.member);
  return text;
}

Link link_from(std::string_view text, const std::string& circumstances) {
  const auto take_line = [&] {
    const std::size_t end = text.find('\n');
    require(end != text.npos, "it has no end");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
  };
  require(take_line() == heading(circumstances), "it is of other circumstances");
  Link link;
  for (const Number& number : kNumbers) {
    std::string_view line = take_line();
    const std::string begin = fmt::format("{} = ", number.name);
    require(line.starts_with(begin), "it does not say its {}", number.name);
    line.remove_prefix(begin.size());
    double value = 0;
    const auto end = std::from_chars(line.data(), line.data() + line.size(), value);
    require(end.ec == std::errc() && end.ptr == line.data() + line.size() &&
                value >= number.least && value <= number.most,
            "its {} cannot be", number.name);
    link.*number.member = value;
  }
  require(text.empty(), "it says more than it should");
  return link;
}

bool still_holds(const Link& known, const Link& seen) {
  constexpr double kFar = 2;
  const auto near = [&](double Link::*number) {
    const double ratio = known.*number / seen.*number;
    return ratio > 1 / kFar && ratio < kFar;
  };
  return near(&Link::latency) && near(&Link::bandwidth);
}

KnownLink known_link(const Comm& comm, const Comm& node, const std::filesystem::path& folder,
                     const MeasureLink& measure) {
  const std::string here = circumstances(comm);
  const std::filesystem::path file = folder / fmt::format("link-{:08x}.txt", crc32c(heading(here)));
  KnownLink known{{}, "measured now"};
  std::int64_t found = 0;
  if (comm.rank() == 0 && !folder.empty()) {
    try {
      if (const auto link = read_link(file, here)) {
        known = {*link, "measured before"};
        found = 1;
      }
    } catch (const Error& error) {
      known.origin += fmt::format(", for {} is ignored: {}", file.string(), error.what());
    }
  }
  comm.broadcast(std::span(&found, 1));
  if (found != 0) {
    const Link seen = measure(comm, node, kGlance);
    if (comm.rank() == 0 && !still_holds(known.link, seen)) {
      known.origin = fmt::format("measured now, for {} no longer hold", describe(known.link));
      found = 0;
    }
    comm.broadcast(std::span(&found, 1));
  }
  if (found == 0) {
    known.link = measure(comm, node, kRounds);
    if (comm.rank() == 0 && !folder.empty()) keep(file, text_of(known.link, here));
  }
  std::array numbers{known.link.latency, known.link.bandwidth, known.link.add_rate};
  comm.broadcast(std::span<double>(numbers));
  known.link = {numbers[0], numbers[1], numbers[2]};
  known.origin = comm.broadcast(known.origin);
  return known;
}

}  // namespace lockstep
