// Whether a job's row is one that a core can go on from.
#ifndef BATON_CONTROLLER_CORE_VIEWS_CHECK_ROW_H_
#define BATON_CONTROLLER_CORE_VIEWS_CHECK_ROW_H_

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

/// OK for every row that a core wrote of a job whose spec is good. DataLoss, with the field and its
/// value, for one that no core could have written and that would lead it astray: bytes of a damaged
/// store that still parse, or a job.json that a user wrote. Every row passes here before a core is
/// made of it: its specs pass CheckSaved (controller/spec/check_saved.h), and no list or number in
/// it makes the core keep or count more than a good spec could. Pure.
absl::Status CheckRow(const store::v1::JobRow& row);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_CHECK_ROW_H_
