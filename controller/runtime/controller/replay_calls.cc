#include "controller/runtime/controller/replay_calls.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/job_spec/check_saved.h"
#include "sdk/common/base/log.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostReplayId = 63;  // access::ValidId

// True if the call asks for that replay again.
bool IsRepeat(const v1::CreateReplayRequest& request, const v1::Replay& replay) {
  return replay.source() == FullJobName(request.name()) &&
         (!request.has_from_step() || request.from_step() == replay.from_step()) &&
         (!request.has_to_step() || request.to_step() == replay.to_step()) &&
         (request.job_id().empty() ||
          replay.job() == FullJobName(request.job_id(), access::ProjectOf(replay.source())));
}

}  // namespace

// A request of CreateReplay, with the plan made for it.
struct ReplayCalls::Asked {
  v1::CreateReplayRequest request;
  std::string uid;     // of the new job; empty: none is made for this call
  v1::Replay planned;  // without `job`
  /// Among its project's submissions that wait for their answers.
  std::shared_ptr<void> place;
};

// A call of CreateReplay, until its job exists. Used by one thread at a time.
struct ReplayCalls::Call {
  std::shared_ptr<Asked> asked;
  Request known;
  Callback<v1::Job> done;  // with the replay's job
  CallerGone gone;
  std::shared_ptr<void> copies_place, job_place;  // as a Submission's
  std::unique_ptr<StagedFolder> staged;
  ReplaySource source;
  ReplayPlan plan;

  bool is_gone() const { return gone != nullptr && gone(); }
  void Answer(const absl::StatusOr<v1::Job>& job) {
    copies_place.reset();
    job_place.reset();
    done(job);
  }
  void Refuse(const absl::Status& status) {
    staged.reset();  // before the caller gets its answer
    Answer(status);
  }
};

void ReplayCalls::Create(v1::CreateReplayRequest request, Callback<v1::Replay> done,
                         CallerGone gone) {
  if (absl::Status good = Requests::CheckId(request.request_id()); !good.ok()) {
    return done(std::move(good));
  }
  if (request.job_id().size() > kMostReplayId) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                          absl::StrCat("job_id is longer than ", kMostReplayId, " bytes")));
  }
  const auto call = std::make_shared<Call>();
  call->known.id = request.validate_only() ? "" : request.request_id();
  call->known.project = access::ProjectOf(FullJobName(request.name()));
  call->known.asked.set_method(kCreateReplay);
  auto place = waiting_->Enter(call->known.project, request.ByteSizeLong());
  if (!place.ok()) return done(place.status());
  if (call->known.id.empty()) {
    call->gone = std::move(gone);
  } else {
    // A retry with the same request id finds this call's job.
    call->known.fingerprint = Requests::FingerprintOf(request);
  }
  call->asked = std::make_shared<Asked>();
  call->asked->request = std::move(request);
  call->asked->place = *std::move(place);
  requests_->Once(
      call->known,
      [this, call](Callback<v1::Job> made) {
        call->done = std::move(made);
        Enter(call);
      },
      [this](const store::v1::RequestRow& row, const Callback<v1::Job>& repeated) {
        scope_->DescribeJob(row.job(), [this, repeated](absl::StatusOr<v1::Job> job) {
          scope_->OnAdmission([repeated, job = std::move(job)] { repeated(job); });
        });
      },
      [this, asked = call->asked, done = std::move(done)](const absl::StatusOr<v1::Job>& job) {
        done(job.ok() ? ReplayOf(*asked, *job) : job.status());
      });
}

// On the admission strand. The gate of its project, where a call that makes no job takes no place;
// then the source's state is taken on its strand.
void ReplayCalls::Enter(const std::shared_ptr<Call>& call) {
  const std::string& project = call->known.project;
  if (call->asked->request.validate_only()) {
    const absl::Status quota = projects_->CheckNewJob(project);
    if (!quota.ok()) return call->Refuse(quota);
  } else {
    auto job_place = projects_->EnterNewJob(project, call->gone);
    if (!job_place.ok()) return call->Refuse(job_place.status());
    call->job_place = *std::move(job_place);
  }
  // The plan reads up to kMostReplayBytes into memory, so a project has few of them at a time.
  auto copies = waiting_->EnterCopies(project);
  if (!copies.ok()) return call->Refuse(copies.status());
  call->copies_place = *std::move(copies);
  call->asked->uid = launcher_->NewUid();
  call->staged = launcher_->NewStaged(project, call->asked->uid);
  const auto read = [this, call](const std::shared_ptr<JobRuntime>& job) {
    job->Checkpoints([this, call, job](auto checkpoints) {
      if (!checkpoints.ok()) return call->Refuse(checkpoints.status());
      call->source = {job->Snapshot(), *std::move(checkpoints), scope_->FolderOf(job->name())};
      scope_->data_readers.Post(
          call->known.project, [] { return uint64_t{0}; }, [this, call] { Plan(call); });
    });
  };
  scope_->FindJob(
      call->asked->request.name(), [call](const absl::Status& none) { call->Refuse(none); }, read);
}

