// The environment in which a process of this machine computes best; libraries read it when they are
// loaded, so it must be set before a worker starts.
#ifndef BATON_WORKERS_MAIN_COMPUTE_ENVIRONMENT_H_
#define BATON_WORKERS_MAIN_COMPUTE_ENVIRONMENT_H_

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {

/// NAME=VALUE each: one thread, and the widest kernels this processor has. Variables that the user
/// has set in this process's environment are left out, except for the threads.
inline std::vector<std::string> ComputeEnvironment() {
  std::vector<std::string> environment = {"OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=PASSIVE"};
  auto add = [&](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) environment.push_back(absl::StrCat(name, "=", value));
  };
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "flags")) continue;
    line += " ";
    const bool wide =
        absl::StrContains(line, " avx512f ") && absl::StrContains(line, " avx512bw ") &&
        absl::StrContains(line, " avx512vl ") && absl::StrContains(line, " avx512dq ");
    // OpenBLAS does not know every newer processor and falls back to narrow kernels.
    if (wide) add("OPENBLAS_CORETYPE", "SkylakeX");
    break;
  }
  // The memory of tensors is used again, and does not go back to the machine in between: by
  // jemalloc, and by glibc in a build without it.
  add("MALLOC_CONF", "dirty_decay_ms:-1");
  add("MALLOC_MMAP_THRESHOLD_", "2147483648");
  add("MALLOC_TRIM_THRESHOLD_", "4294967296");
  return environment;
}

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_COMPUTE_ENVIRONMENT_H_
