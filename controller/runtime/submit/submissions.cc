#include "controller/runtime/submit/submissions.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/job_files/data_files.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/job_files/saved_job.h"
#include "controller/runtime/submit/plan_placement.h"
#include "controller/spec/job_spec/spec.h"
#include "google/protobuf/util/message_differencer.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxJobId = 63;  // access::ValidId
constexpr size_t kMaxSpecBytes = 1 << 20;
constexpr size_t kMaxCheckpointPath = 4096;

absl::Status InvalidName(absl::string_view what, absl::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                   absl::StrCat(what, " '", value, "' is not 1-63 characters of a-z, 0-9 and '-'"));
}

// Checks the request itself.
absl::Status CheckRequest(const v1::CreateJobRequest& request) {
  if (!access::ValidId(request.project())) return InvalidName("project", request.project());
  if (request.job_id().size() > kMaxJobId) {
    return InvalidName("job_id", absl::StrCat(request.job_id().substr(0, kMaxJobId), "…"));
  }
  if (request.checkpoint().size() > kMaxCheckpointPath) {
    return MakeError(absl::StatusCode::kInvalidArgument, "CHECKPOINT_NAME",
                     absl::StrCat("checkpoint is longer than ", kMaxCheckpointPath,
                                  " bytes; give a folder's path, or job:NAME"));
  }
  BATON_RETURN_IF_ERROR(Requests::CheckId(request.request_id()));
  if (const size_t bytes = request.spec().ByteSizeLong() + request.changes().ByteSizeLong();
      bytes > kMaxSpecBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, "SPEC_TOO_LARGE",
                     absl::StrCat("the spec has ", bytes, " bytes, more than ", kMaxSpecBytes,
                                  "; put what is large into files"));
  }
  if (!request.checkpoint().empty() && request.has_spec()) {
    return absl::InvalidArgumentError("give a spec or a checkpoint, not both");
  }
  if (request.checkpoint().empty() && request.has_changes()) {
    return absl::InvalidArgumentError(
        "changes are to the spec of a checkpoint's job; give the checkpoint");
  }
  return absl::OkStatus();
}

Request RequestOf(const v1::CreateJobRequest& request) {
  Request out;
  out.id = request.request_id();
  out.project = request.project();
  out.asked.set_checkpoint(request.checkpoint());
  if (!request.checkpoint().empty()) *out.asked.mutable_changes() = request.changes();
  return out;
}

// Answers a call with the job that its request id made, unless it asks for another one. Holds the
// submission, with its place, until then.
Callback<v1::Job> IfSameJob(std::shared_ptr<const Submission> submission, Callback<v1::Job> done) {
  return
      [submission = std::move(submission), done = std::move(done)](absl::StatusOr<v1::Job> made) {
        if (!made.ok() || made->uid() == submission->uid) return done(std::move(made));
        const v1::CreateJobRequest& request = submission->request;
        const bool same_spec =
            submission->from_checkpoint() ||
            google::protobuf::util::MessageDifferencer::Equals(made->spec(), request.spec());
        const bool same_name = request.job_id().empty() ||
                               FullJobName(request.job_id(), request.project()) == made->name();
        if (same_spec && same_name) return done(std::move(made));
        done(Requests::ReusedError(request.request_id(), "", made->name(),
                                   same_spec ? "" : "with another spec"));
      };
}

// The row of a job whose files will be in `folder`.
store::v1::JobRow FromSpec(Submission* submission, v1::Job job, const fs::path& folder) {
  CheckedSpec& checked = submission->checked;
  if (const v1::ResourcesSpec& resources = checked.effective.resources();
      resources.pools_size() > 0) {
    Log(LogLevel::kInfo, "roles placed",
        {{"job", job.name()}, {"pools", PlacementText(resources)}});
  }
  submission->PlaceCopies(folder, &checked.effective);
  *job.mutable_spec() = std::move(*submission->request.mutable_spec());
  *job.mutable_effective_spec() = std::move(checked.effective);
  *job.mutable_dataflow() = std::move(checked.dataflow);
  *job.mutable_data_files() = std::move(submission->data_files);
  store::v1::JobRow row;
  *row.mutable_job() = std::move(job);
  return row;
}

