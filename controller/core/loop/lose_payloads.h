// Recovery from payloads that the experience log cannot give back.
#ifndef BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_
#define BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The lost payloads are generated again, for the same prompt indices. An update that needs one is
/// lost.
void LosePayloads(const PayloadLost& event, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_
