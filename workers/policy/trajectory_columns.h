// Columns of a trajectory as vectors, and back.
#ifndef BATON_WORKERS_POLICY_TRAJECTORY_COLUMNS_H_
#define BATON_WORKERS_POLICY_TRAJECTORY_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "baton/v1/experience.pb.h"

namespace baton::policy {

/// Null when there is none of that name.
const v1::Column* FindColumn(const v1::Trajectory& trajectory, absl::string_view name);

/// NOT_FOUND without the column, INVALID_ARGUMENT for another dtype or a broken length; both name
/// trajectory and column. float64 columns are read as float32.
absl::StatusOr<std::vector<int32_t>> ReadInt32(const v1::Trajectory& trajectory,
                                               absl::string_view name);
absl::StatusOr<std::vector<float>> ReadFloat(const v1::Trajectory& trajectory,
                                             absl::string_view name);

v1::Column MakeColumn(absl::string_view name, bool per_token, absl::Span<const int32_t> values);
v1::Column MakeColumn(absl::string_view name, bool per_token, absl::Span<const float> values);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_TRAJECTORY_COLUMNS_H_
