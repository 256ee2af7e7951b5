// Checks of a dataflow.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_CHECK_DATAFLOW_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_CHECK_DATAFLOW_H_

#include <set>
#include <string>

#include "baton/v1/job_spec.pb.h"
#include "controller/spec/dataflow/role_needs.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Finds every problem of the graph of a spec of kind rl beyond single fields (the spec's defaults
/// are filled in): names that are given twice, a cycle, an input that no node produces, a role that
/// cannot train, an estimator, loss or option that does not exist, a column that an estimator needs
/// and no node makes, sizes that do not divide. Fields are paths from `spec.dataflow`; if the graph
/// is a preset's, from the part of the spec that it was made of. Pure.
void CheckDataflow(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                   Violations* violations);

/// Roles with a score node whose method Baton's own workers do not serve: only a worker of the
/// user's own can play them.
std::set<std::string> ForeignRoles(const v1::Dataflow& dataflow);

/// The field that asks for an offer that no worker of the role has, e.g.
/// "spec.dataflow.score[1].method", "spec.reward.command".
std::string FieldOfOffer(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                         const std::string& role, const MissingSupport& missing);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_CHECK_DATAFLOW_H_
