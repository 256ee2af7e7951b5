// Controller: admission. Checks what a spec names, then creates the job.
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/files/data_files.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/job_folders.h"
#include "controller/runtime/files/model_config.h"
#include "controller/runtime/files/saved_job.h"
#include "controller/runtime/rows/tables.h"
#include "controller/runtime/submit/plan_placement.h"
#include "controller/spec/models.h"
#include "controller/spec/presets.h"
#include "controller/spec/roles.h"
#include "controller/spec/spec.h"
#include "controller/spec/step_size.h"
#include "google/protobuf/util/message_differencer.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "sdk/data_set/answer_use.h"
#include "sdk/messages/times.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status InvalidName(absl::string_view what, absl::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                   absl::StrCat(what, " '", value, "' is not 1-63 characters of a-z, 0-9 and '-'"));
}

constexpr size_t kMaxRequestId = 256;
constexpr size_t kMaxJobId = 63;  // access::ValidId
constexpr size_t kMaxSpecBytes = 1 << 20;
constexpr size_t kMaxCheckpointPath = 4096;

}  // namespace

// What is wrong with a command's working directory, which is on the worker's machine; empty:
// nothing. The command can read everything below it. The folder of uploads has the files of all
// projects, so it is closed.
static std::string CommandFolderProblem(const std::string& folder, const std::string& project,
                                        const ControllerOptions& options) {
  if (!options.confine_paths || folder.empty()) return "";
  const std::string own = absl::StrCat(options.data_root, "/jobs/", project);
  std::vector<std::string> open = options.allowed_paths;
  open.push_back(own);
  const bool inside = absl::StartsWith(folder, "/") &&
                      std::any_of(open.begin(), open.end(), [&](const std::string& parent) {
                        return IsBelow(folder, parent);
                      });
  const bool among_others = (IsBelow(folder, options.data_root) && !IsBelow(folder, own)) ||
                            IsBelow(options.data_root, folder);
  if (inside && !among_others) return "";
  return absl::StrCat("'", folder, "' is not open to commands of project ", project,
                      ": name a folder below one that the controller opens with --allow-path, or "
                      "\"\" for an empty one");
}

// Finds all problems of the files and folders that the spec names.
std::vector<v1::FieldViolation> Controller::CheckFiles(v1::JobSpec* effective,
                                                       Submission* submission) {
  const std::string& project = submission->request.project();
  std::vector<v1::FieldViolation> out;
  std::map<std::string, absl::StatusOr<std::string>> folders;  // each reference is resolved once
  for (const auto& [field, model] : ModelsOf(effective)) {
    if (model->path().empty()) continue;
    const auto [folder, fresh] = folders.try_emplace(model->path());
    if (fresh) folder->second = FindModel(model->path(), submission);
    if (folder->second.ok()) {
      model->set_path(*folder->second);
      submission->model_features.merge(ModelFeaturesOf(*folder->second));
    } else if (fresh) {  // a problem that several roles share is reported once
      out.push_back(Violation(absl::StrCat("spec.", field, ".path"),
                              std::string(folder->second.status().message())));
    }
  }
  if (out.empty()) out = CheckModelConfigs(*effective);
  if (std::string problem =
          CommandFolderProblem(effective->reward().working_dir(), project, options_);
      !problem.empty()) {
    out.push_back(Violation("spec.reward.working_dir", problem));
  }
  DataLimits limits;
  limits.bytes = options_.max_data_bytes;
  limits.memory_bytes = options_.max_data_memory_bytes;
  uint64_t memory_bytes = 0;  // of all lists
  // Returns the number of examples.
  auto check = [&](const std::string& list, google::protobuf::RepeatedPtrField<std::string>* files,
                   const DataSetOptions& options) -> uint64_t {
    const std::string field = "spec.data." + list;
    std::vector<std::string> paths;
    for (std::string& file : *files) {
      const absl::Status open = OpenDataFile(project, &file);
      if (!open.ok()) {
        out.push_back(Violation(field, std::string(open.message())));
        return 0;  // nothing of it is read
      }
      paths.push_back(absl::StartsWith(file, "/") ? file
                                                  : absl::StrCat(options_.data_root, "/", file));
    }
    const DataSet data = ReadDataFiles(paths, options, limits);
    memory_bytes += data.memory_bytes;
    for (const std::string& problem : data.problems) out.push_back(Violation(field, problem));
    if (!files->empty()) *submission->data_files.Add() = Summarise(list, data);
    return data.examples.size();
  };
  v1::DataSpec* lists = effective->mutable_data();
  DataSetOptions options = OptionsOf(effective->kind(), *lists);
  // A saved job that goes on as it was does so with the data that it has.
  if (!submission->from_checkpoint() || submission->request.has_changes()) {
    options.answer_reader = AnswerReader(*effective, submission->dataflow());
  }
  check("train_files", lists->mutable_train_files(), options);
  const uint64_t held_out = check("val_files", lists->mutable_val_files(), options);
  if (std::string large = EvaluationTooLarge(*effective, held_out, LimitsOf(project));
      !large.empty()) {
    out.push_back(Violation("spec.data.val_files", large));
  }
  check("pretrain_files", lists->mutable_pretrain_files(), OptionsOf(v1::JOB_KIND_SFT, *lists));
  if (std::string large = DataTooLarge(memory_bytes, limits); !large.empty()) {
    out.push_back(Violation("spec.data", large));
  }
  return out;
}

