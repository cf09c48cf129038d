#include "apps/step/replica_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>

#include "src/base/check.h"

namespace lockstep {

bool all_finite(const Layout& layout, const Section& section) {
  Fingerprint values;
  values.add(section.arena, layout.count);
  return values.finite();
}

void load_on_all_ranks(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::vector<Section>& sections) {
  agree(comm, [&] {
    if (checkpoint) checkpoint->load(layout, sections);
  });
  copy_to_all_ranks(comm, checkpoint ? checkpoint->file().string() : "", layout, sections);
}

void copy_to_all_ranks(const Comm& comm, const std::string& file, const Layout& layout,
                       const std::vector<Section>& sections) {
  for (const Section& section : sections) comm.broadcast(std::span(section.arena, layout.count));
  // All ranks have the same values now, so only one of them searches for NaN and Inf.
  agree_on_rank_0(comm, [&] {
    for (const Section& section : sections) {
      require(all_finite(layout, section), "{} contains {} that are not finite. Use another file.",
              file, section.name == "parameters" ? "weights" : "numbers of " + section.name);
    }
  });
}

Memory load_on_devices(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::string& section, Device& device) {
  const std::size_t bytes = layout.count * sizeof(float);
  Memory host, result;
  agree(comm, [&] { host = device.allocate(bytes, Place::host); });
  load_on_all_ranks(comm, checkpoint, layout, {{section, reinterpret_cast<float*>(host.get())}});
  if (device.traits().memory_is_host) return host;
  agree(comm, [&] {
    result = device.allocate(bytes, Place::device);
    const std::unique_ptr<Stream> stream = device.stream();
    device.copy(*stream, result.get(), host.get(), bytes);
    stream->synchronize();
  });
  return result;
}

/// A fingerprint has 64 lanes that do not depend on each other, so that the compiler can use
/// vectors. Each lane begins with another number.
Fingerprint::Fingerprint() { std::iota(lanes_.begin(), lanes_.end(), 1u); }

void Fingerprint::add(const float* values, std::int64_t count) {
  constexpr std::uint32_t kInfinity = 0x7F800000u, kOne = 0x00800000u;
  std::array<std::uint32_t, kBlock> lanes = lanes_, exponents{};
  const auto add_word = [&](std::int64_t lane, float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    // A bijection of the lane and of the word, so that no single changed word can go unseen.
    const std::uint32_t mixed = (lanes[lane] ^ word) * 0x9E3779B1u;
    lanes[lane] = mixed ^ (mixed >> 15);
    // Inf and NaN are the only numbers whose exponent has all bits set. The addition then carries
    // into the highest bit.
    exponents[lane] |= (word & kInfinity) + kOne;
  };
  const std::int64_t whole = count / kBlock * kBlock;
  for (std::int64_t i = 0; i < whole; i += kBlock)
    for (std::int64_t lane = 0; lane < kBlock; ++lane) add_word(lane, values[i + lane]);
  for (std::int64_t i = whole; i < count; ++i) add_word(i - whole, values[i]);
  lanes_ = lanes;
  for (const std::uint32_t bits : exponents) exponents_ |= bits;
}

std::uint64_t Fingerprint::value() const {
  std::uint64_t hash = 0;
  for (const std::uint32_t lane : lanes_) hash = (std::rotl(hash, 7) ^ lane) * 0x9E3779B97F4A7C15u;
  return hash;
}

void verify_mirror(const Comm& comm, const Layout& layout, const std::vector<ConstSection>& state,
                   std::int64_t step) {
  std::vector<std::uint64_t> own;
  for (const ConstSection& section : state) {
    for (const Parameter& parameter : layout.parameters) {
      Fingerprint array;
      array.add(section.arena + parameter.range.begin, parameter.range.count);
      own.push_back(array.value());
    }
  }
  compare_fingerprints(comm, layout, state, own, step);
}

void compare_fingerprints(const Comm& comm, const Layout& layout,
                          const std::vector<ConstSection>& state,
                          std::span<const std::uint64_t> own, std::int64_t step) {
  const auto name_of = [&](std::size_t number) {
    const std::size_t arrays = layout.parameters.size();
    return state[number / arrays].name + "/" + layout.parameters[number % arrays].name;
  };
  const std::size_t ranks = comm.size();
  // Every rank gets all numbers. So all throw the same error, and none needs a message to agree.
  const std::vector<std::uint64_t> all = comm.all_gather(own);
  for (std::size_t p = 0; p < own.size(); ++p) {
    const auto value = [&](std::size_t rank) { return all[rank * own.size() + p]; };
    // A fault hits few ranks, so the rarest value is the suspect. With two ranks no value is rarer.
    std::map<std::uint64_t, std::size_t> votes;
    for (std::size_t rank = 0; rank < ranks; ++rank) ++votes[value(rank)];
    if (votes.size() == 1) continue;
    std::size_t odd = 0;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const auto fewer = votes[value(rank)] <=> votes[value(odd)];
      if (fewer < 0 || (fewer == 0 && odd == 0 && value(rank) != value(0))) odd = rank;
    }
    throw AgreedError(
        fmt::format("after step {} rank {} has values of {} that differ from the other ranks. Do "
                    "not trust its memory or network: exclude its node and resume from the last "
                    "checkpoint.",
                    step, odd, name_of(p)));
  }
}

}  // namespace lockstep
