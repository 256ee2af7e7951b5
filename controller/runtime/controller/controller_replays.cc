// Controller: replays, the jobs that train again on what another job recorded.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/files/job_folders.h"
#include "controller/runtime/files/replay_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/check_saved.h"
#include "controller/spec/replay.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"
#include "sdk/base/status_macros.h"
#include "sdk/messages/times.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRequestId = 256;
constexpr size_t kMostReplayId = 63;  // access::ValidId

// The call asks again for that replay.
bool IsRepeat(const v1::CreateReplayRequest& request, const v1::Replay& replay) {
  if (Mutant("any-replay-is-a-repeat")) return true;
  return replay.source() == FullJobName(request.name()) &&
         (!request.has_from_step() || request.from_step() == replay.from_step()) &&
         (!request.has_to_step() || request.to_step() == replay.to_step()) &&
         (request.job_id().empty() ||
          replay.job() == FullJobName(request.job_id(), access::ProjectOf(replay.source())));
}

}  // namespace

// A call of CreateReplay, until its job exists. Used by one thread at a time.
struct Controller::ReplayCall {
  v1::CreateReplayRequest request;
  Callback<v1::Replay> done;
  CallerGone gone;
  std::string project;
  std::shared_ptr<void> place, copies_place;  // as a Submission's
  std::unique_ptr<StagedFolder> staged;
  std::string uid;  // of the new job
  ReplaySource source;
  absl::StatusOr<ReplayPlan> plan = absl::UnknownError("");

  std::string request_key() const { return absl::StrCat(project, "/", request.request_id()); }
  void Refuse(const absl::Status& status) {
    staged.reset();  // before the caller gets its answer
    done(status);
  }
};

// A call that is repeated is answered first: its source may be deleted by now. Then the source's
// state is taken on its strand, its rows are read by the threads that read data files, and one call
// at a time is admitted, as in CreateJob.
void Controller::CreateReplay(v1::CreateReplayRequest request, Callback<v1::Replay> done,
                              CallerGone gone) {
  if (request.request_id().size() > kMostRequestId) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID",
                          absl::StrCat("request_id is longer than ", kMostRequestId, " bytes")));
  }
  if (request.job_id().size() > kMostReplayId) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                          absl::StrCat("job_id is longer than ", kMostReplayId, " bytes")));
  }
  const auto call = std::make_shared<ReplayCall>();
  call->project = access::ProjectOf(FullJobName(request.name()));
  auto place = waiting_.Enter(call->project, request.ByteSizeLong());
  if (!place.ok()) return done(place.status());
  call->place = *std::move(place);
  call->request = std::move(request);
  call->done = std::move(done);
  call->gone = std::move(gone);
  gate_.Post(admission_, [this, call] {
    if (!AnswerKnownReplay(call)) PlanReplayOf(call);
  });
}

void Controller::PlanReplayOf(const std::shared_ptr<ReplayCall>& call) {
  if (const absl::Status quota = CheckNewJob(call->project); !quota.ok()) {
    return call->Refuse(quota);
  }
  // It reads up to kMostReplayBytes into memory, so a project has few of them at a time.
  auto copies = waiting_.EnterCopies(call->project);
  if (!copies.ok()) return call->Refuse(copies.status());
  call->copies_place = *std::move(copies);
  const Submitted fresh = NewSubmission(call->project);
  call->uid = fresh->uid;
  call->staged = std::move(fresh->staged);
  const auto plan = [this, call] {
    if (call->gone != nullptr && call->gone()) {
      return call->Refuse(absl::CancelledError("the caller is gone"));
    }
    call->plan = PlanReplay(*store_, call->source, call->request);
    if (!call->plan.ok()) return call->Refuse(call->plan.status());
    if (call->request.validate_only()) return call->done(call->plan->replay);
    const absl::Status linked = LinkReplay(call->source, call->staged.get(), &*call->plan);
    if (!linked.ok()) return call->Refuse(linked);
    gate_.Post(admission_, [this, call] { AdmitReplay(call); });
  };
  const auto read = [this, call, plan](const std::shared_ptr<JobRuntime>& job) {
    job->Checkpoints([this, call, plan, job](auto checkpoints) {
      if (!checkpoints.ok()) return call->Refuse(checkpoints.status());
      call->source = {job->Snapshot(), *std::move(checkpoints),
                      JobFolderOf(options_.data_root, job->name())};
      data_readers_.Post(
          call->project, [] { return uint64_t{0}; }, plan);
    });
  };
  WithJob(
      call->request.name(), [call](const absl::Status& none) { call->Refuse(none); }, read);
}

