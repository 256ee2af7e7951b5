#include "controller/core/loop/async_work.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

AsyncWork::AsyncWork(const v1::JobSpec& spec)
    : refresh(static_cast<uint32_t>(std::max(0, spec.data().max_response_length()))),
      refreshes_(ScheduleOf(spec).refresh) {}

void AsyncWork::Restore(const store::v1::JobRow& row) {
  groups.draws().Restore(row);
  batch.Restore(row);
  evaluation.Restore(row);
}

void AsyncWork::Save(const JobParts& job, store::v1::JobRow* row) const {
  groups.draws().Save(job.scheduler.table().plan().PerDraw(), batch.Draws(), row);
  evaluation.Save(row);
}

// ---- A restart ----------------------------------------------------------------------------------

bool AsyncWork::Recalls(const store::v1::TrajectoryRow& row, uint32_t per_draw) const {
  const PinnedEvaluation& pinned = evaluation.pinned();
  if (row.purpose() == v1::PURPOSE_EVAL) return pinned.active() && pinned.Has(row.birth());
  return groups.draws().Has(row.draw(), row.birth(), per_draw) || Mutant("spent-response-recalled");
}

bool AsyncWork::HasBirth(uint64_t birth, uint32_t per_draw) const {
  const PinnedEvaluation& pinned = evaluation.pinned();
  return groups.draws().HasBirth(birth, per_draw) || (pinned.active() && pinned.Has(birth));
}

void AsyncWork::Stand(JobParts& job) {
  TrajectoryScheduler& scheduler = job.scheduler;
  for (const auto& [draw, birth] : groups.draws().open()) {
    std::vector<TrajectoryInfo> made = scheduler.admission().MakeDraw(
        v1::PURPOSE_TRAIN, draw, job.data.PromptOf(draw), birth, scheduler.table(), job.Work());
    const std::set<uint32_t> given_up = groups.draws().given_up(draw);
    made.erase(std::remove_if(made.begin(), made.end(),
                              [&](const TrajectoryInfo& trajectory) {
                                return trajectory.purpose == v1::PURPOSE_TRAIN &&
                                       given_up.count(trajectory.sample) > 0;
                              }),
               made.end());
    for (TrajectoryInfo& trajectory : made) batch.Recall(job, trajectory);
    scheduler.AddDraw(std::move(made));
  }
  evaluation.Stand(job);
  job.buffer.found().Clear();
  batch.Stand(job);
  groups.Stand(job);
}

// ---- The work goes on ---------------------------------------------------------------------------

void AsyncWork::Begin(JobParts& job) {
  // Draws that an earlier controller began come first: their tasks may run.
  if (!job.work.begun() || !job.data.loaded()) return;
  evaluation.DrawMore(job);
  groups.Begin(job);
}

void AsyncWork::RecallOutdated(JobParts& job) {
  const uint64_t served = job.versions.served();
  if (!refreshes_ || served == 0 || !job.work.begun()) return;
  // A rollout that may not begin anything afterwards gives up nothing when it waits.
  if (!groups.MayBeginGroup(job)) return;
  const TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  for (const RoleSlot& slot : job.roster().slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    const auto index = static_cast<uint64_t>(job.roster().IndexOf(slot));
    const ReplicaWeights::Replica& replica = job.versions.replicas().Of(index);
    const int load = rollouts.load(slot.worker);
    if (replica.loading != 0 || replica.version == 0 || replica.version == served || load == 0) {
      continue;
    }
    const std::pair<uint64_t, int> now(served, load);
    if (std::exchange(judged_[index], now) == now) continue;
    const auto updates = Staleness(job.versions.known(), replica.version, served);
    if (updates.has_value()) Recall(slot.worker, *updates, job);
  }
}

// Recalls all responses of the worker, if that pays.
void AsyncWork::Recall(const std::string& worker, uint64_t updates, JobParts& job) {
  const TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  OutdatedReplica replica;
  std::vector<uint64_t> responses;
  for (const auto& [id, running] : rollouts.running()) {
    if (running.worker != worker) continue;
    const TrajectoryInfo& trajectory = job.scheduler.table().At(id);
    // The evaluation asks these very weights.
    if (trajectory.pin.version != 0 || running.recalled != absl::InfinitePast()) return;
    // It would never end if each version took back as much as it had drawn.
    const bool grown = trajectory.tokens >= 2 * trajectory.drafted;
    if (!grown && !Mutant("refreshed-without-end")) return;
    responses.push_back(id);
    replica.tokens.push_back(trajectory.tokens);
  }
  replica.updates = std::max<uint64_t>(1, updates);
  replica.places = static_cast<uint64_t>(
      std::min(rollouts.Places(worker), std::max(1, job.spec().rollout().max_num_seqs())));
  replica.fixed_rows = job.scheduler.generations().step_cost().FixedRows();
  if (!refresh.Pays(replica)) return;
  for (const uint64_t id : responses) {
    job.scheduler.generations().Recall(id, kMadeAgain, job.scheduler.Work(), job.Work());
  }
  refresh.NoteRecalled(responses.size());
}

