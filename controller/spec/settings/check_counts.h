// Limits on the number of parts of a spec that are compared with one another, and on a job's
// labels. Checked before anything else: otherwise a spec of a megabyte could cause work, and
// answers, of gigabytes.
//
// Pure.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_CHECK_COUNTS_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_CHECK_COUNTS_H_

#include <cstddef>

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

inline constexpr int kMostUpdates = 16;        ///< Update nodes, and likewise generate nodes.
inline constexpr int kMostInputs = 1024;       ///< In all score nodes together.
inline constexpr int kMostRoles = 256;         ///< In all pools; also pools, and layouts.
inline constexpr size_t kMostNameBytes = 200;  ///< Roles, nodes, numbers, columns.

/// False: some part of `spec` is there too often, or its name is too long; `out` gets one violation
/// for each list that is at fault, and nothing else of the spec should be looked at.
bool CheckCounts(const v1::JobSpec& spec, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_CHECK_COUNTS_H_
