// Controller: how a job comes to be. What its spec names is looked at, and then it is one.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/core/check_dataflow.h"
#include "controller/core/presets.h"
#include "controller/core/roles.h"
#include "controller/core/spec.h"
#include "controller/core/step_size.h"
#include "controller/runtime/checkpoint_rows.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/data_files.h"
#include "controller/runtime/folders.h"
#include "controller/runtime/job_folders.h"
#include "controller/runtime/model_config.h"
#include "controller/runtime/plan_placement.h"
#include "controller/runtime/tables.h"
#include "google/protobuf/util/message_differencer.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status InvalidName(absl::string_view what, absl::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                   absl::StrCat(what, " '", value, "' is not 1-63 characters of a-z, 0-9 and '-'"));
}

constexpr size_t kMaxRequestId = 256;
constexpr size_t kMaxSpecBytes = 1 << 20;

}  // namespace

// The models that a spec names, by their fields.
static std::vector<std::pair<std::string, v1::ModelSpec*>> ModelsOf(v1::JobSpec* spec) {
  std::vector<std::pair<std::string, v1::ModelSpec*>> models = {{"model", spec->mutable_model()}};
  if (spec->has_critic())
    models.emplace_back("critic.model", spec->mutable_critic()->mutable_model());
  if (spec->has_cost_critic()) {
    models.emplace_back("cost_critic.model", spec->mutable_cost_critic()->mutable_model());
  }
  if (spec->has_reference()) {
    models.emplace_back("reference.model", spec->mutable_reference()->mutable_model());
  }
  if (spec->has_reward_model()) {
    models.emplace_back("reward_model.model", spec->mutable_reward_model()->mutable_model());
  }
  if (spec->has_cost_model()) {
    models.emplace_back("cost_model.model", spec->mutable_cost_model()->mutable_model());
  }
  if (spec->has_judge()) models.emplace_back("judge.model", spec->mutable_judge()->mutable_model());
  return models;
}

// The folder that `path` names; or what is wrong with it.
absl::StatusOr<std::string> Controller::ResolveModel(const std::string& path,
                                                     const std::string& project) {
  if (absl::StartsWith(path, "job:")) {
    const std::string source = FullJobName(path.substr(4), project);
    if (paths_.confined() && access::ProjectOf(source) != project) {
      return absl::InvalidArgumentError(absl::StrCat("job '", source, "' is of another project"));
    }
    const auto row = store_->Get(kJobTable, source);
    store::v1::JobRow job;
    if (!row.ok() || !row->has_value() || !job.ParseFromString(**row)) {
      return absl::InvalidArgumentError(absl::StrCat("there is no job '", source, "'"));
    }
    std::vector<store::Write> unused;
    BATON_RETURN_IF_ERROR(ReadCheckpoints(*store_, source, &job, &unused));
    if (job.checkpoints().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("job '", source, "' has no complete checkpoint yet"));
    }
    return job.checkpoints(job.checkpoints_size() - 1).path() + "/actor";
  }
  const std::string folder =
      absl::StartsWith(path, "/") ? path : absl::StrCat(options_.data_root, "/", path);
  BATON_RETURN_IF_ERROR(paths_.CheckFolder(folder, project));
  std::error_code code;
  if (fs::exists(folder + "/config.json", code)) return folder;
  return absl::InvalidArgumentError(
      absl::StrCat("no config.json in ", folder, "; give a Hugging Face directory, or job:NAME"));
}

// What a command's working directory, of the worker's machine, may not be; empty: it may be that.
// Its command reads all that is below. Uploads are of all projects, so they are not open to it.
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

