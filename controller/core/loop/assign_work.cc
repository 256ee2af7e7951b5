#include "controller/core/loop/assign_work.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {
namespace {

// Recalls all responses of the worker, if that saves time.
void RecallOutdated(const std::string& worker, uint64_t updates, JobParts& job) {
  OutdatedReplica replica;
  std::vector<uint64_t> responses;
  for (const auto& [id, running] : job.rollouts().running()) {
    if (running.worker != worker) continue;
    const TrajectoryInfo& trajectory = job.scheduler.table().At(id);
    // The evaluation needs exactly these weights.
    if (trajectory.pin.version != 0 || running.recalled != absl::InfinitePast()) return;
    // If each new version took back all the tokens, the response would never end.
    const bool grown = trajectory.tokens >= 2 * trajectory.drafted;
    if (!grown) return;
    responses.push_back(id);
    replica.tokens.push_back(trajectory.tokens);
  }
  replica.updates = std::max<uint64_t>(1, updates);
  replica.places = static_cast<uint64_t>(
      std::min(job.rollouts().Places(worker), std::max(1, job.spec().rollout().max_num_seqs())));
  replica.fixed_rows = job.scheduler.generations().step_cost().FixedRows();
  if (!job.outdated.refresh.Pays(replica)) return;
  for (const uint64_t id : responses) {
    job.scheduler.generations().Recall(id, kMadeAgain, job.scheduler.Work(), job.Work());
  }
  job.outdated.refresh.NoteRecalled(responses.size());
}

void RecallOutdated(JobParts& job) {
  const uint64_t served = job.versions.served();
  if (!job.outdated.refreshes || served == 0 || !job.work.begun()) return;
  // A rollout that may begin nothing afterwards loses no time by waiting.
  if (!MayBeginGroup(job)) return;
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    const auto index = static_cast<uint64_t>(job.roster().IndexOf(slot));
    const ReplicaWeights::Replica& replica = job.versions.replicas().Of(index);
    const int load = job.rollouts().load(slot.worker);
    if (replica.loading != 0 || replica.version == 0 || replica.version == served || load == 0) {
      continue;
    }
    if (!job.versions.relays().IsAt(slot.worker, served, job.roster())) continue;
    if (!job.outdated.Asks(index, served, load)) continue;
    const auto updates = Staleness(job.versions.known(), replica.version, served);
    if (updates.has_value()) RecallOutdated(slot.worker, *updates, job);
  }
}

// Until steps are judged, the pace lets one batch begin at a time. So that its slowest
// responses hold up no others, its last quarter may be begun twice: the batch takes what is
// complete first.
bool MayOvertakeSlowGroup(JobParts& job) {
  const PromptGroups& groups = job.prompt_groups;
  const uint64_t batch = job.GroupsPerBatch(), complete = groups.complete.size();
  if (groups.pace.judged() || job.batch.begun() || complete >= batch) return false;
  if (4 * complete < 3 * batch || groups.prompts.open().size() + complete >= 2 * batch)
    return false;
  return MayBeginWithin(std::min<uint64_t>(1, job.schedule.max_staleness), job);
}

}  // namespace

void LoadWeights(JobParts& job) {
  if (!job.plan.many_versions && !job.versions.serves_newest()) return;
  // A rollout may still make responses that an earlier controller asked for. Until they are
  // restored it looks idle, but no response may be of two versions.
  if (!job.work.begun()) return;
  // Loading needs the rollouts' turn, which may have come by now.
  job.pools.TakeTurns(job.View(), job.scheduler.queues(), job.out.now());
  RecallOutdated(job);
  job.slots.LoadWeights(job.pools.HasTurn(roles::kRollout, job.View()), job.versions,
                        job.rollouts(), job.out);
}

void AssignWork(JobParts& job) {
  // The turn of the rollouts may have just begun, and they may lack the newest weights.
  if (job.pools.TakeTurns(job.View(), job.scheduler.queues(), job.out.now())) LoadWeights(job);
  // Without shared pools no command ever waits.
  if (!job.pools.empty()) SendWaitingCommands(job.Commands());
  // A job that goes on after a pause has responses to make, and must know their prompts.
  if (job.data.loaded()) job.scheduler.Dispatch(job.Work());
}

uint64_t PacedStaleness(const JobParts& job) {
  const uint64_t bound = job.schedule.max_staleness;
  return job.schedule.paced ? std::min(bound, job.prompt_groups.pace.Updates(job.out.now()))
                            : bound;
}

bool MayBeginGroup(JobParts& job) {
  return MayBeginWithin(PacedStaleness(job), job) || MayOvertakeSlowGroup(job);
}

bool MayBeginWithin(uint64_t staleness, JobParts& job) {
  if (job.life.state() != v1::Job::STATE_RUNNING && job.life.state() != v1::Job::STATE_RECOVERING) {
    return false;
  }
  PromptLedger& prompts = job.prompt_groups.prompts;
  const uint64_t batch = job.GroupsPerBatch();
  const auto steps_left =
      static_cast<uint64_t>(std::max<int64_t>(0, job.life.job().total_steps() - job.out.step()));
  // A group that is made again after a rollback comes before the open ones, and with in_order the
  // next batch waits for it. So the open groups do not count as ahead of it; otherwise they would
  // wait for each other.
  const uint64_t ahead =
      job.schedule.in_order ? prompts.OpenBefore(prompts.Next()) : prompts.open().size();
  if (ahead >= steps_left * batch || job.milestones.AtEnd(job.out.step())) return false;
  return MayBegin({staleness, batch, ahead, job.versions.Behind(job.versions.served())});
}

}  // namespace baton::controller
