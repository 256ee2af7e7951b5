// The columns of a trajectory as vectors.
#ifndef BATON_WORKERS_POLICY_TRAJECTORY_COLUMNS_H_
#define BATON_WORKERS_POLICY_TRAJECTORY_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"

namespace baton::policy {

/// NOT_FOUND without the column, INVALID_ARGUMENT for another dtype or a broken length; both name
/// trajectory and column. float64 columns are read as float32.
absl::StatusOr<std::vector<int32_t>> ReadInt32(const v1::Trajectory& trajectory,
                                               absl::string_view name);
absl::StatusOr<std::vector<float>> ReadFloat(const v1::Trajectory& trajectory,
                                             absl::string_view name);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_TRAJECTORY_COLUMNS_H_
