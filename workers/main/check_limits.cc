#include "workers/main/check_limits.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>

namespace baton {
namespace {

// Never above what the process may have already.
void LowerLimit(int resource, uint64_t wanted) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, wanted);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, limit.rlim_max);
  ::setrlimit(resource, &limit);
}

}  // namespace

void LimitCheckProcess(int64_t cpu_seconds) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGXFSZ, SIG_IGN);
  if (kCheckBoundsMemory) LowerLimit(RLIMIT_AS, kCheckAddressBytes);
  LowerLimit(RLIMIT_CPU, static_cast<uint64_t>(std::max<int64_t>(cpu_seconds, 1)));
  LowerLimit(RLIMIT_FSIZE, kCheckFileBytes);
  LowerLimit(RLIMIT_CORE, 0);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

}  // namespace baton