v1::ListPresetsResponse Controller::ListPresets() const {
  v1::ListPresetsResponse answer;
  for (const Preset& preset : Presets()) {
    v1::Preset* out = answer.add_presets();
    out->set_name(preset.name);
    out->set_kind(preset.kind);
    out->set_summary(preset.summary);
    *out->mutable_spec() = ExampleSpec(preset.name);
  }
  return answer;
}

Controller::Submitted Controller::NewSubmission(const std::string& project) {
  auto submission = std::make_shared<Submission>();
  submission->request.set_project(project);
  submission->uid =
      absl::StrCat(absl::Hex(absl::ToUnixNanos(clock_.Now())), "-", next_submission_.fetch_add(1));
  submission->staged = std::make_unique<StagedFolder>(
      absl::StrCat(options_.data_root, "/jobs/", project), submission->uid);
  return submission;
}

void Controller::ValidateJob(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                             CallerGone gone) {
  const std::string project = request.project().empty() ? "default" : request.project();
  if (!access::ValidId(project)) return done(InvalidName("project", project));
  auto place = waiting_.Enter(project, request.ByteSizeLong());
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
    return DataBytes(options_.data_root, looked->request.spec().data());
  };
  data_readers_.Post(project, size,
                     [this, looked, answer] { CheckAll(looked, /*keeps=*/false, answer); });
}

// First, calls that need no file are answered. Then threads that serve nothing else read and copy
// the files. Then Admit runs for one submission at a time, so two calls with the same request id or
// name cannot both succeed.
void Controller::CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done, CallerGone gone) {
  if (request.project().empty()) request.set_project("default");
  if (!access::ValidId(request.project())) return done(InvalidName("project", request.project()));
  if (request.job_id().size() > kMaxJobId) {
    return done(InvalidName("job_id", absl::StrCat(request.job_id().substr(0, kMaxJobId), "…")));
  }
  if (request.checkpoint().size() > kMaxCheckpointPath) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "CHECKPOINT_NAME",
                          absl::StrCat("checkpoint is longer than ", kMaxCheckpointPath,
                                       " bytes; give a folder's "
                                       "path, or job:NAME")));
  }
  auto place = waiting_.Enter(request.project(), request.ByteSizeLong());
  if (!place.ok()) return done(place.status());
  const auto submission = NewSubmission(request.project());
  submission->place = *std::move(place);
  submission->request = std::move(request);
  submission->done = std::move(done);
  // A retry with the same request id finds this submission's job.
  if (submission->request.request_id().empty()) submission->gone = std::move(gone);
  gate_.Post(admission_, [this, submission] {
    if (AnswerWithoutFiles(*submission)) return;
    const auto size = [this, submission] { return FindSize(submission.get()); };
    data_readers_.Post(submission->request.project(), size,
                       [this, submission] { Read(submission); });
  });
}

// Bytes that must be read to check it.
uint64_t Controller::FindSize(Submission* submission) {
  const v1::CreateJobRequest& request = submission->request;
  if (request.checkpoint().empty()) return DataBytes(options_.data_root, request.spec().data());
  submission->read = FindSaved(submission);
  return submission->read.ok() ? BytesOfSaved(*submission) : 0;
}

void Controller::Read(const Submitted& submission) {
  // Its deadline may have passed while it waited for its turn.
  if (submission->gone != nullptr && submission->gone()) {
    return submission->Refuse(absl::CancelledError("the caller is gone"));
  }
  const Then admit = [this, submission](absl::Status status) {
    submission->read = std::move(status);
    gate_.Post(admission_, [this, submission] { Admit(submission); });
  };
  if (!submission->read.ok()) return admit(submission->read);
  CheckAll(submission, /*keeps=*/true, [submission, admit](absl::Status checked) {
    if (checked.ok()) checked = submission->read;
    if (checked.ok() && !submission->violations.empty()) {
      checked = MakeSpecError(submission->violations);
    }
    admit(std::move(checked));
  });
}

