// oneDNN's version and instruction sets.

#include "src/device/cpu/onednn/onednn.h"

#include "src/base/check.h"
#include "src/device/cpu/library.h"

namespace lockstep {
namespace {

using dnnl::cpu_isa;

/// A wider set has more bits.
constexpr unsigned bits(cpu_isa isa) { return static_cast<unsigned>(isa); }

#if defined(__AVX512BF16__)
constexpr cpu_isa kBaseline = cpu_isa::avx512_core_bf16;
#elif defined(__AVX512F__)
constexpr cpu_isa kBaseline = cpu_isa::avx512_core;
#elif defined(__AVX2__)
constexpr cpu_isa kBaseline = cpu_isa::avx2;
#elif defined(__AVX__)
constexpr cpu_isa kBaseline = cpu_isa::avx;
#else
constexpr cpu_isa kBaseline = cpu_isa::sse41;
#endif

struct Set {
  cpu_isa isa;
  std::string_view words;
  std::string_view name;  ///< that of instruction_sets(); empty: it has none
};
constexpr Set kSets[] = {{cpu_isa::sse41, "SSE4.1", ""},
                         {cpu_isa::avx, "AVX", ""},
                         {cpu_isa::avx2, "AVX2", "avx2"},
                         {cpu_isa::avx512_core, "AVX-512", "avx512"},
                         {cpu_isa::avx512_core_vnni, "AVX-512 VNNI", ""},
                         {cpu_isa::avx512_core_bf16, "AVX-512 with bf16", "avx512_bf16"},
                         {cpu_isa::avx512_core_amx, "AVX-512 with AMX", "amx"}};

cpu_isa isa_of(std::string_view name) {
  if (name == "baseline") return kBaseline;
  for (const Set& set : kSets)
    if (set.name == name) return set.isa;
  fail("no instruction set of oneDNN: {}", name);
}

unsigned in_use() { return bits(dnnl::get_effective_cpu_isa()); }

}  // namespace

const dnnl::engine& onednn::engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::string library::name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

bool library::computes_bf16() { return uses("avx512"); }

bool library::limit_to(std::string_view set) {
  dnnl::set_max_cpu_isa(isa_of(set));  // without effect after the first use
  return in_use() == bits(isa_of(set));
}

bool library::uses(std::string_view set) {
  const unsigned wanted = bits(isa_of(set));
  return (in_use() & wanted) == wanted;
}

std::string library::set_in_use() {
  for (const Set& set : kSets)
    if (bits(set.isa) == in_use()) return std::string(set.words);
  return fmt::format("instruction set {:#x}", in_use());
}

}  // namespace lockstep
