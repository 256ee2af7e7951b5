#include "controller/core/loop/async_batch.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/worker_changes.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

// The smallest serial of the trajectories that the job works with.
uint64_t OldestSerial(const JobParts& job) {
  uint64_t oldest = ExperienceBuffer::kNoSerial;
  const auto look = [&](const std::map<uint64_t, TrajectoryInfo>& trajectories) {
    for (const auto& [id, trajectory] : trajectories) {
      if (trajectory.serial != 0) oldest = std::min(oldest, trajectory.serial);
    }
  };
  look(job.scheduler.table().all());
  look(job.buffer.taken());
  return oldest;
}

}  // namespace

// ---- A restart ----------------------------------------------------------------------------------

void AsyncBatch::Restore(const store::v1::JobRow& row) {
  for (const store::v1::OpenDraws& open : row.open_draws()) {
    for (uint64_t i = 0; open.in_batch() && i < open.count(); ++i) {
      restored_.push_back(open.draw() + i);
    }
  }
}

std::set<uint64_t> AsyncBatch::Draws() const {
  std::set<uint64_t> draws(restored_.begin(), restored_.end());
  draws.insert(taken_.begin(), taken_.end());
  return draws;
}

void AsyncBatch::Stand(JobParts& job) {
  const absl::Time now = job.out.now();
  times_ = {now, now, now};
  job.buffer.BeginStep(job.options.kept_steps, KeepsAllExperience(job.spec()), job.out,
                       OldestSerial(job));
}

void AsyncBatch::Recall(const JobParts& job, TrajectoryInfo& trajectory) const {
  const ScoreGraph& graph = job.scheduler.table().plan().graph();
  if (graph.at_draw() == 0 || trajectory.serial == 0) return;
  // What was made at a draw counts for the batch that its update has begun with, and for no other.
  const bool kept =
      job.commands.Any(TaskKind::kUpdate) && absl::c_binary_search(restored_, trajectory.draw);
  if (kept) {
    trajectory.drawn = true;
    const bool ready = (job.scheduler.table().plan().Wanted(trajectory) & ~trajectory.scored) == 0;
    trajectory.state = ready ? TrajectoryState::kReady : TrajectoryState::kScoring;
    return;
  }
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    if ((graph.at_draw() >> node & 1) != 0) trajectory.columns.erase(node);
  }
  trajectory.scored &= ~graph.at_draw();
}

bool AsyncBatch::HasRestored(const JobParts& job) const {
  return !taken_.empty() || absl::c_all_of(restored_, [&](uint64_t draw) {
    return job.async.groups.complete().Has(draw);
  });
}

bool AsyncBatch::TakeRestored(JobParts& job) {
  if (!HasRestored(job)) return false;
  for (const uint64_t draw : restored_) job.async.groups.complete().Remove(draw);
  TakeOut(std::exchange(restored_, {}), job);
  return true;
}

bool AsyncBatch::LosesRestored(const PayloadLost& event, const JobParts& job) const {
  if (restored_.empty() || !job.commands.Any(TaskKind::kUpdate)) return false;
  return absl::c_any_of(event.trajectories, [&](const auto& lost) {
    const TrajectoryInfo* const found = job.scheduler.table().Find(lost.first);
    return found != nullptr && found->serial == lost.second && found->purpose != v1::PURPOSE_EVAL &&
           absl::c_linear_search(restored_, found->draw);
  });
}

// ---- A batch ------------------------------------------------------------------------------------

bool AsyncBatch::Draw(JobParts& job) {
  AsyncGroups& groups = job.async.groups;
  restored_.clear();  // a batch that was built, and that no update had begun with
  groups.DropStale(job);
  const std::vector<uint64_t> chosen = groups.Sample(job);
  if (chosen.size() < GroupsPerBatch(job)) return false;
  // Whatever was checked before: nothing that is too old is trained on.
  for (const uint64_t draw : chosen) {
    for (const TrajectoryInfo* member : job.scheduler.table().DrawMembers(draw)) {
      if (!IsStale(*member, job) || Mutant("stale-group-trained")) continue;
      job.life.Fail(absl::InternalError(absl::StrCat(
                        "not consumed: ", TrajectoryName(member->id), " is of version ",
                        member->policy_version, ", too old for version ", job.versions.newest())),
                    job);
      return false;
    }
  }
  for (const uint64_t draw : chosen) {
    groups.complete().Remove(draw);
    job.scheduler.Draw(job.scheduler.table().DrawMembers(draw));
  }
  drawn_ = chosen;
  scored_ = 0;
  return true;
}