// A call whose request id is known gets the first call's job, once that job is stored.
bool Controller::AnswerRepeat(const v1::CreateJobRequest& request, const std::string& project,
                              const std::string& request_key, const Callback<v1::Job>& done) {
  std::shared_ptr<JobRuntime> job;
  absl::StatusOr<v1::Job> ended = absl::NotFoundError("");
  store::v1::RequestRow row;
  const auto reused = [&request](const std::string& what) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
        absl::StrCat("request_id '", request.request_id(), "' ", what, "; give each call its own"));
  };
  if (auto it = admitting_.find(request_key); it != admitting_.end()) {
    job = it->second.job;
    row = it->second.row;
  } else {
    auto earlier = store_->Get(kRequestTable, request_key);
    if (!earlier.ok()) {
      done(earlier.status());
      return true;
    }
    if (!earlier->has_value() || !row.ParseFromString(**earlier)) return false;
    if (!row.method().empty()) {
      done(reused(absl::StrCat("was that of a ", row.method())));
      return true;
    }
    job = jobs_.Get(row.job()).job;
    if (job == nullptr) ended = ended_->Describe(row.job());
    if (job == nullptr && absl::IsNotFound(ended.status())) return false;  // it was deleted
  }
  if (row.checkpoint() != request.checkpoint()) {
    const std::string from =
        row.checkpoint().empty() ? "a spec" : absl::StrCat("checkpoint ", row.checkpoint());
    done(reused(absl::StrCat("made job '", row.job(), "' from ", from)));
    return true;
  }
  if (row.has_changes() &&
      !google::protobuf::util::MessageDifferencer::Equals(row.changes(), request.changes())) {
    done(reused(absl::StrCat("made job '", row.job(), "' with other changes")));
    return true;
  }
  const auto answer = [request, project, done](absl::StatusOr<v1::Job> first) {
    if (!first.ok()) return done(first.status());
    const bool same =
        (!request.checkpoint().empty() ||
         google::protobuf::util::MessageDifferencer::Equals(first->spec(), request.spec())) &&
        (request.job_id().empty() || FullJobName(request.job_id(), project) == first->name());
    if (same) return done(std::move(first));
    done(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                   absl::StrCat("request_id '", request.request_id(), "' made job '", first->name(),
                                "' of another spec; give each job its own"),
                   {{"job", first->name()}}));
  };
  if (job != nullptr) {
    job->Describe(answer);
  } else {
    answer(std::move(ended));
  }
  return true;
}

// The row of a job whose files will be in `folder`.
static store::v1::JobRow FromSpec(Submission* submission, v1::Job job, const fs::path& folder) {
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

// The row of a new job whose files are in place; after an error, no file is left.
absl::StatusOr<store::v1::JobRow> Controller::FirstRow(Submission* submission, v1::Job job,
                                                       int64_t order) {
  const std::string folder = JobFolderOf(options_.data_root, job.name());
  const std::set<std::string>& features = submission->model_features;
  job.mutable_model_features()->Assign(features.begin(), features.end());
  auto row = submission->request.checkpoint().empty()
                 ? FromSpec(submission, std::move(job), folder)
                 : FromCheckpoint(*submission, std::move(job), order, folder);
  if (!row.ok()) return row.status();
  // Of a saved job: the row that the request and the copies leave is one that a core can go on
  // from, and so is the row that this core writes: the next start must find it good.
  if (submission->from_checkpoint()) {
    absl::Status good = CheckRow(*row);
    if (good.ok()) good = CheckRow(JobCore(*row, {}, context_.epoch, options_.core).Row());
    if (!good.ok()) {
      return CheckpointFolderError(good.code(), submission->origin.checkpoint,
                                   absl::StrCat("makes no job that can go on: ", good.message()));
    }
  }
  if (submission->adopt) {
    BATON_RETURN_IF_ERROR(SetAsideAfter(folder, row->saved_step(), submission->uid));
  }
  BATON_RETURN_IF_ERROR(submission->staged->Keep(folder, submission->adopt));
  return row;
}

bool Controller::AnswerWithoutFiles(Submission& submission) {
  const v1::CreateJobRequest& request = submission.request;
  const std::string& project = request.project();
  const auto answer = [&](const absl::Status& status) {
    submission.Refuse(status);
    return true;
  };
  if (request.request_id().size() > kMaxRequestId) {
    return answer(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID",
                            absl::StrCat("request_id is longer than ", kMaxRequestId, " bytes")));
  }
  if (const size_t bytes = request.spec().ByteSizeLong() + request.changes().ByteSizeLong();
      bytes > kMaxSpecBytes) {
    return answer(MakeError(absl::StatusCode::kInvalidArgument, "SPEC_TOO_LARGE",
                            absl::StrCat("the spec has ", bytes, " bytes, more than ",
                                         kMaxSpecBytes, "; put what is large into files")));
  }
  const std::string key = absl::StrCat(project, "/", request.request_id());
  if (!request.request_id().empty() && AnswerRepeat(request, project, key, submission.done)) {
    return true;
  }
  if (const absl::Status quota = CheckNewJob(project); !quota.ok()) return answer(quota);
  if (!request.checkpoint().empty() && request.has_spec()) {
    return answer(absl::InvalidArgumentError("give a spec or a checkpoint, not both"));
  }
  if (request.checkpoint().empty() && request.has_changes()) {
    return answer(absl::InvalidArgumentError(
        "changes are to the spec of a checkpoint's job; give the checkpoint"));
  }
  return false;
}