// On admission_. A call whose request id is known gets the first call's replay, once that is
// stored.
bool Controller::AnswerKnownReplay(const std::shared_ptr<ReplayCall>& call) {
  if (call->request.request_id().empty()) return false;
  store::v1::RequestRow row;
  if (const auto it = admitting_.find(call->request_key()); it != admitting_.end()) {
    row = it->second.row;
  } else {
    const auto earlier = store_->Get(kRequestTable, call->request_key());
    if (!earlier.ok()) {
      call->Refuse(earlier.status());
      return true;
    }
    if (!earlier->has_value() || !row.ParseFromString(**earlier)) return false;
  }
  const auto reused = [call] {
    call->Refuse(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                           absl::StrCat("request_id '", call->request.request_id(),
                                        "' was that of another call; give each call its own")));
  };
  if (row.method() != kCreateReplay) {
    reused();
    return true;
  }
  if (!ended_->Exists(row.job())) return false;  // it was deleted
  const auto answer = [this, call, reused](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return call->Refuse(job.status());
    gate_.Post(admission_, [this, call, job = *job, reused] {
      auto replay = ReadReplay(JobFolderOf(options_.data_root, job.name()), job);
      const auto source = ended_->Describe(FullJobName(call->request.name()));
      const bool other =
          replay.ok() && source.ok() && source->uid() != replay->source_uid();  // of the same name
      if (other || (replay.ok() && !IsRepeat(call->request, *replay))) return reused();
      call->staged.reset();
      call->done(std::move(replay));
    });
  };
  const std::shared_ptr<JobRuntime> made = jobs_.Get(row.job()).job;
  if (made != nullptr) {
    made->Describe(answer);  // once it is committed
  } else {
    answer(ended_->Describe(row.job()));
  }
  return true;
}

void Controller::AdmitReplay(const std::shared_ptr<ReplayCall>& call) {
  if (AnswerKnownReplay(call)) return;
  if (call->gone != nullptr && call->gone()) {
    return call->Refuse(absl::CancelledError("the caller is gone"));
  }
  if (const absl::Status quota = CheckNewJob(call->project); !quota.ok()) {
    return call->Refuse(quota);
  }
  const int64_t order = jobs_.next_order();  // only this thread adds jobs
  v1::CreateJobRequest named;
  named.set_job_id(call->request.job_id());
  const auto name = ChooseName(named, call->project, "replay", order, {});
  if (!name.ok()) return call->Refuse(name.status());
  v1::Job job;
  job.set_name(*name);
  job.set_uid(call->uid);
  *job.mutable_create_time() = ToProtoSeconds(clock_.Now());
  *job.mutable_model_features() = call->source.job.model_features();
  const fs::path folder = JobFolderOf(options_.data_root, *name);
  auto row = MakeReplayRow(call->source, *call->plan, job, order, folder, call->staged.get());
  if (!row.ok()) return call->Refuse(row.status());
  if (const std::string problem = ProblemOfSaved(row->job()); !problem.empty()) {
    return call->Refuse(absl::DataLossError(problem));
  }
  JobCore core(*std::move(row), {}, context_.epoch, options_.core);
  // The next start must find its row good.
  if (const absl::Status good = CheckRow(core.Row()); !good.ok()) return call->Refuse(good);
  if (const absl::Status kept = call->staged->Keep(folder); !kept.ok()) return call->Refuse(kept);
  folder_bytes_.Touch(*name);
  std::vector<store::Write> rows;
  for (auto& [step, batch] : call->plan->rows) {
    rows.push_back({kBatchTable, NumberKey(*name, static_cast<uint64_t>(step)), std::move(batch)});
  }
  store::v1::RequestRow request;
  request.set_method(kCreateReplay);
  request.set_time(job.create_time().seconds());
  Log(LogLevel::kInfo, "replay made",
      {{"job", *name},
       {"source", call->plan->replay.source()},
       {"from_step", call->plan->replay.from_step()},
       {"to_step", call->plan->replay.to_step()}});
  Launch(std::move(core), order, {call->request.request_id(), std::move(request)}, std::move(rows),
         [call](const absl::StatusOr<v1::Job>& made) {
           if (!made.ok()) return call->done(made.status());
           v1::Replay replay = call->plan->replay;
           replay.set_job(made->name());
           call->done(std::move(replay));
         });
}

void Controller::GetReplay(v1::GetReplayRequest request, Callback<v1::Replay> done) {
  WithJob(request.name(), done,
          [this, done](const std::shared_ptr<JobRuntime>& job) { verdicts_.Ask(job, done); });
}

}  // namespace baton::controller
