#include "controller/core/job/effect_sink.h"
#include "sdk/common/messages/times.h"

namespace baton::controller {

EffectSink::EffectSink(const store::v1::JobRow& row, uint64_t attempt_base)
    : attempt_base_(attempt_base),
      step_(row.job().step()),
      incarnation_(row.incarnation()),
      revision_(row.job().revision()) {}

void EffectSink::EmitAt(int64_t step, v1::JobEvent event) {
  event.set_revision(++revision_);
  event.set_step(step);
  *event.mutable_time() = ToProto(now_);
  Do(EmitEvent{std::move(event), true});
}

// The event's revision is in the job's row, so the row goes with it.
void EffectSink::Warn(const std::string& message, const char* type) {
  v1::JobEvent event;
  event.set_type(type);
  event.set_message(message);
  Emit(std::move(event));
  Do(PutJob{});
}

TaskRef EffectSink::Ref(TaskKind kind, uint64_t subject, uint64_t attempt, uint32_t target) const {
  TaskRef ref;
  ref.kind = kind;
  ref.subject = subject;
  ref.target = target;
  ref.attempt = attempt;
  ref.step = step_;
  ref.incarnation = incarnation_;
  return ref;
}

// From here on, tasks, events and rows of the repeated steps cannot be mistaken for old ones.
void EffectSink::RollBack(int64_t step) {
  step_ = step;
  ++incarnation_;
}

void EffectSink::Save(store::v1::JobRow* row) const {
  row->mutable_job()->set_step(step_);
  row->mutable_job()->set_revision(revision_);
  row->set_incarnation(incarnation_);
}

}  // namespace baton::controller
