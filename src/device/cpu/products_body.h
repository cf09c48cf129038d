// Products of matrices that are cut into blocks of kBlock columns, [block][row][kBlock], so that
// one kernel with constant strides multiplies all of them. Part of src/device/cpu/kernels_body.h.
//
// The factors have type F: fp32 or bf16. A lane multiplies two bf16 at once and adds both products
// to a sum of fp32 (VDPBF16PS). So a word of 32 bits contains kPerWord<F> consecutive numbers along
// the depth of a product.
namespace lockstep::KERNELS {
namespace {

constexpr std::int64_t kBlock = 64;
template <class F>
constexpr std::int64_t kPerWord = sizeof(float) / sizeof(F);

/// A register of words of F.
template <class F>
using Factors = std::conditional_t<kPerWord<F> == 1, Vector, Words>;
template <class F>
using Factor = std::conditional_t<kPerWord<F> == 1, float, std::uint32_t>;

[[gnu::always_inline]] inline Vector multiply_add(Vector sum, float a, Vector b) {
  return fma(a, b, sum);
}
inline void store_factors(float* to, Vector value) { store(to, value); }
#if KERNEL_BF16_PRODUCTS
/// Denormals become 0.
inline void store_factors(Bfloat16* to, Vector value) {
  const auto bits = _mm512_cvtneps_pbh(value);
  std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
}
/// Words of two bf16, the first one in the low half; denormals become 0.
inline Words pair_up(Vector first, Vector second) {
  Words order;
  for (unsigned lane = 0; lane < 16; ++lane) order[lane] = lane | (16 + lane) << 16;
  const __m512i halves = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(second, first));
  return __builtin_bit_cast(Words,
                            _mm512_permutexvar_epi16(__builtin_bit_cast(__m512i, order), halves));
}
[[gnu::always_inline]] inline Vector multiply_add(Vector sum, std::uint32_t a, Words b) {
  return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, Words{} + a),
                          __builtin_bit_cast(__m512bh, b));
}
#endif

/// Rows x Columns registers of c (+)= a * b, over `depth` words. Word d of a's row r is at
/// a[r * kBlock + d * kPerWord], or transposed at a[(d * kBlock + r) * kPerWord]; that of b's
/// column at b[(d * kBlock + column) * kPerWord].
template <class F, int Rows, int Columns, bool Transposed>
[[gnu::always_inline]] inline void multiply_tile(std::int64_t depth, const F* __restrict a,
                                                 const F* __restrict b, float* __restrict c,
                                                 bool accumulate) {
  constexpr std::int64_t d_of_a = Transposed ? kBlock * kPerWord<F> : kPerWord<F>,
                         row_of_a = Transposed ? kPerWord<F> : kBlock;
  Vector sum[Rows][Columns];
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Columns; ++v)
      sum[r][v] = accumulate ? load(c + r * kBlock + v * kLanes) : Vector{};
  for (std::int64_t d = 0; d < depth; ++d) {
    Factors<F> from[Columns];
#pragma GCC unroll 8
    for (int v = 0; v < Columns; ++v)
      from[v] = word_at<Factors<F>>(b + (d * kBlock + v * kLanes) * kPerWord<F>);
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r) {
      const auto factor = word_at<Factor<F>>(a + r * row_of_a + d * d_of_a);
#pragma GCC unroll 8
      for (int v = 0; v < Columns; ++v) sum[r][v] = multiply_add(sum[r][v], factor, from[v]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Columns; ++v) store(c + r * kBlock + v * kLanes, sum[r][v]);
}

template <int Rows, bool Transposed, class F>
inline void multiply_rows(std::int64_t columns, std::int64_t depth, const F* a, const F* b,
                          float* c, bool accumulate) {
  std::int64_t at = 0;
  for (; at + kLanes < columns; at += 2 * kLanes)
    multiply_tile<F, Rows, 2, Transposed>(depth, a, b + at * kPerWord<F>, c + at, accumulate);
  if (at < columns)
    multiply_tile<F, Rows, 1, Transposed>(depth, a, b + at * kPerWord<F>, c + at, accumulate);
}

/// c (+)= a * b: `rows` x `columns` of a block, over `depth` words. If the columns do not fill the
/// last register, its other lanes contain arbitrary sums, which are never read.
template <bool Transposed, class F>
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const F* a, const F* b,
              float* c, bool accumulate) {
  const std::int64_t step = Transposed ? kPerWord<F> : kBlock;
  std::int64_t row = 0;
  const auto multiply_groups_of = [&](auto number) {
    for (; row + number <= rows; row += number) {
      multiply_rows<number, Transposed>(columns, depth, a + row * step, b, c + row * kBlock,
                                        accumulate);
    }
  };
  multiply_groups_of(std::integral_constant<int, kRows>());
  if constexpr (kRows > 8) multiply_groups_of(std::integral_constant<int, 8>());
  multiply_groups_of(std::integral_constant<int, 4>());
  multiply_groups_of(std::integral_constant<int, 2>());
  multiply_groups_of(std::integral_constant<int, 1>());
}

}  // namespace
}  // namespace lockstep::KERNELS
