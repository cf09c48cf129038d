// A stand-in for cuBLASLt that computes on the CPU, in plain loops and with every rule of the
// header that src/device/cuda/cublaslt.cc relies on: columns are contiguous, batches have strides
// in elements, a bias has an element for each row of D, and pointers are aligned as promised.
// Products are work of streams, and each broken rule is reported.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/emulator.h"

namespace {

/// Attributes by their number.
struct Attributes {
  std::map<int, std::vector<std::byte>> values;

  void set(int attribute, const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    values[attribute].assign(begin, begin + bytes);
  }
  template <class T>
  T get(int attribute, T otherwise) const {
    const auto found = values.find(attribute);
    if (found == values.end() || found->second.size() != sizeof(T)) return otherwise;
    std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
};

struct Layout : Attributes {
  cudaDataType type;
  std::int64_t rows, columns, leading;
};

template <class Handle>
Attributes* attributes(Handle handle) {
  return reinterpret_cast<Attributes*>(handle);
}
template <class Handle>
cublasStatus_t create(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete attributes(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t set(Handle handle, int attribute, const void* data, std::size_t bytes) {
  attributes(handle)->set(attribute, data, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
const Layout& layout(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }

/// A factor or the result of a product. Its rows and columns are those after a transposition.
struct Matrix {
  void* data;  ///< only read if it is a factor
  cudaDataType type;
  std::int64_t rows, columns, row_step, column_step, batches, batch_step;

  Matrix(const void* at, const Layout& l, bool turned)
      : data(const_cast<void*>(at)),
        type(l.type),
        rows(turned ? l.columns : l.rows),
        columns(turned ? l.rows : l.columns),
        row_step(turned ? l.leading : 1),
        column_step(turned ? 1 : l.leading),
        batches(l.get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{1})),
        batch_step(l.get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0})) {}

  std::size_t size() const { return type == CUDA_R_32F ? 4 : 2; }
  std::int64_t place(std::int64_t row, std::int64_t column, std::int64_t batch) const {
    return row * row_step + column * column_step + batch * batch_step;
  }
  /// From the first element of all matrices to the last.
  std::size_t bytes() const {
    return static_cast<std::size_t>(place(rows - 1, columns - 1, batches - 1) + 1) * size();
  }
  bool aligned(std::size_t alignment) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const auto step = batches > 1 ? static_cast<std::size_t>(batch_step) * size() : 0;
    return address % alignment == 0 && step % alignment == 0;
  }
  void write(std::int64_t at, float value) const {
    if (type == CUDA_R_16BF) {
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16(value);
    } else {
      static_cast<float*>(data)[at] = value;
    }
  }
  float read(std::int64_t at) const {
    if (type == CUDA_R_16BF) return __bfloat162float(static_cast<__nv_bfloat16*>(data)[at]);
    return static_cast<float*>(data)[at];
  }
};

/// In the opaque bytes of an algorithm: the alignments of A, B, C and D that it was found for.
using Alignments = std::array<std::uint32_t, 4>;
constexpr std::size_t kWorkspace = 512, kWorkspaceAlignment = 256;

/// One call of cublasLtMatmul. Descriptors may change or go before its work runs.
struct Product {
  Matrix a, b, d;
  void* workspace;
  std::size_t workspace_bytes;
  Matrix bias;  ///< data is null: none

