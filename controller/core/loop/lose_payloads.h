// What follows when the experience log cannot give payloads back.
#ifndef BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_
#define BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_

#include "controller/core/job/events.h"

namespace baton::controller {

struct JobParts;

/// The responses are generated again. A batch that needs them is given up; if the trainer has begun
/// its update, the trainer goes back to its checkpoint.
void LosePayloads(const PayloadLost& event, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_LOSE_PAYLOADS_H_
