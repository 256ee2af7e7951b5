#include "workers/policy/trajectory_columns.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/raw_values.h"
#include "sdk/common/messages/columns.h"

namespace baton::policy {
namespace {

std::string NameOf(const v1::Trajectory& trajectory, absl::string_view column) {
  return absl::StrCat("column ", column, " of trajectory ", trajectory.trajectory_id());
}

absl::StatusOr<const v1::Column*> Require(const v1::Trajectory& trajectory,
                                          absl::string_view name) {
  const v1::Column* column = FindColumn(trajectory, name);
  if (column != nullptr) return column;
  return absl::NotFoundError(absl::StrCat("there is no ", NameOf(trajectory, name)));
}

template <typename T>
absl::StatusOr<std::vector<T>> Unpack(const v1::Trajectory& trajectory, const v1::Column& column) {
  if (column.data().size() % sizeof(T) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(trajectory, column.name()), " has ",
                                                   column.data().size(),
                                                   " bytes, not a multiple of ", sizeof(T)));
  }
  return RawValues<T>(column.data());
}

absl::Status WrongType(const v1::Trajectory& trajectory, const v1::Column& column,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(NameOf(trajectory, column.name()), " is ",
                                                 v1::DataType_Name(column.dtype()), ", not ",
                                                 wanted));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ReadInt32(const v1::Trajectory& trajectory,
                                               absl::string_view name) {
  BATON_ASSIGN_OR_RETURN(const v1::Column* column, Require(trajectory, name));
  if (column->dtype() != v1::DATA_TYPE_INT32) return WrongType(trajectory, *column, "int32");
  return Unpack<int32_t>(trajectory, *column);
}

absl::StatusOr<std::vector<float>> ReadFloat(const v1::Trajectory& trajectory,
                                             absl::string_view name) {
  BATON_ASSIGN_OR_RETURN(const v1::Column* column, Require(trajectory, name));
  if (column->dtype() == v1::DATA_TYPE_FLOAT32) return Unpack<float>(trajectory, *column);
  if (column->dtype() != v1::DATA_TYPE_FLOAT64) return WrongType(trajectory, *column, "float32");
  BATON_ASSIGN_OR_RETURN(const auto wide, Unpack<double>(trajectory, *column));
  return std::vector<float>(wide.begin(), wide.end());
}

}  // namespace baton::policy
