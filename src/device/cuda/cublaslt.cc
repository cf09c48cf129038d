// cuBLAS stores matrices by columns. So a row-major rows x columns matrix is its columns x rows
// matrix, and each product is computed as the transpose of ours, with exchanged factors:
//
//   forward           y  (batch x out) = x w^T      y^T  = w x^T        and w transposed
//   backward_data     dx (batch x in)  = dy w       dx^T = w^T dy^T
//   backward_weights  dw (out x in)    = dy^T x     dw^T = x^T dy       and dy transposed

#include <cublasLt.h>
#include <dlfcn.h>

#include <numeric>

#include "src/base/check.h"
#include "src/device/cuda/libraries.h"
#include "src/device/cuda/plan.h"

namespace lockstep::cuda {
namespace {

/// A larger workspace would dominate the convolutions' scratch.
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;
constexpr std::uint32_t kAlignment = 16;  // of each tensor

/// The library, opened at the first call and never closed. It is not linked, because its
/// constructors would take a tenth of a second in every process, even without a GPU.
class Functions {
  void* library_ =
      dlopen(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR).c_str(), RTLD_NOW | RTLD_LOCAL);

  template <class Function>
  Function symbol(const char* name) const {
    void* const found = library_ == nullptr ? nullptr : dlsym(library_, name);
    require(found != nullptr,
            "cannot load cuBLASLt: {}; install it, or add its folder to LD_LIBRARY_PATH",
            dlerror());
    return reinterpret_cast<Function>(found);
  }

#define LOCKSTEP_FUNCTION(name) \
  decltype(&::cublasLt##name) name = symbol<decltype(name)>("cublasLt" #name)

 public:
  LOCKSTEP_FUNCTION(Create);
  LOCKSTEP_FUNCTION(Destroy);
  LOCKSTEP_FUNCTION(GetStatusString);
  LOCKSTEP_FUNCTION(GetVersion);
  LOCKSTEP_FUNCTION(Matmul);
  LOCKSTEP_FUNCTION(MatmulAlgoConfigGetAttribute);
  LOCKSTEP_FUNCTION(MatmulAlgoGetHeuristic);
  LOCKSTEP_FUNCTION(MatmulDescCreate);
  LOCKSTEP_FUNCTION(MatmulDescDestroy);
  LOCKSTEP_FUNCTION(MatmulDescSetAttribute);
  LOCKSTEP_FUNCTION(MatmulPreferenceCreate);
  LOCKSTEP_FUNCTION(MatmulPreferenceDestroy);
  LOCKSTEP_FUNCTION(MatmulPreferenceSetAttribute);
  LOCKSTEP_FUNCTION(MatrixLayoutCreate);
  LOCKSTEP_FUNCTION(MatrixLayoutDestroy);
  LOCKSTEP_FUNCTION(MatrixLayoutSetAttribute);
#undef LOCKSTEP_FUNCTION
};

const Functions& lt() {
  static const Functions functions;
  return functions;
}

void check(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "{}: {}", what, lt().GetStatusString(status));
}

/// A descriptor with its destroyer.
template <class Handle, cublasStatus_t (*Functions::*Destroy)(Handle)>
struct Owned {
  Owned() = default;
  ~Owned() {
    if (handle != nullptr) (lt().*Destroy)(handle);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle handle = nullptr;
};

using Layout = Owned<cublasLtMatrixLayout_t, &Functions::MatrixLayoutDestroy>;

/// One product a * b = d, as cuBLAS sees it.
struct Product {
  explicit Product(const Convolution& c, Numerics numerics) : pass(c.pass) {
    const cudaDataType_t type = c.type == Type::bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const bool tf32 = c.type == Type::f32 && (numerics.tf32 || c.tf32);
    check(lt().MatmulDescCreate(
              &desc.handle, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const cudaDataType_t result = c.fp32_result ? CUDA_R_32F : type;
    const auto make = [&](Layout& layout, cudaDataType_t of, std::int64_t rows,
                          std::int64_t columns) {
      check(lt().MatrixLayoutCreate(&layout.handle, of, static_cast<std::uint64_t>(columns),
                                    static_cast<std::uint64_t>(rows), columns),
            "cublasLtMatrixLayoutCreate");
      if (c.layers == 1) return;
      stack(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(c.layers));
      stack(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
    };
    const std::int64_t batch = c.x[0], in = c.x[3], out = c.y[3];
    const bool forward = pass == Pass::forward, weights = pass == Pass::backward_weights;
    // Row-major, rows x columns.
    make(a, type, weights ? batch : out, in);
    make(b, type, batch, forward ? in : out);
    make(d, result, weights ? out : batch, forward ? out : in);
    // The library may use accesses as wide as it is told. Only the first layer begins at the
    // address of the tensor. So the promise is the largest power of two that divides the distance
    // of two layers.
    if (c.layers > 1) {
      for (const std::int64_t elements : {c.x.count(), c.w.count(), c.y.count()})
        alignment = std::gcd(alignment, static_cast<std::uint32_t>(elements * size_of(c.type)));
    }
    if (forward) set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (weights) set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
    bias = c.bias;
    if (!bias) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
  }

  template <class Value>
  static void stack(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute,
                    const Value& value) {
    check(lt().MatrixLayoutSetAttribute(layout.handle, attribute, &value, sizeof(value)),
          "cublasLtMatrixLayoutSetAttribute");
  }
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    check(lt().MatmulDescSetAttribute(desc.handle, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }

  Pass pass;
  bool bias = false;
  std::uint32_t alignment = kAlignment;  ///< bytes, of the matrices of all layers
  Owned<cublasLtMatmulDesc_t, &Functions::MatmulDescDestroy> desc;
  Layout a, b, d;
};

/// "cuBLASLt 66 tile 20 stages 3 split 1": the algorithm with its settings.
std::string name_of_algorithm(const cublasLtMatmulAlgo_t& algorithm) {
  const auto setting = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    lt().MatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written);
    return value;
  };
  return fmt::format("cuBLASLt {} tile {} stages {} split {}", setting(CUBLASLT_ALGO_CONFIG_ID),
                     setting(CUBLASLT_ALGO_CONFIG_TILE_ID), setting(CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     setting(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

class Multiplication final : public Plan {
 public:
  Multiplication(cublasLtHandle_t handle, std::unique_ptr<const Product> product,
                 const cublasLtMatmulHeuristicResult_t& found)
      : handle_(handle),
        product_(std::move(product)),
        algorithm_(found.algo),
        workspace_bytes_(found.workspaceSize),
        name_(name_of_algorithm(found.algo)) {}

  void run(Stream& stream, const Tensors& t, void* workspace) const override {
    const Product& p = *product_;
    // The table at the head of this file: the factors are exchanged, and the result is the
    // transpose.
    const bool weights = p.pass == Pass::backward_weights;
    const void* a = weights ? t.x : t.w;
    const void* b = p.pass == Pass::forward ? t.x : t.y;
    void* d = weights ? t.w : t.x;
    if (p.pass == Pass::forward) d = t.y;
    // The address of the biases is part of the descriptor. A plan is run by one thread at a time,
    // so it can change here.
    if (p.bias) p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(t.b));
    const float one = 1, zero = 0;
    check(lt().Matmul(handle_, p.desc.handle, &one, a, p.a.handle, b, p.b.handle, &zero, d,
                      p.d.handle, d, p.d.handle, &algorithm_, workspace, workspace_bytes_,
                      stream.cuda()),
          name_.c_str());
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  const std::string& name() const override { return name_; }

 private:
  cublasLtHandle_t handle_;
  std::unique_ptr<const Product> product_;
  cublasLtMatmulAlgo_t algorithm_;
  std::size_t workspace_bytes_;
  std::string name_;
};

class Cublaslt : public Library {
 public:
  explicit Cublaslt(Numerics numerics) : numerics_(numerics) {
    check(lt().Create(&handle_), "cuBLASLt does not start");
  }
  ~Cublaslt() override { lt().Destroy(handle_); }

  std::shared_ptr<const Plan> plan(const Convolution& work) const override {
    if (!work.dense() || work.relu) return nullptr;  // its ReLU makes 0 of NaN
    auto product = std::make_unique<const Product>(work, numerics_);
    Owned<cublasLtMatmulPreference_t, &Functions::MatmulPreferenceDestroy> preference;
    check(lt().MatmulPreferenceCreate(&preference.handle), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(lt().MatmulPreferenceSetAttribute(preference.handle, attribute, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, product->alignment);
    }
    // Partial sums in separate memory, which is deterministic, and in fp32, not in y's type.
    if (numerics_.deterministic || work.type != Type::f32) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = lt().MatmulAlgoGetHeuristic(
        handle_, product->desc.handle, product->a.handle, product->b.handle, product->d.handle,
        product->d.handle, preference.handle, /*requestedAlgoCount=*/1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS)
      return nullptr;
    return std::make_shared<Multiplication>(handle_, std::move(product), found);
  }

 private:
  Numerics numerics_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace

LibraryVersion find_cublaslt() {
  Dl_info file{};
  dladdr(reinterpret_cast<void*>(lt().Create), &file);
  return {"cuBLASLt", CUBLAS_VERSION, static_cast<int>(lt().GetVersion()),
          file.dli_fname == nullptr ? "" : file.dli_fname};
}

std::unique_ptr<Library> make_cublaslt(Numerics numerics) {
  return std::make_unique<Cublaslt>(numerics);
}

}  // namespace lockstep::cuda