  std::string broken_rule(const Alignments& alignments) const;
  std::vector<emulator::Touch> touches() const;
  void compute(std::int64_t batch) const;
};

/// Empty: all rules are kept.
std::string Product::broken_rule(const Alignments& alignments) const {
  if (a.data == nullptr || b.data == nullptr || d.data == nullptr) return "a matrix is null";
  if (d.rows != a.rows || d.columns != b.columns || a.columns != b.rows)
    return "the shapes do not fit";
  if (a.batches != d.batches || b.batches != d.batches) return "the batches differ";
  if (!a.aligned(alignments[0]) || !b.aligned(alignments[1]) || !d.aligned(alignments[3]))
    return "a matrix is not aligned as promised";
  if (workspace == nullptr || workspace_bytes < kWorkspace) return "the workspace is too small";
  if (reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment != 0)
    return "the workspace is not aligned to 256 bytes";
  return {};
}

std::vector<emulator::Touch> Product::touches() const {
  std::vector<emulator::Touch> all{{a.data, a.bytes(), false},
                                   {b.data, b.bytes(), false},
                                   {d.data, d.bytes(), true},
                                   {workspace, kWorkspace, true}};
  if (bias.data != nullptr) all.push_back({bias.data, bias.bytes(), false});
  return all;
}

void Product::compute(std::int64_t batch) const {
  std::vector<float> factors(static_cast<std::size_t>(d.rows * a.columns)), sums(d.rows);
  for (std::int64_t k = 0; k < a.columns; ++k) {
    for (std::int64_t row = 0; row < d.rows; ++row)
      factors[k * d.rows + row] = a.read(a.place(row, k, batch));
  }
  for (std::int64_t column = 0; column < d.columns; ++column) {
    for (std::int64_t row = 0; row < d.rows; ++row)
      sums[row] = bias.data != nullptr ? bias.read(row) : 0;
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const float factor = b.read(b.place(k, column, batch));
      for (std::int64_t row = 0; row < d.rows; ++row)
        sums[row] += factors[k * d.rows + row] * factor;
    }
    for (std::int64_t row = 0; row < d.rows; ++row) d.write(d.place(row, column, batch), sums[row]);
  }
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "a rule of the double is broken";
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t,
                                        cudaDataType_t) {
  return create(desc);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, std::size_t bytes) {
  return set(desc, attribute, data, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* to, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  *to = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{
      {}, type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading});
  return leading < static_cast<std::int64_t>(rows) ? CUBLAS_STATUS_INVALID_VALUE
                                                   : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete reinterpret_cast<Layout*>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* data, std::size_t bytes) {
  return set(l, attribute, data, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) { return create(to); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* data, std::size_t bytes) {
  return set(preference, attribute, data, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  *count = 0;
  if (wanted < 1 || layout(a).type != layout(b).type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (layout(d).type != layout(a).type && layout(d).type != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  Alignments alignments;
  for (int i = 0; i < 4; ++i) {  // by default 256
    alignments[i] = attributes(preference)
                        ->get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, std::uint32_t{256});
  }
  results[0] = {};
  std::memcpy(results[0].algo.data, alignments.data(), sizeof alignments);
  results[0].workspaceSize = kWorkspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*,
                                                    cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* data, std::size_t bytes,
                                                    std::size_t* written) {
  std::memset(data, 0, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Attributes& rules = *attributes(desc);
  const auto turned = [&](cublasLtMatmulDescAttributes_t attribute) {
    return rules.get(attribute, CUBLAS_OP_N) == CUBLAS_OP_T;
  };
  const auto epilogue = rules.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const bool biased = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const void* const bias =
      rules.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(nullptr));
  const Layout& result = layout(d_layout);
  const Product product{
      .a = {a, layout(a_layout), turned(CUBLASLT_MATMUL_DESC_TRANSA)},
      .b = {b, layout(b_layout), turned(CUBLASLT_MATMUL_DESC_TRANSB)},
      .d = {d, result, false},
      .workspace = workspace,
      .workspace_bytes = workspace_bytes,
      .bias = {biased ? bias : nullptr, {{}, result.type, result.rows, 1, result.rows}, false}};
  Alignments alignments;
  std::memcpy(alignments.data(), algo->data, sizeof alignments);
  std::string broken = product.broken_rule(alignments);
  if (c != d || *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    broken = "the double computes only D = A * B";
  if (biased && bias == nullptr) broken = "the bias is null";
  if (!broken.empty()) {
    emulator::report("cublasLtMatmul: " + broken);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto run = [product] {
    std::memset(product.workspace, 0xff, kWorkspace);
    for (std::int64_t batch = 0; batch < product.d.batches; ++batch) product.compute(batch);
    return true;
  };
  emulator::enqueue("cublasLtMatmul", stream, product.touches(), run);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
