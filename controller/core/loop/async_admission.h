// May an async job begin one more group of responses? Pure.
#ifndef BATON_CONTROLLER_CORE_LOOP_ASYNC_ADMISSION_H_
#define BATON_CONTROLLER_CORE_LOOP_ASYNC_ADMISSION_H_

#include <cstdint>
#include <optional>

#include "sdk/base/mutant.h"

namespace baton::controller {

/// What decides it.
struct AdmissionBound {
  uint64_t max_staleness = 0;      ///< Updates that a response may be behind when it is consumed.
  uint64_t batch = 1;              ///< Groups that an update consumes; at least 1.
  uint64_t ahead = 0;              ///< Groups begun and not consumed; those in a batch count.
  std::optional<uint64_t> behind;  ///< Updates since the weights it would be made by; if known.
};

/// The group can be consumed within the bound: the groups ahead of it are consumed by `ahead /
/// batch` updates, and each of them makes the group's weights older by one. (AReaL, arXiv
/// 2505.24298, section 5.1, bounds the same with the number of groups ever begun in place of those
/// that are ahead; here a dropped group makes room again.)
inline bool MayBegin(const AdmissionBound& bound) {
  if (Mutant("admission-without-bound")) return true;
  return bound.behind.has_value() &&
         *bound.behind + bound.ahead / bound.batch <= bound.max_staleness;
}

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASYNC_ADMISSION_H_
