#include "controller/core/trajectories/running_tasks.h"

#include <vector>

#include "controller/spec/dataflow/roles.h"

namespace baton::controller {

bool IsWanted(const TrajectoryScheduler& scheduler, const std::string& worker, const TaskRef& ref) {
  // The uid shows that it is this trajectory; the attempt, that it is this try.
  const TrajectoryTable& table = scheduler.table();
  const TrajectoryInfo* trajectory = table.Find(ref.subject);
  if (trajectory == nullptr || trajectory->trajectory_uid != ref.trajectory_uid) return false;
  const bool generates = ref.kind == TaskKind::kGenerate;
  if (!generates && ref.target >= trajectory->tries.size()) return false;
  const uint64_t attempt = generates ? trajectory->attempt : trajectory->tries[ref.target].attempt;
  if (attempt != ref.attempt) return false;
  const auto& running =
      scheduler.queues()
          .Of(generates ? std::string(roles::kRollout) : table.plan().graph().role(ref.target))
          .running();
  const auto work = running.find(generates ? ref.subject : WorkId(ref.subject, ref.target));
  if (work == running.end()) return false;
  return work->second.worker == worker;
}

void AdoptTask(TrajectoryScheduler& scheduler, const std::string& worker, const TaskRef& ref,
               bool hybrid, const WorkContext& context) {
  TrajectoryInfo* const trajectory = scheduler.table().Find(ref.subject);
  const EffectSink& out = context.out;
  if (trajectory == nullptr || trajectory->trajectory_uid != ref.trajectory_uid) return;
  if (ref.kind == TaskKind::kGenerate && trajectory->state == TrajectoryState::kPending) {
    // With other data files the prompt index may be another prompt.
    if (ref.prompt != trajectory->prompt_id) return;
    const PolicyVersions& versions = context.versions;
    const uint64_t pin = trajectory->pin.version;
    if (ref.version == 0 || (pin != 0 && ref.version != pin)) return;
    const bool stale = ref.version != versions.newest() || (hybrid && !versions.published());
    if (stale && !context.many_versions) return;
    if (trajectory->attempt != out.attempt_base()) return;  // this controller began it itself
    if (!scheduler.queues().rollouts().tasks.Adopt(trajectory->id, worker, out.now())) return;
    trajectory->attempt = ref.attempt;
    trajectory->state = TrajectoryState::kGenerating;
    trajectory->policy_version = ref.version;
    trajectory->incarnation = versions.IncarnationOf(ref.version);
  }
  if (ref.kind != TaskKind::kScore || trajectory->state != TrajectoryState::kScoring) return;
  if (ref.target >= trajectory->tries.size()) return;
  NodeTry& tried = trajectory->tries[ref.target];
  // An earlier controller may have had another response scored than the present one.
  if (!tried.asked || !trajectory->restored || tried.attempt != out.attempt_base()) return;
  TaskScheduler& tasks = scheduler.queues().Of(scheduler.table().plan().graph().role(ref.target));
  if (!tasks.Adopt(WorkId(trajectory->id, ref.target), worker, out.now())) return;
  tried.attempt = ref.attempt;
}

void TakeTasksBack(TrajectoryScheduler& scheduler, const std::string& role,
                   const std::string& worker, const std::string& stop, EffectSink& out) {
  RoleQueue* const queue = scheduler.queues().Find(role);
  if (queue == nullptr) return;
  const std::vector<uint64_t> lost = queue->tasks.RemoveWorker(worker);
  // Each goes to the front of the queue, so the last one first: then they keep their order.
  for (auto it = lost.rbegin(); it != lost.rend(); ++it) {
    if (!stop.empty()) out.Do(StopTask{worker, scheduler.table().RefOf(role, *it), stop});
    RequeueTask(scheduler, role, *it, out);
  }
}

void RequeueTask(TrajectoryScheduler& scheduler, const std::string& role, uint64_t work,
                 const EffectSink& out) {
  TrajectoryInfo& trajectory = scheduler.table().At(TrajectoryOf(work));
  if (role == roles::kRollout) {
    trajectory.attempt = out.NextAttempt(trajectory.attempt);
    trajectory.state = TrajectoryState::kPending;
  } else {
    NodeTry& tried = trajectory.tries[NodeOf(work)];
    tried.attempt = out.NextAttempt(tried.attempt);
  }
  const uint64_t pin = role == roles::kRollout ? trajectory.pin.version : 0;
  scheduler.queues().Of(role).EnqueueFirst(
      work, role == roles::kRollout ? PromptKey(trajectory) : trajectory.prompt_index, pin);
}

}  // namespace baton::controller
