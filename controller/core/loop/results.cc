#include "controller/core/loop/results.h"

#include "absl/strings/str_cat.h"
#include "controller/core/loop/command_flow.h"
#include "controller/core/loop/responses.h"
#include "controller/core/loop/worker_changes.h"
#include "controller/core/workers/slot_views.h"

namespace baton::controller {

// Acknowledges a result even if the job does not wait for it. Otherwise the worker would send it
// again each time it attaches.
void RouteResult(const TaskDone& event, JobParts& job) {
  if (event.role_lost && event.ref.kind != TaskKind::kReleaseRole) {
    // Whatever the task was, this answer says that the worker lost what it held for the job.
    job.out.Do(AckResult{event.worker, event.ref});
    if (!job.Wants(event.worker, event.ref)) return;
    return Evict(event.worker,
                 absl::StrCat("it does not hold the role ", job.RoleOf(event.ref),
                              " that it took on: ", event.status.message()),
                 job);
  }
  switch (event.ref.kind) {
    case TaskKind::kAssignRole:
    case TaskKind::kReleaseRole:
      if (const RoleSlot* slot =
              AwaitingSlot(job.roster(), event.worker, event.ref, job.versions)) {
        OnRoleTask(event, *slot, job);
      }
      break;
    case TaskKind::kLoadWeights:
      if (const RoleSlot* slot =
              AwaitingSlot(job.roster(), event.worker, event.ref, job.versions)) {
        OnLoadWeights(event, *slot, job);
      }
      break;
    case TaskKind::kGenerate:
    case TaskKind::kScore:
      if (!job.Wants(event.worker, event.ref)) break;
      // The caller should have held it back. It is not acknowledged, so the worker sends it again.
      if (!job.work.begun()) return;
      if (event.ref.kind == TaskKind::kGenerate) {
        OnGenerated(event, job);
      } else {
        OnScored(event, /*late=*/false, job);
      }
      break;
    case TaskKind::kRunAhead:
      if (job.Wants(event.worker, event.ref)) {
        job.ahead.OnDone(event, job.rollouts(), job.out.now());
      }
      break;
    case TaskKind::kUpdate:
    case TaskKind::kPublish:
    case TaskKind::kToGeneration:
    case TaskKind::kSaveCheckpoint:
      if (!job.Wants(event.worker, event.ref)) break;
      // The result of a restored update counts once its batch is rebuilt, because the step's
      // metrics come from both. Until then it is not acknowledged, so a controller that restarts
      // meanwhile gets it again.
      if (event.ref.kind == TaskKind::kUpdate && !job.doing.Is(Activity::kUpdate)) {
        return job.work.reports().NoteResult(event);
      }
      return OnCommandAnswer(event, job);  // which acknowledges
    case TaskKind::kExport:
      break;
  }
  job.out.Do(AckResult{event.worker, event.ref});
}

}  // namespace baton::controller
