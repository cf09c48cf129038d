// Translated instructions against a table. Each result is known by PTX's manual, not computed by
// what the kernel consists of.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/emulator/tests/instructions/translated.h"

namespace emulator {
namespace {

/// "[TYPES]" of the result and the sources, then "INSTRUCTION: SOURCES = RESULT; ..." with the bits
/// of integers, floats (2.0) and doubles (2.0d). make_ptx.py makes a kernel for each instruction.
/// Those without results are for kernels.cc.
constexpr char kTable[] = R"(
[b32 b32 b32]
add.rn.f32 mul.rn.f32 div.rn.f32 add.rz.f32 mul.rz.f32 div.rz.f32
add.rm.f32 mul.rm.f32 div.rm.f32 add.rp.f32 mul.rp.f32 div.rp.f32
add.f32: 1.0 0x1p-24 = 1.0; inf -inf = nan
add.rm.f32: 1.0 -0x1p-30 = 0x1.fffffep-1; 1.0 -1.0 = -0; max max = max; -max -max = -inf
add.rp.f32: 1.0 0x1p-30 = 0x1.000002p0
add.rz.f32: max max = max; 1.0 -1.0 = 0
add.sat.f32: 0.75 0.5 = 1.0; -1.0 0.5 = 0; nan 0 = 0; 0 0.5 = 0.5
mul.f32: 0x1p-100 -0x1p-40 = -0x1p-140
mul.ftz.f32: 0x1p-140 0x1p100 = 0; 0x1p-100 -0x1p-40 = -0
div.rn.f32: 1.0 0 = inf; 0 0 = nan
min.f32: nan 2.0 = 2.0; 2.0 -nan = 2.0; -nan -nan = nan; 0 -0 = -0; -0 0 = -0; -3.0 2.0 = -3.0
max.f32: nan 2.0 = 2.0; 2.0 nan = 2.0; nan -nan = nan; 0 -0 = 0; -0 0 = 0; -3.0 2.0 = 2.0
max.NaN.f32: nan 2.0 = nan; 2.0 3.0 = 3.0
copysign.f32: -1.0 2.0 = -2.0; 0 -2.0 = 2.0
cvt.rn.bf16x2.f32: 1.0 -2.0 = 0x3f80c000
cvt.rn.f16x2.f32: 1.0 -2.0 = 0x3c00c000
mul.hi.s32: 0xffffffff 3 = 0xffffffff
mul.hi.u32: 0xffffffff 3 = 2
div.u32: 7 2 = 3; 5 0 = 0xffffffff; 0xfffffff9 2 = 0x7ffffffc
div.s32: 0xfffffff9 2 = 0xfffffffd; 0x80000000 0xffffffff = 0x80000000
rem.s32: 0xfffffff9 2 = 0xffffffff; 0x80000000 0xffffffff = 0; 5 0 = 5
min.s32: 0xffffffff 1 = 0xffffffff
max.u32: 0xffffffff 1 = 0xffffffff
shl.b32: 1 31 = 0x80000000; 1 32 = 0; 1 0xffffffff = 0
shr.s32: 0x80000000 40 = 0xffffffff; 0x80000000 30 = 0xfffffffe
[b32 b32 b32 b32]
fma.rn.f32 fma.rz.f32 fma.rm.f32 fma.rp.f32
fma.rn.sat.f32: 2.0 3.0 -5.5 = 0.5; 2.0 3.0 1.0 = 1.0
mad.lo.s32: 0x10001 0x10000 5 = 0x10005
mad.hi.u32: 0x80000000 6 5 = 8
shf.l.wrap.b32: 0x11223344 0x55667788 40 = 0x66778811
shf.r.wrap.b32: 0x11223344 0x55667788 40 = 0x88112233
shf.l.clamp.b32: 0x11223344 0x55667788 40 = 0x11223344
shf.r.clamp.b32: 0x11223344 0x55667788 40 = 0x55667788
bfe.u32: 0xabcdef12 8 20 = 0xbcdef; 0xabcdef12 0x108 0x10c = 0xdef; 1 40 8 = 0; 1 0 0 = 0
bfe.u32: 0x12345678 4 40 = 0x1234567
bfe.s32: 0xabcdef12 8 12 = 0xfffffdef; 0x80000000 40 8 = 0xffffffff
bfe.s32: 0x80000000 28 8 = 0xfffffff8; 0x80000000 3 0 = 0
prmt.b32: 0x33221100 0x77668844 0x7531 = 0x77883311; 0x33221100 0x77668844 0xd084 = 0xff000044
dp2a.lo.u32.u32: 0x20003 0x04050607 1 = 34
dp2a.hi.s32.s32: 0xffff0003 0x04fe0607 1 = 0xfffffff7
slct.b32.s32: 1 2 0 = 1; 1 2 0xffffffff = 2
[b32 b32 b32 b32 b32]
bfi.b32: 0xff 0 28 8 = 0xf0000000; 5 0xffff 4 8 = 0xf05f; 5 7 32 8 = 7; 5 7 0 0 = 7; 5 7 0 32 = 5
[b32 b32 b32 pred]
selp.f32: 3 2 1 = 3; 3 2 0 = 2
[b32 b32]
ex2.approx.ftz.f32: -130.0 = 0; 3.0 = 8.0; -inf = 0
ex2.approx.f32: -130.0 = 0x1p-130
lg2.approx.f32: 8.0 = 3.0; 0 = -inf; -1.0 = nan
rcp.approx.ftz.f32: 0x1p-127 = inf; 4.0 = 0.25
rsqrt.approx.f32: 4.0 = 0.5; 0 = inf
abs.f32: -2.0 = 2.0; -0 = 0
neg.f32: -2.0 = 2.0; 0 = -0
cvt.rni.f32.f32: 2.5 = 2.0; -3.5 = -4.0; -0.2 = -0
cvt.rmi.f32.f32: -0.2 = -1.0; inf = inf
cvt.rpi.f32.f32: 0.2 = 1.0
cvt.rzi.f32.f32: -1.9 = -1.0
cvt.sat.f32.f32: 1.5 = 1.0; nan = 0; -inf = 0
cvt.rzi.s32.f32: 1.e10 = 0x7fffffff; -1.e10 = 0x80000000; nan = 0; -1.9 = 0xffffffff
cvt.rzi.s32.f32: 0x1.fffffep30 = 0x7fffff80
cvt.rni.s32.f32: 2.5 = 2; -3.5 = 0xfffffffc
cvt.rmi.s32.f32: -1.5 = 0xfffffffe
cvt.rpi.u32.f32: 1.25 = 2; -7.0 = 0; 0x1p32 = 0xffffffff
cvt.rn.f32.u32: 0xffffffff = 0x1p32
cvt.rz.f32.u32: 0xffffffff = 0x1.fffffep31
cvt.rm.f32.s32: 0xfeffffff = -0x1.000002p24
abs.s32: 0xfffffffb = 5; 0x80000000 = 0x80000000
bfind.u32: 0 = 0xffffffff; 0x10000 = 16
bfind.s32: 0xffffffff = 0xffffffff; 0xfffffffd = 1
bfind.shiftamt.u32: 0 = 0xffffffff; 0x10000 = 15
brev.b32: 0x80000003 = 0xc0000001
clz.b32: 0 = 32; 1 = 31
[b16 b32]
cvt.rn.f16.f32: 65519.99 = 0x7bff; 65520.0 = 0x7c00; 0x1p-25 = 0; 0x1.1p-25 = 1; -nan = 0x7fff
cvt.rn.f16.f32: 0x1.002p0 = 0x3c00; 0x1.006p0 = 0x3c02
cvt.rz.f16.f32: 65520.0 = 0x7bff; inf = 0x7c00; -0x1p-30 = 0x8000; nan = 0x7fff
cvt.rn.f16.s32: 0xffffffff = 0xbc00; 70000 = 0x7c00
cvt.rn.bf16.f32: 0x1.01p0 = 0x3f80; 0x1.03p0 = 0x3f82; max = 0x7f80; 0x7f800001 = 0x7fff
cvt.rn.bf16.f32: 1 = 0; 0x18000 = 2
cvt.rz.bf16.f32: max = 0x7f7f; 0xffffffff = 0x7fff
cvt.rzi.u8.f32: 300.0 = 255; -1.0 = 0
cvt.u8.u32: 0x1ff = 0xff
cvt.sat.u8.s32: 0xfffffffb = 0; 300 = 255; 17 = 17
cvt.sat.s16.u32: 0xfffffffb = 0x7fff
[b32 b16]
cvt.f32.f16
cvt.f32.bf16: 0xc000 = -2.0; 1 = 0x10000
cvt.s32.s8: 0x180 = 0xffffff80; 0x17f = 0x7f
[b64 b32]
cvt.f64.f32: 0x1p-149 = 0x1p-149d
cvt.rzi.s64.f32: nan = 0x8000000000000000; 0x1p63 = 0x7fffffffffffffff; -inf = 0x8000000000000000
cvt.s64.s32: 0x80000000 = 0xffffffff80000000
cvt.u64.u32: 0x80000000 = 0x80000000
[b32 b64]
cvt.rn.f32.f64: 0x1.000001p0d = 1.0; 1.e300d = inf
cvt.rz.f32.f64: 1.e300d = max; -0x1.000001p0d = -1.0
cvt.rm.f32.f64: -1.e-300d = -0x1p-149
cvt.rp.f32.f64
cvt.rzi.s32.f64: 0x7ff8000000000000 = 0x80000000; -5.5d = 0xfffffffb
cvt.u32.u64: 0x123456789 = 0x23456789
cvt.rn.f32.s64: 0xffffffffffffffff = -1.0; 0x1000001 = 0x1p24
cvt.rp.f32.u64: 0x10000000001 = 0x1.000002p40
popc.b64: 0xf00000000000000f = 8
[b16 b64]
cvt.rn.f16.f64: 0x1.0020000001p0d = 0x3c01
[b64 b64]
cvt.rzi.u64.f64: 0x1.8p63d = 0xc000000000000000; -1.0d = 0
neg.s64: 5 = 0xfffffffffffffffb
[b64 b64 b64]
add.rz.f64: 1.0d -0x1p-70d = 0x1.fffffffffffffp-1d
min.f64: 0x7ff8000000000000 2.0d = 2.0d; 0 0x8000000000000000 = 0x8000000000000000
mul.hi.u64: 0x8000000000000000 6 = 3
mul.hi.s64: 0x8000000000000000 6 = 0xfffffffffffffffd
div.s64: 0x8000000000000000 0xffffffffffffffff = 0x8000000000000000; 7 0 = 0xffffffffffffffff
[b64 b64 b32]
shr.u64: 0x8000000000000000 63 = 1; 0x8000000000000000 64 = 0
[b64 b32 b32]
mul.wide.s32: 0xffffffff 3 = 0xfffffffffffffffd
mul.wide.u32: 0xffffffff 3 = 0x2fffffffd
[b64 b32 b32 b64]
mad.wide.s32: 0xffffffff 3 10 = 7
[b16 b16 b16]
add.s16: 0xffff 2 = 1
mul.lo.s16: 0xffff 0xffff = 1
[b16 b16 b32]
shl.b16: 0x8001 1 = 2; 1 16 = 0
[pred b32]
testp.subnormal.f32: 1 = 1; 0 = 0; 0x1p-126 = 0; inf = 0
testp.normal.f32: 1 = 0; 0 = 1; 0x1p-126 = 1; nan = 0
testp.finite.f32: max = 1; inf = 0; nan = 0
[pred b32 b32]
setp.eq.f32 setp.ne.f32 setp.lt.f32 setp.le.f32 setp.gt.f32 setp.ge.f32 setp.num.f32
setp.equ.f32 setp.neu.f32 setp.ltu.f32 setp.leu.f32 setp.gtu.f32 setp.geu.f32 setp.nan.f32
setp.eq.ftz.f32: 0 1 = 1
setp.lt.s32: 0xffffffff 0 = 1
setp.lo.u32: 0xffffffff 0 = 0
[pred b32 b32 pred]
setp.lt.and.f32: 0 1.0 0 = 0; 0 1.0 1 = 1
setp.nan.or.f32: 0 1.0 1 = 1
[pred b16 b16]
setp.hs.u16: 0xffff 0 = 1
[pred b64 b64]
setp.ne.b64: 0x10000000000 0 = 1
[pred pred pred]
xor.pred: 1 1 = 0; 1 0 = 1
)";

std::uint64_t bits_of(const std::string& word) {
  static const std::map<std::string, std::uint64_t> kNames = {
      {"nan", 0x7fffffff}, {"-nan", 0xffc00001}, {"inf", 0x7f800000}, {"-inf", 0xff800000},
      {"max", 0x7f7fffff}, {"-max", 0xff7fffff}, {"-0", 0x80000000}};
  if (const auto name = kNames.find(word); name != kNames.end()) return name->second;
  if (word.find_first_of(".p") == std::string::npos) return std::stoull(word, nullptr, 0);
  if (word.back() == 'd') return std::bit_cast<std::uint64_t>(std::strtod(word.c_str(), nullptr));
  return std::bit_cast<std::uint32_t>(std::strtof(word.c_str(), nullptr));
}

TEST(Instructions, ComputeWhatThePtxManualSays) {
  std::istringstream table(kTable);
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream rest(line);
    std::string instruction;
    std::getline(rest, instruction, ':');
    for (std::string row; std::getline(rest, row, ';'); ++rows) {
      std::istringstream words(row);
      std::vector<std::uint64_t> values;
      for (std::string word; words >> word;) {
        if (word != "=") values.push_back(bits_of(word));
      }
      const std::uint64_t expected = values.back();
      values.pop_back();
      EXPECT_EQ(run(instruction, values), expected) << instruction << row;
    }
  }
  EXPECT_GT(rows, 200) << "the table is read";
}

}  // namespace
}  // namespace emulator
