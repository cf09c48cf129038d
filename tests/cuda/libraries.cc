// Versions of CUDA's libraries: what is refused, in which words, and what the start-up says.
#include "src/device/cuda/libraries.h"

#include <gtest/gtest.h>

#include "src/device/cuda/cublaslt.h"

namespace lockstep {
namespace {

CudaLibraries sound() {
  return {.cuda = {"CUDA", "13.0", "13.0", ""},
          .cudnn = {"cuDNN", "9.19.0", "9.19.0", "/a/libcudnn.so.9"},
          .nccl = {"NCCL", "2.28.9", "2.28.9", "/a/libnccl.so.2"},
          .driver = "13.0",
          .odd_cudnn_parts = {},
          .cudnn_paths = {"/a/libcudnn.so.9", "/a/libcudnn_graph.so.9"}};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaLibraries, OfOneVersionServe) {
  EXPECT_EQ(refusal(sound()), "");
  CudaLibraries later = sound();
  later.cudnn.found = "9.20.1";
  later.nccl.found = "2.30.0";
  EXPECT_EQ(refusal(later), "") << "a later minor version holds what an earlier one had";
}

TEST(CudaLibraries, CudnnInPartsOfSeveralVersionsIsRefused) {
  CudaLibraries mixed = sound();
  mixed.odd_cudnn_parts = {"ops", "cnn"};
  mixed.cudnn_paths.emplace_back("/b/libcudnn_ops.so.9");
  const std::string words = refusal(mixed);
  EXPECT_TRUE(holds(words, "cuDNN 9.19.0 finds its part ops, cnn in another version")) << words;
  EXPECT_TRUE(holds(words, "/b/libcudnn_ops.so.9") && holds(words, "LD_LIBRARY_PATH")) << words;
}

TEST(CudaLibraries, CudnnFromSeveralInstallationsIsRefused) {
  CudaLibraries mixed = sound();
  mixed.cudnn_paths.emplace_back("/b/libcudnn_cnn.so.9");
  const std::string words = refusal(mixed);
  EXPECT_TRUE(holds(words, "several installations (/a, /b)")) << words;
}

TEST(CudaLibraries, OlderThanCompiledWithAreRefused) {
  for (const char* found : {"9.18.4", "8.9.7", "10.0.0", "0.0.0"}) {
    CudaLibraries other = sound();
    other.cudnn.found = found;
    const std::string words = refusal(other);
    EXPECT_TRUE(holds(words, "compiled with cuDNN 9.19.0 and finds " + std::string(found)))
        << words;
  }
  CudaLibraries other = sound();
  other.nccl.found = "2.27.7";
  EXPECT_TRUE(holds(refusal(other), "put NCCL 2.28.9 or a later 2.x first")) << refusal(other);
}

TEST(CudaLibraries, AreNamedWithBothVersionsAndTheirPlace) {
  CudaLibraries later = sound();
  later.cudnn.found = "9.20.1";
  EXPECT_EQ(text_of(later),
            "CUDA 13.0 (compiled with 13.0, driver for 13.0), cuDNN 9.20.1 (compiled with 9.19.0, "
            "/a/libcudnn.so.9), NCCL 2.28.9 (compiled with 2.28.9, /a/libnccl.so.2)");
}

TEST(CudaLibraries, OfThisMachineServe) {
  const CudaLibraries found = find_cuda_libraries();
  EXPECT_EQ(refusal(found), "") << text_of(found);
  EXPECT_EQ(found.cuda.found, found.cuda.compiled) << "the runtime is linked statically";
  EXPECT_TRUE(holds(found.cudnn.path, "libcudnn.so.9")) << found.cudnn.path;
  EXPECT_TRUE(holds(found.nccl.path, "libnccl.so.2")) << found.nccl.path;
  EXPECT_GE(found.cudnn_paths.size(), 2u) << "its parts are loaded by now";
}

TEST(CudaLibraries, CublasltIsFoundWithAllThatIsCalled) {
  try {
    const cuda::Cublaslt opened({});
    EXPECT_TRUE(opened.version().starts_with("cuBLASLt 1")) << opened.version();
  } catch (const Error& error) {  // opened, but no GPU is here
    EXPECT_TRUE(holds(error.what(), "cuBLASLt does not start: ")) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
