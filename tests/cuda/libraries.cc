// Versions of CUDA's libraries: which are refused with which words, and their line at start-up.
#include "src/device/cuda/libraries.h"

#include <gtest/gtest.h>

#include "src/device/cuda/plan.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

CudaLibraries sound() {
  return {.cuda = {"CUDA", 13000, 13000, ""},
          .cudnn = {"cuDNN", 91900, 91900, "/a/libcudnn.so.9"},
          .cublaslt = {"cuBLASLt", 130100, 130100, "/a/libcublasLt.so.13"},
          .nccl = {"NCCL", 22809, 22809, "/a/libnccl.so.2"},
          .driver = 13000,
          .odd_cudnn_parts = {}};
}

TEST(CudaLibraries, ThatAreNotOlderServe) {
  EXPECT_EQ(refusal(sound()), "");
  CudaLibraries later = sound();
  later.cudnn.found = 92001;
  later.cublaslt.found = 130202;
  later.nccl.found = 23000;
  EXPECT_EQ(refusal(later), "") << "later minor versions are compatible";
}

TEST(CudaLibraries, CudnnWithPartsOfSeveralVersionsIsRefused) {
  CudaLibraries mixed = sound();
  mixed.odd_cudnn_parts = {"ops", "cnn"};
  const std::string words = refusal(mixed);
  EXPECT_TRUE(mentions(words, {"cuDNN 9.19.0", "ops, cnn", "another version", "LD_LIBRARY_PATH"}));
}

TEST(CudaLibraries, OlderThanThoseCompiledWithAreRefused) {
  for (const auto& [found, text] :
       {std::pair{91804, "9.18.4"}, {80907, "8.9.7"}, {100000, "10.0.0"}, {0, "0.0.0"}}) {
    CudaLibraries other = sound();
    other.cudnn.found = found;
    EXPECT_TRUE(mentions(refusal(other), {"compiled with cuDNN 9.19.0", text}));
  }
  CudaLibraries other = sound();
  other.nccl.found = 22707;
  EXPECT_TRUE(mentions(refusal(other), {"NCCL 2.28.9 or a later 2.x"}));
  for (const int found : {130002, 120900}) {
    other = sound();
    other.cublaslt.found = found;
    EXPECT_TRUE(mentions(refusal(other), {"cuBLASLt 13.1.0 or a later 13.x"})) << found;
  }
}

TEST(CudaLibraries, AreNamedWithBothVersionsAndTheirPath) {
  CudaLibraries later = sound();
  later.cudnn.found = 92001;
  EXPECT_EQ(later.text(),
            "CUDA 13.0 (compiled with 13.0, driver for 13.0), cuDNN 9.20.1 (compiled with 9.19.0, "
            "/a/libcudnn.so.9), cuBLASLt 13.1.0 (compiled with 13.1.0, /a/libcublasLt.so.13), "
            "NCCL 2.28.9 (compiled with 2.28.9, /a/libnccl.so.2)");
}

TEST(CudaLibraries, OfThisMachineServe) {
  const CudaLibraries found = find_cuda_libraries();
  EXPECT_EQ(refusal(found), "") << found.text();
  EXPECT_EQ(found.cuda.found, found.cuda.compiled) << "the runtime is linked statically";
  EXPECT_TRUE(mentions(found.cudnn.path, {"libcudnn.so.9"}));
  EXPECT_TRUE(mentions(found.cublaslt.path, {"libcublasLt.so.1"}));
  EXPECT_TRUE(mentions(found.nccl.path, {"libnccl.so.2"}));
}

TEST(CudaLibraries, ABugOfCublasltOnBlackwellIsNamed) {
  CudaLibraries libraries = sound();
  for (const int major : {10, 11}) {
    libraries.cublaslt.found = 130100;
    EXPECT_TRUE(mentions(advice(libraries, major), {"cuBLASLt 13.1.0", "CUDA 13.0.3 or later"}));
    for (const int right : {130101, 120700}) {
      libraries.cublaslt.found = right;
      EXPECT_EQ(advice(libraries, major), "") << right;
    }
  }
  libraries.cublaslt.found = 130100;
  EXPECT_EQ(advice(libraries, 9), "") << "Hopper";
  EXPECT_EQ(advice(libraries, 12), "");
}

TEST(CudaLibraries, OnlyAGpuThatShouldWorkIsAFault) {
  constexpr int kOldDriver = 35, kNone = 100, kFabric = 802, kCompatibility = 804;
  EXPECT_EQ(absence(kNone, true), "no CUDA device (no CUDA-capable device is detected)");
  EXPECT_TRUE(mentions(absence(kOldDriver, false), {"no CUDA device (", "driver version"}));
  for (const int error : {kOldDriver, kFabric, kCompatibility}) {
    const std::string text = absence(error, true);
    EXPECT_TRUE(mentions(text, {"the CUDA device does not work: "}));
    EXPECT_EQ(text.find('('), text.npos) << "--device auto leaves out what is in brackets";
  }
}

TEST(CudaLibraries, CublasltHasAllFunctions) {
  try {
    cuda::make_cublaslt({});
  } catch (const Error& error) {  // it is loaded, but there is no GPU
    EXPECT_TRUE(mentions(error.what(), {"cuBLASLt does not start: "}));
  }
}

}  // namespace
}  // namespace lockstep
