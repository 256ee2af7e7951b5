#include "controller/core/job/job_state.h"

namespace baton::controller {
namespace {

using State = v1::Job::State;
using Job = v1::Job;

struct Rule {
  State from;
  JobTrigger trigger;
  State to;  // STATE_UNSPECIFIED: what the job is stopping as
};

constexpr State kStoppingAs = Job::STATE_UNSPECIFIED;

// Unlisted pairs are refused. STOPPING also leads to FAILED and SUCCEEDED: workers are released
// first. A pausing job that loses its trainer still pauses, and one that ends its last step
// meanwhile succeeds. FAILED and CANCELLED go on from the newest checkpoint.
constexpr Rule kRules[] = {
    {Job::STATE_QUEUED, JobTrigger::kWorkersGranted, Job::STATE_STARTING},
    {Job::STATE_QUEUED, JobTrigger::kPause, Job::STATE_PAUSED},
    {Job::STATE_QUEUED, JobTrigger::kCancel, Job::STATE_CANCELLED},
    {Job::STATE_QUEUED, JobTrigger::kFail, Job::STATE_FAILED},
    {Job::STATE_STARTING, JobTrigger::kSetUp, Job::STATE_RUNNING},
    {Job::STATE_STARTING, JobTrigger::kTrainerLost, Job::STATE_RECOVERING},
    {Job::STATE_STARTING, JobTrigger::kPause, Job::STATE_PAUSING},
    {Job::STATE_STARTING, JobTrigger::kCancel, Job::STATE_STOPPING},
    {Job::STATE_STARTING, JobTrigger::kFail, Job::STATE_STOPPING},
    {Job::STATE_RUNNING, JobTrigger::kTrainerLost, Job::STATE_RECOVERING},
    {Job::STATE_RUNNING, JobTrigger::kPause, Job::STATE_PAUSING},
    {Job::STATE_RUNNING, JobTrigger::kCancel, Job::STATE_STOPPING},
    {Job::STATE_RUNNING, JobTrigger::kFail, Job::STATE_STOPPING},
    {Job::STATE_RUNNING, JobTrigger::kFinish, Job::STATE_STOPPING},
    {Job::STATE_PAUSING, JobTrigger::kResume, Job::STATE_RUNNING},
    {Job::STATE_PAUSING, JobTrigger::kTrainerLost, Job::STATE_PAUSING},
    {Job::STATE_PAUSING, JobTrigger::kCancel, Job::STATE_STOPPING},
    {Job::STATE_PAUSING, JobTrigger::kFail, Job::STATE_STOPPING},
    {Job::STATE_PAUSING, JobTrigger::kFinish, Job::STATE_STOPPING},
    {Job::STATE_PAUSING, JobTrigger::kReleased, Job::STATE_PAUSED},
    {Job::STATE_PAUSED, JobTrigger::kResume, Job::STATE_QUEUED},
    {Job::STATE_PAUSED, JobTrigger::kCancel, Job::STATE_CANCELLED},
    {Job::STATE_RECOVERING, JobTrigger::kSetUp, Job::STATE_RUNNING},
    {Job::STATE_RECOVERING, JobTrigger::kTrainerLost, Job::STATE_RECOVERING},
    {Job::STATE_RECOVERING, JobTrigger::kPause, Job::STATE_PAUSING},
    {Job::STATE_RECOVERING, JobTrigger::kCancel, Job::STATE_STOPPING},
    {Job::STATE_RECOVERING, JobTrigger::kFail, Job::STATE_STOPPING},
    {Job::STATE_STOPPING, JobTrigger::kReleased, kStoppingAs},
    {Job::STATE_FAILED, JobTrigger::kResume, Job::STATE_QUEUED},
    {Job::STATE_CANCELLED, JobTrigger::kResume, Job::STATE_QUEUED},
};

}  // namespace

std::optional<State> NextJobState(State state, JobTrigger trigger, State stopping_as) {
  for (const Rule& rule : kRules) {
    if (rule.from != state || rule.trigger != trigger) continue;
    return rule.to == kStoppingAs ? stopping_as : rule.to;
  }
  return std::nullopt;
}

bool IsTerminal(State state) {
  return state == Job::STATE_SUCCEEDED || state == Job::STATE_FAILED ||
         state == Job::STATE_CANCELLED;
}

bool IsActive(State state) {
  return state == Job::STATE_STARTING || state == Job::STATE_RUNNING ||
         state == Job::STATE_PAUSING || state == Job::STATE_RECOVERING ||
         state == Job::STATE_STOPPING;
}

absl::string_view StateName(State state) {
  absl::string_view name = v1::Job::State_Name(state);
  name.remove_prefix(6);  // "STATE_"
  return name;
}

absl::string_view TriggerName(JobTrigger trigger) {
  switch (trigger) {
    case JobTrigger::kWorkersGranted:
      return "workers granted";
    case JobTrigger::kSetUp:
      return "set up";
    case JobTrigger::kTrainerLost:
      return "trainer lost";
    case JobTrigger::kPause:
      return "pause";
    case JobTrigger::kResume:
      return "resume";
    case JobTrigger::kCancel:
      return "cancel";
    case JobTrigger::kFail:
      return "fail";
    case JobTrigger::kFinish:
      return "finish";
    case JobTrigger::kReleased:
      return "released";
  }
  return "";
}

}  // namespace baton::controller