// Files and folders that the spec names: what is wrong with them, all at once.
std::vector<v1::FieldViolation> Controller::CheckFiles(
    v1::JobSpec* effective, const std::string& project,
    std::map<std::string, std::string>* of_jobs) {
  std::vector<v1::FieldViolation> out;
  std::set<std::string> wrong;  // a path that several roles share is said once
  for (const auto& [field, model] : ModelsOf(effective)) {
    if (model->path().empty()) continue;
    const auto folder = ResolveModel(model->path(), project);
    if (folder.ok()) {
      if (of_jobs != nullptr && absl::StartsWith(model->path(), "job:")) {
        of_jobs->emplace(*folder, model->path());
      }
      model->set_path(*folder);
    } else if (wrong.insert(model->path()).second) {
      out.push_back(
          Violation(absl::StrCat("spec.", field, ".path"), std::string(folder.status().message())));
    }
  }
  if (out.empty()) out = CheckModelConfigs(*effective);
  if (std::string problem =
          CommandFolderProblem(effective->reward().working_dir(), project, options_);
      !problem.empty()) {
    out.push_back(Violation("spec.reward.working_dir", problem));
  }
  // Answers how many examples there are.
  auto check = [&](const std::string& field, google::protobuf::RepeatedPtrField<std::string>* files,
                   const DataSetOptions& options) -> uint64_t {
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
    const DataSet data = ReadDataFiles(paths, options, options_.max_data_bytes);
    for (const std::string& problem : data.problems) out.push_back(Violation(field, problem));
    return data.examples.size();
  };
  check("spec.data.train_files", effective->mutable_data()->mutable_train_files(),
        OptionsOf(effective->kind(), /*held_out=*/false));
  const uint64_t held_out =
      check("spec.data.val_files", effective->mutable_data()->mutable_val_files(),
            OptionsOf(effective->kind(), /*held_out=*/true));
  if (std::string large = EvaluationTooLarge(*effective, held_out, LimitsOf(project));
      !large.empty()) {
    out.push_back(Violation("spec.data.val_files", large));
  }
  check("spec.data.pretrain_files", effective->mutable_data()->mutable_pretrain_files(),
        OptionsOf(v1::JOB_KIND_SFT, /*held_out=*/false));
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

std::vector<v1::FieldViolation> Controller::CheckAll(const v1::JobSpec& spec,
                                                     const std::string& project,
                                                     CheckedSpec* checked,
                                                     std::map<std::string, std::string>* of_jobs) {
  *checked = CheckSpec(spec);
  std::vector<v1::FieldViolation> out = std::move(checked->violations);
  CheckStepSize(checked->effective, checked->dataflow, LimitsOf(project), &out);
  for (v1::FieldViolation& violation : CheckFiles(&checked->effective, project, of_jobs)) {
    out.push_back(std::move(violation));
  }
  for (v1::FieldViolation& violation : CheckMethods(checked->dataflow)) {
    out.push_back(std::move(violation));
  }
  if (out.empty()) out = PlanPlacement(spec, checked->dataflow, &checked->effective);
  return out;
}

uint64_t Controller::DataBytes(const v1::DataSpec& data) const {
  std::vector<std::string> paths;
  for (const auto* files : {&data.train_files(), &data.val_files(), &data.pretrain_files()}) {
    for (const std::string& file : *files) {
      paths.push_back(absl::StartsWith(file, "/") ? file
                                                  : absl::StrCat(options_.data_root, "/", file));
    }
  }
  return BytesOf(paths);
}

void Controller::ValidateJob(v1::ValidateJobRequest request,
                             Callback<v1::ValidateJobResponse> done) {
  const std::string project = request.project().empty() ? "default" : request.project();
  if (!access::ValidId(project)) return done(InvalidName("project", project));
  const auto spec = std::make_shared<const v1::JobSpec>(std::move(*request.mutable_spec()));
  const auto size = [this, spec] { return DataBytes(spec->data()); };
  data_readers_.Post(size, [this, spec, project, done = std::move(done)] {
    CheckedSpec checked;
    v1::ValidateJobResponse answer;
    for (v1::FieldViolation& violation : CheckAll(*spec, project, &checked, nullptr)) {
      *answer.add_violations() = std::move(violation);
    }
    *answer.mutable_effective_spec() = std::move(checked.effective);
    *answer.mutable_dataflow() = std::move(checked.dataflow);
    done(std::move(answer));
  });
}

// What needs no file is answered first, the files are looked at by threads that nothing else waits
// for, and then it is one at a time: two calls with one request id, or one name, meet in Admit.
void Controller::CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done) {
  if (request.project().empty()) request.set_project("default");
  if (!access::ValidId(request.project())) return done(InvalidName("project", request.project()));
  const auto submission = std::make_shared<Submission>();
  submission->request = std::move(request);
  submission->done = std::move(done);
  gate_.Post(admission_, [this, submission] {
    if (AnswerWithoutFiles(*submission)) return;
    const auto size = [this, submission] { return FindSize(submission.get()); };
    data_readers_.Post(size, [this, submission] {
      if (submission->read.ok()) submission->read = Read(submission.get());
      gate_.Post(admission_, [this, submission] { Admit(submission); });
    });
  });
}

// Bytes that have to be read to look at it.
uint64_t Controller::FindSize(Submission* submission) {
  const v1::CreateJobRequest& request = submission->request;
  if (request.checkpoint().empty()) return DataBytes(request.spec().data());
  submission->read = FindSaved(submission);
  if (!submission->read.ok()) return 0;
  std::vector<std::string> kept;
  std::error_code code;
  for (fs::recursive_directory_iterator entry(submission->origin.checkpoint / "data", code), end;
       !code && entry != end; entry.increment(code)) {
    kept.push_back(entry->path().string());
  }
  return BytesOf(kept) + DataBytes(submission->saved.job().effective_spec().data());
}

