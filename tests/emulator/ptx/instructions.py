"""The instructions of PTX that compute a value from values, as expressions of C++ with ptx.h.

INSTRUCTIONS maps each one, with all of its suffixes, to its types and its value. statements.py
translates the others, and everything that neither knows is an error.
"""
import itertools
import re

BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16,
        "bf16": 16, "b32": 32, "u32": 32, "s32": 32, "f32": 32, "b64": 64, "u64": 64, "s64": 64,
        "f64": 64}

# <name> in an instruction of the table stands for one of these; an empty one may be left out.
CHOICES = {
    "int": "u16|s16|u32|s32|u64|s64", "signed": "s16|s32|s64", "narrow": "u16|s16|u32|s32",
    "any": "u8|s8|u16|s16|u32|s32|u64|s64", "bits": "b16|b32|b64", "word": "b32|b64",
    "value": "b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64",
    "round": ".rn|.rz|.rm|.rp", "rn": ".rn|", "rounding": "|.rn|.rz|.rm|.rp", "ftz": ".ftz|",
    "sat": ".sat|", "float": "f32|f64"}

# Instruction; its types, the result's first; its value, where a, b, c, d are the sources.
# T is the instruction's last type, D its first one, U the unsigned one of T's width, W the one
# twice as wide. "rounded" obeys .rz, .rm and .rp. 16-bit floating-point numbers are read as f32.
TABLE = """
add.<int>                           U U U      a + b
sub.<int>                           U U U      a - b
mul.lo.<int>                        U U U      u64(a) * b
mul.hi.<int>                        T T T      high_product(a, b)
mul.wide.<narrow>                   W T T      W(a) * b
mad.lo.<int>                        U U U U    u64(a) * b + c
mad.hi.<int>                        U T T U    U(high_product(a, b)) + c
mad.wide.<narrow>                   W T T W    u64(W(a) * b) + u64(c)
dp2a.lo.<u32|s32>.<u32|s32>         b32 b32 b32 b32   dot2<D, T>(a, b, c, 0)
dp2a.hi.<u32|s32>.<u32|s32>         b32 b32 b32 b32   dot2<D, T>(a, b, c, 16)
div.<int>                           T T T      divide(a, b)
rem.<int>                           T T T      remainder(a, b)
min.<int>                           T T T      a < b ? a : b
max.<int>                           T T T      a > b ? a : b
abs.<signed>                        U T        a < 0 ? U(0) - U(a) : U(a)
neg.<signed>                        U U        0 - a
and.<bits>                          U U U      a & b
or.<bits>                           U U U      a | b
xor.<bits>                          U U U      a ^ b
not.<bits>                          U U        ~a
and.pred                            T T T      a && b
or.pred                             T T T      a || b
xor.pred                            T T T      a != b
not.pred                            T T        !a
shl.<bits>                          U U u32    shift_left(a, b)
shr.<b16|b32|b64|u16|u32|u64>       U U u32    shift_right(a, b)
shr.<signed>                        T T u32    shift_right(a, b)
shf.l.wrap.b32                      T T T T    funnel_left(a, b, c & 31)
shf.r.wrap.b32                      T T T T    funnel_right(a, b, c & 31)
shf.l.clamp.b32                     T T T T    funnel_left(a, b, c < 32 ? c : 32)
shf.r.clamp.b32                     T T T T    funnel_right(a, b, c < 32 ? c : 32)
bfe.<u32|s32|u64|s64>               T T u32 u32     extract(a, b, c)
bfi.<word>                          U U U u32 u32   insert(a, b, c, d)
bfind.<u32|s32|u64|s64>             u32 T      find_bit(a)
bfind.shiftamt.<u32|s32|u64|s64>    u32 T      find_bit(a) == ~0u ? ~0u : kBits<T> - 1 - find_bit(a)
brev.<word>                         U U        reverse(a)
clz.<word>                          u32 U      std::countl_zero(a)
popc.<word>                         u32 U      std::popcount(a)
prmt.b32                            T T T T    permute(a, b, c)
selp.<value>                        T T T pred      c ? a : b
slct<ftz>.<value>.f32               D D D T    c >= 0 ? a : b
slct.<value>.s32                    D D D T    c >= 0 ? a : b

add<rounding><ftz><sat>.f32         T T T      rounded(a + b)
sub<rounding><ftz><sat>.f32         T T T      rounded(a - b)
mul<rounding><ftz><sat>.f32         T T T      rounded(a * b)
fma<round><ftz><sat>.f32            T T T T    rounded(std::fma(a, b, c))
mad<round><ftz><sat>.f32            T T T T    rounded(std::fma(a, b, c))
div<round><ftz>.f32                 T T T      rounded(a / b)
rcp<round><ftz>.f32                 T T        rounded(1 / a)
sqrt<round><ftz>.f32                T T        rounded(std::sqrt(a))
add<rounding>.f64                   T T T      rounded(a + b)
sub<rounding>.f64                   T T T      rounded(a - b)
mul<rounding>.f64                   T T T      rounded(a * b)
fma<round>.f64                      T T T T    rounded(std::fma(a, b, c))
mad<round>.f64                      T T T T    rounded(std::fma(a, b, c))
div<round>.f64                      T T T      rounded(a / b)
rcp<round>.f64                      T T        rounded(1 / a)
sqrt<round>.f64                     T T        rounded(std::sqrt(a))
div.<approx|full><ftz>.f32          T T T      a / b
rcp.approx<ftz>.f32                 T T        1 / a
sqrt.approx<ftz>.f32                T T        std::sqrt(a)
rsqrt.approx<ftz>.f32               T T        1 / std::sqrt(a)
ex2.approx<ftz>.f32                 T T        std::exp2(a)
lg2.approx<ftz>.f32                 T T        std::log2(a)
sin.approx<ftz>.f32                 T T        std::sin(a)
cos.approx<ftz>.f32                 T T        std::cos(a)
tanh.approx.f32                     T T        std::tanh(a)
rcp.approx.ftz.f64                  T T        1 / a
rsqrt.approx.f64                    T T        1 / std::sqrt(a)
min<ftz>.f32                        T T T      minimum(a, b)
max<ftz>.f32                        T T T      maximum(a, b)
min<ftz>.NaN.f32                    T T T      a != a || b != b ? a + b : minimum(a, b)
max<ftz>.NaN.f32                    T T T      a != a || b != b ? a + b : maximum(a, b)
min.f64                             T T T      minimum(a, b)
max.f64                             T T T      maximum(a, b)
abs<ftz>.f32                        T T        std::fabs(a)
abs.f64                             T T        std::fabs(a)
neg<ftz>.f32                        T T        -a
neg.f64                             T T        -a
copysign.<float>                    T T T      std::copysign(b, a)
testp.finite.<float>                pred T     std::isfinite(a)
testp.infinite.<float>              pred T     std::isinf(a)
testp.number.<float>                pred T     a == a
testp.notanumber.<float>            pred T     a != a
testp.normal.<float>                pred T     a == 0 || std::isnormal(a)
testp.subnormal.<float>             pred T     std::fpclassify(a) == FP_SUBNORMAL

cvt.<any>.<any>                     D T        a
cvt.sat.<any>.<any>                 D T        clamp<D>(a)
cvt<round>.<float>.<any>            D T        rounded(D(a))
cvt.rni<ftz><sat>.<any>.<f16|f32|f64>   D T    to_integer<D>(std::nearbyint(a))
cvt.rzi<ftz><sat>.<any>.<f16|f32|f64>   D T    to_integer<D>(std::trunc(a))
cvt.rmi<ftz><sat>.<any>.<f16|f32|f64>   D T    to_integer<D>(std::floor(a))
cvt.rpi<ftz><sat>.<any>.<f16|f32|f64>   D T    to_integer<D>(std::ceil(a))
cvt.rni<ftz><sat>.f32.f32           D T        std::nearbyint(a)
cvt.rzi<ftz><sat>.f32.f32           D T        std::trunc(a)
cvt.rmi<ftz><sat>.f32.f32           D T        std::floor(a)
cvt.rpi<ftz><sat>.f32.f32           D T        std::ceil(a)
cvt.rni<sat>.f64.f64                D T        std::nearbyint(a)
cvt.rzi<sat>.f64.f64                D T        std::trunc(a)
cvt.rmi<sat>.f64.f64                D T        std::floor(a)
cvt.rpi<sat>.f64.f64                D T        std::ceil(a)
cvt<ftz><sat>.f32.f32               D T        a
cvt<sat>.f64.f64                    D T        a
cvt<ftz><sat>.f64.f32               D T        D(a)
cvt<round><ftz><sat>.f32.f64        D T        rounded(D(a))
cvt<ftz><sat>.f32.f16               D T        a
cvt<sat>.f64.f16                    D T        D(a)
cvt.f32.bf16                        D T        a
cvt.rn<ftz>.f16.f32                 b16 T      to_f16(a)
cvt.rz<ftz>.f16.f32                 b16 T      cut_f16(a)
cvt.rn.f16.f64                      b16 T      to_f16(a)
cvt.rn.f16.<u8|s8|u16|s16|u32|s32>  b16 T      to_f16(f64(a))
cvt.rn.bf16.f32                     b16 T      to_bf16(a)
cvt.rz.bf16.f32                     b16 T      cut_bf16(a)
cvt.rn<ftz>.f16x2.f32               b32 T T    pack(to_f16(a), to_f16(b))
cvt.rz<ftz>.f16x2.f32               b32 T T    pack(cut_f16(a), cut_f16(b))
cvt.rn.bf16x2.f32                   b32 T T    pack(to_bf16(a), to_bf16(b))
cvt.rz.bf16x2.f32                   b32 T T    pack(cut_bf16(a), cut_bf16(b))
"""


def expand(pattern):
    """All instructions that a pattern of the table stands for."""
    parts = re.split(r"<([^>]*)>", pattern)
    choices = [CHOICES.get(part, part).split("|") if place % 2 else [part]
               for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def resolve(text, types):
    """A text of the table with the types that T, D, U and W are in an instruction."""
    last = types[-1]
    width = BITS[last]
    names = {"T": last, "D": types[0], "U": f"u{width}", "W": f"{last[0]}{2 * width}"}
    return re.sub(r"\b[TDUW]\b", lambda match: names[match[0]], text)


def instructions():
    known = {}
    for line in filter(None, TABLE.splitlines()):
        pattern, types, value = re.fullmatch(r"(\S+) +((?:\w+ )+) +(.*)", line).groups()
        for instruction in expand(pattern):
            own = [suffix for suffix in instruction.split(".") if suffix in BITS]
            known[instruction] = (resolve(types, own).split(), resolve(value, own))
    return known


INSTRUCTIONS = instructions()
