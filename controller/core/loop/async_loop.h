// What an async job does next.
//
// Owns nothing. The trainer's activities follow each other as in mode sync (step_loop.h): publish,
// save, build a batch, update. Generating and evaluating are not among them: rollouts go on beside
// all of it, and the trainer waits for them only while no batch is complete.
//
//   trainer:   set up? -> publish? -> save? -> at the end? -> pausing? -> a batch is complete?
//   update rollouts:  take the newest weights when idle; draw a group while the bound has room
//   beside:    one evaluation at a time, pinned to its version
#ifndef BATON_CONTROLLER_CORE_LOOP_ASYNC_LOOP_H_
#define BATON_CONTROLLER_CORE_LOOP_ASYNC_LOOP_H_

namespace baton::controller {

struct JobParts;

/// Advance of an async job, which is active and does not stop.
void AdvanceAsync(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASYNC_LOOP_H_
