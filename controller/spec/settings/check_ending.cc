#include "controller/spec/settings/check_ending.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/learning.h"

namespace baton::controller {
namespace {

// Checks which metrics a job may end by.
class MetricCheck {
 public:
  MetricCheck(const v1::JobSpec& spec, Violations* out) : spec_(spec), out_(*out) {}

  // The job must measure the metric.
  void Check(absl::string_view field, const std::string& metric) {
    if (!absl::StartsWith(metric, "val/") && !absl::StartsWith(metric, "val-core/")) return;
    if (spec_.data().val_files().empty()) {
      return out_.Add(field, absl::StrCat("'", metric,
                                          "' is measured by evaluations, which need "
                                          "data.val_files"));
    }
    const std::vector<std::string> names = Measured();
    const bool known = absl::StartsWith(metric, "val-core/")
                           ? spec_.kind() == v1::JOB_KIND_RL  // the rest is named by the data
                           : std::find(names.begin(), names.end(), metric) != names.end();
    if (!known) {
      out_.Add(field, absl::StrCat("'", metric,
                                   "' is not measured by evaluations of this kind of job; "
                                   "one of: ",
                                   absl::StrJoin(names, ", ")));
    }
  }

 private:
  std::vector<std::string> Measured() const {
    switch (spec_.kind()) {
      case v1::JOB_KIND_SFT:
        return {"val/loss", "val/token_accuracy"};
      case v1::JOB_KIND_REWARD_MODEL:
        return {"val/accuracy", "val/loss", "val/margin"};
      default:
        return {"val/accuracy", "val/reward", "val/infra_failed"};
    }
  }

  const v1::JobSpec& spec_;
  Violations& out_;
};

std::string DefaultMode(const std::string& metric) {
  return LowerIsBetter(metric, "") ? "min" : "max";
}

void CheckEarlyStop(const v1::JobSpec& spec, v1::EarlyStopSpec* early, Violations* out) {
  constexpr char kField[] = "trainer.early_stop.metric";
  if (early->metric().empty()) return;
  MetricCheck(spec, out).Check(kField, early->metric());
  if (absl::StartsWith(early->metric(), "val") && spec.trainer().test_freq() == 0) {
    out->Add(kField,
             absl::StrCat("'", early->metric(),
                          "' is measured by evaluations, and with trainer.test_freq 0 there is "
                          "none before the last step; set trainer.test_freq"));
  }
  if (!early->has_mode()) early->set_mode(DefaultMode(early->metric()));
}

// Where evaluations between the steps say which weights are the best, and checkpoints are wanted,
// the best one is kept unless the user says otherwise. Not in mode async: there the trainer would
// have to wait for each evaluation.
void FillKeepBest(v1::JobSpec* spec) {
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  const bool compares = !spec->data().val_files().empty() && trainer->test_freq() > 0;
  if (trainer->has_keep_best() || !compares || trainer->save_freq() == 0) return;
  if (trainer->val_only() || spec->algorithm().mode() == "async") return;
  trainer->set_keep_best(spec->kind() == v1::JOB_KIND_SFT ? "val/loss" : "val/accuracy");
}

}  // namespace

void CheckEnding(v1::JobSpec* spec, Violations* out) {
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  if (trainer->has_early_stop()) CheckEarlyStop(*spec, trainer->mutable_early_stop(), out);
  FillKeepBest(spec);
  if (trainer->keep_best().empty()) {
    if (trainer->has_keep_best_mode()) {
      out->Add("trainer.keep_best_mode", "needs trainer.keep_best");
    }
    return;
  }
  MetricCheck(*spec, out).Check("trainer.keep_best", trainer->keep_best());
  if (!trainer->has_keep_best_mode()) {
    trainer->set_keep_best_mode(DefaultMode(trainer->keep_best()));
  }
}

}  // namespace baton::controller
