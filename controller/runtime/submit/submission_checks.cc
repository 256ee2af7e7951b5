#include "controller/runtime/submit/submission_checks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/model_config.h"
#include "controller/runtime/submit/plan_placement.h"
#include "controller/spec/dataflow/check_dataflow.h"
#include "controller/spec/dataflow/role_needs.h"
#include "controller/spec/job_spec/check_saved.h"
#include "controller/spec/job_spec/check_submitted.h"
#include "controller/spec/job_spec/models.h"
#include "controller/spec/job_spec/same_prompts.h"
#include "controller/spec/job_spec/spec.h"
#include "controller/spec/settings/check_speculation.h"
#include "controller/spec/settings/step_size.h"
#include "controller/spec/settings/training_length.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/data_set/answer_use.h"
#include "sdk/common/data_set/rule_sources.h"
#include "sdk/common/messages/violations.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

CheckerPool::Options CheckersOf(const ControllerOptions& options) {
  CheckerPool::Options out;
  out.program = options.checker;
  out.processes = options.check_processes;
  out.limit = options.check_limit;
  return out;
}

void AddTo(std::vector<v1::FieldViolation>* all, std::vector<v1::FieldViolation> more) {
  std::move(more.begin(), more.end(), std::back_inserter(*all));
}

// The problem with a command's working directory, which is on the worker's machine; empty: none.
// The command can read everything below it. The folder of uploads has the files of all projects, so
// it is closed.
std::string CommandFolderProblem(const std::string& folder, const std::string& project,
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

// A saved job that goes on without changes keeps its data.
bool KeepsData(const Submission& submission) {
  return submission.from_checkpoint() && !submission.request.has_changes();
}

std::vector<AnswerUse> AnswerUsesOf(Submission* submission) {
  if (KeepsData(*submission)) return {};
  return AnswerUses(*submission->effective(), submission->dataflow());
}

}  // namespace

SubmissionChecks::SubmissionChecks(ControllerScope* scope, Uploads* uploads,
                                   const Projects* projects, ModelFolders* models, SavedJobs* saved,
                                   SpecUploads* spec_uploads)
    : scope_(scope),
      projects_(projects),
      models_(models),
      saved_(saved),
      spec_uploads_(spec_uploads),
      contents_({scope->options.data_root, scope->options.max_data_bytes,
                 scope->options.max_data_memory_bytes, CheckersOf(scope->options)},
                uploads, &scope->data_readers) {}

// The only chain of checks, for ValidateJob and CreateJob, for a new spec and for a saved job. In
// this order: the spec, the size of a step, the files that it names, their contents, and the
// workers that could do the work.
void SubmissionChecks::CheckAll(const std::shared_ptr<Submission>& submission, bool keeps,
                                Then then) {
  if (submission->from_checkpoint()) {
    if (absl::Status begun = saved_->Prepare(submission.get()); !begun.ok()) {
      return then(std::move(begun));
    }
  } else {
    submission->checked = CheckSpec(submission->request.spec());
    submission->violations = std::move(submission->checked.violations);
  }
  Violations& out = submission->violations;
  v1::JobSpec* effective = submission->effective();
  const v1::CreateJobRequest& request = submission->request;
  if (!submission->from_checkpoint() || request.has_changes()) {
    AddTo(&out, CheckSubmitted(submission->from_checkpoint() ? request.changes() : request.spec(),
                               *effective, submission->dataflow()));
  }
  AddTo(&out, CheckStepSize(*effective, submission->dataflow(),
                            projects_->StepLimitsOf(submission->request.project())));
  AddTo(&out, projects_->CheckPriority(*effective, submission->request.project()));
  AddTo(&out, CheckFiles(submission.get()));
  const Then end = [this, submission, then = std::move(then)](absl::Status looked) {
    if (looked.ok()) CheckLast(submission.get());
    then(std::move(looked));
  };
  // Problems of a model or of data that were reported already are not reported again.
  const bool readable = std::none_of(out.begin(), out.end(), [](const v1::FieldViolation& v) {
    return absl::StrContains(v.field(), ".model") || absl::StartsWith(v.field(), "spec.kind") ||
           absl::StartsWith(v.field(), "spec.data");
  });
  if (readable) return CheckContents(submission, keeps, end);
  end(absl::OkStatus());
}

