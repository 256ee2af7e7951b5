// The number of files and connections that a process may have open.
#ifndef BATON_SDK_COMMON_PROCESS_FILE_LIMIT_H_
#define BATON_SDK_COMMON_PROCESS_FILE_LIMIT_H_

#include <sys/resource.h>

#include <algorithm>

namespace baton {

/// Raises the soft limit of open files to the hard one, which only root could raise: shells set the
/// soft limit to 1024 for programs that call select(). Answers the limit that holds now. Called by
/// main(), before threads start; programs that this process starts inherit it.
inline int RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit = before;
  constexpr rlim_t kMany = 1 << 20;  // more are never needed, and the number stays an int
  return static_cast<int>(std::min(limit.rlim_cur, kMany));
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_FILE_LIMIT_H_
