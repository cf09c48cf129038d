// tests/gpu/calls.md lists every call of CUDA, cuDNN, cuBLASLt and NCCL in the sources, and no
// other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add(std::set<std::string>& to, const std::string& text, const std::regex& pattern,
         const std::string& prefix = "") {
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
    to.insert(prefix + (*i)[1].str());
}

/// A call ends with '('; a function that a handle releases it with, with '>'.
std::set<std::string> calls_in(const std::string& text) {
  std::set<std::string> calls;
  add(calls, text,
      std::regex(R"(\b((?:cuda|cudnn|nccl|cublasLt|nvrtc)[A-Z](?!\w*_t\b)\w*)\s*[(>])"));
  add(calls, text, std::regex(R"(LOCKSTEP_FUNCTION\(([A-Z]\w*)\))"), "cublasLt");
  return calls;
}

std::set<std::string> calls_of_sources() {
  std::set<std::string> calls;
  for (const char* folder : {"src", "collectives", "net", "apps"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(SOURCE_DIR) / folder))
      if (entry.is_regular_file()) calls.merge(calls_in(contents(entry.path())));
  }
  return calls;
}

TEST(GpuCalls, AreFoundInCode) {
  EXPECT_EQ(calls_in("cudaFree(p); CudaHandle<cudaEvent_t, cudaEventDestroy> e; cudaSuccess;"),
            (std::set<std::string>{"cudaFree", "cudaEventDestroy"}));
}

TEST(GpuCalls, AreThoseOfTheTable) {
  std::set<std::string> listed;
  add(listed, contents(std::filesystem::path(SOURCE_DIR) / "tests/gpu/calls.md"),
      std::regex("`((?:cuda|cudnn|nccl|cublasLt|nvrtc)[A-Z]\\w*)`"));
  const std::set<std::string> called = calls_of_sources();
  EXPECT_GT(called.size(), 50u);
  for (const std::string& call : called)
    EXPECT_TRUE(listed.contains(call)) << call << " is not in tests/gpu/calls.md";
  for (const std::string& call : listed)
    EXPECT_TRUE(called.contains(call)) << call << " of tests/gpu/calls.md is in no source";
}

}  // namespace
