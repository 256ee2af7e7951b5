// The payload that a trajectory begins with: its prompt.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_MAKE_PAYLOAD_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_MAKE_PAYLOAD_H_

#include "baton/v1/experience.pb.h"
#include "controller/core/job/trajectory.h"
#include "sdk/common/data_set/data_set.h"

namespace baton::controller {

/// The example of the trajectory's prompt, in the data set of its purpose; null: there is none.
const Example* FindExample(const TrajectoryInfo& info, const DataSet* train, const DataSet* val);

/// A payload without a response. `example` may be null. Pure.
v1::Trajectory MakePayload(const TrajectoryInfo& info, const Example* example);
/// The payload of a trajectory that begins with its response, or with two.
v1::Trajectory MakeExample(const TrajectoryInfo& info, const Example* example);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_MAKE_PAYLOAD_H_
