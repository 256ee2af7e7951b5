#include "controller/core/loop/command_flow.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/checkpoint_flow.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/policy_update.h"
#include "controller/core/loop/publishing.h"
#include "controller/core/loop/worker_changes.h"

namespace baton::controller {

namespace {

// Someone must make room on a disk or in the relay. Nothing is lost: the job checks again later
// what is due.
void WaitForRoom(const TaskDone& event, JobParts& job) {
  job.commands.TryLater(event, job.options.no_room_retry, job.out);
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
}

}  // namespace

void OnCommandAnswer(const TaskDone& event, JobParts& job) {
  const Group& group = job.groups.all()[event.ref.target];
  const TaskKind kind = event.ref.kind;
  switch (job.commands.Take(group, job.roster().Find(event.worker, group.role)->rank, event)) {
    case GroupCommands::Answer::kWaits:
      return;
    case GroupCommands::Answer::kNoRoom:
      return WaitForRoom(event, job);
    case GroupCommands::Answer::kBreaks:
      return OnGroupBroken(group, event, job);
    case GroupCommands::Answer::kFails:
      job.commands.room().End();
      return Fail(absl::Status(event.status.code(),
                               absl::StrCat(MethodName(kind), " failed on worker ", event.worker,
                                            ": ", event.status.message())),
                  job);
    case GroupCommands::Answer::kDone:
      break;
  }
  if (kind == TaskKind::kUpdate) job.groups.GotPast(group, job.out.step());
  std::map<std::string, double> metrics = job.commands.Complete(group, job.out);
  // Another group on the same workers may have waited for this one.
  if (!job.pools.empty()) SendWaitingCommands(job.Commands());
  switch (kind) {
    case TaskKind::kUpdate:
      return OnGroupUpdated(group, std::move(metrics), job);
    case TaskKind::kPublish:
    case TaskKind::kToGeneration:
      return OnPublished(kind, job);
    case TaskKind::kSaveCheckpoint:
      return OnGroupSaved(job);
    default:
      return;
  }
}

void CheckCommandDeadlines(JobParts& job) {
  const absl::Duration limit = job.options.command_deadline;
  const auto late = job.commands.FindOverdue(limit, job.groups, job.roster(), job.out);
  if (!late.has_value()) return;
  job.out.Do(StopTask{late->worker, late->ref, "no answer in time"});
  Evict(late->worker,
        absl::StrCat("no answer to ", MethodName(late->ref.kind), " within ",
                     absl::FormatDuration(limit)),
        job);
}

}  // namespace baton::controller