std::vector<v1::FieldViolation> SubmissionChecks::CheckFiles(Submission* submission) {
  Violations out = CheckModels(submission);
  const v1::JobSpec& effective = *submission->effective();
  if (out.empty()) out = CheckModelConfigs(effective);
  if (std::string problem = CommandFolderProblem(effective.reward().working_dir(),
                                                 submission->request.project(), scope_->options);
      !problem.empty()) {
    out.push_back(Violation("spec.reward.working_dir", problem));
  }
  AddTo(&out, CheckData(submission));
  return out;
}

std::vector<v1::FieldViolation> SubmissionChecks::CheckModels(Submission* submission) {
  Violations out;
  std::map<std::string, absl::StatusOr<std::string>> folders;  // each reference is resolved once
  for (const auto& [field, model] : ModelsOf(submission->effective())) {
    if (model->path().empty()) continue;
    const auto [folder, fresh] = folders.try_emplace(model->path());
    if (fresh) folder->second = models_->Find(model->path(), submission);
    if (folder->second.ok()) {
      model->set_path(*folder->second);
      submission->model_features.merge(ModelFeaturesOf(*folder->second));
    } else if (fresh) {  // a problem that several roles share is reported once
      out.push_back(Violation(absl::StrCat("spec.", field, ".path"),
                              std::string(folder->second.status().message())));
    }
  }
  return out;
}

// The lists of data files of one submission, as they are read.
struct SubmissionChecks::Lists {
  /// Reads a list. Returns the number of examples.
  uint64_t Read(const std::string& list, google::protobuf::RepeatedPtrField<std::string>* files,
                const DataSetOptions& how) {
    const std::string field = "spec.data." + list;
    std::vector<std::string> paths;
    for (std::string& file : *files) {
      const absl::Status open = uploads->Open(submission->request.project(), &file);
      if (!open.ok()) {
        out.push_back(Violation(field, std::string(open.message())));
        return 0;  // nothing of it is read
      }
      paths.push_back(absl::StartsWith(file, "/") ? file : absl::StrCat(data_root, "/", file));
    }
    const DataSet data = ReadDataFiles(paths, how, limits);
    memory_bytes += data.memory_bytes;
    for (const std::string& problem : data.problems) out.push_back(Violation(field, problem));
    if (!files->empty()) *submission->data_files.Add() = Summarise(list, data);
    if (data.chat_settings) submission->model_features.insert(kChatSettingsFeature);
    if (list != "pretrain_files") {
      for (const Example& example : data.examples) sources.insert(example.source);
    }
    return data.examples.size();
  }

  Submission* submission = nullptr;
  SpecUploads* uploads = nullptr;
  const std::string& data_root;
  DataLimits limits;
  uint64_t memory_bytes = 0;      // of all lists
  std::set<std::string> sources;  // of the lines that rewards judge
  Violations out;
};

std::vector<v1::FieldViolation> SubmissionChecks::CheckData(Submission* submission) {
  v1::JobSpec* const effective = submission->effective();
  v1::DataSpec* const data = effective->mutable_data();
  DataLimits limits;
  limits.bytes = scope_->options.max_data_bytes;
  limits.memory_bytes = scope_->options.max_data_memory_bytes;
  Lists lists{submission, spec_uploads_, scope_->options.data_root, limits, 0, {}, {}};
  DataSetOptions how = OptionsOf(effective->kind(), *data);
  how.answer_uses = AnswerUsesOf(submission);
  lists.Read("train_files", data->mutable_train_files(), how);
  const uint64_t held_out = lists.Read("val_files", data->mutable_val_files(), how);
  const StepLimits steps = projects_->StepLimitsOf(submission->request.project());
  if (std::string large = EvaluationTooLarge(*effective, held_out, steps); !large.empty()) {
    lists.out.push_back(Violation("spec.data.val_files", large));
  }
  if (lists.out.empty() && !KeepsData(*submission)) {
    for (const SourceProblem& problem : FindSourceProblems(*effective, lists.sources)) {
      lists.out.push_back(Violation(problem.field, problem.what));
    }
  }
  lists.Read("pretrain_files", data->mutable_pretrain_files(), OptionsOf(v1::JOB_KIND_SFT, *data));
  if (std::string large = DataTooLarge(lists.memory_bytes, limits); !large.empty()) {
    lists.out.push_back(Violation("spec.data", large));
  }
  return std::move(lists.out);
}

