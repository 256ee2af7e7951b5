#include "bench/support/worker_environment.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "workers/main/compute_environment.h"

namespace baton::bench {

void RestartAsWorker(char** argv) {
  constexpr char kMark[] = "BATON_BENCH_WORKER_ENVIRONMENT";
  if (std::getenv(kMark) != nullptr) return;
  setenv(kMark, "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  for (const std::string& entry : ComputeEnvironment()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    setenv(parts.first.c_str(), parts.second.c_str(), 1);
  }
  execv("/proc/self/exe", argv);
  std::fprintf(stderr, "%s: ", argv[0]);
  std::perror("cannot restart with a worker's environment");
  std::exit(1);
}

}  // namespace baton::bench
