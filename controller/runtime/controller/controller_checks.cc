// Controller: finds the problems of a submission.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/submit/plan_placement.h"
#include "controller/spec/check_dataflow.h"
#include "controller/spec/check_saved.h"
#include "controller/spec/check_speculation.h"
#include "controller/spec/role_needs.h"
#include "controller/spec/same_prompts.h"
#include "controller/spec/spec.h"
#include "controller/spec/step_size.h"
#include "sdk/base/mutant.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

void AddTo(std::vector<v1::FieldViolation>* all, std::vector<v1::FieldViolation> more) {
  std::move(more.begin(), more.end(), std::back_inserter(*all));
}

}  // namespace

// The only chain of checks, for ValidateJob and CreateJob, for a new spec and for a saved job. In
// this order: the spec, the size of a step, the files that it names, their contents, and the
// workers that could do the work.
void Controller::CheckAll(const Submitted& submission, bool keeps, Then then) {
  if (submission->from_checkpoint()) {
    if (absl::Status begun = PrepareSaved(submission.get()); !begun.ok()) {
      return then(std::move(begun));
    }
  } else {
    submission->checked = CheckSpec(submission->request.spec());
    submission->violations = std::move(submission->checked.violations);
  }
  Violations& out = submission->violations;
  v1::JobSpec* effective = submission->effective();
  CheckStepSize(*effective, submission->dataflow(), LimitsOf(submission->request.project()), &out);
  AddTo(&out, CheckPriority(*effective, submission->request.project()));
  AddTo(&out, CheckFiles(effective, submission.get()));
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

// Checks the contents of models and data.
void Controller::CheckContents(const Submitted& submission, bool keeps, Then then) {
  contents_.Check({submission->effective(), &submission->data_files, submission->request.project(),
                   keeps, submission->gone},
                  [submission, then = std::move(then)](absl::StatusOr<Violations> found) {
                    if (found.ok()) AddTo(&submission->violations, *std::move(found));
                    then(found.status());
                  });
}

// The last checks, after models and data.
void Controller::CheckLast(Submission* submission) {
  Violations& out = submission->violations;
  submission->NameSources(&out);
  // A saved job keeps its pools, and waits for workers like those that it had.
  if (submission->from_checkpoint()) return;
  CheckedSpec& checked = submission->checked;
  AddTo(&out, CheckSeed(*submission));
  AddTo(&out, CheckOffers(*submission));
  if (out.empty()) {
    out = PlanPlacement(submission->request.spec(), checked.dataflow, &checked.effective);
  }
}

// The job whose responses the new one begins with. A name has no slash, so it is always looked up
// in the job's own project.
std::vector<v1::FieldViolation> Controller::CheckSeed(const Submission& submission) const {
  const std::string seed = SeedJob(submission.checked.effective);
  if (seed.empty()) return {};
  const std::string name = FullJobName(seed, submission.request.project());
  const auto job = ended_->Describe(name);
  const std::string field = "spec.rollout.speculation.seed_from";
  if (!job.ok()) {
    return {Violation(field, absl::StrCat("there is no job '", name,
                                          "'; name one of this project (`baton jobs` lists them), "
                                          "or remove seed_from"))};
  }
  // One that was set aside is shown with the specs of its rows, whatever they are.
  if (const std::string problem = ProblemOfSaved(*job); !problem.empty()) {
    return {Violation(field, absl::StrCat("the spec of job '", name, "' is not a good one: ",
                                          problem, "; name another job, or remove seed_from"))};
  }
  const std::string why = WhyOtherPrompts(submission.checked.effective, job->effective_spec());
  if (why.empty() || Mutant("seed-of-other-data")) return {};
  return {Violation(field, absl::StrCat("job '", name, "' had other prompts: ", why,
                                        "; name a job over the same data, or remove seed_from"))};
}

// What the job needs and no worker that has attached so far offers. A role of Baton's own that no
// worker has played yet is not reported: its workers may come later, and the job waits for them.
std::vector<v1::FieldViolation> Controller::CheckOffers(const Submission& submission) const {
  std::vector<v1::FieldViolation> out;
  const CheckedSpec& checked = submission.checked;
  const auto& features = submission.model_features;
  const std::set<std::string> foreign = ForeignRoles(checked.dataflow);
  for (const auto& [role, need] :
       RoleNeedsOf(checked.effective, checked.dataflow, {features.begin(), features.end()})) {
    const WorkerDirectory::RoleOffer offer =
        cluster_->directory().OfferOf(role, need, submission.request.project());
    if (offer.known ? offer.missing.none() : foreign.count(role) == 0) continue;
    const MissingOffer missing = offer.known ? offer.missing : MissingFrom({}, role, need);
    std::string text = absl::StrCat("no attached worker of role ", role, " ", OfferText(missing));
    if (!missing.method.empty() && !offer.methods.empty()) {
      absl::StrAppend(&text, "; offered are: ", absl::StrJoin(offer.methods, ", "));
    }
    out.push_back(
        Violation(FieldOfOffer(checked.effective, checked.dataflow, role, missing),
                  absl::StrCat(text, "; ", OfferRemedy(role, missing), ", then submit again")));
  }
  return out;
}

}  // namespace baton::controller
