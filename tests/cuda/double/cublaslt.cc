// A double of cuBLASLt that computes on the CPU, in plain loops and with every rule of the header
// that src/device/cuda/cublaslt.cc relies on: columns are contiguous, batches have strides in
// elements, a bias has an element for each row of D, and pointers are aligned as promised.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

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

  int batches() const { return get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{1}); }
  std::int64_t place(std::int64_t row, std::int64_t column, int batch) const {
    return get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0}) * batch +
           column * leading + row;
  }
  std::size_t size() const { return type == CUDA_R_32F ? 4 : 2; }
};

template <class Handle>
Attributes* attributes(Handle handle) {
  return reinterpret_cast<Attributes*>(handle);
}
const Layout& layout(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }

float read(const void* from, cudaDataType type, std::int64_t place) {
  if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[place]);
  if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(from)[place]);
  return static_cast<const float*>(from)[place];
}
void write(void* to, cudaDataType type, std::int64_t place, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<__nv_bfloat16*>(to)[place] = __float2bfloat16(value);
  } else if (type == CUDA_R_16F) {
    static_cast<__half*>(to)[place] = __float2half(value);
  } else {
    static_cast<float*>(to)[place] = value;
  }
}

/// Whether all matrices at `data` are aligned to `bytes`.
bool aligned(const void* data, const Layout& l, std::uint64_t bytes) {
  for (int batch = 0; batch < l.batches(); ++batch) {
    const auto address = reinterpret_cast<std::uintptr_t>(data) +
                         static_cast<std::uintptr_t>(l.place(0, 0, batch)) * l.size();
    if (address % bytes != 0) return false;
  }
  return true;
}

int products = 0;

/// In the opaque bytes of an algorithm: the alignment of each tensor that it was found for.
struct Algorithm {
  std::uint32_t alignment[4];
};
constexpr std::size_t kWorkspace = 512;

}  // namespace

/// The products that this library has computed.
extern "C" int cublaslt_double_products() { return products; }

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<Attributes*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "a rule of the double is broken";
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t,
                                        cudaDataType_t) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete attributes(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, std::size_t bytes) {
  attributes(desc)->set(attribute, data, bytes);
  return CUBLAS_STATUS_SUCCESS;
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
  reinterpret_cast<Layout*>(l)->set(attribute, data, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) {
  *to = reinterpret_cast<cublasLtMatmulPreference_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete attributes(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* data, std::size_t bytes) {
  attributes(preference)->set(attribute, data, bytes);
  return CUBLAS_STATUS_SUCCESS;
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
  Algorithm algorithm;
  for (int i = 0; i < 4; ++i) {  // by default 256
    algorithm.alignment[i] =
        attributes(preference)
            ->get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, std::uint32_t{256});
  }
  results[0] = {};
  std::memcpy(results[0].algo.data, &algorithm, sizeof algorithm);
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
                              std::size_t workspace_bytes, cudaStream_t) {
  const Layout &of_a = layout(a_layout), &of_b = layout(b_layout), &of_d = layout(d_layout);
  const Attributes& rules = *attributes(desc);
  const auto turned = [&](cublasLtMatmulDescAttributes_t attribute) {
    return rules.get(attribute, CUBLAS_OP_N) == CUBLAS_OP_T;
  };
  const bool turn_a = turned(CUBLASLT_MATMUL_DESC_TRANSA),
             turn_b = turned(CUBLASLT_MATMUL_DESC_TRANSB);
  const std::int64_t inner = turn_a ? of_a.rows : of_a.columns;
  Algorithm algorithm;
  std::memcpy(&algorithm, algo->data, sizeof algorithm);
  const bool fits =
      of_d.rows == (turn_a ? of_a.columns : of_a.rows) &&
      of_d.columns == (turn_b ? of_b.rows : of_b.columns) &&
      inner == (turn_b ? of_b.columns : of_b.rows) && of_a.batches() == of_d.batches() &&
      of_b.batches() == of_d.batches() && c == d && *static_cast<const float*>(alpha) == 1 &&
      *static_cast<const float*>(beta) == 0 && aligned(a, of_a, algorithm.alignment[0]) &&
      aligned(b, of_b, algorithm.alignment[1]) && aligned(d, of_d, algorithm.alignment[3]) &&
      workspace != nullptr && workspace_bytes == kWorkspace;
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(workspace, 0xff, workspace_bytes);
  const auto epilogue = rules.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const void* bias =
      rules.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(nullptr));
  for (int batch = 0; batch < of_d.batches(); ++batch) {
    for (std::int64_t row = 0; row < of_d.rows; ++row) {
      for (std::int64_t column = 0; column < of_d.columns; ++column) {
        float sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          sum +=
              read(a, of_a.type, turn_a ? of_a.place(k, row, batch) : of_a.place(row, k, batch)) *
              read(b, of_b.type,
                   turn_b ? of_b.place(column, k, batch) : of_b.place(k, column, batch));
        }
        if (epilogue & CUBLASLT_EPILOGUE_BIAS) sum += read(bias, of_d.type, row);
        write(d, of_d.type, of_d.place(row, column, batch), sum);
      }
    }
  }
  ++products;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
