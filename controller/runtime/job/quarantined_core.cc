#include "controller/runtime/job/quarantined_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

absl::Status QuarantineError(const std::string& job, absl::string_view reason) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, "QUARANTINED",
      absl::StrCat(reason, "; its rows and files are kept. `baton-controller --unquarantine ", job,
                   "` tries again; `baton resume --from FOLDER --name NEW` goes on ",
                   "from a checkpoint as another job"));
}

JobCore QuarantinedCore(const std::string& job, const store::v1::JobRow& known,
                        const absl::Status& error, const RuntimeContext& context) {
  v1::Job plain;
  plain.set_name(job);
  plain.mutable_effective_spec()->set_kind(v1::JOB_KIND_SFT);
  store::v1::JobRow row = JobCore(plain, known.submit_order(), context.core).Row();
  v1::Job& shown = *row.mutable_job();
  shown.set_uid(known.job().uid());
  shown.set_state(v1::Job::STATE_FAILED);
  shown.set_revision(std::max<int64_t>(known.job().revision(), 1));
  const int64_t total_steps = std::max<int64_t>(known.job().total_steps(), 0);
  shown.set_total_steps(total_steps);
  shown.set_step(std::clamp<int64_t>(known.job().step(), 0, total_steps));  // the row is damaged
  shown.set_policy_version(known.job().policy_version());
  *shown.mutable_create_time() = known.job().create_time();
  *shown.mutable_metrics() = known.job().metrics();
  *shown.mutable_error() = ToProto(error);
  *row.mutable_checkpoints() = known.checkpoints();
  return JobCore(std::move(row), {}, context.epoch, context.core);
}

v1::JobEvent QuarantineEvent(const JobCore& quarantined_core) {
  const v1::Job job = quarantined_core.Brief();
  v1::JobEvent end;
  end.set_revision(job.revision() + 1);
  end.set_type("state");
  end.set_state(job.state());
  end.set_message(job.error().message());
  return end;
}

}  // namespace baton::controller
