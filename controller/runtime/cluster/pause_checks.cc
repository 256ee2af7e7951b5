#include "controller/runtime/cluster/pause_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

absl::Status CheckPause(const JobCore& core) {
  if (!IsTerminal(core.state()) && core.state() != v1::Job::STATE_STOPPING) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ENDED",
                   absl::StrCat("job '", core.name(), "' is ", StateName(core.state()),
                                " and cannot be paused"));
}

absl::Status CheckResume(const JobCore& core) {
  const bool ended = IsTerminal(core.state());
  const bool stops = core.state() == v1::Job::STATE_STOPPING;
  const bool succeeded = core.state() == v1::Job::STATE_SUCCEEDED;
  if (!stops && (!ended || (!succeeded && !core.checkpoints().empty()))) return absl::OkStatus();
  const std::string id = core.name().substr(core.name().rfind('/') + 1);
  const std::string what =
      stops ? "; resume it when it has stopped"
      : core.effective_spec().trainer().val_only()
          ? "; it only evaluates (trainer.val_only), so there is nothing to go on from; submit it "
            "again"
      : succeeded
          ? absl::StrCat("; all its steps are done. To train further, `baton submit --from ", id,
                         " --set trainer.total_training_steps=", core.step() * 2, "`")
          : ", and has no checkpoint to go on from; submit it again";
  return MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ENDED",
                   absl::StrCat("job '", core.name(), "' is ", StateName(core.state()), what));
}

}  // namespace baton::controller
