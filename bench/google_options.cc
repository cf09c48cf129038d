#include "bench/google_options.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Throws the usage error for values with which Google Benchmark would end the process itself.
void check_google_option(std::string_view option) {
  const auto one_of = [&](std::string_view name, std::initializer_list<std::string_view> values) {
    if (!option.starts_with(name)) return;
    const std::string_view value = option.substr(name.size());
    if (std::find(values.begin(), values.end(), value) == values.end())
      fail_usage("{} is not supported. Pass one of {}.", option, fmt::join(values, ", "));
  };
  one_of("--benchmark_format=", {"console", "json", "csv"});
  one_of("--benchmark_out_format=", {"console", "json", "csv"});
  one_of("--benchmark_time_unit=", {"ns", "us", "ms", "s"});
}

}  // namespace

int run_google_benchmarks(int argc, char** argv, std::string_view program,
                          const std::function<void()>& add) {
  try {
    for (int i = 1; i < argc; ++i) {
      static char json[] = "--benchmark_format=json";
      if (std::string_view(argv[i]) == "--json") argv[i] = json;
      if (std::string_view(argv[i]) == "--help") {
        fmt::print("Usage: {} [--json] [options of Google Benchmark]\n\n", program);
        std::fflush(stdout);
      }
      check_google_option(argv[i]);
    }
    benchmark::Initialize(&argc, argv);
    if (argc > 1) fail_usage("Google Benchmark has no option {}. Pass --help for a list.", argv[1]);
    add();
    return benchmark::RunSpecifiedBenchmarks() > 0 ? kExitSuccess : kExitUsage;
  } catch (const Error& error) {
    print_error(fmt::format("{}: {}\n", program, error.what()));
    return error.exit_code();
  }
}

}  // namespace lockstep
