// JobRuntime: what ExperienceService serves.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/job_runtime.h"
#include "sdk/base/digest.h"
#include "sdk/rpc/error.h"

namespace baton::controller {

void JobRuntime::FetchBatch(const v1::FetchBatchRequest& request, Callback<BatchPart> done) {
  OnStrand([this, request, done = std::move(done)] {
    if (!SameSecret(request.capability(), Capability(request.batch_id()))) {
      return done(MakeError(absl::StatusCode::kPermissionDenied, "CAPABILITY",
                            "this capability is not for this batch"));
    }
    if (batch_.id != request.batch_id()) {
      // After a restart the batch is built again while its update is running.
      const bool coming = IsActive(core_.state()) &&
                          request.batch_id() == BatchId(core_.step() + 1, core_.incarnation());
      return done(
          coming ? MakeError(absl::StatusCode::kUnavailable, "BATCH_NOT_READY",
                             "the batch is being built again; try again")
                 : MakeError(absl::StatusCode::kNotFound, "BATCH_NOT_FOUND",
                             absl::StrCat("the step of batch ", request.batch_id(), " is over")));
    }
    BatchSource reader;
    reader.read = [self = shared_from_this()](const LoggedPayload& payload) {
      return self->ReadForBatch(payload);
    };
    reader.post = [self = shared_from_this()](std::function<void()> work) {
      self->OnDisk(std::move(work));
    };
    // Its reader copies trajectories; that is not for the strand.
    OnReaders(
        [done, part = BatchPart::Of(batch_.entries, request, std::move(reader))] { done(part); });
  });
}

FoundJob JobRuntime::AsFound() {
  BatchSource log;
  log.read = [self = shared_from_this()](const LoggedPayload& payload) {
    return self->ReadWhole(payload);
  };
  log.post = [self = shared_from_this()](std::function<void()> work) {
    self->OnDisk(std::move(work));
  };
  return {uid_, submitted_, std::move(log)};
}

void JobRuntime::FetchHistory(const v1::FetchHistoryRequest& request, JobHistory::Done done) {
  OnStrand([this, request, done = std::move(done)] {
    JobHistory::Job job;
    job.log = AsFound().log;
    job.on_strand = [self = shared_from_this()](std::function<void()> work) {
      self->OnStrand(std::move(work));
    };
    history_.Fetch(request, IsTerminal(core_.state()), core_.history(), std::move(job), done);
  });
}

}  // namespace baton::controller
