// The rules of algorithm.mode async (docs/design/failures.md), each a function of its own that
// returns "" if the rule holds, else what is wrong.
#ifndef BATON_TESTS_SIMULATION_RULES_ASYNC_RULES_H_
#define BATON_TESTS_SIMULATION_RULES_ASYNC_RULES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "controller/core/loop/job_core.h"
#include "tests/simulation/parts/disk.h"
#include "tests/simulation/rules/history.h"

namespace baton::simulation {

/// A batch has data.train_batch_size groups, in the order of ids. They are whole, but for what the
/// schedule lets a group give up.
std::string AsyncBatchIsWhole(const v1::JobSpec& spec, const JobHistory& history,
                              const controller::BuildBatch& batch);
/// Rewards of a batch that failed. They count by the step in which they fail, and a batch has
/// responses of as many steps as the bound lets pass; each rollback adds some.
std::string AsyncErrorsAreWithinTheRate(const controller::JobCore& core,
                                        const controller::BuildBatch& batch);
/// A consumed response was sampled by published weights, at most schedule.max_staleness updates
/// away from those that are trained. Both legs to the common ancestor count: there may have been a
/// rollback in between.
std::string AsyncStalenessIsBounded(const v1::JobSpec& spec, const JobHistory& history,
                                    const ActorState& actor, const std::vector<Payload>& batch);
/// No more groups are open than the batches that the bound allows have.
std::string OpenGroupsAreBounded(const v1::JobSpec& spec, const store::v1::JobRow& row);
/// The actor scores responses again with the weights that the update begins with.
std::string RescoredByTheTrainedWeights(const v1::JobSpec& spec, const JobHistory& history,
                                        const ActorState& actor, const std::vector<Payload>& batch);
/// A job that takes prompt groups in order takes each batch's groups after those of the batch
/// before, also when it makes them again.
std::string BatchesAreInOrder(const JobHistory& history, const store::v1::BatchRow& batch);
/// The prompt groups that a checkpoint names as spent are those of its batches, and those that were
/// given up because too few rewards were left.
std::string SpentIsWhatWasConsumed(const store::v1::JobRow& row, const JobHistory& history,
                                   int64_t step);

/// Only a rollout without real work runs ahead, within its credits, and only responses that the job
/// will ask for. `sent`: what workers have, as in CreditsAreKept.
std::string IdleRolloutsRunAhead(const controller::JobCore& core,
                                 const std::map<std::string, std::string>& sent,
                                 const controller::StartAhead& start, int credits);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RULES_ASYNC_RULES_H_
