// Controller: how a job comes to be. What its spec names is looked at, and then it is one.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/spec.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/tables.h"
#include "google/protobuf/util/message_differencer.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status InvalidName(absl::string_view what, absl::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                   absl::StrCat(what, " '", value, "' is not 1-63 characters of a-z, 0-9 and '-'"));
}

bool ValidId(absl::string_view id) {
  return !id.empty() && id.size() <= 63 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

constexpr size_t kMaxRequestId = 256;

v1::FieldViolation Violation(const std::string& field, const std::string& description) {
  v1::FieldViolation violation;
  violation.set_field(field);
  violation.set_description(description);
  return violation;
}

// The job's own copy of a checkpoint of another job, which may be deleted or give way to newer ones
// before this one starts, or starts again. Files are linked where the file system can.
absl::Status PinModel(const std::string& job_folder, v1::ModelSpec* model) {
  const fs::path from = model->path(), to = job_folder + "/model";
  std::error_code code;
  fs::remove_all(to, code);
  fs::create_directories(to, code);
  for (fs::recursive_directory_iterator it(from, code), end; !code && it != end;
       it.increment(code)) {
    const fs::path target = to / fs::relative(it->path(), from);
    if (it->is_directory()) {
      fs::create_directories(target, code);
      continue;
    }
    fs::create_hard_link(it->path(), target, code);
    if (code) fs::copy_file(it->path(), target, code);
    if (code) break;
  }
  if (code) {
    const std::string message =
        absl::StrCat("spec.model.path: cannot keep a copy of ", from.string(), " in ", to.string(),
                     ": ", code.message());
    fs::remove_all(job_folder, code);
    return absl::UnavailableError(message + "; try again");
  }
  model->set_path(to.string());
  return absl::OkStatus();
}

}  // namespace

// Files and folders that the spec names: what is wrong with them, all at once.
std::vector<v1::FieldViolation> Controller::CheckFiles(v1::JobSpec* effective) {
  std::vector<v1::FieldViolation> out;
  v1::ModelSpec* model = effective->mutable_model();
  if (absl::StartsWith(model->path(), "job:")) {
    const std::string source = FullJobName(model->path().substr(4));
    auto row = store_->Get(kJobTable, source);
    store::v1::JobRow job;
    if (!row.ok() || !row->has_value() || !job.ParseFromString(**row)) {
      out.push_back(Violation("spec.model.path", absl::StrCat("there is no job '", source, "'")));
    } else if (job.checkpoints().empty()) {
      out.push_back(Violation("spec.model.path",
                              absl::StrCat("job '", source, "' has no complete checkpoint yet")));
    } else {
      model->set_path(job.checkpoints(job.checkpoints_size() - 1).path() + "/actor");
    }
  } else if (!model->path().empty()) {
    std::error_code code;
    if (!absl::StartsWith(model->path(), "/")) {
      model->set_path(absl::StrCat(options_.data_root, "/", model->path()));
    }
    if (!fs::exists(model->path() + "/config.json", code)) {
      out.push_back(Violation("spec.model.path",
                              absl::StrCat("no config.json in ", model->path(),
                                           "; give a Hugging Face directory, or job:NAME")));
    }
  }
  auto check = [&](const std::string& field, const auto& files, const DataSetOptions& options) {
    std::vector<std::string> paths;
    for (const std::string& file : files) {
      paths.push_back(absl::StartsWith(file, "/") ? file
                                                  : absl::StrCat(options_.data_root, "/", file));
    }
    for (const std::string& problem : ReadDataSet(paths, options).problems) {
      out.push_back(Violation(field, problem));
    }
  };
  DataSetOptions options;
  options.needs_response = effective->kind() == v1::JOB_KIND_SFT;
  check("spec.data.train_files", effective->data().train_files(), options);
  check("spec.data.val_files", effective->data().val_files(), {});
  return out;
}

void Controller::ValidateJob(v1::ValidateJobRequest request,
                             Callback<v1::ValidateJobResponse> done) {
  OnDisk<v1::ValidateJobResponse>(
      std::move(done), [this, request]() -> absl::StatusOr<v1::ValidateJobResponse> {
        CheckedSpec checked = CheckSpec(request.spec());
        v1::ValidateJobResponse answer;
        for (v1::FieldViolation& violation : CheckFiles(&checked.effective)) {
          checked.violations.push_back(std::move(violation));
        }
        for (const v1::FieldViolation& violation : checked.violations) {
          *answer.add_violations() = violation;
        }
        *answer.mutable_effective_spec() = checked.effective;
        *answer.mutable_dataflow() = checked.dataflow;
        return answer;
      });
}

