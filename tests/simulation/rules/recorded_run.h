// The expected end of a job, worked out without its workers.
//
// A sync job is the plain loop of model.h, whatever happens. The loop of an async job is not known
// beforehand: which groups a batch takes depends on which are complete first. Its rows say it: a
// trainer that trains on the recorded batches, one after the other, gets the job's weights.
#ifndef BATON_TESTS_SIMULATION_RULES_RECORDED_RUN_H_
#define BATON_TESTS_SIMULATION_RULES_RECORDED_RUN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tests/simulation/parts/model.h"
#include "tests/simulation/rules/history.h"

namespace baton::simulation {

/// The run of a job of kind rl, by the batches that were stored and the versions that were
/// published: a response is made anew by the weights that its row names. Not possible: a batch of
/// the steps, or a version, is missing.
ExpectedRun RecordedRun(const v1::JobSpec& effective, const JobHistory& history, int64_t steps,
                        const std::string& role = "actor");

/// ExpectRun of a sync job, RecordedRun of an async one.
ExpectedRun RunOf(const v1::JobSpec& effective, const JobHistory& history, int64_t steps,
                  const std::string& role = "actor");
/// Likewise ExpectEnd. An async job that goes on after `done` steps ends later.
ExpectedEnd EndOf(const v1::JobSpec& effective, const JobHistory& history, int64_t done);

/// Updates between two weights, on both legs to their common ancestor, by the batches that the
/// world saw make them; nothing: they have none.
std::optional<uint64_t> UpdatesBetween(const JobHistory& history, uint64_t a, uint64_t b);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RULES_RECORDED_RUN_H_
