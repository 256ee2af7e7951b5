// The limits of what `baton-worker check` may take of the controller's machine.
#ifndef BATON_WORKERS_MAIN_CHECK_LIMITS_H_
#define BATON_WORKERS_MAIN_CHECK_LIMITS_H_

#include <cstdint>

#include "absl/base/config.h"

namespace baton {

/// Limit of address space; libraries and the headers of weights take less than 8 GiB of it.
inline constexpr uint64_t kCheckAddressBytes = uint64_t{16} << 30;
/// Sanitizers take terabytes of address space themselves.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
inline constexpr bool kCheckBoundsMemory = false;
#else
inline constexpr bool kCheckBoundsMemory = true;
#endif
/// Limit of each file that is written.
inline constexpr uint64_t kCheckFileBytes = uint64_t{8} << 30;

/// Bounds the calling process for good, before it reads what others wrote: address space, size of
/// files (more is an error of writing), `cpu_seconds` of processor time (then it is killed), no
/// core dump. It ends with the thread that started it, and is the first to go when memory is short.
/// Limits that the system refuses are left as they are.
void LimitCheckProcess(int64_t cpu_seconds);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_CHECK_LIMITS_H_
