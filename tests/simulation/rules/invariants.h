// The rules of docs/design/failures.md, each a function of its own that returns "" if the rule
// holds, else what is wrong. They judge what happened by what the world itself saw, never by what
// the core says of itself.
#ifndef BATON_TESTS_SIMULATION_RULES_INVARIANTS_H_
#define BATON_TESTS_SIMULATION_RULES_INVARIANTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/cluster/cluster_core.h"
#include "controller/core/loop/job_core.h"
#include "controller/spec/dataflow/pools.h"
#include "tests/simulation/parts/disk.h"
#include "tests/simulation/parts/messages.h"
#include "tests/simulation/rules/history.h"

namespace baton::simulation {

// 1: consumed once per branch, whole groups.
std::string BatchIsWhole(const v1::JobSpec& spec, const JobHistory& history,
                         const controller::BuildBatch& batch);
/// Too many responses without a reward of their own, in the step that `core` makes a batch for, end
/// a job.
std::string ErrorsAreWithinTheRate(const controller::JobCore& core,
                                   const controller::BuildBatch& batch);
/// A batch leaves out responses whose reward could not be computed, unless the spec says what they
/// are worth.
std::string EveryResponseHasItsReward(const v1::JobSpec& spec, const JobHistory& history,
                                      const controller::TrajectoryInfo& info,
                                      const Payload& response);
std::string ConsumedOncePerBranch(const JobHistory& history, uint64_t weights, int64_t step,
                                  const std::vector<Payload>& batch);
// 2: a response comes from one version.
std::string OneVersionPerResponse(const TaskMessage& task, const Payload& response);
// 3: sync: what is consumed was sampled by the weights that are trained, in the same incarnation.
// Async: by weights that are not too far away from them.
std::string StalenessIsBounded(const v1::JobSpec& spec, const JobHistory& history,
                               const ActorState& actor, const std::vector<Payload>& batch);
// 4: nothing that is stored is made again; an ack means stored.
std::string ReadyIsNotLost(const std::vector<store::v1::TrajectoryRow>& rows,
                           const controller::StartTask& task);
/// Whether the group's row says that this attempt at its command has an answer. The row may be of a
/// later turn, which tries the same command again because there was no room.
bool CommandIsAnswered(const store::v1::GroupRow& group, const controller::TaskRef& ref);
std::string AckedIsCommitted(bool committed, const controller::TaskRef& ref);
/// A worker may not forget the result of a task that the job still waits for: it must not be
/// acknowledged.
std::string AckedIsTakenIn(bool awaited, const controller::TaskRef& ref);
/// A committed row names bytes that were written before it.
std::string PayloadIsBeforeItsRow(const store::v1::TrajectoryRow& row, const LogFiles& log);
/// No file of the log is deleted that a row of a response or of a batch names.
std::string DeletedFilesAreNotNeeded(const std::vector<store::v1::TrajectoryRow>& rows,
                                     const std::vector<store::v1::BatchRow>& batches,
                                     const LogFiles& log);
/// If payloads are synced before their rows, a power cut leaves no row without its payload.
std::string SyncedPayloadsSurvive(const store::v1::TrajectoryRow& row, const LogFiles& log);
/// Each event that watchers are told has a row, and follows the last event they were told (0: none
/// yet).
std::string ToldIsStored(bool stored, const v1::JobEvent& event);
std::string ToldInOrder(int64_t last, const v1::JobEvent& event);
std::string CommandIsCommitted(const store::v1::JobRow& row, const controller::StartTask& task);
/// `held`: the trajectories of which the runtime holds payloads or tokens.
std::string PayloadsAreOfKnownTrajectories(const controller::JobCore& core,
                                           const std::vector<uint64_t>& held);
// 5: versions only grow, and one version is one thing.
// (An actor that was lost may still publish what it was asked to: nobody loads it any more.)
std::string VersionsOnlyGrow(const JobHistory& history, const controller::StartTask& task);
std::string OneVersionIsOneThing(const JobHistory& history, uint64_t version, uint64_t weights);
std::string LoadedAsPublished(const JobHistory& history, uint64_t version, uint64_t weights);
std::string NothingLeasedIsGone(const std::map<std::string, LeaseGiven>& leases,
                                const std::set<std::string>& segments, absl::Time now);
// 6: a checkpoint belongs together and is complete when it is listed.
std::string CheckpointBelongsTogether(const CheckpointFolder& folder, const JobHistory& history,
                                      int64_t step);
/// The files that the ranks say they wrote cover those that are there.
std::string ManifestNamesEveryPart(const CheckpointFolder& folder,
                                   const std::vector<v1::FileHash>& written);
std::string ListedCheckpointIsComplete(const v1::Checkpoint& checkpoint, const JobFolder& folder);
/// `stored`: the checkpoint's row when its files are removed; none: it has none.
std::string OnlyMarkedCheckpointsLoseTheOptimizer(const std::optional<v1::Checkpoint>& stored);
/// A worker takes on a role that trains from this checkpoint.
std::string TrainingGoesOnWithTheOptimizer(int64_t step, const CheckpointFolder& folder);
// 7: what does not move has a wait, a deadline, and the deadline acts.
std::string EveryWaitHasADeadline(const controller::JobCore& core, absl::Time now,
                                  absl::Duration slack);
// 8: a stale token changes nothing.
std::string StaleTokenChangesNothing(const JobHistory& history, const controller::JobCore& core,
                                     const controller::TaskDone& done, absl::Time now);
/// The subject, which has one task that counts; each rank has its own task of a command.
std::string SubjectOf(const controller::TaskRef& ref, const std::string& worker);
// The rules of sessions, groups and delivery (section 12).
std::string FencedBeforeReassigned(bool holds_role, absl::Time lease_end, absl::Time now);
std::string LeaseIsNotRenewedAfterItsEnd(absl::Time lease_end, absl::Time now);
/// Or results for an earlier controller match tasks of this one.
std::string EpochsOnlyGrow(uint64_t last, uint64_t epoch);
std::string StaleEpochIsRefused(uint64_t epoch, const v1::Hello& hello,
                                const controller::ClusterEffects& effects);
std::string SequenceIsNeverSkipped(uint64_t last, const TaskMessage& command);
/// Taking and leaving a role is no method that a worker registers.
std::string WorkersOfferWhatTheyAreAsked(const v1::Hello& offer, const TaskMessage& task);
std::string CreditsAreKept(const controller::JobCore& core,
                           const std::map<std::string, std::string>& sent,
                           const controller::StartTask& task, int credits);
/// Counts tasks that run and are wanted; taking and leaving a role is no work. A command runs
/// alone.
std::string OneRoleOfAPoolAtATime(const std::vector<controller::RolePool>& pools,
                                  const std::vector<TaskAtWork>& running);
/// If actor and rollouts share workers, responses come from the weights that are trained.
std::string SampledByTheTrainedWeights(const ActorState& actor, const Payload& response);
/// The first of the ranks that hold one copy of a model together is asked.
std::string TheFirstOfACopyScores(uint32_t rank, int tp);
/// `state` as it was when the task was decided on.
std::string NothingAfterTheEnd(v1::Job::State state, const controller::StartTask& task);
std::string RevisionsHaveNoGap(const JobHistory& history, int64_t revision);
/// `batches`: the steps that have one. No step between lacks its own, and none is of a step that
/// the job is not at.
std::string BatchesFollowTheSteps(const store::v1::JobRow& row, const std::set<int64_t>& batches);
/// `row`: of the job, of the same commit.
std::string BatchIsCommittedWithItsUpdate(const store::v1::JobRow& row,
                                          const store::v1::BatchRow& batch);
/// For a trajectory's task that is assigned in that incarnation.
std::string UidNamesOneTrajectory(const JobHistory& history, uint64_t incarnation,
                                  const controller::TaskRef& ref);
/// A response of a batch has a row of its own, under the number of the tasks that made it. `rows`:
/// all trajectories of the job.
std::string BatchedResponsesAreStored(const store::v1::BatchRow& batch,
                                      const std::vector<store::v1::TrajectoryRow>& rows);
/// An evaluation asks the weights that `step` steps made, and no others. `rows`: likewise.
std::string AnEvaluationIsOfOneVersion(const std::vector<store::v1::TrajectoryRow>& rows,
                                       const JobHistory& history, int64_t step,
                                       std::optional<uint64_t> incarnation);
/// By the updates that made the weights, as the world saw them.
std::string VersionsCountTheirUpdates(const store::v1::JobRow& row, const JobHistory& history);
// At the end.
std::string JobEndedWell(const store::v1::JobRow& row, const JobHistory& history);
/// For a sync job, and for an async job without staleness that takes the groups in order or had no
/// rollback.
std::string WeightsAreThoseOfAnUndisturbedRun(const store::v1::JobRow& row,
                                              const JobHistory& history, const JobFolder& folder);
/// A trainer that trains on the recorded batches, one after the other, gets them.
std::string WeightsAreThoseOfTheRecordedBatches(const store::v1::JobRow& row,
                                                const JobHistory& history, const JobFolder& folder);
/// A job with trainer.val_only trains and saves nothing, and ends with its evaluation.
std::string AnEvaluationAloneMeasuresAndSavesNothing(const store::v1::JobRow& row,
                                                     const JobFolder& folder);
std::string TheBestCheckpointIsKept(const store::v1::JobRow& row, const JobHistory& history);
/// Once a job has succeeded, its newest checkpoint alone keeps the optimizer's state, or each one
/// (trainer.keep_optimizer); of every other job each one does. `row` has the checkpoints.
std::string TheNewestCheckpointKeepsTheOptimizer(const store::v1::JobRow& row,
                                                 const JobFolder& folder);
/// `batches`: what the store has of the job at its end, in the order of steps.
std::string BatchesAreWhatWasConsumed(const store::v1::JobRow& row, const JobHistory& history,
                                      const JobFolder& folder,
                                      const std::vector<store::v1::BatchRow>& batches);
std::string EveryBatchIsAccountedFor(const store::v1::JobRow& row, const JobHistory& history,
                                     const JobFolder& folder);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RULES_INVARIANTS_H_
