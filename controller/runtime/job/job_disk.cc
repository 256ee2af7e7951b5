#include "controller/runtime/job/job_disk.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(200);

}  // namespace

absl::Status JobDisk::health() const {
  absl::MutexLock lock(&mu_);
  return health_;
}

void JobDisk::SetHealth(const absl::Status& status) {
  bool changed = false;
  {
    absl::MutexLock lock(&mu_);
    changed = health_.ok() != status.ok();
    health_ = status;
  }
  if (!changed) return;
  if (status.ok()) {
    baton::Log(LogLevel::kInfo, "the job's folder can be used again", {{"job", scope_->name}});
  } else {
    baton::Log(LogLevel::kError, "the job's folder cannot be used; it is tried again",
               {{"job", scope_->name}, {"error", std::string(status.message())}});
  }
}

void JobDisk::WriteUntilDone(std::function<absl::Status()> write,
                             std::function<void(absl::Status)> done, std::function<bool()> wanted) {
  threads_->OnDisk([this, write = std::move(write), done = std::move(done),
                    wanted = std::move(wanted)]() mutable {
    const absl::Status status = removed_ ? absl::CancelledError("the job is deleted") : write();
    const bool curable =
        !removed_ && !status.ok() && !absl::IsInvalidArgument(status) && !absl::IsDataLoss(status);
    if (!curable) {
      SetHealth(absl::OkStatus());
      return threads_->OnStrand([done = std::move(done), status] { done(status); });
    }
    SetHealth(status);
    const auto again = [this, write = std::move(write), done = std::move(done),
                        wanted = std::move(wanted)] {
      if (wanted == nullptr || wanted()) return WriteUntilDone(write, done, wanted);
      SetHealth(absl::OkStatus());  // nothing waits for it now
      done(absl::CancelledError("given up"));
    };
    threads_->OnStrandAfter(kTryAgain, again);
  });
}

void JobDisk::ReadAgain(const absl::Status& status, std::function<void()> again) {
  SetHealth(status);
  threads_->OnStrandAfter(kTryAgain, [this, again = std::move(again)] {
    SetHealth(absl::OkStatus());  // until the next try tells otherwise
    if (!IsTerminal(scope_->core.state())) again();
  });
}

absl::StatusOr<experience::ExperienceLog*> JobDisk::Log() {
  if (removed_) {
    return absl::NotFoundError("the job is deleted");
  }
  if (log_ == nullptr) {
    BATON_ASSIGN_OR_RETURN(log_, scope_->files->OpenLog());
  }
  return log_.get();
}

absl::StatusOr<PayloadLocation> JobDisk::Append(absl::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(experience::ExperienceLog * log, Log());
  BATON_ASSIGN_OR_RETURN(const experience::Location at, log->Append(bytes));
  if (scope_->context->sync_payloads) {
    BATON_RETURN_IF_ERROR(log->Sync());
  }
  return PayloadLocation{at.file, at.offset, at.size};
}

absl::StatusOr<std::string> JobDisk::Read(const PayloadLocation& location) {
  BATON_ASSIGN_OR_RETURN(experience::ExperienceLog * log, Log());
  return log->Read({location.file, location.offset, location.size});
}

absl::StatusOr<v1::Trajectory> JobDisk::ReadWhole(const LoggedPayload& payload) {
  const std::string name = TrajectoryName(payload.id);
  v1::Trajectory whole;
  for (const PayloadLocation& part : payload.records) {
    const auto bytes = Read(part);
    v1::Trajectory read;
    if (absl::IsUnavailable(bytes.status())) return bytes.status();  // it is not lost
    if (!bytes.ok() || !read.ParseFromString(*bytes)) {
      return absl::DataLossError(absl::StrCat(
          "the payload of ", name,
          " cannot be read: ", bytes.ok() ? "it is damaged" : bytes.status().message()));
    }
    if (read.trajectory_id() != name) {
      return absl::DataLossError(absl::StrCat("the payload of ", name, " cannot be read: that of '",
                                              read.trajectory_id(), "' stands in its place"));
    }
    whole.MergeFrom(read);
  }
  return whole;
}

void JobDisk::DropFiles(const DropLogFiles& effect) {
  auto log = Log();
  if (!log.ok()) return;
  const absl::Status status = (*log)->DropFiles(
      effect.end, [&effect](uint32_t file) { return effect.needed.Contains(file); });
  if (!status.ok()) {
    baton::Log(LogLevel::kWarn, "experience files are not dropped",
               {{"job", scope_->name}, {"error", std::string(status.message())}});
  }
}

absl::StatusOr<int64_t> JobDisk::DropOptimizer(const v1::Checkpoint& checkpoint) {
  if (removed_) return 0;
  return scope_->files->DropOptimizer(checkpoint);
}

absl::Status JobDisk::RemoveAll() {
  log_ = nullptr;
  removed_ = true;
  return scope_->files->RemoveAll();
}

}  // namespace baton::controller