void Controller::CreateJob(v1::CreateJobRequest request, Callback<v1::Job> done) {
  gate_.Post(admission_, [this, request = std::move(request), done = std::move(done)] {
    Admit(request, done);
  });
}

// A call whose request id was seen answers the first call's job, once that is stored.
bool Controller::AnswerRepeat(const v1::CreateJobRequest& request, const std::string& project,
                              const std::string& request_key, const Callback<v1::Job>& done) {
  std::shared_ptr<JobRuntime> job;
  if (auto it = admitting_.find(request_key); it != admitting_.end()) {
    job = it->second;
  } else {
    auto earlier = store_->Get(kRequestTable, request_key);
    if (!earlier.ok()) {
      done(earlier.status());
      return true;
    }
    store::v1::RequestRow row;
    if (!earlier->has_value() || !row.ParseFromString(**earlier)) return false;
    absl::MutexLock lock(&mu_);
    auto found = jobs_.find(row.job());
    if (found == jobs_.end()) return false;
    job = found->second;
  }
  job->Describe([request, project, done](absl::StatusOr<v1::Job> first) {
    const bool same =
        google::protobuf::util::MessageDifferencer::Equals(first->spec(), request.spec()) &&
        (request.job_id().empty() || FullJobName(request.job_id(), project) == first->name());
    if (same) return done(std::move(first));
    done(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                   absl::StrCat("request_id '", request.request_id(), "' made job '", first->name(),
                                "' of another spec; give each job its own"),
                   {{"job", first->name()}}));
  });
  return true;
}

// One at a time: two calls with one request id, or one name, meet here.
void Controller::Admit(const v1::CreateJobRequest& request, const Callback<v1::Job>& done) {
  const std::string project = request.project().empty() ? "default" : request.project();
  if (!ValidId(project)) return done(InvalidName("project", project));
  const std::string request_key = absl::StrCat(project, "/", request.request_id());
  if (request.request_id().size() > kMaxRequestId) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID",
                          absl::StrCat("request_id is longer than ", kMaxRequestId, " bytes")));
  }
  if (!request.request_id().empty() && AnswerRepeat(request, project, request_key, done)) return;
  CheckedSpec checked = CheckSpec(request.spec());
  for (v1::FieldViolation& violation : CheckFiles(&checked.effective)) {
    checked.violations.push_back(std::move(violation));
  }
  if (!checked.violations.empty()) return done(MakeSpecError(checked.violations));

  std::string id = request.job_id();
  std::string name;
  {
    absl::MutexLock lock(&mu_);  // what is added is added by this method alone
    if (id.empty()) {
      id = absl::StrCat(checked.effective.kind() == v1::JOB_KIND_SFT ? "sft-" : "rl-", next_order_);
    }
    if (!ValidId(id)) return done(InvalidName("job id", id));
    name = FullJobName(id, project);
    if (jobs_.count(name) > 0) {
      return done(MakeError(absl::StatusCode::kAlreadyExists, "JOB_EXISTS",
                            absl::StrCat("job '", id,
                                         "' exists; choose another name, or `baton "
                                         "delete ",
                                         id, "` when it is not needed any more"),
                            {{"job", name}}));
    }
  }
  if (absl::StartsWith(request.spec().model().path(), "job:")) {
    const absl::Status pinned = PinModel(JobRuntime::Directory(options_.data_root, name),
                                         checked.effective.mutable_model());
    if (!pinned.ok()) return done(pinned);
  }
  std::shared_ptr<JobRuntime> runtime;
  {
    absl::MutexLock lock(&mu_);
    v1::Job job;
    job.set_name(name);
    const absl::Time now = clock_.Now();
    job.set_uid(absl::StrCat(absl::Hex(absl::ToUnixNanos(now)), "-", next_order_));
    *job.mutable_spec() = request.spec();
    *job.mutable_effective_spec() = checked.effective;
    *job.mutable_dataflow() = checked.dataflow;
    job.mutable_create_time()->set_seconds(absl::ToUnixSeconds(now));
    runtime = std::make_shared<JobRuntime>(&context_, JobCore(job, next_order_, options_.core), 1,
                                           /*stored=*/false);
    jobs_[name] = runtime;
    order_[name] = next_order_++;
  }
  std::vector<store::Write> extra;
  if (!request.request_id().empty()) {
    store::v1::RequestRow row;
    row.set_job(runtime->name());
    extra.push_back({kRequestTable, request_key, row.SerializeAsString()});
    admitting_[request_key] = runtime;
  }
  runtime->Start(std::move(extra), [this, runtime, request_key, done] {
    done(runtime->Snapshot());
    gate_.Post(admission_, [this, request_key] { admitting_.erase(request_key); });
  });
}

}  // namespace baton::controller
