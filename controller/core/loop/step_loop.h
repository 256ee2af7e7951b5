// What a job does next.
//
// Owns nothing, and plans nothing. `Advance` looks at what is true (which version is published,
// which step was evaluated, which was saved) and begins the first activity that is due:
//
//   set up? -> publish? -> evaluate? -> save? -> at the end? -> pausing? -> generate
//
// It is called whenever something may have become true. So a restart and a way back need no paths
// of their own: what they left undone is due.
#ifndef BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_
#define BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_

namespace baton::controller {

struct JobParts;

void Advance(JobParts& job);

/// The data are read, and the roles have the workers that the job needs to go on.
bool SetUpDone(const JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_