void AsyncWork::NoteGenerated(const TaskDone& event, JobParts& job) {
  TrajectoryInfo& trajectory = job.scheduler.table().At(event.ref.subject);
  if (trajectory.purpose == v1::PURPOSE_TRAIN) {
    refresh.NoteLength(trajectory.tokens);
    groups.lengths().Note(trajectory.prompt_id, trajectory.tokens);
  }
  const uint32_t drafted = std::exchange(trajectory.drafted, 0);
  // Of one that went on after some of its draft it is not known how much of it was judged before.
  if (drafted == 0 || trajectory.resumed > 0) return;
  // A worker that uses no drafts accepts none, and soon nothing is refreshed.
  const auto told = event.output.metrics.find(kDraftAccepted);
  const double accepted = told == event.output.metrics.end() ? 0 : told->second;
  const auto updates =
      Staleness(job.versions.known(), trajectory.draft_version, trajectory.policy_version);
  // Whatever number a worker says, NaN as well.
  const bool some = accepted > 0;
  refresh.NoteJudged(drafted, some ? static_cast<uint32_t>(std::min<double>(drafted, accepted)) : 0,
                     updates.value_or(1));
}

bool AsyncWork::NoteProgress(uint64_t trajectory, JobParts& job) {
  const TrajectoryInfo* const found = job.scheduler.table().Find(trajectory);
  if (found == nullptr || found->state != TrajectoryState::kReady) return false;
  if (found->purpose == v1::PURPOSE_EVAL) return evaluation.NoteReady(job);
  if (found->drawn) return true;  // it was judged; the trainer looks after it
  return groups.NoteReady(found->draw, job);
}

void AsyncWork::NoteLost(const TrajectoryInfo& trajectory, JobParts& job) {
  if (trajectory.purpose == v1::PURPOSE_EVAL) return;
  if (trajectory.drawn) batch.Undraw("its batch lacks a response", job);
  groups.complete().Remove(trajectory.draw);
}

void AsyncWork::EndStep(const std::map<std::string, double>& metrics, JobParts& job) {
  groups.EndStep(metrics, job.out.now());
  refresh.EndStep();
  batch.EndStep(job);
}

void AsyncWork::RollBack(const std::string& reason, JobParts& job) {
  batch.GiveBack(reason, job);
  evaluation.RollBack(reason, job);
  groups.RollBack();
}

void AsyncWork::Clear() {
  groups.Clear();
  batch.Clear();
  evaluation.Clear();
}

// ---- What is seen of it -------------------------------------------------------------------------

std::map<std::string, double> AsyncWork::Metrics(const JobParts& job) const {
  std::map<std::string, double> metrics;
  batch.AddMetrics(job, metrics);
  groups.AddMetrics(job, metrics);
  if (refreshes_) refresh.AddMetrics(metrics);
  return metrics;
}

void AsyncWork::Explain(const JobParts& job, WaitList& waits) const {
  batch.Explain(job, waits);
  evaluation.Explain(job, waits);
  groups.Explain(job, waits);
  std::map<std::string, std::pair<int, absl::Time>> recalled;  // by worker: how many, since when
  for (const auto& [id, running] : job.scheduler.queues().rollouts().tasks.running()) {
    if (running.recalled == absl::InfinitePast()) continue;
    auto& [count, since] = recalled.try_emplace(running.worker, 0, running.recalled).first->second;
    ++count;
    since = std::min(since, running.recalled);
  }
  for (const auto& [worker, those] : recalled) {
    waits.Add("refresh", worker,
              absl::StrCat(those.first,
                           " responses that were stopped, for newer weights make them "
                           "again"),
              those.second, absl::InfiniteDuration(), "they are given to other rollouts");
  }
}

}  // namespace baton::controller