absl::Status Controller::Read(Submission* submission) {
  if (!submission->request.checkpoint().empty()) return ReadSaved(submission);
  const auto violations = CheckAll(submission->request.spec(), submission->request.project(),
                                   &submission->checked, &submission->of_jobs);
  return violations.empty() ? absl::OkStatus() : MakeSpecError(violations);
}

// A call whose request id was seen answers the first call's job, once that is stored.
bool Controller::AnswerRepeat(const v1::CreateJobRequest& request, const std::string& project,
                              const std::string& request_key, const Callback<v1::Job>& done) {
  std::shared_ptr<JobRuntime> job;
  std::optional<std::string> checkpoint;  // absent: an earlier release did not keep it
  const auto reused = [&request](const std::string& what) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
        absl::StrCat("request_id '", request.request_id(), "' ", what, "; give each call its own"));
  };
  if (auto it = admitting_.find(request_key); it != admitting_.end()) {
    job = it->second.job;
    checkpoint = it->second.checkpoint;
  } else {
    auto earlier = store_->Get(kRequestTable, request_key);
    if (!earlier.ok()) {
      done(earlier.status());
      return true;
    }
    store::v1::RequestRow row;
    if (!earlier->has_value() || !row.ParseFromString(**earlier)) return false;
    if (!row.method().empty()) {
      done(reused(absl::StrCat("was that of a ", row.method())));
      return true;
    }
    if (row.has_checkpoint()) checkpoint = row.checkpoint();
    absl::MutexLock lock(&mu_);
    auto found = jobs_.find(row.job());
    if (found == jobs_.end()) return false;
    job = found->second;
  }
  if (checkpoint.has_value() && *checkpoint != request.checkpoint()) {
    const std::string from =
        checkpoint->empty() ? "a spec" : absl::StrCat("checkpoint ", *checkpoint);
    done(reused(absl::StrCat("made job '", job->name(), "' from ", from)));
    return true;
  }
  job->Describe([request, project, done](absl::StatusOr<v1::Job> first) {
    const bool same =
        (!request.checkpoint().empty() ||
         google::protobuf::util::MessageDifferencer::Equals(first->spec(), request.spec())) &&
        (request.job_id().empty() || FullJobName(request.job_id(), project) == first->name());
    if (same) return done(std::move(first));
    done(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                   absl::StrCat("request_id '", request.request_id(), "' made job '", first->name(),
                                "' of another spec; give each job its own"),
                   {{"job", first->name()}}));
  });
  return true;
}

std::vector<v1::FieldViolation> Controller::CheckMethods(const v1::Dataflow& dataflow) const {
  std::vector<v1::FieldViolation> out;
  for (const ForeignMethod& foreign : ForeignMethods(dataflow)) {
    if (directory_.Serves(foreign.role, foreign.method)) continue;
    out.push_back(Violation(
        foreign.field,
        absl::StrCat("no worker has registered method '", foreign.method, "' of role '",
                     foreign.role, "'; start the worker that serves it, then submit again")));
  }
  return out;
}

// Models of other jobs become copies of its own: that job may be deleted, or its checkpoint give
// way to newer ones, before this one starts, or starts again. Since it was looked at, a newer one
// may have come already.
absl::Status Controller::CopyModels(const Submission& submission, v1::JobSpec* effective,
                                    StagedFolder* staged) {
  std::map<std::string, std::string> copies;  // by where they come from
  for (const auto& [field, model] : ModelsOf(effective)) {
    const auto source = submission.of_jobs.find(model->path());
    if (source == submission.of_jobs.end()) continue;
    std::string& copy = copies[source->first];
    if (copy.empty()) {
      const std::string name = copies.size() == 1 ? "model" : absl::StrCat("model-", copies.size());
      BATON_ASSIGN_OR_RETURN(const std::string folder,
                             ResolveModel(source->second, submission.request.project()));
      BATON_RETURN_IF_ERROR(LinkFolder(folder, staged->Stage(name)));
      copy = staged->Final(name).string();
    }
    model->set_path(copy);
  }
  return absl::OkStatus();
}

absl::StatusOr<store::v1::JobRow> Controller::FromSpec(Submission* submission, v1::Job job,
                                                       StagedFolder* staged) {
  CheckedSpec& checked = submission->checked;
  if (const v1::ResourcesSpec& resources = checked.effective.resources();
      resources.pools_size() > 0) {
    Log(LogLevel::kInfo, "roles placed",
        {{"job", job.name()}, {"pools", PlacementText(resources)}});
  }
  BATON_RETURN_IF_ERROR(CopyModels(*submission, &checked.effective, staged));
  *job.mutable_spec() = std::move(*submission->request.mutable_spec());
  *job.mutable_effective_spec() = std::move(checked.effective);
  *job.mutable_dataflow() = std::move(checked.dataflow);
  store::v1::JobRow row;
  *row.mutable_job() = std::move(job);
  return row;
}

