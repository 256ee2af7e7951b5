// The schedule of a job's steps, made once from its spec: algorithm.mode and spec.schedule.
//
// A synchronous job has staleness 0: responses begin when the trainer waits for them, an evaluation
// blocks, and every rollout has the newest weights before it begins. All differences between the
// modes are fields here, except scores that are made when a batch selects its groups
// (ResponsePlan), because older weights would give other scores.
#ifndef BATON_CONTROLLER_CORE_JOB_STEP_PLAN_H_
#define BATON_CONTROLLER_CORE_JOB_STEP_PLAN_H_

#include "baton/v1/job_service.pb.h"

namespace baton::controller {

struct StepPlan {
  /// `submitted` has effective_spec and dataflow.
  explicit StepPlan(const v1::Job& submitted);

  /// Prompt groups begin in rounds of data.gen_batch_size, once the trainer waits for them, and a
  /// batch takes the first ones by prompt index when the whole round is complete. Otherwise they
  /// begin while rollouts have room and the bound on staleness allows.
  bool rounds = true;
  /// The trainer waits for an evaluation. Otherwise steps go on during it.
  bool evaluation_blocks = true;
  /// Open groups are kept when the job pauses or goes back to a checkpoint. Otherwise the step
  /// under way is finished before a pause, and a rollback generates its groups again.
  bool keeps_groups = false;
  /// A batch may hold responses of several versions. Otherwise rollouts load only the newest
  /// version.
  bool many_versions = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_STEP_PLAN_H_