bool AsyncBatch::Take(JobParts& job) {
  if (drawn_.empty() && !Draw(job)) return false;
  while (scored_ < drawn_.size() && job.async.groups.IsWhole(drawn_[scored_], job)) ++scored_;
  if (scored_ < drawn_.size()) return false;
  TakeOut(std::exchange(drawn_, {}), job);
  return true;
}

void AsyncBatch::TakeOut(std::vector<uint64_t> draws, JobParts& job) {
  for (const uint64_t draw : draws) {
    job.buffer.Take(job.scheduler.table().TakeDraw(draw));
  }
  taken_ = std::move(draws);
  times_.generated = times_.scored = job.out.now();
}

void AsyncBatch::Undraw(const std::string& reason, JobParts& job) {
  for (const uint64_t draw : drawn_) {
    job.scheduler.Undraw(job.scheduler.table().DrawMembers(draw), reason, job.Work());
  }
  job.async.groups.complete().AddFirst(drawn_);
  drawn_.clear();
}

void AsyncBatch::GiveBack(const std::string& reason, JobParts& job) {
  for (auto& [id, trajectory] : job.buffer.GiveBack()) {
    job.scheduler.table().Add(std::move(trajectory));
    job.scheduler.table().CountReady();
  }
  // Of a batch that a restart has not taken yet, what was made at its draw is of no use either.
  drawn_.insert(drawn_.end(), taken_.begin(), taken_.end());
  std::vector<uint64_t> restored = std::exchange(restored_, {});
  for (const uint64_t draw : restored) {
    if (job.async.groups.complete().Has(draw)) drawn_.push_back(draw);
  }
  taken_.clear();
  std::sort(drawn_.begin(), drawn_.end());
  Undraw(reason, job);
}

void AsyncBatch::Consume(JobParts& job) {
  DrawLedger& draws = job.async.groups.draws();
  for (const uint64_t draw : std::exchange(taken_, {})) {
    if (Mutant("group-consumed-twice")) {
      draws.Reopen(draw);
    } else {
      draws.Spend(draw);
    }
  }
}

void AsyncBatch::EndStep(JobParts& job) {
  job.buffer.EndBatch(job.out);
  job.scheduler.scores().errors().Begin();
  job.scheduler.table().BeginStep();
  times_.began = job.out.now();
  job.buffer.BeginStep(job.options.kept_steps, KeepsAllExperience(job.spec()), job.out,
                       OldestSerial(job));
  job.scheduler.queues().ForEach([&](const std::string& role, RoleQueue& queue) {
    DrainSlow(queue.stragglers, role, role == roles::kRollout ? "token" : "response", job);
  });
}

void AsyncBatch::Clear() {
  drawn_.clear();
  taken_.clear();
  restored_.clear();
}

// ---- What is seen of it -------------------------------------------------------------------------

void AsyncBatch::AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const {
  double sum = 0, least = 0, most = 0, count = 0;
  std::map<uint64_t, double> at;  // responses, by staleness
  for (const auto& [id, trajectory] : job.buffer.taken()) {
    if (trajectory.purpose != v1::PURPOSE_TRAIN) continue;
    const uint64_t updates = StalenessOf(trajectory, job).value_or(0);
    const auto behind = static_cast<double>(updates);
    ++at[updates];
    least = count == 0 ? behind : std::min(least, behind);
    most = std::max(most, behind);
    sum += behind;
    ++count;
  }
  if (count == 0) return;
  // Every bar of the histogram, or it would seem as high as in the last step that had it.
  for (uint64_t k = 0; k <= ScheduleOf(job.spec()).max_staleness; ++k) {
    metrics[absl::StrCat("staleness/share_", k)] = at[k] / count;
  }
  metrics["staleness/mean"] = sum / count;
  metrics["staleness/min"] = least;
  metrics["staleness/max"] = most;
}

void AsyncBatch::Explain(const JobParts& job, WaitList& waits) const {
  if (!job.doing.Is(Activity::kGenerate)) return;
  const std::string step = absl::StrCat("step ", job.out.step() + 1);
  const AsyncGroups& groups = job.async.groups;
  const std::string what =
      !drawn_.empty()
          ? "scores of its responses that are made when the batch is drawn"
          : absl::StrCat(GroupsPerBatch(job), " complete groups; the buffer has ",
                         groups.complete().size(), ", and ",
                         groups.draws().open().size() - groups.complete().size(), " are under way");
  waits.Add("batch", step, what, job.doing.since(), absl::InfiniteDuration(),
            "the trainer goes on with them");
}

}  // namespace baton::controller