// The row of a job to be, whose files have their place; after an error nothing is left of them.
absl::StatusOr<store::v1::JobRow> Controller::FirstRow(Submission* submission, v1::Job job,
                                                       int64_t order) {
  const std::string name = job.name(), uid = job.uid();
  const std::string folder = JobRuntime::Directory(options_.data_root, name);
  StagedFolder staged(folder, uid, submission->adopt);
  auto row = submission->request.checkpoint().empty()
                 ? FromSpec(submission, std::move(job), &staged)
                 : FromCheckpoint(*submission, std::move(job), order, &staged);
  if (!row.ok()) return row.status();
  if (submission->adopt) BATON_RETURN_IF_ERROR(SetAsideAfter(folder, row->saved_step(), uid));
  BATON_RETURN_IF_ERROR(staged.Keep());
  return row;
}

bool Controller::AnswerWithoutFiles(const Submission& submission) {
  const v1::CreateJobRequest& request = submission.request;
  const std::string& project = request.project();
  const auto answer = [&](const absl::Status& status) {
    submission.done(status);
    return true;
  };
  if (request.request_id().size() > kMaxRequestId) {
    return answer(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID",
                            absl::StrCat("request_id is longer than ", kMaxRequestId, " bytes")));
  }
  if (const size_t bytes = request.spec().ByteSizeLong(); bytes > kMaxSpecBytes) {
    return answer(MakeError(absl::StatusCode::kInvalidArgument, "SPEC_TOO_LARGE",
                            absl::StrCat("the spec has ", bytes, " bytes, more than ",
                                         kMaxSpecBytes, "; put what is large into files")));
  }
  const std::string key = absl::StrCat(project, "/", request.request_id());
  if (!request.request_id().empty() && AnswerRepeat(request, project, key, submission.done)) {
    return true;
  }
  if (const absl::Status quota = CheckJobQuota(project); !quota.ok()) return answer(quota);
  if (!request.checkpoint().empty() && request.has_spec()) {
    return answer(absl::InvalidArgumentError("give a spec or a checkpoint, not both"));
  }
  return false;
}

void Controller::Admit(const std::shared_ptr<Submission>& submission) {
  if (AnswerWithoutFiles(*submission)) return;  // others were admitted meanwhile
  const v1::CreateJobRequest& request = submission->request;
  const Callback<v1::Job>& done = submission->done;
  const std::string& project = request.project();
  const std::string request_key = absl::StrCat(project, "/", request.request_id());
  const bool from_checkpoint = !request.checkpoint().empty();
  if (from_checkpoint && submission->origin.checkpoint.empty()) return done(submission->read);
  int64_t order = 0;
  {
    absl::MutexLock lock(&mu_);
    order = next_order_;  // this method alone counts it on
  }
  v1::Job job;
  const absl::Time now = clock_.Now();
  job.set_uid(absl::StrCat(absl::Hex(absl::ToUnixNanos(now)), "-", order));
  job.mutable_create_time()->set_seconds(absl::ToUnixSeconds(now));
  const char* kind = from_checkpoint                                      ? "resumed"
                     : request.spec().kind() == v1::JOB_KIND_SFT          ? "sft"
                     : request.spec().kind() == v1::JOB_KIND_REWARD_MODEL ? "reward-model"
                                                                          : "rl";
  const auto name = ChooseName(request, project, kind, order, submission->origin);
  if (!name.ok()) return done(name.status());
  if (!submission->read.ok()) return done(submission->read);
  job.set_name(*name);
  auto row = FirstRow(submission.get(), std::move(job), order);
  if (!row.ok()) return done(row.status());
  JobCore core = from_checkpoint ? JobCore(*std::move(row), {}, context_.epoch, options_.core)
                                 : JobCore(std::move(*row->mutable_job()), order, options_.core);
  const auto runtime = std::make_shared<JobRuntime>(&context_, std::move(core), 1,
                                                    /*stored=*/false);
  {
    absl::MutexLock lock(&mu_);
    jobs_[*name] = runtime;
    order_[*name] = order;
    next_order_ = order + 1;
  }
  std::vector<store::Write> extra;
  if (!request.request_id().empty()) {
    store::v1::RequestRow row;
    row.set_job(runtime->name());
    row.set_checkpoint(request.checkpoint());
    extra.push_back({kRequestTable, request_key, row.SerializeAsString()});
    admitting_[request_key] = {runtime, request.checkpoint()};
    absl::MutexLock lock(&mu_);
    requests_of_[runtime->name()].push_back(request_key);
  }
  runtime->Start(std::move(extra), [this, runtime, request_key, done] {
    done(runtime->Snapshot());
    gate_.Post(admission_, [this, name = runtime->name(), request_key] {
      Committed(JobRuntime::Directory(options_.data_root, name));
      admitting_.erase(request_key);
    });
  });
}

}  // namespace baton::controller
