// What follows when the experience log cannot give payloads back.
#ifndef BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_
#define BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// They are generated again, with the same draws. An update that needs one is lost.
void LosePayloads(const PayloadLost& event, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_
