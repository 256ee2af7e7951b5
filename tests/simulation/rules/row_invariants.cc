// Rules of what a job's rows say of its batches, its versions and its trajectories.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/core/job/trajectory.h"
#include "tests/simulation/rules/invariants.h"
#include "tests/simulation/rules/recorded_run.h"

namespace baton::simulation {

std::string BatchesFollowTheSteps(const store::v1::JobRow& row, const std::set<int64_t>& batches) {
  if (batches.empty()) return "";
  const int64_t first = *batches.begin(), last = *batches.rbegin();
  if (last > row.job().step() + 1) {
    return absl::StrCat("step ", last, " has a batch, and the job has done ", row.job().step());
  }
  if (last < row.job().step()) return absl::StrCat("step ", last + 1, " is done without a batch");
  if (last - first + 1 == static_cast<int64_t>(batches.size())) return "";
  return absl::StrCat("of the steps ", first, " to ", last, " only ", batches.size(),
                      " have a batch");
}

std::string BatchIsCommittedWithItsUpdate(const store::v1::JobRow& row,
                                          const store::v1::BatchRow& batch) {
  const std::string what = absl::StrCat("the batch of step ", batch.step());
  if (row.incarnation() != batch.incarnation()) {
    return absl::StrCat(what, " is committed without its job, or with one that went back");
  }
  const bool empty =
      std::all_of(batch.entries().begin(), batch.entries().end(),
                  [](const store::v1::BatchEntry& entry) { return entry.column_hashes().empty(); });
  if (empty) return row.job().step() == batch.step() ? "" : absl::StrCat(what, " has no step");
  const bool updates =
      std::any_of(row.groups().begin(), row.groups().end(), [](const store::v1::GroupRow& group) {
        return group.command().kind() == static_cast<int>(controller::TaskKind::kUpdate);
      });
  if (updates && row.job().step() + 1 == batch.step()) return "";
  return absl::StrCat(what, " is committed without the command to update");
}

std::string BatchesAreWhatWasConsumed(const store::v1::JobRow& row, const JobHistory& history,
                                      const JobFolder& folder,
                                      const std::vector<store::v1::BatchRow>& batches) {
  const v1::JobSpec& spec = row.job().effective_spec();
  if (row.job().state() != v1::Job::STATE_SUCCEEDED) return "";
  if (spec.kind() != v1::JOB_KIND_RL) return batches.empty() ? "" : "a batch of no response";
  const int64_t steps = row.job().step();
  const auto last = folder.complete.find(steps);
  if (last == folder.complete.end()) return "";
  std::map<int64_t, std::vector<uint64_t>> consumed;
  for (auto it = history.made_by.find(last->second.trained.at("actor").weights);
       it != history.made_by.end(); it = history.made_by.find(it->second.before)) {
    consumed[it->second.step] = it->second.ids;
  }
  const bool all = spec.trainer().keep_experience() == "all";
  if (batches.empty() || batches.back().step() != steps) return "the last step has no batch";
  if (all && batches.front().step() != 1) return "the first step's batch is not kept";
  for (const store::v1::BatchRow& batch : batches) {
    std::vector<uint64_t> ids;
    for (const store::v1::BatchEntry& entry : batch.entries()) {
      if (entry.column_hashes_size() > 0) ids.push_back(entry.trajectory().id());
      const store::v1::TrajectoryRow& response = entry.trajectory();
      const experience::Location at = {response.file(), response.offset(), response.size()};
      // A fault may damage a payload. The controller must not delete it.
      if (absl::IsOutOfRange(folder.log.Read(at).status()) && !folder.log.LostToPowerCut(at)) {
        return absl::StrCat("the payload of ", controller::TrajectoryName(response.id()),
                            " of step ", batch.step(), " is not kept");
      }
    }
    if (ids != consumed[batch.step()]) {
      return absl::StrCat("the batch of step ", batch.step(), " names other responses than the ",
                          consumed[batch.step()].size(), " that were consumed");
    }
  }
  return "";
}

std::string UidNamesOneTrajectory(const JobHistory& history, uint64_t incarnation,
                                  const controller::TaskRef& ref) {
  if (ref.trajectory_uid == 0) return "a trajectory's task has no trajectory uid";
  const auto known = history.trajectory_uids.find(ref.trajectory_uid);
  if (known == history.trajectory_uids.end() ||
      known->second == std::make_pair(incarnation, ref.subject)) {
    return "";
  }
  return absl::StrCat("trajectory uid ", ref.trajectory_uid, " names ",
                      controller::TrajectoryName(ref.subject), " of incarnation ", incarnation,
                      ", and named ", controller::TrajectoryName(known->second.second),
                      " of incarnation ", known->second.first);
}

std::string BatchedResponsesAreStored(const store::v1::BatchRow& batch,
                                      const std::vector<store::v1::TrajectoryRow>& rows) {
  std::map<uint64_t, const store::v1::TrajectoryRow*> stored;  // by trajectory uid
  for (const store::v1::TrajectoryRow& row : rows) stored[row.trajectory_uid()] = &row;
  for (const store::v1::BatchEntry& entry : batch.entries()) {
    const store::v1::TrajectoryRow& response = entry.trajectory();
    const auto row = stored.find(response.trajectory_uid());
    const std::string name = absl::StrCat("the batch of step ", batch.step(), " has ",
                                          controller::TrajectoryName(response.id()), ", uid ",
                                          response.trajectory_uid());
    if (row == stored.end() || row->second->id() != response.id()) {
      return absl::StrCat(name, ", and there is no such row");
    }
    using Scores = std::map<std::string, double>;
    const auto scores = [](const store::v1::TrajectoryRow& of) {
      return Scores(of.scores().begin(), of.scores().end());
    };
    if (row->second->policy_version() != response.policy_version() ||
        scores(*row->second) != scores(response)) {
      return absl::StrCat(name, ", of another version or with other scores than its row has");
    }
  }
  return "";
}

std::string AnEvaluationIsOfOneVersion(const std::vector<store::v1::TrajectoryRow>& rows,
                                       const JobHistory& history, int64_t step,
                                       std::optional<uint64_t> incarnation) {
  const ExpectedRun run = RecordedRun(history.spec, history, step);
  uint64_t version = 0;
  for (const store::v1::TrajectoryRow& row : rows) {
    if (!IsOfEvaluation(row, step, incarnation)) continue;
    const std::string name =
        absl::StrCat(controller::TrajectoryName(row.id()), " of version ", row.policy_version());
    if (version != 0 && row.policy_version() != version) {
      return absl::StrCat(name, " stands in the evaluation of version ", version);
    }
    version = row.policy_version();
    const auto weights = history.published.find(version);
    if (!run.possible || weights == history.published.end()) continue;
    if (weights->second == run.weights) continue;
    return absl::StrCat(name, " says what step ", step, " is worth, which made other weights");
  }
  return "";
}

std::string VersionsCountTheirUpdates(const store::v1::JobRow& row, const JobHistory& history) {
  for (const store::v1::VersionRow& version : row.versions()) {
    const auto updates = history.updates_of.find(version.version());
    if (updates == history.updates_of.end() || updates->second == version.actor_updates()) continue;
    return absl::StrCat("version ", version.version(), " was made by ", updates->second,
                        " updates, and its row says ", version.actor_updates());
  }
  return "";
}

}  // namespace baton::simulation
