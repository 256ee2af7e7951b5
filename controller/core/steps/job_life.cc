#include "controller/core/steps/job_life.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"

namespace baton::controller {

using Job = v1::Job;

JobLife::JobLife(v1::Job job, int64_t submit_order, int64_t total_steps)
    : job_(std::move(job)), submit_order_(submit_order) {
  job_.set_state(Job::STATE_QUEUED);
  job_.set_total_steps(total_steps);
}

JobLife::JobLife(const store::v1::JobRow& row)
    : job_(row.job()),
      submit_order_(row.submit_order()),
      stopping_as_(static_cast<Job::State>(row.stopping_as())) {}

void JobLife::Save(store::v1::JobRow* row) const {
  row->set_submit_order(submit_order_);
  row->set_stopping_as(stopping_as_);
}

void JobLife::ShowMetrics(const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) (*job_.mutable_metrics())[name] = value;
}

void JobLife::HideEvaluation() {
  auto& shown = *job_.mutable_metrics();
  for (auto it = shown.begin(); it != shown.end();) {
    it = absl::StartsWith(it->first, "val-core/") ? shown.erase(it) : std::next(it);
  }
}

void JobLife::Enter(Job::State state, EffectSink& out) {
  job_.set_state(state);
  if (IsTerminal(state)) {
    job_.mutable_end_time()->set_seconds(absl::ToUnixSeconds(out.now()));
    job_.clear_phase();
  }
  EmitState(out);
}

void JobLife::EmitState(EffectSink& out) const {
  v1::JobEvent event;
  event.set_type("state");
  event.set_state(job_.state());
  event.set_message(job_.error().message());
  out.Emit(std::move(event));
}

void JobLife::NoteStart(absl::Time now) {
  // A job that was paused got workers before, so it started then.
  if (!job_.has_start_time()) job_.mutable_start_time()->set_seconds(absl::ToUnixSeconds(now));
}

void JobLife::NoteError(const absl::Status& status) {
  job_.mutable_error()->set_code(static_cast<int>(status.code()));
  job_.mutable_error()->set_message(std::string(status.message()));
}

void JobLife::ForgetEnd() {
  job_.clear_error();
  job_.clear_end_time();
}

}  // namespace baton::controller