const char* KindOf(const v1::CreateJobRequest& request) {
  if (!request.checkpoint().empty()) return "resumed";
  if (request.spec().kind() == v1::JOB_KIND_SFT) return "sft";
  return request.spec().kind() == v1::JOB_KIND_REWARD_MODEL ? "reward-model" : "rl";
}

}  // namespace

Submissions::Submissions(ControllerScope* scope, Projects* projects, Requests* requests,
                         JobLauncher* launcher, WaitingSubmissions* waiting, Uploads* uploads,
                         SpecUploads* spec_uploads)
    : scope_(scope),
      projects_(projects),
      requests_(requests),
      launcher_(launcher),
      waiting_(waiting),
      models_(scope, waiting),
      saved_(scope, projects, waiting, &models_, spec_uploads),
      checks_(scope, uploads, projects, &models_, &saved_, spec_uploads) {}

Submissions::Submitted Submissions::NewSubmission(const std::string& project) {
  auto submission = std::make_shared<Submission>();
  submission->request.set_project(project);
  submission->uid = launcher_->NewUid();
  submission->staged = launcher_->NewStaged(project, submission->uid);
  return submission;
}

void Submissions::Validate(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                           CallerGone gone) {
  const std::string project = request.project().empty() ? "default" : request.project();
  if (!access::ValidId(project)) return done(InvalidName("project", project));
  auto place = waiting_->Enter(project, request.ByteSizeLong());
  if (!place.ok()) return done(place.status());
  const auto looked = NewSubmission(project);
  looked->place = *std::move(place);
  looked->gone = std::move(gone);
  looked->request.mutable_spec()->Swap(request.mutable_spec());
  const auto answer = [looked, done = std::move(done)](const absl::Status& status) {
    looked->staged.reset();  // removed before the caller gets its answer
    looked->copies_place.reset();
    if (!status.ok()) return done(status);
    if (!looked->read.ok()) return done(looked->read);
    v1::ValidateJobResponse answer;
    looked->NameSources(&looked->checked.effective);
    answer.mutable_violations()->Assign(looked->violations.begin(), looked->violations.end());
    *answer.mutable_effective_spec() = std::move(looked->checked.effective);
    *answer.mutable_dataflow() = std::move(looked->checked.dataflow);
    *answer.mutable_data_files() = std::move(looked->data_files);
    done(std::move(answer));
  };
  const auto size = [this, looked] {
    return DataBytes(scope_->options.data_root, looked->request.spec().data());
  };
  scope_->data_readers.Post(
      project, size, [this, looked, answer] { checks_.CheckAll(looked, /*keeps=*/false, answer); });
}

// ---- CreateJob, from the call to the job's row ------------------------------------------------

void Submissions::Create(v1::CreateJobRequest request, Callback<v1::Job> done, CallerGone gone) {
  if (request.project().empty()) request.set_project("default");
  if (absl::Status good = CheckRequest(request); !good.ok()) return done(std::move(good));
  auto place = waiting_->Enter(request.project(), request.ByteSizeLong());
  if (!place.ok()) return done(place.status());
  const auto submission = NewSubmission(request.project());
  submission->place = *std::move(place);
  submission->request = std::move(request);
  Request known = RequestOf(submission->request);
  if (known.id.empty()) {
    submission->gone = std::move(gone);
  } else {
    // A retry with the same request id finds this submission's job.
    known.fingerprint = Requests::FingerprintOf(submission->request);
    done = IfSameJob(submission, std::move(done));
  }
  requests_->Once(
      std::move(known),
      [this, submission](Callback<v1::Job> made) {
        submission->done = std::move(made);
        Enter(submission);
      },
      [this](const store::v1::RequestRow& row, const Callback<v1::Job>& repeated) {
        scope_->DescribeJob(row.job(), repeated);
      },
      std::move(done));
}

// On the admission strand. The gate of its project; then threads that serve nothing else read and
// copy its files.
void Submissions::Enter(const Submitted& submission) {
  const std::string& project = submission->request.project();
  auto place = projects_->EnterNewJob(project, submission->gone);
  if (!place.ok()) return submission->Refuse(place.status());
  submission->job_place = *std::move(place);
  scope_->data_readers.Post(
      project, [this, submission] { return FindSize(submission.get()); },
      [this, submission] { Read(submission); });
}