// Checks the contents of models and data.
void SubmissionChecks::CheckContents(const std::shared_ptr<Submission>& submission, bool keeps,
                                     Then then) {
  contents_.Check({submission->effective(), &submission->data_files, AnswerUsesOf(submission.get()),
                   submission->request.project(), keeps, submission->gone},
                  [submission, then = std::move(then)](absl::StatusOr<Violations> found) {
                    if (found.ok()) AddTo(&submission->violations, *std::move(found));
                    then(found.status());
                  });
}

// The last checks, after models and data.
void SubmissionChecks::CheckLast(Submission* submission) {
  Violations& out = submission->violations;
  submission->NameSources(&out);
  // A saved job keeps its pools, and waits for workers like those that it had.
  if (submission->from_checkpoint()) return;
  CheckedSpec& checked = submission->checked;
  if (out.empty()) FillStepsOf(submission);
  AddTo(&out, CheckSeed(*submission));
  AddTo(&out, CheckOffers(*submission));
  if (out.empty()) {
    out = PlanPlacement(submission->request.spec(), checked.dataflow, &checked.effective);
  }
}

// The steps that trainer.total_epochs makes of the examples that the job uses, now that they are
// counted and those that are too long are left out.
void SubmissionChecks::FillStepsOf(Submission* submission) {
  uint64_t examples = 0;
  for (const v1::DataFilesSummary& list : submission->data_files) {
    if (list.list() == "train_files") examples = list.examples();
  }
  baton::Violations found;
  FillSteps(examples, &submission->checked.effective, &found);
  AddTo(&submission->violations, found.Take());
}

// The job whose responses the new one begins with. A name has no slash, so it is always looked up
// in the job's own project.
std::vector<v1::FieldViolation> SubmissionChecks::CheckSeed(const Submission& submission) const {
  const std::string seed = SeedJob(submission.checked.effective);
  if (seed.empty()) return {};
  const std::string name = FullJobName(seed, submission.request.project());
  const auto job = scope_->ended->Describe(name);
  const std::string field = "spec.rollout.speculation.seed_from";
  if (!job.ok()) {
    return {Violation(field, absl::StrCat("there is no job '", name,
                                          "'; name one of this project (`baton jobs` lists them), "
                                          "or remove seed_from"))};
  }
  // A job that was quarantined is shown with the specs of its rows, which may be invalid.
  if (const std::string problem = ProblemOfSaved(*job); !problem.empty()) {
    return {Violation(field, absl::StrCat("the spec of job '", name, "' is not a good one: ",
                                          problem, "; name another job, or remove seed_from"))};
  }
  const std::string why = WhyOtherPrompts(submission.checked.effective, job->effective_spec());
  if (why.empty()) return {};
  return {Violation(field, absl::StrCat("job '", name, "' had other prompts: ", why,
                                        "; name a job over the same data, or remove seed_from"))};
}

// Offers that the job needs and that no worker that has attached so far has. A role of Baton's own
// that no worker has played yet is not reported: its workers may come later, and the job waits for
// them.
std::vector<v1::FieldViolation> SubmissionChecks::CheckOffers(const Submission& submission) const {
  std::vector<v1::FieldViolation> out;
  const CheckedSpec& checked = submission.checked;
  const auto& features = submission.model_features;
  const std::set<std::string> foreign = ForeignRoles(checked.dataflow);
  for (const auto& [role, need] :
       RoleNeedsOf(checked.effective, checked.dataflow, {features.begin(), features.end()})) {
    const WorkerDirectory::RoleSupport support =
        scope_->cluster->directory().SupportOf(role, need, submission.request.project());
    if (support.known ? support.missing.none() : foreign.count(role) == 0) continue;
    const MissingSupport missing = support.known ? support.missing : MissingFrom({}, role, need);
    std::string text = absl::StrCat("no attached worker of role ", role, " ", SupportText(missing));
    if (!missing.method.empty() && !support.methods.empty()) {
      absl::StrAppend(&text, "; offered are: ", absl::StrJoin(support.methods, ", "));
    }
    out.push_back(Violation(
        FieldOfOffer(checked.effective, checked.dataflow, role, missing),
        absl::StrCat(text, "; ", MissingSupportRemedy(role, missing), ", then submit again")));
  }
  return out;
}

}  // namespace baton::controller
