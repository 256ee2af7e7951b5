// The schedule of a job's steps, made once from its spec: algorithm.mode and spec.schedule.
//
// A synchronous job is the case of staleness 0: responses begin when the trainer waits for them,
// an evaluation blocks, and every rollout has the newest weights before it begins. Whatever
// differs between the modes is a field here, but for the scores that wait for a batch's draw
// (ResponsePlan): those that older weights would make otherwise.
#ifndef BATON_CONTROLLER_CORE_JOB_STEP_PLAN_H_
#define BATON_CONTROLLER_CORE_JOB_STEP_PLAN_H_

#include "baton/v1/job_service.pb.h"

namespace baton::controller {

struct StepPlan {
  /// `submitted` has effective_spec and dataflow.
  explicit StepPlan(const v1::Job& submitted);

  /// Prompt groups begin in rounds of data.gen_batch_size, once the trainer waits for them, and a
  /// batch takes the first ones in the order of their draws when all of the round are complete.
  /// Otherwise they begin while rollouts have room and the bound of staleness allows.
  bool rounds = true;
  /// The trainer waits for an evaluation. Otherwise steps go on beside it.
  bool evaluation_blocks = true;
  /// What is open is kept when the job pauses or goes back to a checkpoint. Otherwise the step
  /// under way is finished before a pause, and a rollback makes its draws again.
  bool keeps_groups = false;
  /// A batch may hold responses of several versions. Otherwise rollouts load nothing but the newest
  /// one.
  bool many_versions = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_STEP_PLAN_H_