// On a thread that reads data.
void ReplayCalls::Plan(const std::shared_ptr<Call>& call) {
  if (call->is_gone()) return call->Refuse(absl::CancelledError("the caller is gone"));
  const v1::CreateReplayRequest& request = call->asked->request;
  auto plan = PlanReplay(*scope_->store, call->source, request);
  if (!plan.ok()) return call->Refuse(plan.status());
  call->asked->planned = plan->replay;
  if (request.validate_only()) return call->Answer(v1::Job());
  const absl::Status linked = LinkReplay(call->source, call->staged.get(), &*plan);
  if (!linked.ok()) return call->Refuse(linked);
  call->plan = *std::move(plan);
  scope_->OnAdmission([this, call] { Make(call); });
}

// On the admission strand.
void ReplayCalls::Make(const std::shared_ptr<Call>& call) {
  if (call->is_gone()) return call->Refuse(absl::CancelledError("the caller is gone"));
  const absl::Status room = projects_->CheckRoom(call->known.project, 0);  // as for a submission
  if (!room.ok()) return call->Refuse(room);
  const int64_t order = launcher_->next_order();
  const auto name = launcher_->ChooseName(call->asked->request.job_id(), call->known.project,
                                          "replay", order, {});
  if (!name.ok()) return call->Refuse(name.status());
  v1::Job job;
  job.set_name(*name);
  job.set_uid(call->asked->uid);
  *job.mutable_create_time() = ToProtoSeconds(scope_->clock.Now());
  *job.mutable_model_features() = call->source.job.model_features();
  const fs::path folder = scope_->FolderOf(*name);
  auto row = MakeReplayRow(call->source, call->plan, job, order, folder, call->staged.get());
  if (!row.ok()) return call->Refuse(row.status());
  if (const std::string problem = ProblemOfSaved(row->job()); !problem.empty()) {
    return call->Refuse(absl::DataLossError(problem));
  }
  JobCore core(*std::move(row), {}, scope_->context.epoch, scope_->options.core);
  // The next start must find its row good.
  if (const absl::Status good = CheckRow(core.Row()); !good.ok()) return call->Refuse(good);
  if (const absl::Status kept = call->staged->Keep(folder); !kept.ok()) return call->Refuse(kept);
  scope_->folder_bytes.Touch(*name);
  std::vector<store::Write> rows;
  for (auto& [step, batch] : call->plan.rows) {
    rows.push_back({kBatchTable, NumberKey(*name, static_cast<uint64_t>(step)), std::move(batch)});
  }
  const v1::Replay& planned = call->asked->planned;
  Log(LogLevel::kInfo, "replay made",
      {{"job", *name},
       {"source", planned.source()},
       {"from_step", planned.from_step()},
       {"to_step", planned.to_step()}});
  launcher_->Launch(std::move(core), order, call->known, std::move(rows), call->done);
  call->job_place.reset();  // the job is in the table
}

// A repeat gets the replay of the first call, from the files of its job.
absl::StatusOr<v1::Replay> ReplayCalls::ReplayOf(const Asked& asked, const v1::Job& job) const {
  if (asked.request.validate_only() || job.uid() == asked.uid) {
    v1::Replay replay = asked.planned;
    replay.set_job(job.name());
    return replay;
  }
  auto replay = ReadReplay(scope_->FolderOf(job.name()), job);
  if (!replay.ok()) return replay;
  const auto source = scope_->ended->Describe(FullJobName(asked.request.name()));
  const bool other = source.ok() && source->uid() != replay->source_uid();  // of the same name
  if (!other && IsRepeat(asked.request, *replay)) return replay;
  return Requests::ReusedError(asked.request.request_id(), kCreateReplay, job.name(),
                               "with other steps, or of another job");
}

void ReplayCalls::Get(const v1::GetReplayRequest& request, Callback<v1::Replay> done) {
  scope_->FindJob(request.name(), done, [this, done](const std::shared_ptr<JobRuntime>& job) {
    verdicts_.Ask(job, done);
  });
}

}  // namespace baton::controller