void Controller::Admit(const std::shared_ptr<Submission>& submission) {
  if (AnswerWithoutFiles(*submission)) return;  // other calls were admitted meanwhile
  if (submission->gone != nullptr && submission->gone()) {
    return submission->Refuse(absl::CancelledError("the caller is gone"));
  }
  const v1::CreateJobRequest& request = submission->request;
  const Callback<v1::Job>& done = submission->done;
  const std::string& project = request.project();
  const bool from_checkpoint = !request.checkpoint().empty();
  if (from_checkpoint && submission->origin.checkpoint.empty()) {
    return submission->Refuse(submission->read);
  }
  const int64_t order = jobs_.next_order();  // only this method adds jobs
  v1::Job job;
  const absl::Time now = clock_.Now();
  job.set_uid(submission->uid);
  *job.mutable_create_time() = ToProtoSeconds(now);
  const char* kind = from_checkpoint                                      ? "resumed"
                     : request.spec().kind() == v1::JOB_KIND_SFT          ? "sft"
                     : request.spec().kind() == v1::JOB_KIND_REWARD_MODEL ? "reward-model"
                                                                          : "rl";
  const auto name = ChooseName(request, project, kind, order, submission->origin);
  if (!name.ok()) return submission->Refuse(name.status());
  if (!submission->read.ok()) return submission->Refuse(submission->read);
  job.set_name(*name);
  auto row = FirstRow(submission.get(), std::move(job), order);
  if (!row.ok()) return submission->Refuse(row.status());
  folder_bytes_.Touch(*name, submission->room_bytes);
  JobCore core = from_checkpoint ? JobCore(*std::move(row), {}, context_.epoch, options_.core)
                                 : JobCore(std::move(*row->mutable_job()), order, options_.core);
  store::v1::RequestRow call;
  call.set_checkpoint(request.checkpoint());
  if (from_checkpoint) *call.mutable_changes() = request.changes();
  Launch(std::move(core), order, {request.request_id(), std::move(call)}, {}, done);
}

void Controller::Launch(JobCore core, int64_t order, Admitted call, std::vector<store::Write> extra,
                        Callback<v1::Job> done) {
  const auto runtime = std::make_shared<JobRuntime>(&context_, std::move(core), 1,
                                                    /*stored=*/false);
  jobs_.Add(runtime, order);
  ended_->Count(runtime->name(), 1);
  const std::string& name = runtime->name();
  const std::string request_key = absl::StrCat(access::ProjectOf(name), "/", call.request_id);
  if (!call.request_id.empty()) {
    call.row.set_job(name);
    extra.push_back({kRequestTable, request_key, call.row.SerializeAsString()});
    admitting_[request_key] = {runtime, std::move(call.row)};
  }
  const std::string& made_by = call.request_id.empty() ? call.request_id : request_key;
  for (store::Write& write : RowsOfOrder(name, order, made_by)) extra.push_back(std::move(write));
  runtime->Start(std::move(extra), [this, runtime, request_key, done = std::move(done)] {
    // Before the caller learns of the job: from now on no start may remove its folder as
    // unfinished.
    gate_.Post(admission_, [this, job = runtime->Snapshot(), request_key, done] {
      Committed(JobFolderOf(options_.data_root, job.name()));
      admitting_.erase(request_key);
      done(job);
    });
  });
}

}  // namespace baton::controller
