// Check that a core can go on from a job's row.
#ifndef BATON_CONTROLLER_CORE_VIEWS_CHECK_ROW_H_
#define BATON_CONTROLLER_CORE_VIEWS_CHECK_ROW_H_

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

/// OK for every row that a core wrote of a job with a valid spec. DataLoss, with the field and its
/// value, for a row that no core could have written and that would mislead one: bytes of a damaged
/// store that still parse, or a job.json that a user wrote. Every row is checked here before a core
/// is made from it: its specs must pass CheckSaved (controller/spec/job_spec/check_saved.h), and no
/// list or number in it may make the core keep or count more than a valid spec could. Pure.
absl::Status CheckRow(const store::v1::JobRow& row);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_CHECK_ROW_H_