uint64_t Submissions::FindSize(Submission* submission) {
  if (!submission->from_checkpoint()) {
    return DataBytes(scope_->options.data_root, submission->request.spec().data());
  }
  submission->read = saved_.Find(submission);
  return submission->read.ok() ? saved_.BytesOf(*submission) : 0;
}

void Submissions::Read(const Submitted& submission) {
  // The call's deadline may have passed while it waited for its turn.
  if (submission->gone != nullptr && submission->gone()) {
    return submission->Refuse(absl::CancelledError("the caller is gone"));
  }
  const auto make = [this, submission](absl::Status status) {
    submission->read = std::move(status);
    scope_->OnAdmission([this, submission] { Make(submission); });
  };
  if (!submission->read.ok()) return make(submission->read);
  checks_.CheckAll(submission, /*keeps=*/true, [submission, make](absl::Status checked) {
    if (checked.ok()) checked = submission->read;
    if (checked.ok() && !submission->violations.empty()) {
      checked = MakeSpecError(submission->violations);
    }
    make(std::move(checked));
  });
}

// On the admission strand, for one submission at a time: two calls with the same name cannot both
// succeed.
void Submissions::Make(const Submitted& submission) {
  if (submission->gone != nullptr && submission->gone()) {
    return submission->Refuse(absl::CancelledError("the caller is gone"));
  }
  const v1::CreateJobRequest& request = submission->request;
  // Other jobs were made, grew and ended while its files were read.
  const int64_t own = submission->room == nullptr ? 0 : submission->room_bytes;
  if (const absl::Status room = projects_->CheckRoom(request.project(), own); !room.ok()) {
    return submission->Refuse(room);
  }
  const bool from_checkpoint = submission->from_checkpoint();
  if (from_checkpoint && submission->origin.checkpoint.empty()) {
    return submission->Refuse(submission->read);
  }
  const Request known = RequestOf(request);
  const int64_t order = launcher_->next_order();
  const auto name = launcher_->ChooseName(request.job_id(), request.project(), KindOf(request),
                                          order, submission->origin);
  if (!name.ok()) return submission->Refuse(name.status());
  if (!submission->read.ok()) return submission->Refuse(submission->read);
  v1::Job job;
  job.set_name(*name);
  job.set_uid(submission->uid);
  *job.mutable_create_time() = ToProtoSeconds(scope_->clock.Now());
  auto row = FirstRow(submission.get(), std::move(job), order);
  if (!row.ok()) return submission->Refuse(row.status());
  scope_->folder_bytes.Touch(*name, submission->room_bytes);
  const JobCoreOptions& how = scope_->options.core;
  JobCore core = from_checkpoint ? JobCore(*std::move(row), {}, scope_->context.epoch, how)
                                 : JobCore(std::move(*row->mutable_job()), order, how);
  launcher_->Launch(std::move(core), order, known, {}, submission->done);
  submission->LeavePlaces();  // the job is in the table
}

absl::StatusOr<store::v1::JobRow> Submissions::FirstRow(Submission* submission, v1::Job job,
                                                        int64_t order) {
  const std::string folder = scope_->FolderOf(job.name());
  const std::set<std::string>& features = submission->model_features;
  job.mutable_model_features()->Assign(features.begin(), features.end());
  auto row = submission->from_checkpoint()
                 ? saved_.RowOf(*submission, std::move(job), order, folder)
                 : FromSpec(submission, std::move(job), folder);
  if (!row.ok()) return row.status();
  if (submission->from_checkpoint()) BATON_RETURN_IF_ERROR(CheckGoesOn(*submission, *row));
  if (submission->adopt) {
    BATON_RETURN_IF_ERROR(SetAsideAfter(folder, row->saved_step(), submission->uid));
  }
  BATON_RETURN_IF_ERROR(submission->staged->Keep(folder, submission->adopt));
  return row;
}

// Checks that a core can go on from the row that the request and the copies give, and from the row
// that this core writes, because the next start must accept it.
absl::Status Submissions::CheckGoesOn(const Submission& submission,
                                      const store::v1::JobRow& row) const {
  absl::Status good = CheckRow(row);
  if (good.ok()) {
    good = CheckRow(JobCore(row, {}, scope_->context.epoch, scope_->options.core).Row());
  }
  if (good.ok()) return good;
  return CheckpointFolderError(good.code(), submission.origin.checkpoint,
                               absl::StrCat("makes no job that can go on: ", good.message()));
}

}  // namespace baton::controller
