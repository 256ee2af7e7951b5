// Rules of what is written, checked when the store writes it.
#ifndef BATON_TESTS_SIMULATION_WORLD_COMMIT_RULES_H_
#define BATON_TESTS_SIMULATION_WORLD_COMMIT_RULES_H_

#include <string>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "controller/store/store.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

/// The writes of one commit are about to be stored.
void CheckCommit(World& world, const std::vector<store::Write>& writes);

/// The store's rows of a job.
store::v1::JobRow StoredRow(World& world, const std::string& job);
std::vector<store::v1::TrajectoryRow> StoredTrajectories(World& world, const std::string& job);
/// In the order of steps.
std::vector<store::v1::BatchRow> StoredBatches(World& world, const std::string& job);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_COMMIT_RULES_H_
