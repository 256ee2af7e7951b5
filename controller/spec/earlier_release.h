// Rows and specs of earlier releases: how the jobs in them go on as they ran there. Pure.
#ifndef BATON_CONTROLLER_SPEC_EARLIER_RELEASE_H_
#define BATON_CONTROLLER_SPEC_EARLIER_RELEASE_H_

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Brings a row that an earlier release wrote to what this one reads. Pools that were only planned
/// with, which name the actor and not the rollouts, are forgotten; so are the validation files of
/// kind sft, which were read and not used, and a rollout_is_threshold without rollout_is. Updates
/// of the graph are completed (FillUpdates). The row must have its checkpoints: they name the saved
/// version.
void Upgrade(store::v1::JobRow& row);

/// Fills in what a job goes by that was admitted before there were these settings, where today's
/// default is another one. Call it before CheckSpec fills in the defaults of today.
void KeepEarlierDefaults(v1::JobSpec* effective);

/// A job of kind sft whose validation files Upgrade forgot has those of its spec `given` again
/// where `changes` ask for evaluations. Call it before CheckSpec.
void RememberValidation(const v1::JobSpec& given, const v1::JobSpec& changes,
                        v1::JobSpec* effective);

/// `effective` was made by CheckSpec of a job whose effective spec was `before`, with `changes`. It
/// stays one of an earlier release (sdk/base/earlier_release.h) if that was one and its data are
/// the same.
void KeepEarlierRelease(const v1::JobSpec& before, const v1::JobSpec& changes,
                        v1::JobSpec* effective);

/// Asks workers to join the contents of a prompt's messages (kJoinedMessages), if an earlier
/// release admitted the job under `chat_template: none`.
void AskToJoinMessages(v1::JobSpec* effective);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_EARLIER_RELEASE_H_
