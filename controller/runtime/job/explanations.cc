#include "controller/runtime/job/explanations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

v1::Wait WaitForStore(const absl::Status& health) {
  v1::Wait wait;
  wait.set_kind("store");
  wait.set_subject("every effect of the job");
  wait.set_cause(
      absl::StrCat("access to the files of the data root, which fails: ", health.message()));
  wait.set_action("the access is tried again until it succeeds; nothing is lost");
  return wait;
}

}  // namespace

absl::Status Explanations::WriteHealth() const {
  const absl::Status health = scope_->context->store->health();
  return health.ok() ? disk_->health() : health;
}

void Explanations::Ask(const Callback<v1::ExplainJobResponse>& done) {
  const auto call = std::make_shared<Callback<v1::ExplainJobResponse>>(done);
  waiting_.push_back(call);
  turns_->AfterAll([this, call, answer = scope_->core.Explain(scope_->now())] {
    if (*call != nullptr) Answer(call, answer);  // else the call did not wait for the commit
  });
  AnswerHeld();
}

void Explanations::Answer(const Call& call, const v1::ExplainJobResponse& answer) {
  const absl::Status health = WriteHealth();
  v1::ExplainJobResponse all = answer;
  // Its error says how the job comes back; the usual advice does not apply to it.
  if (scope_->quarantined) {
    all.set_summary(absl::StrCat("job ", scope_->name, " is ", StateName(turns_->state()), ": ",
                                 scope_->core.Brief().error().message()));
  }
  if (!health.ok()) {  // the root cause comes first
    all.clear_waits();
    *all.add_waits() = WaitForStore(health);
    all.mutable_waits()->MergeFrom(answer.waits());
  }
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), call));
  (*call)(std::move(all));
}

// While the store cannot write, answers wait; they may only say that the store cannot write.
void Explanations::AnswerHeld() {
  const absl::Status health = WriteHealth();
  if (health.ok()) return;
  for (const auto& call : std::exchange(waiting_, {})) {
    v1::ExplainJobResponse answer;
    answer.set_summary(absl::StrCat("job ", scope_->name, " is ", StateName(turns_->state())));
    *answer.add_waits() = WaitForStore(health);
    const auto done = std::exchange(*call, nullptr);
    done(std::move(answer));
  }
}

}  // namespace baton::controller
