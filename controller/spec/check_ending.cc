#include "controller/spec/check_ending.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/spec/learning.h"

namespace baton::controller {
namespace {

class Endings {
 public:
  Endings(const v1::JobSpec& spec, std::vector<v1::FieldViolation>* out) : spec_(spec), out_(out) {}

  void Fail(absl::string_view field, std::string description) {
    v1::FieldViolation violation;
    violation.set_field(absl::StrCat("spec.trainer.", field));
    violation.set_description(std::move(description));
    out_->push_back(std::move(violation));
  }

  template <typename T>
  void InRange(absl::string_view field, T value, T low, T high) {
    if (std::isfinite(static_cast<double>(value)) && value >= low && value <= high) return;
    Fail(field, absl::StrCat(value, " is not in [", low, ", ", high, "]"));
  }

  void Mode(absl::string_view field, absl::string_view mode) {
    if (mode == "max" || mode == "min") return;
    Fail(field, absl::StrCat("'", mode, "' is not one of: max, min"));
  }

  // The job must measure the metric.
  void Metric(absl::string_view field, const std::string& metric) {
    if (!absl::StartsWith(metric, "val/") && !absl::StartsWith(metric, "val-core/")) return;
    if (spec_.data().val_files().empty()) {
      return Fail(field, absl::StrCat("'", metric,
                                      "' is measured by evaluations, which need "
                                      "data.val_files"));
    }
    const std::vector<std::string> names = Measured();
    const bool known = absl::StartsWith(metric, "val-core/")
                           ? spec_.kind() == v1::JOB_KIND_RL  // the rest is named by the data
                           : std::find(names.begin(), names.end(), metric) != names.end();
    if (!known) {
      Fail(field, absl::StrCat("'", metric,
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
  std::vector<v1::FieldViolation>* const out_;
};

std::string DefaultMode(const std::string& metric) {
  return LowerIsBetter(metric, "") ? "min" : "max";
}

void CheckEarlyStop(const v1::JobSpec& spec, v1::EarlyStopSpec* early, Endings& check) {
  if (early->metric().empty()) {
    return check.Fail("early_stop.metric", "is missing; name a metric, e.g. val/accuracy");
  }
  check.Metric("early_stop.metric", early->metric());
  if (absl::StartsWith(early->metric(), "val") && spec.trainer().test_freq() == 0) {
    check.Fail("early_stop.metric",
               absl::StrCat("'", early->metric(),
                            "' is measured by evaluations, and with trainer.test_freq 0 there is "
                            "none before the last step; set trainer.test_freq"));
  }
  if (!early->has_patience()) early->set_patience(3);
  check.InRange("early_stop.patience", early->patience(), 1, 1000000);
  if (!early->has_min_delta()) early->set_min_delta(0);
  check.InRange("early_stop.min_delta", early->min_delta(), 0.0, 1e300);
  if (!early->has_mode()) early->set_mode(DefaultMode(early->metric()));
  check.Mode("early_stop.mode", early->mode());
  if (early->has_target()) check.InRange("early_stop.target", early->target(), -1e300, 1e300);
}

}  // namespace

void CheckEnding(v1::JobSpec* spec, std::vector<v1::FieldViolation>* out) {
  Endings check(*spec, out);
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  if (!trainer->has_fail_after_idle_steps()) trainer->set_fail_after_idle_steps(0);
  check.InRange("fail_after_idle_steps", trainer->fail_after_idle_steps(), 0, 10000000);
  if (trainer->has_early_stop()) CheckEarlyStop(*spec, trainer->mutable_early_stop(), check);
  if (!trainer->has_max_hours()) trainer->set_max_hours(0);
  check.InRange("max_hours", trainer->max_hours(), 0.0, 100000.0);
  if (trainer->keep_best().empty()) {
    if (trainer->has_keep_best_mode()) check.Fail("keep_best_mode", "needs trainer.keep_best");
    return;
  }
  check.Metric("keep_best", trainer->keep_best());
  if (!trainer->has_keep_best_mode())
    trainer->set_keep_best_mode(DefaultMode(trainer->keep_best()));
  check.Mode("keep_best_mode", trainer->keep_best_mode());
}

}  // namespace baton::controller
